"""`tsformer pretrain` and `tsformer fit --init-from`, in this process: each import takes time."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer import TSTransformerClassifier, TSTransformerEncoder, load

pytestmark = pytest.mark.usefixtures("tables")

SMALL = ["--max-epochs", "2", "--set", "d_model=8", "--set", "n_heads=2", "--set", "n_layers=1"]
QUIET = ["--set", "verbose=0", "--no-track"]


@pytest.fixture
def tables(run):
    """Write a table of 12 series of 20 steps, and folders of it; `run` is in their folder."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 20))).add_prefix("t")
    Path("series").mkdir()
    for name, rows in {
        "labelled": table.assign(y=["a", "b"] * 6),
        "half": table.assign(y=["a", "b", "a", "b", *[None] * 8]),
        "series/first": table[:8],
        "series/second": table[8:],
    }.items():
        rows.to_csv(f"{name}.csv", index=False)


def test_an_encoder_of_a_folder_and_a_classifier_that_starts_from_it(run):
    output, _ = run("pretrain", "series/", "--objective", "contrastive", *SMALL, *QUIET)
    assert "lspe on series/: 12 series, 2 epochs" in output
    assert "saved in encoder" in output
    encoder = load("encoder")
    assert type(encoder) is TSTransformerEncoder
    assert (encoder.objective, encoder.random_state, encoder.n_iter_) == ("contrastive", 0, 2)
    frozen = ("--init-from", "encoder", "--set", "freeze=backbone")
    run("fit", "labelled.csv", "--label", "y", *frozen, *SMALL, *QUIET)
    classifier = load("model")
    assert type(classifier) is TSTransformerClassifier
    X = np.random.default_rng(0).normal(size=(12, 20))
    np.testing.assert_allclose(classifier.transform(X), encoder.transform(X), rtol=1e-5)
    for command in ("predict", "evaluate", "explain"):
        _, err = run(command, "encoder", "labelled.csv", exits=2)
        assert "encoder is a TSTransformerEncoder, which has no classes to predict" in err


def test_series_without_a_label_are_for_pretraining(run):
    output, _ = run("pretrain", "half.csv", "--label", "y", *SMALL, *QUIET)
    assert "12 series" in output
    assert load("encoder").n_features_in_ == 1
    _, err = run("fit", "half.csv", "--label", "y", *SMALL, *QUIET, exits=2)
    assert "row 6: no value in column 'y'; drop the series" in err


def test_what_fails_or_is_interrupted_leaves_no_empty_folder(run, monkeypatch):
    _, err = run("pretrain", "series", "--out", "new/one", *SMALL, *QUIET, exits=2)
    assert "a folder of series is series/" in err
    assert not Path("new").exists()
    fit = TSTransformerEncoder.fit

    def interrupted(self, X, y=None, **options):
        fit(self, X, y, **options)
        self.histories_[0].interrupted = True  # as `fit` leaves it after Ctrl-C
        return self

    monkeypatch.setattr(TSTransformerEncoder, "fit", interrupted)
    _, err = run("pretrain", "half.csv", "--label", "y", *SMALL, *QUIET, exits=130)
    assert "stopped by Ctrl-C" in err
    assert not Path("model").exists()
