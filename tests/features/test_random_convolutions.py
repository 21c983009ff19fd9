"""Hydra and MiniRocket by brute force; their features together, scaled; series at regular steps."""

import numpy as np
import pytest
import torch
from tensor_sizes import Sizes

from tsformer import RandomConvolutionClassifier
from tsformer.data.panel import Panel
from tsformer.features import RandomConvolutions, random_convolutions
from tsformer.features.random_convolutions import (
    KERNELS,
    FeatureScaler,
    Hydra,
    MiniRocket,
    draw_channels,
    regular,
    views_of,
)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_channels_are_drawn_as_in_the_paper():
    (drawn,) = draw_channels(1, 30_000, 20, seeded())
    sizes = drawn.sum(dim=1)
    assert (sizes.min(), sizes.max()) == (1, 9)
    # 2^u below 2 where u is below 1, of log2(10).
    assert (sizes == 1).float().mean() == pytest.approx(0.301, abs=0.008)
    assert drawn.mean(dim=0).std() < 0.02  # no channel is preferred


def differences(x, mask):
    return views_of(x, mask)["differences"]


def test_differences_need_two_valid_steps():
    x = torch.tensor([[[1.0, 4.0, 9.0, 0.0]], [[0.0, 2.0, 5.0, 6.0]]])
    mask = torch.tensor([[True, True, True, False], [False, True, True, True]])
    apart, valid = differences(x, mask)
    assert apart.tolist() == [[[3.0, 5.0, 0.0]], [[0.0, 3.0, 1.0]]]
    assert valid.tolist() == [[True, True, False], [False, True, True]]
    assert differences(x, None)[1] is None
    assert differences(x, None)[0].tolist() == [[[3.0, 5.0, -9.0]], [[2.0, 3.0, 1.0]]]
    apart, valid = differences(torch.ones(2, 3, 1), None)
    assert apart.shape == (2, 3, 1)
    assert not apart.any(), "one step has no difference"
    assert not valid.any()


def series(n: int, channels: int, length: int) -> torch.Tensor:
    return torch.randn(n, channels, length, generator=seeded())


def hydra(x, mask=None, seed=0, size=(4, 8)) -> Hydra:
    return Hydra(*size).fit(x, seeded(seed))


def rocket(x, mask=None, seed=0, size=(500,)) -> MiniRocket:
    return MiniRocket(*size).fit(x, mask, seeded(seed))


both = pytest.mark.parametrize("fit", [hydra, rocket])


@both
@pytest.mark.parametrize("channels", [1, 2])
def test_padding_changes_nothing(fit, channels):
    x = series(5, channels, 40)
    lengths = torch.tensor([40, 33, 12, 7, 1])
    mask = torch.arange(40) < lengths[:, None]
    x = x.where(mask[:, None], 0.0)
    transform = fit(x, mask)
    together = transform(x, mask)
    for i, length in enumerate(lengths.tolist()):
        alone = transform(x[i : i + 1, :, :length])
        torch.testing.assert_close(together[i : i + 1], alone, atol=1e-5, rtol=0)
    for pads in ((0, 9), (6, 2)):  # also before the first value
        if fit is rocket or pads[0] == 0:
            more, there = (torch.nn.functional.pad(each, pads) for each in (x, mask))
            torch.testing.assert_close(transform(more, there), together, atol=1e-5, rtol=0)


def counts_by_loops(hydra: Hydra, x: np.ndarray) -> np.ndarray:
    """The features of one series ``[C, L]``, from the definition."""
    length = x.shape[1]
    features = []
    for exponent, (kernels, channels) in enumerate(zip(hydra.kernels, hydra.channels, strict=True)):
        dilation = 2**exponent
        soft, hard = np.zeros(kernels.shape[:2]), np.zeros(kernels.shape[:2])
        for g, group in enumerate(kernels.numpy()):
            read = channels.numpy()[min(g, len(channels) - 1)] @ x
            padded = np.pad(read, 4 * dilation)
            for t in range(length):
                responses = group @ padded[t : t + 8 * dilation + 1 : dilation]
                soft[g, responses.argmax()] += responses.max()
                hard[g, responses.argmin()] += 1
        features += [soft.ravel(), hard.ravel()]
    return np.concatenate(features)


@pytest.mark.parametrize(("channels", "length"), [(1, 70), (3, 30), (1, 5), (2, 1)])
def test_hydra_equals_definition(channels, length):
    x = series(4, channels, length)
    transform = hydra(x, size=(3, 4))
    wanted = np.array([counts_by_loops(transform, each) for each in x.numpy()])
    np.testing.assert_allclose(transform(x).numpy(), wanted, atol=1e-4)
    assert not transform(torch.zeros_like(x)).any(), "a constant window counts for none"


def shares_by_loops(rocket: MiniRocket, x: np.ndarray) -> list[float]:
    """The features of one series ``[C, L]``, from the definition."""
    length = x.shape[1]
    features, left = [], rocket.biases.tolist()
    for place, dilation in enumerate(rocket.dilations.tolist()):
        channels = rocket.channels[place].numpy()
        for k, kernel in enumerate(KERNELS.numpy()):
            read = channels[k * len(channels) // 84] @ x
            reach = 4 * dilation
            padded = np.pad(read, reach)
            responses = [padded[t : t + 2 * reach + 1 : dilation] @ kernel for t in range(length)]
            padded_half = (k < 42) == (place % 2 == 0)
            if not padded_half and length > 2 * reach:
                responses = responses[reach : length - reach]
            for _ in range(int(rocket.n_biases[place])):
                bias = left.pop(0)
                features.append(np.mean([response > bias for response in responses]))
    assert left == []
    return features


@pytest.mark.parametrize(("channels", "length"), [(1, 30), (3, 30), (1, 5), (2, 1)])
def test_minirocket_equals_definition(channels, length):
    x = series(6, channels, length)
    transform = rocket(x, size=(400,))
    found = transform(x)
    assert found.shape == (6, 84 * 4) == (6, len(transform.biases))
    wanted = np.array([shares_by_loops(transform, each) for each in x.numpy()])
    # A bias may be a response of a training series itself, to rounding.
    assert (np.abs(found.numpy() - wanted) > 1e-6).mean() < 0.01


@pytest.mark.parametrize("length", [1, 41, 5000])
@pytest.mark.parametrize("per_kernel", [1, 5, 119])
def test_dilations_are_spread_exponentially(length, per_kernel):
    rocket = MiniRocket(84 * per_kernel).fit(torch.zeros(1, 1, length), None, seeded())
    dilations = rocket.dilations.tolist()
    assert int(rocket.n_biases.sum()) == per_kernel
    assert dilations == sorted({*dilations})
    assert dilations[0] == 1
    assert dilations[-1] == (max((length - 1) // 8, 1) if per_kernel > 1 else 1)
    few = MiniRocket(84 * 5).fit(torch.zeros(1, 1, 20), None, seeded())
    assert few.n_biases.tolist() == [4, 1], "of 1, 1.2, 1.5, 1.9 and 2.4"


def test_biases_are_quantiles_of_training_convolutions():
    """Shares above the biases of the one training series are one minus the quantiles' order."""
    x = series(1, 1, 400)
    transform = rocket(x, size=(84 * 5,))
    order = torch.arange(1, len(transform.biases) + 1) * (1 + 5**0.5) / 2 % 1
    apart = (transform(x)[0] - (1 - order)).abs()
    assert apart.max() < 1 / 8  # eight windows of the largest dilation fit into the series
    assert apart.mean() < 0.006


def made(x, mask=None, n_features=336, n_groups=4) -> RandomConvolutions:
    convolutions = RandomConvolutions(n_features, n_groups).draw(x, mask, seeded())
    convolutions.fit_scales(convolutions.unscaled(x, mask))
    return convolutions


def test_transforms_are_optional_and_loadable():
    x = torch.randn(6, 40, 2, generator=seeded(1))
    state = torch.get_rng_state()
    for options, n in (({"n_features": 0}, 192), ({"n_groups": 0}, 336), ({}, 528)):
        fitted = made(x, **options)
        assert fitted(x).shape == (6, n)
        loaded = RandomConvolutions(**{"n_features": 336, "n_groups": 4} | options)
        loaded.load_state_dict(fitted.state_dict())
        assert torch.equal(loaded(x), fitted(x))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("length", "steps"), [(700, 64), (12, 1), (30, 60), (30, 10_000)])
@pytest.mark.parametrize("masked", [False, True])
def test_blocks_of_series_give_the_same_features(masked, length, steps, monkeypatch):
    x = torch.randn(3, length, 2, generator=seeded(1))
    mask = torch.arange(length) < torch.tensor([[length], [length // 2], [5]]) if masked else None
    x = x if mask is None else x.where(mask[..., None], 0.0)
    wanted = made(x, mask)
    monkeypatch.setitem(random_convolutions.STEPS, "cpu", steps)
    monkeypatch.setattr(random_convolutions, "_VALUES", 11 * steps)  # not all kernels in a fit
    found = made(x, mask)
    torch.testing.assert_close(found.state_dict(), wanted.state_dict(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found(x, mask), wanted(x, mask), rtol=1e-3, atol=1e-3)


def test_features_of_long_series_hold_no_whole_response():
    convolutions = made(torch.randn(2, 9000, 1, generator=seeded(1)))
    with Sizes() as sizes:
        convolutions(torch.randn(2, 9000, 1, generator=seeded(2)))
    assert sizes.largest <= 2 * 84 * 1024


def test_features_are_scaled_as_defined():
    x = torch.full((30, 1), 0.1)
    assert FeatureScaler().fit(x)(x).abs().max() < 1e-6
    x = torch.tensor([[4.0, 0.0], [9.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    root = x.clamp(min=0).sqrt()
    share = torch.tensor([0.5, 0.75])
    wanted = (root - root.mean(dim=0)) / (root.std(dim=0, correction=0) + share**4 + 1e-8)
    scaler = FeatureScaler()
    scaler.counts = True
    torch.testing.assert_close(scaler.fit(x)(x), wanted.where(root > 0, 0.0))


def panel(values, times, lengths=None, mask=None) -> Panel:
    values = torch.tensor(values)[..., None]
    lengths = torch.full((len(values),), values.shape[1]) if lengths is None else lengths
    return Panel(values, torch.as_tensor(lengths), mask, torch.tensor(times))


def test_regular_equals_numpy_interp():
    rng = np.random.default_rng(0)
    times = rng.uniform(0.2, 2.0, size=(3, 20)).cumsum(axis=1).astype(np.float32)
    values = rng.normal(size=(3, 20)).astype(np.float32)
    lengths = np.array([20, 13, 1])
    mask = np.arange(20) < lengths[:, None]
    times[~mask] = values[~mask] = 0
    mask[1, :2] = False
    found = regular(panel(values, times, lengths, torch.from_numpy(mask)))
    without = regular(panel(values, times, lengths))
    for name in ("values", "lengths"):
        assert getattr(without, name)[::2].equal(getattr(found, name)[::2])
    for i, valid in enumerate(mask):
        t = times[i, valid]
        grid = np.arange(t[0], t[-1] + 1e-6, 1.0)
        assert found.lengths[i] == len(grid)
        wanted = np.interp(grid, t, values[i, valid])
        np.testing.assert_allclose(found.values[i, : len(grid), 0], wanted, atol=1e-4)
        assert not found.values[i, len(grid) :].any()


def test_long_pauses_in_times_warn_of_lost_detail(recwarn):
    X, pause = np.random.default_rng(0).normal(size=(6, 24)), np.repeat([0, 1], 12)
    clf = RandomConvolutionClassifier(n_features=168, n_groups=0, random_state=0)
    clf.fit(X, [0, 1] * 3, times=np.arange(24) + 40 * pause)  # 63 intervals in 96 steps
    assert not recwarn
    with pytest.warns(UserWarning, match="steps 10 median intervals"):
        clf.predict(X, times=np.arange(24) + 940 * pause)


def test_regular_long_pause_is_coarse_and_equal_times_keep_the_last():
    for stop in (50.0, 1e6):  # 50 / (50 / 11) is below 11
        found = regular(panel([[0.0, 1.0, 1.0]], [[0.0, 1.0, stop]]))
        assert found.lengths.tolist() == [12]
    assert found.values[0, :, 0].tolist() == [0.0] + [1.0] * 11
    for times, wanted in (([0.0, 0.0, 1.0], [1.0, 2.0]), ([0.0, 0.0, 0.0], [2.0])):
        assert regular(panel([[5.0, 1.0, 2.0]], [times])).values[0, :, 0].tolist() == wanted
