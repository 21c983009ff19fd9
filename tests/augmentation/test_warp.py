"""`warp` and the reading between steps, against plain loops."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from batches import CHANNELS, KINDS, LENGTHS, MASKED, batch, padded, read_slowly, series

from tsformer.augmentation import Batch, Warp
from tsformer.augmentation.reading import read, relative_times
from tsformer.augmentation.warp import warped
from tsformer.training.seeds import seeded

every_kind = pytest.mark.parametrize("kind", KINDS)


def speeds(n_knots: int = 5, sigma: float = 0.5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.exp(sigma * torch.randn(len(LENGTHS), n_knots, generator=generator))


def warp_slowly(given: Batch, speed: torch.Tensor) -> torch.Tensor:
    """Warp series by series and step by step; the integral by the midpoint rule on a fine grid."""
    out = given.values.double().clone()
    for i, own in enumerate(speed.double().tolist()):
        times, values, steps = series(given, i)
        start, span = times[0], times[-1] - times[0]
        if span == 0:
            continue

        def travelled(u: float, own: list[float] = own) -> float:
            n, total = 2000, 0.0
            for cell in range(n):
                place = (cell + 0.5) / n * u * (len(own) - 1)
                piece = min(int(place), len(own) - 2)
                total += own[piece] + (place - piece) * (own[piece + 1] - own[piece])
            return total * u / n

        whole = travelled(1.0)
        for t, step in zip(times, steps, strict=True):
            u = (t - start) / span
            if 0 < u < 1:
                t = start + span * travelled(u) / whole
                out[i, step] = read_slowly(times, values, t, symbolic=given.symbolic)
    return out


@every_kind
@pytest.mark.parametrize("n_knots", [2, 5])
def test_formula(kind, n_knots):
    given, speed = batch(kind), speeds(n_knots)
    out = warped(given, speed).values
    torch.testing.assert_close(out.double(), warp_slowly(given, speed), rtol=0, atol=1e-4)
    assert not torch.equal(out, given.values)


@every_kind
def test_relative_times(kind):
    given = batch(kind)
    found = relative_times(given).expand(given.values.shape[:2])
    for i in range(len(LENGTHS)):
        times, _, steps = series(given, i)
        span = times[-1] - times[0] or 1.0
        expected = torch.tensor([(t - times[0]) / span for t in times])
        torch.testing.assert_close(found[i, steps], expected)


@every_kind
def test_reading_anywhere(kind):
    given = batch(kind)
    at = torch.rand(len(LENGTHS), 6, generator=torch.Generator().manual_seed(1))
    found = read(given, relative_times(given), at)
    for i in range(len(LENGTHS)):
        times, values, _ = series(given, i)
        for u, value in zip(at[i].tolist(), found[i].double(), strict=True):
            t = times[0] + u * (times[-1] - times[0])
            expected = read_slowly(times, values, t, symbolic=given.symbolic)
            torch.testing.assert_close(value, expected, rtol=0, atol=1e-4)


@every_kind
def test_speed_one_is_the_identity(kind):
    given = batch(kind)
    assert torch.equal(warped(given, torch.ones(len(LENGTHS), 5)).values, given.values)
    with seeded(0, torch.device("cpu")):
        assert torch.equal(Warp(p=1.0, sigma=0.0)(given).values, given.values)


@every_kind
def test_a_common_factor_of_the_speeds_is_irrelevant(kind):
    given, speed = batch(kind), speeds()
    torch.testing.assert_close(warped(given, speed).values, warped(given, 8 * speed).values)


@every_kind
def test_both_ends_stay(kind):
    given = batch(kind)
    out = warped(given, speeds()).values
    for i in range(len(LENGTHS)):
        steps = series(given, i)[2]
        assert torch.equal(out[i, steps[0]], given.values[i, steps[0]])
        assert torch.equal(out[i, steps[-1]], given.values[i, steps[-1]])


@pytest.mark.parametrize("kind", MASKED)
def test_what_masked_steps_hold_is_never_read(kind):
    given = batch(kind)
    hidden = ~given.mask[..., None]
    poisoned = replace(given, values=given.values.masked_fill(hidden, torch.nan))
    out = warped(poisoned, speeds()).values
    assert torch.equal(out.masked_fill(hidden, 0.0), warped(given, speeds()).values)
    assert out.masked_select(hidden).isnan().all(), "and they keep it"


@every_kind
def test_padding_changes_nothing(kind):
    given = batch(kind)
    longer = padded(given, 4)
    torch.testing.assert_close(
        warped(longer, speeds()).values[:, :-4], warped(given, speeds()).values
    )
    with seeded(3, torch.device("cpu")):
        ours = Warp(p=1.0)(longer).values[:, :-4]
    with seeded(3, torch.device("cpu")):
        torch.testing.assert_close(ours, Warp(p=1.0)(given).values)


def test_given_times_of_a_regular_series_are_the_default():
    given = batch("holes")
    times = torch.arange(float(given.values.shape[1]))[None]
    expected = warped(given, speeds()).values
    torch.testing.assert_close(warped(replace(given, times=times), speeds()).values, expected)
    moved = replace(given, times=5 + 3 * times)
    torch.testing.assert_close(warped(moved, speeds()).values, expected)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "codes"])
def test_channels_are_warped_alike(kind):
    given = batch(kind)
    order = torch.tensor([2, 0, 1])
    permuted = replace(given, values=given.values[..., order])
    assert torch.equal(
        warped(permuted, speeds()).values, warped(given, speeds()).values[..., order]
    )
    scaled = replace(given, values=given.values * torch.tensor([1.0, 2.0, 4.0]))
    torch.testing.assert_close(
        warped(scaled, speeds()).values,
        warped(given, speeds()).values * torch.tensor([1.0, 2.0, 4.0]),
    )


def test_steps_at_one_time_keep_their_values_where_nothing_moves():
    values = torch.randn(2, 5, CHANNELS)
    given = Batch(values, times=torch.tensor([[0.0, 1.0, 1.0, 1.0, 2.0]]))
    speed = torch.tensor([[1.0, 1.0, 1.0], [3.0, 1.0, 3.0]])  # in the second, the middle stays
    assert torch.equal(warped(given, speed).values, values)


def test_a_line_stays_on_its_path():
    """A straight line is read where it was moved to: its values are the warped times."""
    line = torch.linspace(0, 1, 101)[None, :, None]
    out = warped(Batch(line), torch.tensor([[1.0, 3.0]])).values[0, :, 0]
    u = torch.linspace(0, 1, 101)
    torch.testing.assert_close(out, (u + u.square()) / 2)  # the integral of 1 + 2 u, over 2


def test_as_many_series_as_p_says_are_warped():
    given = Batch(torch.randn(2000, 6, 1))
    with seeded(0, torch.device("cpu")):
        changed = (Warp(p=0.3)(given).values != given.values).any(dim=(1, 2))
        assert 0.26 < changed.float().mean() < 0.34
        assert not (Warp(p=0.0)(given).values != given.values).any()
        assert (Warp(p=1.0)(given).values != given.values).any(dim=(1, 2)).all()


def test_speeds_have_the_standard_deviation_sigma():
    """With two knots of mean speed 1, the middle is moved to a quarter of 1 plus the first."""
    line = torch.linspace(0, 1, 3)[None, :, None].expand(20000, -1, 1)
    with seeded(0, torch.device("cpu")):
        middle = Warp(p=1.0, sigma=0.3, knots=2)(Batch(line)).values[:, 1, 0]
    first = 4 * middle - 1  # the speed at the first knot over the mean of both, which is 1
    ratio = torch.log(first / (2 - first))
    assert abs(ratio.mean()) < 0.02
    assert abs(ratio.std() - 0.3 * 2**0.5) < 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 1.5}, r"p of warp must be a float >= 0 and <= 1; got 1\.5"),
        ({"p": "often"}, "p of warp must be a float .* got 'often'"),
        ({"sigma": -0.1}, r"sigma of warp must be a float >= 0 and <= 5; got -0\.1"),
        ({"sigma": float("nan")}, "sigma of warp must be .* got nan"),
        ({"knots": 1}, "knots of warp must be an int >= 2; got 1"),
        ({"knots": 2.5}, r"knots of warp must be an int >= 2; got 2\.5"),
        ({"knots": float("inf")}, "knots of warp must be an int >= 2; got inf"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Warp(**options)
