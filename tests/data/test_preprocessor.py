"""Preprocessing: scaling learned in float64, gaps filled and flagged, codes numbered."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch

from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Preprocessor, Scaler, Vocabulary

RNG = np.random.default_rng(0)
WHOLE = RNG.normal(3.0, 2.0, size=(4, 2, 6))
RAGGED = [x[:, :n] for x, n in zip(WHOLE, (6, 3, 1, 5), strict=True)]
nan = np.nan
#: One series of three channels: a gap, gaps at both ends, nothing at all.
GAPS = np.array([[[0.0, nan, nan, 6.0, 8.0], [nan, 1.0, nan, 3.0, nan], [nan] * 5]])
TIMES = np.array([[0.0, 10.0, 10.0, 30.0, 31.0]])


def test_channel_scaling_is_learned_from_the_values_of_training():
    X = [x.copy() for x in RAGGED]
    X[0][0, 1:4] = nan
    scaler = Scaler("channel").fit(to_padded(X))
    steps = np.concatenate(X, axis=1)
    mean, std = np.nanmean(steps, axis=1), np.nanstd(steps, axis=1)
    np.testing.assert_allclose(scaler.mean, mean)
    np.testing.assert_allclose(scaler.std, std)
    assert scaler.gap_channels.tolist() == [0]
    assert scaler.n_inputs == 3
    values = scaler.transform(to_padded(WHOLE + 1)).values.numpy()[..., :2]
    expected = (WHOLE + 1 - mean[:, None]) / std[:, None]
    np.testing.assert_allclose(values, expected.transpose(0, 2, 1), rtol=1e-6)


def test_series_scaling_is_of_each_series():
    panel = Scaler("series").fit(to_padded(RAGGED)).transform(to_padded(RAGGED))
    for i, x in enumerate(RAGGED):
        values = panel.values[i, : x.shape[1]].numpy()
        np.testing.assert_allclose(values.mean(0), 0, atol=1e-6)
        np.testing.assert_allclose(values.std(0), 1 if x.shape[1] > 1 else 0, atol=1e-6)


@pytest.mark.parametrize("how", ["channel", "series"])
@pytest.mark.parametrize("level", [0.1, -123456789.123])
def test_a_constant_becomes_zero_not_noise(how, level):
    series = to_padded(np.full((3, 1, 50), level))
    assert Scaler(how).fit(series).transform(series).values.abs().max() < 1e-3


def test_large_offsets_do_not_drown_small_changes():
    """In float32 a change of 0.001 on 100,000 is lost; scaling comes before the cast."""
    small = RNG.normal(size=(5, 1, 20))
    panel, restored = (
        Scaler("channel").fit(series).transform(series).values
        for series in (to_padded(small), to_padded(1e5 + 1e-3 * small))
    )
    torch.testing.assert_close(restored, panel, rtol=1e-3, atol=1e-3)


def test_filling_is_numpys_interpolation():
    X = RNG.normal(size=(5, 3, 40))
    X[RNG.random(X.shape) < 0.6] = nan
    times = np.cumsum(RNG.random((5, 40)), axis=1)
    series = to_padded(X, times)
    panel = Scaler(None).fit(series).transform(series)
    for i, length in enumerate(series.lengths):
        begun = np.maximum.accumulate(~np.isnan(X[i, :, :length]).all(axis=0))
        for c in range(3):
            x, t = X[i, c, :length], times[i, :length]
            line = np.interp(t, t[~np.isnan(x)], x[~np.isnan(x)])
            filled = panel.values[i, :length, c].numpy()
            np.testing.assert_allclose(filled[begun], line[begun], atol=1e-5)


def test_steps_before_the_first_value_are_masked():
    X = WHOLE.copy()
    X[0, :, :2] = nan
    X[1, 0, :3] = nan  # the other channel has begun
    panel = Scaler("channel").fit(to_padded(X)).transform(to_padded(X))
    assert panel.mask.sum(dim=1).tolist() == [4, 6, 6, 6]
    _, mask, _ = panel.take(torch.tensor([0, 3]))
    assert mask.tolist() == [[False] * 2 + [True] * 4, [True] * 6]


def test_codes_are_numbered_in_their_order_and_padding_is_zero():
    X = [np.array([5, -3, 5]), np.array([100])]
    vocabulary = Vocabulary().fit(to_padded(X))
    assert vocabulary.known.tolist() == [-3, 5, 100]
    panel = vocabulary.transform(to_padded(X))
    assert panel.values[..., 0].tolist() == [[2, 1, 2], [3, 0, 0]]
    assert panel.lengths.tolist() == [3, 1]
    vocabulary = Vocabulary().fit(to_padded(np.array([[1, 2, 3]])))
    with pytest.warns(UserWarning, match="2 .*-4, 9"):
        panel = vocabulary.transform(to_padded(np.array([[9, 2, -4, 9]])))
    assert panel.values[0, :, 0].tolist() == [0, 2, 0, 0]
    with warnings.catch_warnings(action="error"):
        vocabulary.transform(to_padded([np.array([1, 2]), np.array([3])]))


@pytest.mark.parametrize("step", ["fit", "transform"])
def test_what_is_not_whole_is_refused_with_its_place(step):
    vocabulary = Vocabulary().fit(to_padded(np.array([[1, 2, 3]])))
    X = [np.array([1.0, 2.0]), np.array([1.0, 2.0, 0.5])]
    with pytest.raises(ValueError, match=r"0\.5 at series 1, step 2"):
        getattr(vocabulary, step)(to_padded(X))
    with pytest.raises(ValueError):
        getattr(vocabulary, step)(to_padded(np.array([[1, 1e30]])))  # float64 skips integers


def test_unknown_options_and_tensors_are_refused():
    with pytest.raises(ValueError):
        Scaler("chanel")
    described = Scaler().fit(to_padded(RAGGED)).describe()
    with pytest.raises(ValueError):
        Preprocessor.restore(described, {"scaler.median": torch.zeros(2)})


FITTED = {
    "channel": (Scaler("channel"), RAGGED),
    "series, gaps": (Scaler("series"), GAPS),
    "size": (Scaler("series+size"), GAPS),
    "views": (Scaler("channel", views="values+difference", view_params={"scale": 2.0}), RAGGED),
    "codes": (Vocabulary(), [np.array([5, -3, 5]), np.array([100])]),
}


def restored(preprocessor: Preprocessor) -> Preprocessor:
    state = {preprocessor.prefix + k: v for k, v in preprocessor.state_dict().items()}
    assert all(tensor.dtype in (torch.float64, torch.int64) for tensor in state.values())
    return Preprocessor.restore(preprocessor.describe(), state)


@pytest.mark.parametrize("case", FITTED)
@pytest.mark.parametrize(
    "copied", [restored, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))]
)
def test_copies_transform_the_same(case, copied):
    preprocessor, X = FITTED[case]
    series = to_padded(X, [np.arange(np.shape(x)[-1]) * 3.0 for x in X])
    twin = copied(preprocessor.fit(series))
    ours, theirs = preprocessor.transform(series), twin.transform(series)
    for name in ("values", "lengths", "mask", "times"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=0, atol=0)
    assert twin.time_step == 3.0
    assert twin.describe() == preprocessor.describe()
    assert twin.state_dict().keys() == preprocessor.state_dict().keys()


@pytest.mark.parametrize("how", ["channel", "series", "series+size", None])
def test_scaling_and_the_rest_are_the_whole(how):
    series = to_padded(GAPS, TIMES)
    scaler = Scaler(how, views="values+difference").fit(series)
    x, t = torch.from_numpy(series.values), torch.from_numpy(series.times)
    mean, std = scaler.moments(x, ~x.isnan())
    size = scaler.size_of(x)
    assert (size is not None) == (how == "series+size")
    rest = scaler.without_scaling()((x - mean) / std, t, size)
    for whole, scaled in zip(scaler(x, t), rest, strict=True):
        torch.testing.assert_close(scaled, whole)
    assert scaler.scaling == how, "the original is as it was"
