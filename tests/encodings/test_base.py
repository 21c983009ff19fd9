"""What a subclass states and what is derived from it."""

from __future__ import annotations

import copy
import pickle

import pytest
from user_encodings import define

from tsformer.encodings import PositionalEncoding, RoPE, Shaw, names, resolve

SIZES = {"d_model": 8, "n_heads": 2, "max_len": 6}


class EncodingOfTwoHooks(PositionalEncoding):
    """Overrides two hooks, stated here in the opposite order."""

    def __init__(self, *, d_model, n_heads, max_len):
        super().__init__()

    def bias(self, q, k, t):
        return (t[:, None, None, :] - t[:, None, :, None]).expand(1, 1, -1, -1)

    def embed(self, x, t):
        return x + t[..., None]


# --- kind ----------------------------------------------------------------------------------------


def test_kind_is_the_hook_that_is_overridden():
    assert define(None).kind == "embed"
    assert EncodingOfTwoHooks.kind == "embed+bias"
    assert EncodingOfTwoHooks(**SIZES).kind == "embed+bias"
    assert PositionalEncoding.kind == "none"

    class Nothing(PositionalEncoding):
        """Overrides no hook."""

    assert Nothing.kind == "none"

    class Child(RoPE):
        """Inherits a hook, and adds one."""

        def mix(self, v, t):
            return v

    assert Child.kind == "rotate+mix"


def test_the_kind_of_a_sum_joins_those_of_its_parts():
    assert resolve("rope+tape+erpe", **SIZES).kind == "rotate+embed+mix"


def test_a_stated_kind_must_agree():
    class Agrees(PositionalEncoding, name="agrees"):
        kind = "embed"

        def embed(self, x, t):
            return x

    assert Agrees.kind == "embed"
    with pytest.raises(
        ValueError,
        match=r"Differs states kind = 'bias', but the hooks it overrides make it 'embed'",
    ):

        class Differs(PositionalEncoding, name="differs"):
            kind = "bias"

            def embed(self, x, t):
                return x

    assert "differs" not in names()


# --- extrapolation, and its old name -------------------------------------------------------------


def test_a_sum_extrapolates_as_its_first_limited_part():
    assert resolve("fixed+rope", **SIZES).extrapolation == "extends"
    assert resolve("fixed+shaw+learnable", **SIZES).extrapolation == "clamps"
    assert resolve("learnable+shaw", **SIZES).extrapolation == "interpolates"


def renamed():
    return pytest.warns(FutureWarning, match=r"\.beyond was renamed to .*\.extrapolation")


def test_beyond_is_read_with_a_warning():
    for of in (Shaw, resolve("shaw", **SIZES), resolve("fixed+shaw", **SIZES)):
        with renamed() as caught:
            assert of.beyond == "clamps"
        assert [warning.filename for warning in caught] == [__file__]


def test_a_subclass_may_still_state_beyond():
    with renamed() as caught:

        class Stated(PositionalEncoding):
            beyond = "clamps"

    assert [warning.filename for warning in caught] == [__file__]
    assert Stated.extrapolation == "clamps"
    assert Stated().extrapolation == "clamps"
    with renamed():
        assert Stated.beyond == "clamps"

    class Grandchild(Stated):
        """Inherits it without a second warning."""

    assert Grandchild.extrapolation == "clamps"


def test_an_instance_may_still_set_beyond():
    class Set(PositionalEncoding):
        def __init__(self):
            super().__init__()
            self.beyond = "interpolates"

    with renamed() as caught:
        encoding = Set()
    assert [warning.filename for warning in caught] == [__file__]
    assert encoding.extrapolation == "interpolates"
    assert Set.extrapolation == "extends"


def test_extrapolation_goes_before_beyond():
    with renamed():

        class Both(PositionalEncoding):
            extrapolation = "interpolates"
            beyond = "clamps"

    assert Both.extrapolation == "interpolates"


@pytest.mark.filterwarnings("error::FutureWarning")
def test_using_an_encoding_does_not_warn():
    encoding = copy.deepcopy(resolve("fixed+shaw", **SIZES))
    pickle.loads(pickle.dumps(encoding)).eval().double().state_dict()
    assert "Shaw" in repr(encoding)
