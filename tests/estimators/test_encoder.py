"""TSTransformerEncoder: embeddings learned without labels."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from small_estimators import encoder

import tsformer
from tsformer.augmentation import Batch
from tsformer.objectives import InputLayout, Masked
from tsformer.training.inference import posed


@pytest.fixture(scope="module")
def waves() -> np.ndarray:
    """40 series of 30 steps and two channels, sines of random phase."""
    rng = np.random.default_rng(0)
    phase = rng.uniform(0, 6, size=(40, 2, 1))
    return np.sin(phase + 0.5 * np.arange(30)) + 0.05 * rng.normal(size=(40, 2, 30))


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "stem"), [("masked", "patch"), ("contrastive", "conv")])
def test_pretraining_learns(objective, stem, waves):
    options = {"d_model": 16, "learning_rate": 5e-3, "dropout": 0.0}
    learned = encoder(max_epochs=40, objective=objective, stem=stem, **options)
    before = clone(learned).set_params(max_epochs=1, learning_rate=1e-9).fit(waves[:30])
    assert learned.fit(waves[:30]).score(waves[30:]) > before.score(waves[30:]) + 0.3


def test_score_is_minus_the_error_of_hidden_values_by_hand(waves):
    """All in one batch: the same draws, and the reconstruction compared value by value."""
    fitted = encoder().fit(waves[:30])
    panel = fitted.preprocessor_.transform(fitted.read_series(waves[30:]))
    batch = Batch(*panel.take(torch.arange(10)))
    task = posed(fitted._pretext(fitted.model_), batch, seed=0, step=0)
    with torch.no_grad():
        outputs = fitted.model_(task.batch.values)
    scaled = (waves[30:] - waves[:30].mean((0, 2))[:, None]) / waves[:30].std((0, 2))[:, None]
    errors = (outputs.numpy() - scaled.swapaxes(1, 2))[task.counted.numpy()]
    assert fitted.score(waves[30:]) == pytest.approx(-np.square(errors).mean(), rel=1e-4)


def test_views_of_codes_are_scored_as_codes():
    codes, seen = np.random.default_rng(0).choice([1, 7, 30, 50], size=(24, 12)), []
    fitted = encoder(stem="embedding", objective="contrastive", objective_params={"sigma": 0.0})
    fitted.fit(codes).model_.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    fitted.score(codes)
    assert torch.equal(torch.cat(seen), torch.cat(seen).round())


@pytest.mark.parametrize("scaling", ["channel", "series+size"])
def test_differences_and_flags_of_the_inputs_are_known_beside_sizes(scaling, waves):
    """Where they were not, a difference told the hidden value."""
    gaps = waves.copy()
    gaps[3, 1, 8:12] = np.nan
    fitted = encoder(stem="patch", views="values+difference", scaling=scaling).fit(gaps)
    pretext, stride = fitted._pretext(fitted.model_), fitted.model_.stem.stride
    assert pretext.layout == InputLayout(2, differenced=True, flagged=(1,), stride=stride)
    assert stride > 1
    panel = fitted.preprocessor_.transform(fitted.read_series(gaps))
    task = posed(pretext, Batch(*panel.take(torch.arange(40))), seed=0, step=0)
    assert not task.counted[3, 8:12, 1].any()
    assert not task.batch.values[..., 2:4][task.counted].any()


def test_an_instance_is_saved_by_its_name_and_what_has_none_is_refused(waves, tmp_path):
    encoder(objective=Masked(ratio=0.2)).fit(waves).save(tmp_path / "encoder")
    loaded = tsformer.load(tmp_path / "encoder")
    assert (loaded.objective, loaded.objective_params) == ("masked", {"ratio": 0.2, "span": 3.0})

    class Mine(Masked):
        pass

    with pytest.raises(ValueError):
        encoder(objective=Mine).fit(waves).save(tmp_path / "mine")
