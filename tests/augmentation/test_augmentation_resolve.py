"""Names, sums, options, instances and factories: from what a user writes to an augmentation."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import torch
from batches import define

from tsformer.augmentation import Augmentation, Batch, Sum, Warp, resolve


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


ONES = Batch(torch.ones(1, 3, 2))


@pytest.mark.parametrize("name", ["wrap", "WARP", "stretch+wrp", "warpp"])
def test_an_unknown_name_gets_the_nearest(name):
    define("stretch")
    with pytest.raises(ValueError, match=r"unknown augmentation '.*did you mean 'warp'\? Choose"):
        resolve(name)


def test_a_name_like_nothing_lists_all():
    with pytest.raises(ValueError, match="choose from: 'warp'"):
        resolve("zzzzzz")
    with pytest.raises(ValueError, match="unknown augmentation ''"):
        resolve("warp+")


@pytest.mark.parametrize("spec", [3, None, ["warp", "jitter"]])
def test_anything_but_an_augmentation_is_refused(spec):
    with pytest.raises(TypeError, match=r"augmentation must be a name, .* got "):
        resolve(spec)


def test_unknown_options_get_the_nearest():
    define("stretch")
    with pytest.raises(ValueError, match=r"unknown option of warp 'sigm': .*'sigma'"):
        resolve("warp", sigm=3)
    with pytest.raises(ValueError, match=r"unknown option of stretch\+warp 'sigm': .*'sigma'"):
        resolve("stretch+warp", sigm=3)
    with pytest.raises(ValueError, match=r"unknown option of warp 'sigm': .*'sigma'"):
        resolve("stretch+warp", warp={"sigm": 3})

    class Same(Augmentation, name="same"):
        pass

    with pytest.raises(ValueError, match="same takes no options; got 'p' in augmentation_params"):
        resolve("same", p=0.5)


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
    with pytest.raises(
        ValueError,
        match=r"augmentation_params key 'factor' fits several parts, \['stretch', 'shift'\]; say",
    ):
        resolve("stretch+shift", factor=7)


def test_a_doubled_part_is_refused():
    with pytest.raises(ValueError, match="names 'warp' twice"):
        resolve("warp+warp")


def test_two_mixing_parts_are_refused():
    shift("one", mixes=True)
    shift("two", mixes=True)
    with pytest.raises(ValueError, match="one and two both mix each series with another"):
        resolve("one+warp+two")
    with pytest.raises(ValueError, match="cutmix and two both mix each series with another"):
        resolve("cutmix+two")
    assert resolve("warp+one").mixes
    assert not resolve("warp").mixes


def test_sum_says_what_it_is():
    define("stretch")
    shift("shift")
    both = resolve("warp+stretch")
    assert repr(both) == "Warp(p=0.5, sigma=0.2, knots=5) + " + repr(both.parts[1])
    assert repr(both.parts[1]).endswith("Stretch(factor=2.0)")
    assert both.reference == "Um et al. 2017; nobody"
    assert both.symbolic
    assert not resolve("warp+shift").symbolic


def test_an_instance_a_class_or_a_factory_is_an_augmentation():
    stretch = define(None)
    mine = stretch(factor=4)
    assert resolve(mine) is mine
    assert resolve(stretch, factor=4).factor == 4
    assert resolve(lambda **options: stretch(**options), factor=4).factor == 4
    with pytest.raises(
        ValueError, match="unknown option of Stretch 'facto': did you mean 'factor'"
    ):
        resolve(stretch, facto=4)
    with pytest.raises(TypeError, match=r"an instance already, .*factor=4\), .*; got 'factor' in"):
        resolve(mine, factor=4)


@pytest.mark.parametrize("made", [None, torch.nn.ReLU()])
def test_a_factory_must_return_an_augmentation(made):
    with pytest.raises(
        TypeError, match=f"returned {type(made).__name__}; it must return an Augmentation"
    ):
        resolve(lambda: made)


def test_codes_are_refused_before_training():
    shift("shift")
    resolve("warp").check(symbolic=True)
    resolve("shift").check(symbolic=False)
    with pytest.raises(ValueError, match="shift cannot augment series of codes"):
        resolve("shift").check(symbolic=True)
    with pytest.raises(ValueError, match="shift cannot augment series of codes"):
        resolve("warp+shift").check(symbolic=True)


def test_augmentations_survive_pickling():
    both = Sum([Warp(p=1.0, sigma=0.3, knots=4), Warp()])
    assert repr(pickle.loads(pickle.dumps(both))) == repr(both)
