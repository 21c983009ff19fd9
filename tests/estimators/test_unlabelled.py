"""Semi-supervised: pretrain on all series, train on the labelled ones, in one fit."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from small_estimators import classifier, encoder

from tsformer import TSTransformerClassifier, TSTransformerEncoder
from tsformer.estimators import base
from tsformer.estimators.loading import fitted_source
from tsformer.estimators.targets import read_targets, split_unlabelled

KNOWN = np.arange(24) % 3 == 0
X = np.random.default_rng(0).normal(size=(24, 2, 30))
semi = partial(classifier, unlabelled="use")


@pytest.mark.parametrize(
    "hide",
    [
        lambda y: np.where(KNOWN, y, -1),
        lambda y: np.where(KNOWN, y.astype(float), np.nan),
        lambda y: [label if known else None for label, known in zip(y, KNOWN, strict=True)],
        lambda y: pd.Series(y, dtype="Int64").where(KNOWN),
        lambda y: pd.Series(y == 1, dtype="boolean").where(KNOWN),
        lambda y: pd.Series(y.astype(str), dtype="string").where(KNOWN),
        lambda y: torch.from_numpy(np.where(KNOWN, y, -1)),
        lambda y: np.where(KNOWN, y.astype(str), "-1"),
    ],
)
def test_every_way_to_say_unknown(hide):
    y = np.arange(24) // 3 % 2
    labels, known = split_unlabelled(hide(y))
    assert known.tolist() == KNOWN.tolist()
    classes = read_targets(labels[known], "y")
    assert classes.astype(int).tolist() == y[KNOWN].tolist()
    first = next(iter(hide(y)))
    assert isinstance(classes.tolist()[0], type(first.item() if hasattr(first, "item") else first))


def test_it_is_pretraining_on_all_and_training_on_the_labelled(monkeypatch):
    y = np.arange(24) // 3 % 2
    clf = semi(freeze="backbone", scaling="channel").fit(X, np.where(KNOWN, y, -1))
    scaler = clf.preprocessor_
    np.testing.assert_allclose(scaler.mean, X.mean(axis=(0, 2)), rtol=1e-6)
    order = np.concatenate([np.flatnonzero(KNOWN), np.flatnonzero(~KNOWN)])
    source = clone(clf)._pretraining("channel")
    assert source.objective == "masked"
    captured = {}

    def keep(source, series, seed, groups):
        captured["series"], captured["seed"] = series, seed
        return fitted_source(source, series, seed, groups)

    monkeypatch.setattr(base, "fitted_source", keep)
    clone(clf)._prepare(X, np.where(KNOWN, y, -1))
    np.testing.assert_allclose(captured["series"].padded().values, X[order].swapaxes(1, 2))
    source.set_params(random_state=captured["seed"]).fit(X[order])
    np.testing.assert_array_equal(clf.transform(X), source.transform(X))


def test_unlabelled_series_neither_train_the_head_nor_weigh():
    y = np.where(KNOWN, np.arange(24) // 3 % 2, -1)
    weights = np.where(KNOWN, np.arange(24) // 6 + 1.0, 1e6)
    job = semi()._prepare(X, y, sample_weight=weights)
    assert len(job.panel) == len(job.targets) == 8
    assert job.targets.tolist() == [0, 1] * 4
    expected = torch.tensor(weights[KNOWN] / weights[KNOWN].mean()).float()
    torch.testing.assert_close(job.weights, expected)


def test_unlabelled_series_of_weight_0_are_left_out():
    y, left = np.where(KNOWN, np.arange(24) // 3 % 2, -1), np.arange(24) % 3 < 2
    far = np.where(left[:, None, None], X, 1e6)
    clf, twin = semi().fit(far, y, sample_weight=left), semi().fit(X[left], y[left])
    np.testing.assert_array_equal(clf.predict_proba(X), twin.predict_proba(X))


def test_labels_of_all_series_are_an_ordinary_fit():
    y = np.arange(24) % 2
    plain = classifier().fit(X, y)
    with pytest.warns(UserWarning, match="all labels are known: nothing is pretrained") as caught:
        clf = semi().fit(X, y)
    assert [each.filename for each in caught] == [__file__]
    np.testing.assert_array_equal(clf.predict_proba(X), plain.predict_proba(X))
    with pytest.warns(UserWarning, match="freeze='backbone' freezes nothing"):
        semi(freeze="backbone").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        semi(init_from=encoder(), freeze="backbone").fit(X, y)


def test_a_class_that_is_called_minus_one_is_said_to_be_lost():
    y = np.where(np.arange(24) % 2, 1, -1)
    with pytest.warns(UserWarning, match="-1 means unknown, and all oth") as caught:
        clf = semi().fit(X, y)
    assert clf.classes_.tolist() == [1]
    assert {each.filename for each in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        semi().fit(X, [i % 2 if known else None for i, known in enumerate(KNOWN)])


def test_unlabelled_series_are_pretrained_on_in_every_fold_of_a_calibration(monkeypatch):
    known = np.arange(24) % 3 > 0
    hidden = np.where(known, np.arange(24) // 3 % 2, -1)
    clf = semi().fit(X, hidden)
    given, fit = [], TSTransformerClassifier.fit

    def recorded(self, X, y, **options):
        given.append(list(y))
        return fit(self, X, y, **options)

    monkeypatch.setattr(TSTransformerClassifier, "fit", recorded)
    clf.calibrate(X, hidden, cv=2)
    assert [(len(labels), labels.count(None)) for labels in given] == [(16, 8)] * 2


def test_without_it_minus_one_is_a_class_and_none_is_refused():
    clf = classifier().fit(X, np.where(KNOWN, 1, -1))
    assert clf.classes_.tolist() == [-1, 1]
    with pytest.raises(ValueError, match="16 of 24 values are missing"):
        clf.fit(X, [1 if known else None for known in KNOWN])


def test_an_encoder_of_ones_own_sees_all_series_but_those_held_out(monkeypatch):
    y, seen = np.where(KNOWN, np.arange(24) // 3 % 2, -1), []
    fit = TSTransformerEncoder.fit

    def recorded(self, X, y=None, **options):
        seen.append(len(X))
        return fit(self, X, y, **options)

    monkeypatch.setattr(TSTransformerEncoder, "fit", recorded)
    source = encoder(objective="contrastive")
    semi(init_from=source).fit(X, y)
    clf = semi(init_from=source, early_stopping=True, validation_fraction=0.25)
    job = clf._prepare(X, y)
    assert (len(job.validation.targets), len(job.panel), seen) == (2, 6, [24, 22])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-1] * 24, "all 24 labels of y are unknown; label some series"),
        ([0.5, 1.7, 2.1, -1] * 6, "Unknown label type"),
        ([["a", "b"]] * 24, "1d array"),
    ],
)
def test_wrong_labels_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        semi().fit(X, y)


def test_codes_need_an_objective_of_their_own():
    codes = np.random.default_rng(0).integers(0, 5, size=(12, 1, 20))
    y = np.array([0, 1] * 3 + [-1] * 6)
    with pytest.raises(ValueError, match='init_from=TSTransformerEncoder\\(objective="contrast'):
        semi(stem="embedding").fit(codes, y)
    own = {"objective": "contrastive", "objective_params": {"sigma": 0}, "stem": "embedding"}
    semi(stem="embedding", init_from=encoder(**own)).fit(codes, y)
