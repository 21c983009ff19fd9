"""What "auto" makes of the data: the scaling, and augmentations that leave classes recognisable."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_estimators import classifier, convolutions, encoder, regressor

from tsformer.augmentation import Augmentation, Compose, CutMix, Warp
from tsformer.data.series import Padded
from tsformer.estimators import settings
from tsformer.estimators.series_estimator import TrainingData
from tsformer.estimators.settings import REGRESSION_SCALINGS, agreement_kept, suited_scaling

RNG = np.random.default_rng(0)


def training(X, y, weights=None, groups=None) -> TrainingData:
    return TrainingData(Padded(X.mT, np.full(len(X), X.shape[2])), y, weights, groups)


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
#: Classes differ in their frequency, and by a thousand times in their size.
SIZES = WAVES * np.where(Y, 1e-3, 1.0)[:, None, None]
#: Each of six persons has a shape and a class of its own.
PERSON = np.arange(48) % 6
PERSONS = np.sin(np.outer(0.2 + 0.1 * PERSON, STEPS))[:, None] + 0.01 * WAVES
OF_PERSON = np.array([0, 1, 1, 0, 1, 0])[PERSON]


def chosen(X, y=Y, weights=None) -> str:
    return suited_scaling(training(X, y, weights))


def fitted_scaling(X, y=Y, **options) -> str | None:
    quick = {"max_epochs": 1, "augmentation": None, "scaling": "auto"}
    return classifier(**quick | options).fit(X, y).preprocessor_.scaling


def test_scaling_separates_classes():
    assert chosen(UNITS) == "series+size"
    assert chosen(LEVELS) == "channel"
    assert chosen(STANDARD) == "channel", "both are the same"
    assert chosen(UNITS[:10], Y[:10]) == "series+size"
    assert chosen(UNITS[:9], Y[:9]) == "channel", "few series tell nothing"
    assert chosen(UNITS, np.zeros(48, dtype=int)) == "channel", "nor does a single class"


def test_mostly_flat_series_are_standardised_by_themselves():
    """The ridge is better off with channels, which tell it the classes by their size."""
    assert chosen(SIZES) == "channel", "half of the series may be flat"
    assert chosen(np.concatenate([SIZES, SIZES[Y == 1][:1]]), np.append(Y, 1)) == "series+size"
    some, of_some = np.r_[:48:2, 1:48:2, 1:48:2], np.repeat([0, 1, 1], 24)
    for factor, expected in ((0.05, "series+size"), (0.2, "channel")):  # flat below a tenth
        assert chosen(STANDARD[some] * (factor**of_some)[:, None, None], of_some) == expected
    constant = np.concatenate([1e3 * LEVELS, np.zeros((72, 1, 40))])
    y = np.concatenate([Y, np.zeros(72, dtype=int)])
    assert chosen(constant, y) == "channel", "constants do not count"


def test_fit_looks_scaling_up():
    assert fitted_scaling(UNITS) == "series+size"
    assert fitted_scaling(LEVELS) == "channel"
    for scaling in ("series", None):
        assert fitted_scaling(UNITS, scaling=scaling) == scaling
    assert fitted_scaling(UNITS, stem="linear") == "channel"
    assert encoder(scaling="auto", max_epochs=1).fit(UNITS).preprocessor_.scaling == "channel"
    for X, expected in ((LEVELS, "channel"), (STANDARD, "series")):
        assert convolutions(scaling="auto").fit(X, Y).preprocessor_.scaling == expected


@pytest.mark.parametrize("make", [convolutions, classifier])
def test_scaling_counts_weights_and_leaves_out_groups(make):
    def scaling(X, y, **data) -> str:
        fitted = make(scaling="auto", max_epochs=1) if make is classifier else make(scaling="auto")
        return fitted.fit(X, y, **data).preprocessor_.scaling

    drawn = np.exp(np.random.default_rng(1).normal(size=(48, 1, 1)))
    X, y = np.concatenate([WAVES * drawn, LEVELS]), np.concatenate([Y, Y])
    for weights, expected in (([1.0, 1e-3], "series"), ([1e-3, 1.0], "channel")):
        assert scaling(X, y, sample_weight=np.repeat(weights, 48)) == expected
    for groups, expected in ((None, "series"), (PERSON, "channel")):
        assert scaling(PERSONS * drawn, OF_PERSON, groups=groups) == expected


@pytest.mark.parametrize("scaling", ["auto", "series", "series+size"])
def test_weights_that_are_taken_over_bring_their_scaling(scaling):
    source = encoder(scaling=scaling, max_epochs=1)
    expected = "channel" if scaling == "auto" else scaling
    for X in (UNITS, LEVELS):
        assert fitted_scaling(X, init_from=source) == expected, "fitted first"
    source.fit(LEVELS)
    assert fitted_scaling(UNITS, init_from=source) == expected, "fitted before"


#: The target is how often a wave of any amplitude rises, which its unit hides.
PERIOD = RNG.uniform(0.2, 0.8, 48)
TONES = (np.exp(2 * RNG.standard_normal((48, 1))) * np.sin(PERIOD[:, None] * STEPS))[:, None]
UNRELATED = RNG.standard_normal(48)


def fitted_regressor(X, y, *, weights=None, groups=None, **options) -> tuple[str, str | None]:
    reg = regressor(**{"max_epochs": 1, "scaling": "auto", "head_norm": "auto"} | options)
    reg.fit(X, y, sample_weight=weights, groups=groups)
    return reg.preprocessor_.scaling, reg.model_.config.head_norm


@pytest.mark.parametrize(
    ("X", "y", "options", "expected"),
    [
        (TONES, PERIOD, {}, ("series", "batch")),
        (TONES, np.c_[PERIOD, np.ones(48)], {}, ("series", "batch")),
        (TONES, PERIOD, {"scaling": "channel"}, ("channel", "batch")),
        (LEVELS, LEVELS.mean((1, 2)), {"head_norm": "layer"}, ("channel", "layer")),
        (LEVELS, UNRELATED, {}, ("channel", None)),
        (LEVELS, np.ones(48), {}, ("channel", None)),
        (TONES[:9], PERIOD[:9], {}, ("channel", None)),
        (TONES, PERIOD, {"stem": "linear"}, ("channel", "batch")),
    ],
)
def test_scaling_and_norm_explain_targets(X, y, options, expected):
    assert fitted_regressor(X, y, **options) == expected


@pytest.mark.parametrize(
    ("groups", "norm"), [(None, "batch"), (PERSON, None), (np.zeros(48), "batch")]
)
def test_norm_leaves_out_groups(groups, norm):
    assert fitted_regressor(PERSONS, UNRELATED[PERSON], groups=groups)[1] == norm


def test_large_trials_use_a_sample(monkeypatch):
    """The rest of the series, which would change the choice, is not read."""
    monkeypatch.setattr(settings, "SCALING_TRIAL", (24, 1250, 8))
    drawn = settings.trial_sample(48, 24)
    assert drawn.sum() == 24
    assert chosen(np.where(drawn[:, None, None], LEVELS, UNITS)) == "channel"
    data = training(TONES, PERIOD, RNG.uniform(0.5, 2, 48), np.arange(48) // 2)
    of_all = settings.regression_recipe(data, REGRESSION_SCALINGS)
    assert of_all == settings.regression_recipe(data.part(drawn), REGRESSION_SCALINGS)


N, LENGTH = 60, 160
LABELS = np.arange(N) % 2
TIME = np.arange(LENGTH) / LENGTH
#: Sines of 40 or of 41 periods: another speed is another class.
FREQUENCY = np.sin(2 * np.pi * ((40 + LABELS[:, None]) * TIME + RNG.random((N, 1))))[:, None]
#: Steps up or down, wherever they are: a warp moves them and no more.
SHAPE = np.where(RNG.uniform(0.3, 0.7, (N, 1)) < TIME, 1.0, -1.0) * (2 * LABELS[:, None] - 1)
SHAPE = (SHAPE + 0.1 * RNG.normal(size=(N, LENGTH)))[:, None]


class Noise(Augmentation):
    """Noise in place of every n-th series."""

    def __init__(self, *, every=1):
        self.every = every

    def __call__(self, batch):
        values = batch.values.clone()
        values[:: self.every] = torch.randn_like(values[:: self.every])
        return replace(batch, values=values)


def kept(X, y=LABELS, augmentation=None, scaling="channel", groups=None) -> float:
    return agreement_kept(augmentation or Noise(), training(X, y, None, groups), scaling=scaling)


def test_agreement_kept_is_the_ratio_of_kappas():
    assert kept(SHAPE, augmentation=Warp(p=1.0)) == 1.0
    assert kept(FREQUENCY, augmentation=Warp(p=1.0)) == 0.0
    assert 0 < kept(SHAPE) < kept(SHAPE, augmentation=Noise(every=3)) < 1
    wrong = np.where(np.arange(N) % 5 == 0, 1 - LABELS, LABELS)
    assert kept(SHAPE, wrong, lambda batch: batch) == 1.0, "as much as before"


def test_series_that_are_not_recognised_say_nothing():
    independent = np.arange(N) // 2 % 2
    for labels in (independent, np.zeros(N, dtype=int), (np.arange(N) == 0).astype(int)):
        assert kept(SHAPE, labels) == 1.0
    assert kept(SHAPE[:39], LABELS[:39]) == 1.0
    assert kept(SHAPE[:40], LABELS[:40]) < 1.0
    assert kept(LEVELS, Y) != kept(LEVELS, Y, scaling="series"), "their scaling hides the level"
    person = np.arange(N) % 6
    series = np.sin(np.outer(0.2 + 0.1 * person, STEPS))[:, None]
    of_person = np.array([0, 1, 1, 0, 1, 0])[person]
    assert kept(series, of_person, groups=person) == 1.0, "of a new person"
    assert kept(series, of_person, groups=np.zeros(N)) < 1.0, "one group counts as none"
    assert kept(SHAPE, LABELS, groups=LABELS) == 1.0, "no fold knows both classes"


@pytest.mark.slow
def test_auto_does_not_warp_where_that_harms():
    assert classifier().fit(FREQUENCY, LABELS).augmentation_ == CutMix()
    mild = classifier(augmentation_params={"warp": {"sigma": 0.0, "p": 0.25}})
    mild.fit(FREQUENCY, LABELS)
    assert mild.augmentation_ == Compose([Warp(sigma=0.0, p=0.25), CutMix()])
    grouped = classifier(max_epochs=1).fit(FREQUENCY, LABELS, groups=LABELS)
    assert grouped.augmentation_ == Compose([Warp(), CutMix()]), "no fold knows both classes"


NOISE = np.random.default_rng(0).normal(size=(400, 1, 12))


@pytest.mark.parametrize(
    ("n", "n_classes", "params", "p"),
    [
        *((60, 10, {}, 0.5), (60, 20, {}, 0.25), (200, 2, {}, 0.5), (400, 2, {}, 0.25)),
        (400, 2, {"cutmix": {"p": 0.5}}, 0.5),
    ],
)
def test_of_many_classes_or_series_fewer_are_mixed(n, n_classes, params, p):
    arguments = CutMix(max_share=0.3), params, training(NOISE[:n], np.arange(n) % n_classes)
    augmentation = settings.fit_augmentation(*arguments, n_classes=n_classes, scaling="channel")
    assert augmentation == CutMix(p=p, max_share=0.3)
