"""Warping, slicing, cutmix and jitter against plain loops."""

from dataclasses import replace

import pytest
import torch
from batches import KINDS, LENGTHS, batch, padded, read_slowly, series

from tsformer._random import seeded
from tsformer.augmentation import Augmentation, Batch, CutMix, Jitter, Slice, Warp
from tsformer.augmentation.transforms import mixed, sliced, warped

every_kind = pytest.mark.parametrize("kind", KINDS)
B = len(LENGTHS)

SPEED = torch.exp(0.5 * torch.randn(B, 5, generator=torch.Generator().manual_seed(7)))
REMOVED = torch.tensor([[0.3], [0.6], [0.5], [0.25], [0.9]])
PLACE = torch.tensor([[0.0], [0.4], [0.5], [1.0], [0.85]])
PARTNER = torch.tensor([1, 0, 4, 1, 2])
START = torch.tensor([[0.3], [0.0], [0.1], [0.5], [0.25]])
WIDTH = torch.tensor([[0.4], [0.7], [0.8], [0.5], [0.375]])


def apply(augmentation: Augmentation, original: Batch, seed: int = 0) -> Batch:
    with seeded(seed, torch.device("cpu")):
        return augmentation(original)


def warp_slowly(original: Batch, speed: torch.Tensor) -> torch.Tensor:
    """Warp series by series and step by step; the integral by the midpoint rule on a fine grid."""
    out = original.values.double().clone()
    for i, speeds in enumerate(speed.double().tolist()):
        times, values, steps = series(original, i)
        start, span = times[0], times[-1] - times[0]
        if span == 0:
            continue

        def travelled(u: float, speeds: list[float] = speeds) -> float:
            n, total = 2000, 0.0
            for cell in range(n):
                position = (cell + 0.5) / n * u * (len(speeds) - 1)
                piece = min(int(position), len(speeds) - 2)
                total += speeds[piece] + (position - piece) * (speeds[piece + 1] - speeds[piece])
            return total * u / n

        whole = travelled(1.0)
        for t, step in zip(times, steps, strict=True):
            u = (t - start) / span
            if 0 < u < 1:
                t = start + span * travelled(u) / whole
                out[i, step] = read_slowly(times, values, t, symbolic=original.symbolic)
    return out


@every_kind
@pytest.mark.parametrize("n_knots", [2, 5])
def test_warp(kind, n_knots):
    original, speed = batch(kind), SPEED[:, :n_knots]
    out = warped(original, speed).values
    torch.testing.assert_close(out.double(), warp_slowly(original, speed), rtol=0, atol=1e-4)
    assert not torch.equal(out, original.values)
    torch.testing.assert_close(out, warped(original, 8 * speed).values)  # only their ratios matter


@every_kind
def test_slice(kind):
    original = batch(kind)
    out = sliced(original, REMOVED, PLACE).values.double()
    assert not torch.equal(out, original.values.double())
    for i in range(B):
        times, values, steps = series(original, i)
        length = (1 - REMOVED[i].item()) * (times[-1] - times[0])
        first = times[0] + REMOVED[i].item() * PLACE[i].item() * (times[-1] - times[0])
        for t, step in zip(times, steps, strict=True):
            u = (t - times[0]) / (times[-1] - times[0] or 1)
            at = first + u * length
            expected = read_slowly(times, values, at, symbolic=original.symbolic)
            if at == t:  # a step that is not moved keeps its value, also beside others of its time
                expected = values[steps.index(step)]
            torch.testing.assert_close(out[i, step], expected, rtol=0, atol=1e-4)


def mix_slowly(original: Batch) -> tuple[torch.Tensor, list[float]]:
    """Mix series by series and step by step; return values and the kept shares."""
    out, shares = original.values.double().clone(), []
    for i, partner in enumerate(PARTNER.tolist()):
        times, _, steps = series(original, i)
        their_times, their_values, _ = series(original, partner)
        kept = 0
        for number, (t, step) in enumerate(zip(times, steps, strict=True)):
            middle = (number + 0.5) / len(steps)
            if not START[i] <= middle < START[i] + WIDTH[i]:
                kept += 1
                continue
            u = (t - times[0]) / (times[-1] - times[0] or 1.0)
            at = their_times[0] + u * (their_times[-1] - their_times[0])
            out[i, step] = read_slowly(their_times, their_values, at, symbolic=original.symbolic)
        shares.append(kept / len(steps))
    return out, shares


@every_kind
def test_cutmix(kind):
    original = batch(kind)
    out = mixed(original, PARTNER, START, WIDTH)
    values, shares = mix_slowly(original)
    torch.testing.assert_close(out.values.double(), values, rtol=0, atol=1e-4)
    assert torch.equal(out.share, torch.tensor(shares))
    assert torch.equal(out.partner, PARTNER)
    assert 0 < min(shares[:2]) < max(shares[:2]) < 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "codes"])
def test_jitter(kind):
    original = replace(batch(kind), n_flags=1)
    x = original.values
    out = apply(Jitter(p=0.5, sigma=0.3), original, seed=4).values
    with seeded(4, torch.device("cpu")):
        chosen, noise = torch.rand(len(x), 1, 1) < 0.5, torch.randn(x.shape)
    assert 0 < chosen.sum() < len(x)
    valid = torch.ones(x.shape[:2], dtype=torch.bool) if original.mask is None else original.mask
    expected = torch.where(chosen & valid[..., None], x + 0.3 * noise, x)
    expected[..., -1] = x[..., -1]  # flags get no noise
    torch.testing.assert_close(out, expected)


@every_kind
@pytest.mark.parametrize("make", [Warp, Slice, CutMix])
def test_padding_changes_nothing(make, kind):
    original = batch(kind)
    ours, expected = apply(make(p=1.0), padded(original, 4)), apply(make(p=1.0), original)
    torch.testing.assert_close(ours.values[:, :-4], expected.values)
    if make is CutMix:
        assert torch.equal(ours.share, expected.share)


@pytest.mark.parametrize("make", [Warp, Slice, CutMix, Jitter])
def test_p_is_the_share_of_the_series(make):
    original = Batch(torch.randn(2000, 100, 1))
    changed = {}
    for p in (0.0, 0.3, 1.0):
        out = apply(make(p=p), original)
        changed[p] = (out.values != original.values).any(dim=(1, 2))
        assert out.share is None or torch.equal(changed[p], out.share < 1)
    assert not changed[0.0].any()
    assert 0.26 < changed[0.3].float().mean() < 0.34
    assert changed[1.0].float().mean() > 0.98


def test_partners_are_all_other_series_alike():
    original = Batch(torch.randn(5, 8, 1))
    counts = torch.zeros(5, 5)
    for seed in range(400):
        counts[torch.arange(5), apply(CutMix(), original, seed).partner] += 1
    assert not counts.diagonal().any()
    partners = counts[~torch.eye(5, dtype=torch.bool)]
    assert partners.min() > 65
    assert partners.max() < 135


def test_shares_and_places_of_stretches():
    """Ones in zeros: the share replaced is uniform, and every step is replaced about as often."""
    x = torch.zeros(20000, 40, 1)
    x[::2] = 1.0
    out = apply(CutMix(p=1.0, max_share=0.5), Batch(x))
    replaced = 1 - out.share
    assert 0.47 < replaced.max() <= 0.525
    assert abs(replaced.mean() - 0.25) < 0.01
    differs = (out.values != x)[..., 0].float()
    unlike = (x[out.partner, 0, 0] != x[:, 0, 0]).float()
    torch.testing.assert_close(differs.mean(dim=1), replaced * unlike)
    by_step = differs.mean(dim=0)
    torch.testing.assert_close(by_step, by_step.flip(0), rtol=0.2, atol=0.02)


def test_shares_and_places_of_slices_are_uniform_and_speeds_have_the_deviation_sigma():
    line = torch.linspace(0, 1, 3)[None, :, None].expand(20000, -1, 1)
    first, _, last = apply(Slice(p=1.0, min_share=0.6), Batch(line)).values[..., 0].unbind(dim=1)
    share = last - first
    offset = first / (1 - share)
    for uniform in ((share - 0.6) / 0.4, offset):
        assert uniform.min() > -1e-3
        assert uniform.max() < 1.001
        assert abs(uniform.mean() - 0.5) < 0.01
        assert abs(uniform.std() - 12**-0.5) < 0.01
    assert abs(torch.corrcoef(torch.stack([share, offset]))[0, 1]) < 0.03
    # With two knots of mean speed 1, the middle is moved to a quarter of 1 plus the first.
    middle = apply(Warp(p=1.0, sigma=0.3, knots=2), Batch(line)).values[:, 1, 0]
    speed = 4 * middle - 1  # at the first knot over the mean of both, which is 1
    ratio = torch.log(speed / (2 - speed))
    assert abs(ratio.mean()) < 0.02
    assert abs(ratio.std() - 0.3 * 2**0.5) < 0.02
