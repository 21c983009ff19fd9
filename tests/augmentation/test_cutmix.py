"""`cutmix` against plain loops."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from batches import KINDS, LENGTHS, MASKED, batch, padded, read_slowly, series

from tsformer.augmentation import Batch, CutMix, resolve
from tsformer.augmentation.cutmix import mixed
from tsformer.training.seeds import seeded

CPU = torch.device("cpu")
every_kind = pytest.mark.parametrize("kind", KINDS)

PARTNER = torch.tensor([1, 0, 4, 1, 2])
START = torch.tensor([[0.3], [0.0], [0.1], [0.5], [0.25]])
WIDTH = torch.tensor([[0.4], [0.7], [0.8], [0.5], [0.375]])


def mix_slowly(given: Batch) -> tuple[torch.Tensor, list[float]]:
    """Mix series by series and step by step; return values and the kept shares."""
    out, shares = given.values.double().clone(), []
    for i, partner in enumerate(PARTNER.tolist()):
        times, _, steps = series(given, i)
        their_times, their_values, _ = series(given, partner)
        kept = 0
        for number, (t, step) in enumerate(zip(times, steps, strict=True)):
            middle = (number + 0.5) / len(steps)
            if not START[i] <= middle < START[i] + WIDTH[i]:
                kept += 1
                continue
            u = (t - times[0]) / (times[-1] - times[0] or 1.0)
            at = their_times[0] + u * (their_times[-1] - their_times[0])
            out[i, step] = read_slowly(their_times, their_values, at, symbolic=given.symbolic)
        shares.append(kept / len(steps))
    return out, shares


@every_kind
def test_formula(kind):
    given = batch(kind)
    out = mixed(given, PARTNER, START, WIDTH)
    values, shares = mix_slowly(given)
    torch.testing.assert_close(out.values.double(), values, rtol=0, atol=1e-4)
    assert torch.equal(out.share, torch.tensor(shares))
    assert torch.equal(out.partner, PARTNER)
    assert 0 < min(shares[:2]) < max(shares[:2]) < 1


def test_steps_of_equal_series_are_copied_exactly():
    given = batch("regular")
    out = mixed(given, PARTNER, START, WIDTH).values
    own, theirs = (out == given.values).all(-1), (out == given.values[PARTNER]).all(-1)
    assert (own ^ theirs).all()
    assert own.any()
    assert theirs.any()


@every_kind
def test_an_empty_stretch_is_the_identity(kind):
    given = batch(kind)
    out = mixed(given, PARTNER, START, torch.zeros_like(WIDTH))
    assert torch.equal(out.values, given.values)
    assert (out.share == 1).all()
    for options in ({"p": 0.0}, {"p": 1.0, "max_share": 0.0}):
        with seeded(0, CPU):
            out = CutMix(**options)(given)
        assert torch.equal(out.values, given.values)
        assert (out.share == 1).all()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "times"])
def test_the_whole_of_another_series(kind):
    given = batch(kind)
    out = mixed(given, PARTNER, torch.zeros_like(START), torch.full_like(WIDTH, 1.0))
    assert (out.share == 0).all()
    for i, partner in enumerate(PARTNER.tolist()):
        own, theirs = (series(given, j)[2] for j in (i, partner))
        assert torch.equal(out.values[i, own[0]], given.values[partner, theirs[0]])


@every_kind
def test_a_series_is_unchanged_by_itself(kind):
    given = batch(kind)
    own = torch.arange(len(LENGTHS))
    out = mixed(given, own, START, WIDTH)
    assert torch.equal(out.values, given.values)
    assert (out.share == 1).all()


@pytest.mark.parametrize("kind", MASKED)
def test_what_masked_steps_hold_is_never_read(kind):
    given = batch(kind)
    hidden = ~given.mask[..., None]
    poisoned = replace(given, values=given.values.masked_fill(hidden, torch.nan))
    out = mixed(poisoned, PARTNER, START, WIDTH).values
    expected = mixed(given, PARTNER, START, WIDTH).values
    assert torch.equal(out.masked_fill(hidden, 0.0), expected)


@every_kind
def test_padding_changes_nothing(kind):
    given = batch(kind)
    with seeded(3, CPU):
        ours = CutMix(p=1.0)(padded(given, 4))
    with seeded(3, CPU):
        wanted = CutMix(p=1.0)(given)
    torch.testing.assert_close(ours.values[:, :-4], wanted.values)
    assert torch.equal(ours.share, wanted.share)
    assert torch.equal(ours.partner, wanted.partner)


def test_partners_are_all_other_series_alike():
    given = Batch(torch.randn(5, 8, 1))
    counts = torch.zeros(5, 5)
    with seeded(0, CPU):
        for _ in range(400):
            counts[torch.arange(5), CutMix()(given).partner] += 1
    assert not counts.diagonal().any()
    others = counts[~torch.eye(5, dtype=torch.bool)]
    assert others.min() > 65
    assert others.max() < 135


def test_shares_and_places_of_the_stretch():
    """Ones in zeros: the share replaced is uniform, and every step is replaced about as often."""
    x = torch.zeros(20000, 40, 1)
    x[::2] = 1.0
    with seeded(0, CPU):
        out = CutMix(p=1.0, max_share=0.5)(Batch(x))
    replaced = 1 - out.share
    assert 0.47 < replaced.max() <= 0.525
    assert abs(replaced.mean() - 0.25) < 0.01
    differs = (out.values != x)[..., 0].float()
    other = (x[out.partner, 0, 0] != x[:, 0, 0]).float()
    torch.testing.assert_close(differs.mean(dim=1), replaced * other)
    by_step = differs.mean(dim=0)
    torch.testing.assert_close(by_step, by_step.flip(0), rtol=0.2, atol=0.02)


def test_as_many_series_as_p_says_are_mixed():
    given = Batch(torch.randn(2000, 100, 1))
    with seeded(0, CPU):
        out = CutMix(p=0.3)(given)
    changed = (out.values != given.values).any(dim=(1, 2))
    assert 0.26 < changed.float().mean() < 0.34
    assert torch.equal(changed, out.share < 1)


def test_a_batch_of_one_series_is_unchanged():
    given = Batch(torch.randn(1, 9, 2))
    out = CutMix(p=1.0)(given)
    assert torch.equal(out.values, given.values)
    assert out.share.tolist() == [1.0]
    assert out.partner.tolist() == [0]


def test_a_batch_is_mixed_once():
    mixer = CutMix()
    with pytest.raises(ValueError, match="cutmix was given a batch that is mixed already"):
        mixer(mixer(batch("regular")))
    assert resolve("cutmix+jitter")(batch("regular")).share is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 2}, "p of cutmix must be a float >= 0 and <= 1; got 2"),
        ({"max_share": None}, "max_share of cutmix must be .* >= 0 and <= 1; got None"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        CutMix(**options)
