"""Properties of every registered augmentation, and from a specification to an augmentation."""

import copy
from dataclasses import replace

import pytest
import torch
from batches import KINDS, batch

from tsformer._random import seeded
from tsformer.augmentation import Augmentation, Batch, Compose, CutMix, Jitter, Slice, Warp

from tsformer.augmentation import available, names, resolve  # isort: skip

SUMS = ["warp+jitter", "slice+cutmix"]


def always(name: str) -> Augmentation:
    """Return the augmentation, applied to every series."""
    options = {augmentation: {"p": 1.0} for augmentation in name.split("+")}
    return resolve(name, **(options if len(options) > 1 else {"p": 1.0}))


def augmented(name: str, original: Batch, seed: int = 0) -> Batch:
    with seeded(seed, original.values.device):
        return always(name)(original)


every_augmentation = pytest.mark.parametrize("name", [*names(), *SUMS])
CASES = [
    (name, kind)
    for name in [*names(), *SUMS]
    for kind in KINDS
    if kind != "codes" or resolve(name).symbolic
]
every_case = pytest.mark.parametrize(("name", "kind"), CASES)


@every_case
def test_only_the_values_change(name, kind):
    original = replace(batch(kind), n_flags=0 if kind == "codes" else 1)
    before = copy.deepcopy(original)
    out = augmented(name, original)
    assert (out.values.shape, out.values.dtype) == (original.values.shape, torch.float32)
    assert out.values.isfinite().all()
    for field in ("mask", "times", "symbolic", "n_flags"):
        assert getattr(out, field) is getattr(original, field)
    if original.mask is not None:
        assert not out.values[~original.mask].any()
    for field in ("values", "mask", "times"):
        torch.testing.assert_close(getattr(original, field), getattr(before, field), rtol=0, atol=0)
    outs = [augmented(name, original, seed).values for seed in range(10)]
    assert not all(torch.equal(out, original.values) for out in outs)


SMALL = {
    "one step of one series": Batch(torch.randn(1, 1, 1)),
    "one step": Batch(torch.randn(4, 1, 2)),
    "one valid step": Batch(
        torch.eye(6)[:3, :, None], torch.eye(6, dtype=torch.bool)[:3], torch.arange(6.0)[None]
    ),
    "one moment": Batch(torch.randn(2, 5, 1), times=torch.zeros(2, 5)),
    "constant": Batch(torch.full((3, 8, 2), 2.5)),
}


@every_augmentation
@pytest.mark.parametrize("kind", SMALL)
def test_small_batches(name, kind):
    original = SMALL[kind]
    for seed in range(5):
        out = augmented(name, original, seed)
        assert out.values.shape == original.values.shape
        assert out.values.isfinite().all()
        if original.mask is not None:
            assert not out.values[~original.mask].any()
        if "jitter" not in name and kind == "constant":
            assert torch.equal(out.values, original.values), "constants are read exactly"


@pytest.mark.parametrize("row", available(), ids=lambda row: row["name"])
def test_codes_are_refused_by_averaging(row):
    if row["symbolic"]:
        codes = batch("codes")
        out = augmented(row["name"], codes).values
        assert torch.isin(out, torch.cat([codes.values.unique(), torch.zeros(1)])).all()
        resolve(row["name"]).check(symbolic=True)
    else:
        with pytest.raises(ValueError):
            resolve(row["name"]).check(symbolic=True)


class Mixes(Augmentation):
    mixes = True


def test_parts_of_a_sum_apply_in_order_and_one_of_them_mixes():
    x = torch.randn(5, 8, 1)
    parts = [Slice(p=1.0), Jitter(p=1.0)]
    with seeded(0, x.device):
        expected = parts[1](parts[0](Batch(x))).values
    with seeded(0, x.device):
        assert torch.equal(Compose(parts)(Batch(x)).values, expected)
    with pytest.raises(ValueError):
        Compose([CutMix(), Mixes()])
    assert resolve("slice+cutmix").mixes


def test_an_instance_a_class_or_a_factory_is_an_augmentation():
    mine = Warp(knots=4)
    assert resolve(mine) is mine
    assert mine == Warp(knots=4) != Warp(knots=3)
    assert resolve(Warp, knots=4) == resolve(lambda **options: Warp(**options), knots=4) == mine
    with pytest.raises(TypeError):
        resolve(["warp", "jitter"])
