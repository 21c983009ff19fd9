"""`slice` against plain loops."""

from __future__ import annotations

import pytest
import torch
from batches import KINDS, LENGTHS, batch, padded, read_slowly, series

from tsformer.augmentation import Batch, Slice
from tsformer.augmentation.slice import sliced
from tsformer.training.seeds import seeded

CPU = torch.device("cpu")
every_kind = pytest.mark.parametrize("kind", KINDS)

REMOVED = torch.tensor([[0.3], [0.6], [0.5], [0.25], [0.9]])
PLACE = torch.tensor([[0.0], [0.4], [0.5], [1.0], [0.85]])


@every_kind
def test_formula(kind):
    given = batch(kind)
    out = sliced(given, REMOVED, PLACE).values.double()
    assert not torch.equal(out, given.values.double())
    for i in range(len(LENGTHS)):
        times, values, steps = series(given, i)
        length = (1 - REMOVED[i].item()) * (times[-1] - times[0])
        first = times[0] + REMOVED[i].item() * PLACE[i].item() * (times[-1] - times[0])
        for t, step in zip(times, steps, strict=True):
            part = (t - times[0]) / (times[-1] - times[0] or 1)
            at = first + part * length
            expected = read_slowly(times, values, at, symbolic=given.symbolic)
            if at == t:  # a step that is not moved keeps its value, also beside others of its time
                expected = values[steps.index(step)]
            torch.testing.assert_close(out[i, step], expected, rtol=0, atol=1e-4)


@every_kind
def test_the_whole_series_is_the_identity(kind):
    given = batch(kind)
    assert torch.equal(sliced(given, torch.zeros(len(LENGTHS), 1), PLACE).values, given.values)
    with seeded(0, CPU):
        assert torch.equal(Slice(p=1.0, min_share=1.0)(given).values, given.values)


@every_kind
def test_padding_changes_nothing(kind):
    given = batch(kind)
    with seeded(3, CPU):
        ours = Slice(p=1.0)(padded(given, 4)).values[:, :-4]
    with seeded(3, CPU):
        torch.testing.assert_close(ours, Slice(p=1.0)(given).values)


def test_shares_and_places_are_uniform():
    line = torch.linspace(0, 1, 2)[None, :, None].expand(20000, -1, 1)
    with seeded(0, CPU):
        first, last = Slice(p=1.0, min_share=0.6)(Batch(line)).values[..., 0].unbind(dim=1)
    share = last - first
    place = first / (1 - share)
    for uniform in ((share - 0.6) / 0.4, place):
        assert uniform.min() > -1e-3
        assert uniform.max() < 1.001
        assert abs(uniform.mean() - 0.5) < 0.01
        assert abs(uniform.std() - 12**-0.5) < 0.01
    assert abs(torch.corrcoef(torch.stack([share, place]))[0, 1]) < 0.03


def test_as_many_series_as_p_says_are_sliced():
    given = Batch(torch.randn(2000, 6, 1))
    with seeded(0, CPU):
        changed = (Slice(p=0.3)(given).values != given.values).any(dim=(1, 2))
    assert 0.26 < changed.float().mean() < 0.34


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 2}, "p of slice must be a float >= 0 and <= 1; got 2"),
        ({"min_share": -0.1}, r"min_share of slice must be .* >= 0 and <= 1; got -0\.1"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Slice(**options)
