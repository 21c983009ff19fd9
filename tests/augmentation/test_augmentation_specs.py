"""Names, sums, options and classes of one's own: from a specification to an augmentation.

The registry is shared with encodings and objectives: see tests/test_registries.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from batches import define

from tsformer.augmentation import Augmentation, Batch, resolve

ONES = Batch(torch.ones(1, 3, 2))


def shift(name: str, *, mixes: bool = False) -> type[Augmentation]:
    """Return a new augmentation that adds `by` to all values, and may claim to mix."""

    class Shift(Augmentation, name=name):
        def __init__(self, *, by=1.0, factor=1.0):
            self.by = by
            self.factor = factor

        def __call__(self, batch):
            return replace(batch, values=batch.values + self.by)

    Shift.mixes = mixes
    return Shift


def test_a_class_of_ones_own_works_by_name():
    define("stretch")
    assert (resolve("stretch", factor=3)(ONES).values == 3).all()


def test_an_augmentation_without_a_call_says_so():
    class Nothing(Augmentation):
        pass

    with pytest.raises(NotImplementedError, match="Nothing must override __call__"):
        Nothing()(ONES)


def test_unknown_names_and_options_get_the_nearest():
    define("stretch")
    with pytest.raises(ValueError, match=r"unknown augmentation 'wrp': did you mean 'warp'"):
        resolve("stretch+wrp")
    with pytest.raises(ValueError, match=r"unknown option of stretch\+warp 'sigm': .*'sigma'"):
        resolve("stretch+warp", sigm=3)
    with pytest.raises(ValueError, match=r"unknown option of warp 'sigm': .*'sigma'"):
        resolve("stretch+warp", warp={"sigm": 3})


@pytest.mark.parametrize("spec", [3, None, ["warp", "jitter"]])
def test_anything_but_an_augmentation_is_refused(spec):
    with pytest.raises(TypeError, match=r"augmentation must be a name, .* got "):
        resolve(spec)


def test_parts_apply_in_order():
    define("stretch")
    shift("shift")
    assert (resolve("stretch+shift", by=10.0)(ONES).values == 12).all()
    assert (resolve(" shift + stretch ", by=10.0)(ONES).values == 22).all()


def test_options_go_to_the_part_that_has_them():
    define("stretch")
    shift("shift")
    both = resolve("warp+shift", sigma=0.1, by=3.0)
    assert (both.parts[0].sigma, both.parts[1].by) == (0.1, 3.0)
    nested = resolve("stretch+shift", stretch={"factor": 3}, shift={"factor": 5}, by=7)
    assert (nested.parts[0].factor, nested.parts[1].factor, nested.parts[1].by) == (3, 5, 7)
    with pytest.raises(ValueError, match=r"augmentation_params key 'factor' fits several parts"):
        resolve("stretch+shift", factor=7)


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


def test_codes_are_refused_before_training():
    shift("shift")
    resolve("shift").check(symbolic=False)
    for name in ("shift", "warp+shift"):
        with pytest.raises(ValueError, match="shift cannot augment series of codes"):
            resolve(name).check(symbolic=True)
