"""Names, sums, options and classes of one's own: from a specification to an augmentation.

The registry is shared with encodings and objectives: see tests/test_registries.py.
"""

from dataclasses import replace

import pytest
import torch

from tsformer.augmentation import Augmentation, Batch, Sum, Warp, resolve

ONES = Batch(torch.ones(1, 3, 2))


class Scale(Augmentation):
    symbolic = True
    reference = "nobody"

    def __init__(self, *, factor=2.0):
        self.factor = factor

    def __call__(self, batch):
        return replace(batch, values=batch.values * self.factor)


class Shift(Augmentation):
    def __init__(self, *, by=1.0):
        self.by = by

    def __call__(self, batch):
        return replace(batch, values=batch.values + self.by)


@pytest.fixture(autouse=True)
def _named():
    """Give both their names, until the end of the test."""
    type("Named", (Scale,), {}, name="scale")
    type("Named", (Shift,), {}, name="shift")


def test_parts_apply_in_order():
    assert (resolve("scale+shift", by=10.0)(ONES).values == 12).all()
    assert (resolve(" shift + scale ", by=10.0)(ONES).values == 22).all()


def test_two_mixing_parts_are_refused():
    type("Mixes", (Shift,), {"mixes": True}, name="two")
    with pytest.raises(ValueError, match="cutmix and two both mix"):
        resolve("cutmix+warp+two")
    assert resolve("warp+two").mixes
    assert not resolve("warp").mixes


def test_an_instance_a_class_or_a_factory_is_an_augmentation():
    mine = Scale(factor=4)
    assert resolve(mine) is mine
    assert mine == Scale(factor=4) != Scale(factor=3)
    assert resolve(Scale, factor=4).factor == 4
    assert resolve(lambda **options: Scale(**options), factor=4).factor == 4
    with pytest.raises(TypeError, match=r"augmentation must be a name, .* got "):
        resolve(["warp", "jitter"])


def test_the_parts_of_a_sum_are_checked_by_their_own_rule():
    class Picky(Augmentation):
        def check(self, *, symbolic: bool) -> None:
            raise ValueError(f"symbolic={symbolic}")

    with pytest.raises(ValueError, match="symbolic=False"):
        Sum([Warp(), Picky()]).check(symbolic=False)
