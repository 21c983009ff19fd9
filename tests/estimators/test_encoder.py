"""TSTransformerEncoder: embeddings learned without labels."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
import torch
from marks import slow_except
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import tsformer
from tsformer import TSTransformerClassifier, TSTransformerEncoder, TSTransformerRegressor
from tsformer.augmentation import Batch
from tsformer.objectives import Contrastive, Masked
from tsformer.training.pretext import posed

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2, "random_state": 0}
OBJECTIVES = {"masked": Masked, "contrastive": Contrastive}


@pytest.fixture(scope="module")
def waves() -> np.ndarray:
    """40 series of 30 steps and two channels, sines of random phase."""
    rng = np.random.default_rng(0)
    phase = rng.uniform(0, 6, size=(40, 2, 1))
    return np.sin(phase + 0.5 * np.arange(30)) + 0.05 * rng.normal(size=(40, 2, 30))


def weights(estimator) -> dict[str, torch.Tensor]:
    return {k: v for model in estimator.models_ for k, v in model.state_dict().items()}


def equal(a, b) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_parameters_are_those_of_the_regressor_and_an_objective():
    ours = inspect.signature(TSTransformerEncoder).parameters
    theirs = inspect.signature(TSTransformerRegressor).parameters
    own = ("objective", "objective_params")
    assert [name for name in ours if name not in own] == list(theirs)
    for name in theirs:
        # What embeddings are made of is that of a classifier, so that its weights fit one.
        changed = {"views": "auto"}.get(name, theirs[name].default)
        assert str(ours[name]) == str(theirs[name].replace(default=changed))
    assert set(vars(TSTransformerEncoder())) == set(ours)


def test_the_model_is_that_of_a_classifier_but_for_the_head(waves):
    y = np.arange(40) % 2
    encoder = TSTransformerEncoder(**SMALL).fit(waves)
    classifier = TSTransformerClassifier(**SMALL).fit(waves, y)
    heads = ("head.", "head_norm.")
    shapes = [
        {k: tuple(v.shape) for k, v in weights(each).items() if not k.startswith(heads)}
        for each in (encoder, classifier)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["conv", "linear", "patch"])
def test_masked_learns_to_reconstruct(stem, waves):
    encoder = TSTransformerEncoder(
        **SMALL | {"max_epochs": 40, "d_model": 16}, stem=stem, learning_rate=5e-3, dropout=0.0
    )
    before = clone(encoder).set_params(max_epochs=1, learning_rate=1e-9).fit(waves[:30])
    encoder.fit(waves[:30])
    assert encoder.score(waves[30:]) > before.score(waves[30:]) + 0.3
    assert encoder.history_[-1]["loss"] < 0.7 * encoder.history_[0]["loss"]


def test_contrastive_learns_to_recognise(waves):
    encoder = TSTransformerEncoder(
        **SMALL | {"max_epochs": 25, "d_model": 16}, objective="contrastive", learning_rate=5e-3
    )
    before = clone(encoder).set_params(max_epochs=1, learning_rate=1e-9).fit(waves[:30])
    encoder.fit(waves[:30])
    assert encoder.score(waves[30:]) > before.score(waves[30:]) + 0.3


def test_score_is_minus_the_error_of_hidden_values_by_hand(waves):
    """All in one batch: the same draws, and the reconstruction compared value by value."""
    encoder = TSTransformerEncoder(**SMALL).fit(waves[:30])
    series = encoder._read(waves[30:], reset=False)
    panel = encoder.preprocessor_.transform(series)
    pretext = encoder._pretext(encoder.model_)
    task = posed(pretext, Batch(*panel.take(torch.arange(10))), seed=0, step=0)
    with torch.no_grad():
        outputs = encoder.model_(task.batch.values)
    scaled = (waves[30:] - waves[:30].mean((0, 2))[:, None]) / waves[:30].std((0, 2))[:, None]
    errors = (outputs.numpy() - scaled.swapaxes(1, 2))[task.counted.numpy()]
    assert encoder.score(waves[30:]) == pytest.approx(-np.square(errors).mean(), rel=1e-4)


class Stopped(Exception):
    pass


@contextmanager
def counted(cls: type, losses: str, stop: int = 0) -> Iterator[list[None]]:
    """Count the steps of a fit by the calls of a method, and end the fit in the middle of one."""
    steps: list[None] = []
    original = getattr(cls, losses)

    def counting(self, *arguments):
        steps.append(None)
        if len(steps) == stop:
            raise Stopped
        return original(self, *arguments)

    with mock.patch.object(cls, losses, counting):
        yield steps


def assert_resumes(estimator, step: int, losses: tuple[type, str], folder, *data):
    """Compare a fit with one that is killed in a step and resumed, and return that one."""
    with counted(*losses) as steps:
        whole = clone(estimator).fit(*data)
    kept = clone(estimator).set_params(checkpoint_dir=folder, checkpoint_minutes=0)
    with counted(*losses, stop=step), pytest.raises(Stopped):
        clone(kept).fit(*data)
    with counted(*losses) as repeated:
        resumed = kept.set_params(resume=True).fit(*data)
    assert len(repeated) == len(steps) - (step - 1), "it went on where it was"
    assert equal(weights(whole), weights(resumed))
    assert [row["loss"] for row in whole.history_] == [row["loss"] for row in resumed.history_]
    return resumed


LONG = {**SMALL, "max_epochs": 4, "batch_size": 16}


@pytest.mark.parametrize(
    ("objective", "step"),
    slow_except([("masked", 7), ("masked", 8), ("contrastive", 7), ("contrastive", 8)], ["masked"]),
)
def test_a_fit_that_was_killed_resumes_bit_for_bit(objective, step, waves, tmp_path):
    """Three steps are an epoch, so that step 7 is the first of one, and step 8 in its middle."""
    encoder = TSTransformerEncoder(**LONG, objective=objective)
    losses = OBJECTIVES[objective], "losses"
    resumed = assert_resumes(encoder, step, losses, tmp_path, waves)
    # Other options of the objective are another training run.
    other = {"masked": {"ratio": 0.3}, "contrastive": {"sigma": 0.2}}[objective]
    with pytest.warns(UserWarning, match="found no checkpoint of this training run"):
        clone(resumed).set_params(objective_params=other).fit(waves)


@pytest.mark.parametrize(
    ("how", "step"),
    [
        ({"freeze": "backbone"}, 5),
        ({"n_epochs_frozen": 2}, 5),
        ({"n_epochs_frozen": 2}, 8),
        ({"unlabelled": "use"}, 5),
    ],
    ids=str,
)
def test_what_starts_from_an_encoder_resumes_bit_for_bit(how, step, waves, tmp_path):
    y = np.arange(40) % 2
    if "unlabelled" in how:  # of an encoder that is fitted once more, in the same fit
        y[::10] = -1
    else:
        how = how | {"init_from": TSTransformerEncoder(**SMALL).fit(waves)}
    losses = TSTransformerClassifier, "_loss"
    # Not mixed: the loss of mixed series is that of two labels, and so two calls.
    classifier = TSTransformerClassifier(**LONG, **how, augmentation="warp")
    assert_resumes(classifier, step, losses, tmp_path, waves, y)


def test_an_instance_is_saved_by_its_name_and_what_has_none_is_refused(waves, tmp_path):
    encoder = TSTransformerEncoder(**SMALL, objective=Masked(ratio=0.2)).fit(waves)
    encoder.save(tmp_path / "encoder")
    loaded = tsformer.load(tmp_path / "encoder")
    assert (loaded.objective, loaded.objective_params) == ("masked", {"ratio": 0.2, "span": 3.0})

    class Mine(Masked):
        pass

    encoder = TSTransformerEncoder(**SMALL, objective=Mine).fit(waves)
    with pytest.raises(ValueError, match="cannot be saved, as its class is not registered"):
        encoder.save(tmp_path / "mine")


def test_warm_start_continues(waves):
    encoder = TSTransformerEncoder(**SMALL, warm_start=True).fit(waves)
    before = weights(encoder)
    before = {name: each.clone() for name, each in before.items()}
    encoder.fit(waves[:20])
    assert len(encoder.history_) == 4
    assert not equal(before, weights(encoder))


def test_codes_are_for_contrastive_without_noise():
    codes = np.random.default_rng(0).integers(5, size=(12, 1, 20)).astype(float)
    with pytest.raises(ValueError, match="'masked' reconstructs measurements"):
        TSTransformerEncoder(**SMALL, stem="embedding").fit(codes)
    encoder = TSTransformerEncoder(**SMALL, stem="embedding", objective="contrastive")
    with pytest.raises(ValueError, match="adds noise, which codes cannot take"):
        encoder.fit(codes)
    encoder.set_params(objective_params={"sigma": 0}).fit(codes)
    assert encoder.transform(codes).shape == (12, 8)


def test_a_pipeline_pretrains_inside_the_fold(waves):
    seen: list[int] = []

    class Counting(TSTransformerEncoder):
        def fit(self, X, y=None, **options):
            seen.append(len(X))
            return super().fit(X, y, **options)

    y = (waves[:, 0, 0] > 0).astype(int)
    pipeline = make_pipeline(Counting(**SMALL), LogisticRegression())
    assert len(cross_val_score(pipeline, waves, y, cv=4)) == 4
    assert seen == [30] * 4


def test_members_are_concatenated_and_usable_alone(waves):
    encoder = TSTransformerEncoder(**SMALL, n_estimators=2).fit(waves)
    embedded = encoder.transform(waves)
    parts = [member.transform(waves) for member in encoder.estimators_]
    np.testing.assert_array_equal(embedded, np.concatenate(parts, axis=1))
    assert encoder.score(waves) == pytest.approx(
        np.mean([member.score(waves) for member in encoder.estimators_])
    )


def test_an_augmentation_that_mixes_mixes_values_alone(waves):
    encoder = TSTransformerEncoder(**SMALL, augmentation="warp+cutmix").fit(waves)
    assert np.isfinite(encoder.score(waves))


def test_a_loss_that_is_not_finite_keeps_good_weights(waves):
    ragged = [x[:, : 10 + i % 20] for i, x in enumerate(waves)]
    encoder = TSTransformerEncoder(**SMALL | {"max_epochs": 30}, learning_rate=1e18)
    with pytest.raises(tsformer.training.NonFiniteLossError, match="the training loss became"):
        encoder.fit(ragged)
    assert np.isfinite(encoder.transform(ragged)).all()


EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weight of two is not a repetition: the repeated series are drawn into other batches"
    ),
    "check_methods_subset_invariance": "it asks for 1e-7, to which float32 rounds",
}


@pytest.mark.exhaustive
@parametrize_with_checks(
    [
        TSTransformerEncoder(**SMALL | {"random_state": None}, objective=objective)
        for objective in OBJECTIVES
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
