"""Save and load: the same predictions, or a clear error."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from small_estimators import METHODS, classifier

from tsformer import TSTransformerClassifier, load
from tsformer.data.table import TableSchema
from tsformer.encodings import PositionalEncoding, unregister
from tsformer.training import Callback

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2, 20)) + np.arange(2)[np.arange(12) % 2][:, None, None]
RAGGED = [x[:, :n] for x, n in zip(X, RNG.integers(5, 21, size=12), strict=True)]
ORDER = np.arange(12) % 2
Y = np.array(["no", "yes"])[ORDER]


def fitted(encoding="lspe", series=X, y=Y, **parameters) -> TSTransformerClassifier:
    return classifier(encoding, **{"augmentation": None} | parameters).fit(series, y)


def assert_same(loaded: TSTransformerClassifier, clf: TSTransformerClassifier, series=X) -> None:
    for method in METHODS:
        ours, theirs = getattr(loaded, method)(series), getattr(clf, method)(series)
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


@pytest.fixture
def path(tmp_path):
    return tmp_path / "models" / "clf"


@pytest.mark.parametrize(
    "options",
    [
        {"head_norm": "layer", "stem_params": {"n_residual": 1, "downsampling": "mean"}},
        {"views": "values+difference", "view_params": {"scale": 0.5}},
        {"views": "difference", "scaling": "series"},
        {"views": "values+difference", "scaling": "series+size"},
        {"encoding_params": {"apply_to": "sum", "d_hidden": 3}, "pooling": "attention"},
        {"scaling": "series", "stem": "patch", "stem_params": {"stride": 3}, "norm_first": False},
        {"scaling": None, "stem": "linear", "dropout": 0.5, "d_ff": 5, "n_layers": 0},
        {"class_weight": {"no": 1, "yes": np.float64(2.5)}, "d_model": np.int64(8)},
        {"class_weight": "balanced", "stem_params": {"strides": [2, 1], "kernel_size": 3}},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_parameters_come_back(options, path):
    series = [x.copy() for x in RAGGED]
    series[0][0, 2:4] = np.nan
    clf = fitted(series=series, **options)
    clf.save(path)
    loaded = load(path)
    assert_same(loaded, clf, series)
    assert {name: getattr(loaded, name) for name in options} == options


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        np.array(["a", "longer"]),
        np.array(["a", "b"], dtype=object),
        np.array([-3, 2**40]),
        np.array([1, 2], dtype=np.uint8),
        np.array([1.0, 2.0]),
        [False, True],
        pd.Series(["a", "b"], dtype="category"),
        pd.Series(["a", "b"], dtype="string"),
        pd.Series([1, 2], dtype="Int64"),
        np.array(["1969-07-20", "2024-02-29"], dtype="M8[D]"),
        np.array(["2024-02-29T01:02:03.000000004", "2024-03-01"], dtype="M8[ns]"),
        np.array([-1, 90], dtype="m8[s]"),
    ],
    ids=lambda labels: f"{type(labels).__name__}-{getattr(labels, 'dtype', labels[0])}",
)
def test_labels_of_any_type_keep_it(labels, path):
    values = labels if isinstance(labels, list) else labels.tolist()
    weight = dict(zip(values, (1, 3), strict=True))
    given = labels.iloc[ORDER] if isinstance(labels, pd.Series) else np.asarray(labels)[ORDER]
    clf = fitted(y=given, class_weight=weight)
    assert clf.classes_.tolist() == sorted(values)
    clf.save(path)
    loaded = load(path)
    assert loaded.classes_.dtype == clf.classes_.dtype
    assert loaded.class_weight == weight
    assert list(map(type, loaded.class_weight)) == list(map(type, weight))
    assert_same(loaded, clf)


def test_a_loaded_estimator_goes_on_learning(path):
    clf = fitted(warm_start=True)
    clf.save(path)
    loaded = load(path)
    assert_same(loaded.fit(X, Y), clf.fit(X, Y))
    assert loaded.n_iter_ == 4


def test_the_best_epochs_of_members_come_back(path):
    clf = fitted(n_estimators=3, early_stopping=True, max_epochs=3)
    clf.save(path)
    loaded = load(path)
    assert loaded.histories_ == clf.histories_
    best = [history.best_epoch for history in clf.histories_]
    assert [history.best_epoch for history in loaded.histories_] == best
    assert None not in best
    clf.estimators_[2].save(path)
    np.testing.assert_array_equal(load(path).predict_proba(X), clf.predict_proba_members(X)[2])


def test_callbacks_and_device_stay_behind(path):
    clf = fitted(callbacks=[Callback()], device="cpu", n_threads=1)
    clf.save(path)
    assert load(path).callbacks is None
    assert load(path).device == load(path).n_threads == "auto"
    assert load(path, device="cpu").device == "cpu"
    with pytest.raises(ValueError, match="device 'gpu' cannot be used here"):
        load(path, device="gpu")


# Encodings of one's own


@pytest.fixture
def ramp():
    class Ramp(PositionalEncoding, name="ramp"):
        def __init__(self, *, d_model, n_heads, max_len, size=1.0):
            super().__init__()
            self.size = torch.nn.Parameter(torch.tensor(size))

        def embed(self, x, t):
            return x + self.size * t[..., None]

    return Ramp


def test_an_encoding_of_ones_own_must_be_registered(ramp, path):
    for encoding in ("ramp", ramp, "tape+ramp"):
        clf = fitted(encoding)
        clf.save(path)
        assert_same(load(path), clf)
    unregister("ramp")
    with pytest.raises(ValueError, match=r"unknown encoding 'ramp'.*import its module"):
        load(path)


def test_an_encoding_without_a_name_cannot_be_saved(ramp, path):
    class Child(ramp):
        pass

    for encoding in (Child, lambda **sizes: ramp(**sizes)):
        with pytest.raises(
            ValueError, match=r"cannot be written as JSON. Pass the encoding by its regis"
        ):
            fitted(encoding).save(path)
    assert not path.parent.exists()


def test_a_class_whose_name_was_taken_over_cannot_be_saved(ramp, path):
    clf = fitted(ramp)
    type("Other", (PositionalEncoding,), {}, name="ramp", replace=True)
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        clf.save(path)


# --- the columns of a table --------------------------------------------------------------------


def test_the_columns_of_the_table_are_saved_with_the_model(tmp_path):
    schema = TableSchema(case="id", time="t", value=("a",), label="y", sep=";")
    clf = fitted()
    clf.save(tmp_path / "plain")
    assert "table" not in json.loads((tmp_path / "plain/estimator.json").read_text())
    assert not hasattr(load(tmp_path / "plain"), "table_schema_")
    clf.table_schema_ = schema
    clf.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.table_schema_ == schema
    again.save(tmp_path / "copy")
    assert load(tmp_path / "copy").table_schema_ == schema
    again.fit(np.zeros((4, 1, 5)), [0, 1, 0, 1])
    assert not hasattr(again, "table_schema_"), "it was fitted on something else since"


def test_the_run_that_it_was_tracked_in_is_kept_until_the_next_fit(path):
    clf, run = fitted(), {"run_id": "0a" * 16, "store": "http://localhost:5000"}
    assert not hasattr(clf, "tracked_run_")
    clf.tracked_run_ = run
    clf.save(path)
    loaded = load(path)
    assert loaded.tracked_run_ == run
    assert_same(loaded, clf)
    assert not hasattr(loaded.fit(X, Y), "tracked_run_")
    loaded.save(path)
    assert not hasattr(load(path), "tracked_run_")
