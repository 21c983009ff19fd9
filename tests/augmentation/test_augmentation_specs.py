"""Names, sums, options and classes of one's own: from a specification to an augmentation.

The registry is shared with encodings and objectives: see tests/test_registries.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tsformer.augmentation import Augmentation, Batch, resolve

ONES = Batch(torch.ones(1, 3, 2))


def define(name: str | None) -> type[Augmentation]:
    """Return a new augmentation that multiplies all values by `factor`."""

    class Stretch(Augmentation, name=name):
        symbolic = True
        reference = "nobody"

        def __init__(self, *, factor=2.0):
            self.factor = factor

        def __call__(self, batch):
            return replace(batch, values=batch.values * self.factor)

    return Stretch


def shift(name: str, *, mixes: bool = False) -> type[Augmentation]:
    """Return a new augmentation that adds `by` to all values, and may claim to mix."""

    class Shift(Augmentation, name=name):
        def __init__(self, *, by=1.0):
            self.by = by

        def __call__(self, batch):
            return replace(batch, values=batch.values + self.by)

    Shift.mixes = mixes
    return Shift


def test_parts_apply_in_order():
    define("stretch")
    shift("shift")
    assert (resolve("stretch+shift", by=10.0)(ONES).values == 12).all()
    assert (resolve(" shift + stretch ", by=10.0)(ONES).values == 22).all()


def test_two_mixing_parts_are_refused():
    shift("two", mixes=True)
    with pytest.raises(ValueError, match="cutmix and two both mix each series with another"):
        resolve("cutmix+warp+two")
    assert resolve("warp+two").mixes
    assert not resolve("warp").mixes


def test_sum_says_what_it_is():
    define("stretch")
    shift("shift")
    both = resolve("warp+stretch")
    assert repr(both) == "Warp(p=0.5, sigma=0.2, knots=5) + " + repr(both.parts[1])
    assert both.reference == "Um et al. 2017; nobody"
    assert both.symbolic
    assert not resolve("warp+shift").symbolic


def test_an_instance_a_class_or_a_factory_is_an_augmentation():
    stretch = define(None)
    mine = stretch(factor=4)
    assert resolve(mine) is mine
    assert resolve(stretch, factor=4).factor == 4
    assert resolve(lambda **options: stretch(**options), factor=4).factor == 4
    with pytest.raises(TypeError, match=r"augmentation must be a name, .* got "):
        resolve(["warp", "jitter"])


def test_codes_are_refused_before_training():
    shift("shift")
    resolve("shift").check(symbolic=False)
    for name in ("shift", "warp+shift"):
        with pytest.raises(ValueError, match="shift cannot augment series of codes"):
            resolve(name).check(symbolic=True)
