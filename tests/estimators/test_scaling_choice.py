"""`scaling="auto"`: which scaling suits a data set."""

from __future__ import annotations

import numpy as np
import pytest
from small_estimators import classifier, convolutions, encoder, regressor

from tsformer.data.series import Padded
from tsformer.estimators import recipe
from tsformer.estimators.recipe import _share_of_flat, suited_scaling

RNG = np.random.default_rng(0)
Y = np.arange(48) % 2
STEPS = np.arange(40)
#: Classes differ in their frequency.
WAVES = np.sin(STEPS * np.where(Y, 0.3, 0.45)[:, None] + RNG.uniform(0, 6, (48, 1)))[:, None]
WAVES = WAVES + 0.3 * RNG.standard_normal(WAVES.shape)
#: The same, each series in a unit of its own.
UNITS = WAVES * np.exp(3 * RNG.standard_normal((48, 1, 1)))
#: Classes differ in their level alone.
LEVELS = RNG.standard_normal((48, 1, 40)) + 3 * Y[:, None, None]
STANDARD = (WAVES - WAVES.mean(-1, keepdims=True)) / WAVES.std(-1, keepdims=True)


def chosen(X, y=Y, weights=None) -> str:
    return suited_scaling(Padded(X.mT, np.full(len(X), X.shape[2])), y, weights)


def fitted(X, y=Y, **options) -> str | None:
    quick = {"max_epochs": 1, "augmentation": None, "scaling": "auto"}
    clf = classifier(**quick | options).fit(X, y)
    return clf.preprocessor_.scaling


def test_by_what_tells_classes_apart():
    assert chosen(UNITS) == "series+size"
    assert chosen(LEVELS) == "channel"
    assert chosen(STANDARD) == "channel", "both are the same"


#: Classes differ in their frequency, and by a thousand times in their size.
SIZES = WAVES * np.where(Y, 1e-3, 1.0)[:, None, None]


def test_series_that_would_be_flat_are_standardised_by_themselves(monkeypatch):
    """The ridge is better off with channels, which tell it the classes by their size."""
    some = SIZES[np.r_[:48:2, 1:48:2, 1:48:2]]  # two thirds are small
    y = np.repeat([0, 1, 1], 24)
    assert chosen(some, y) == "series+size"
    monkeypatch.setattr(recipe, "_MOST", 1.0)
    assert chosen(some, y) == "channel"


def test_half_of_the_series_may_be_flat():
    assert chosen(SIZES) == "channel", "by size alone they are told apart"
    X = np.concatenate([SIZES, SIZES[Y == 1][:1]])
    assert chosen(X, np.append(Y, 1)) == "series+size"


def test_flat_is_less_than_a_tenth():
    y = np.repeat([0, 1, 1], 24)
    for factor, share in ((0.05, 2 / 3), (0.2, 0)):
        X = STANDARD[np.r_[:48:2, 1:48:2, 1:48:2]] * np.where(y, factor, 1.0)[:, None, None]
        assert _share_of_flat(Padded(X.mT, np.full(72, 40))) == pytest.approx(share)


def test_constant_series_do_not_count_as_flat():
    X = np.concatenate([1e3 * LEVELS, np.zeros((72, 1, 40))])
    y = np.concatenate([Y, np.zeros(72, dtype=int)])
    assert chosen(X, y) == "channel"
    X[48:] = np.nan
    assert chosen(X, y, np.repeat([1.0, 1e-3], [48, 72])) == "channel", "nor if all is missing"


def test_flat_are_channels_of_series():
    X = np.concatenate([SIZES[Y == 1], LEVELS[Y == 1]], axis=1)
    X[0, 0] = WAVES[0, 0]  # beside it the others of this channel are flat
    assert _share_of_flat(Padded(X.mT, np.full(24, 40))) == 23 / 48


def test_auto_is_the_default_and_is_looked_up_once():
    assert fitted(UNITS) == "series+size"
    assert fitted(LEVELS) == "channel"
    for scaling in ("channel", "series", "series+size", None):
        assert fitted(UNITS, scaling=scaling) == scaling


def test_other_stems_and_estimators_without_classes_standardise_channels():
    assert fitted(UNITS, stem="linear") == "channel"
    for make in (encoder, regressor):
        estimator = make(scaling="auto", max_epochs=1).fit(UNITS, Y.astype(float))
        assert estimator.preprocessor_.scaling == "channel"


@pytest.mark.parametrize("scaling", ["auto", "series", "series+size"])
def test_weights_that_are_taken_over_bring_their_scaling(scaling):
    source = encoder(scaling=scaling, max_epochs=1)
    expected = "channel" if scaling == "auto" else scaling
    for X in (UNITS, LEVELS):
        assert fitted(X, init_from=source) == expected, "fitted first"
    source.fit(LEVELS)
    assert fitted(UNITS, init_from=source) == expected, "fitted before"


def test_semi_supervised_fits_choose_by_the_labelled_series():
    y = np.where(np.arange(48) < 32, Y, -1)
    assert fitted(UNITS, y, unlabelled="use") == "series+size"
    assert fitted(LEVELS, y, unlabelled="use") == "channel"


def test_weights_of_a_fit_choose_the_scaling():
    X, y = np.concatenate([UNITS, LEVELS]), np.concatenate([Y, Y])
    for kept, expected in (([1.0, 0.0], "series+size"), ([0.0, 1.0], "channel")):
        clf = classifier(augmentation=None, max_epochs=1, scaling="auto")
        clf.fit(X, y, sample_weight=np.repeat(kept, 48))
        assert clf.preprocessor_.scaling == expected
    weights = np.repeat([1.0, 0.0], 48)
    weighted = convolutions(scaling="auto").fit(X, y, sample_weight=weights)
    alone = convolutions(scaling="auto").fit(UNITS, Y)
    assert weighted.preprocessor_.scaling == alone.preprocessor_.scaling


def test_few_series_say_nothing():
    assert chosen(UNITS[:10], Y[:10]) == "series+size"
    assert chosen(UNITS[:9], Y[:9]) == "channel"


def test_a_single_class_has_nothing_to_tell_apart():
    assert chosen(UNITS, np.zeros(48, dtype=int)) == "channel"


def test_of_many_series_some_are_drawn(monkeypatch):
    monkeypatch.setattr(recipe, "SCALING_TRIAL", (24, 1250, 8))
    sizes = []
    fit = recipe.fitted_convolutions

    def counted(panel, *args, **options):
        sizes.append(len(panel))
        return fit(panel, *args, **options)

    monkeypatch.setattr(recipe, "fitted_convolutions", counted)
    X = WAVES * np.exp(RNG.standard_normal((48, 1, 1)))  # none so small that it decides alone
    assert chosen(X) == chosen(X) == "series"
    assert sizes == [24] * 4
