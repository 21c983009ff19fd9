"""What a subclass states and what is derived from it."""

from __future__ import annotations

import copy
import pickle

import pytest
from user_encodings import define

from tsformer.encodings import PositionalEncoding, RoPE, names, resolve

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


# --- extrapolation -------------------------------------------------------------------------------


def test_a_sum_extrapolates_as_its_first_limited_part():
    assert resolve("fixed+rope", **SIZES).extrapolation == "extends"
    assert resolve("fixed+shaw+learnable", **SIZES).extrapolation == "clamps"
    assert resolve("learnable+shaw", **SIZES).extrapolation == "interpolates"


@pytest.mark.filterwarnings("error")
def test_using_an_encoding_does_not_warn():
    encoding = copy.deepcopy(resolve("fixed+shaw", **SIZES))
    pickle.loads(pickle.dumps(encoding)).eval().double().state_dict()
    assert "Shaw" in repr(encoding)
