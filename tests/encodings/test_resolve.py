"""From names, sums, classes and factories to hooks; subclasses of a user that go wrong."""

import pytest
import torch
from torch import nn

from tsformer import ModelConfig, TSTransformer
from tsformer.encodings import EncodingStack, PositionalEncoding, resolve


def define(name: str | None, **options) -> type[PositionalEncoding]:
    """Return a new encoding that adds its `size` times the time to every feature."""

    class Ramp(PositionalEncoding, name=name, **options):
        def __init__(self, *, d_model, n_heads, max_len, size=1.0):
            super().__init__()
            self.size = nn.Parameter(torch.tensor(float(size)))

        def embed(self, x, t):
            return x + self.size * t[..., None] / 10

    return Ramp


SIZES = {"d_model": 8, "n_heads": 2, "max_len": 6}


def test_anything_but_an_encoding_is_refused():
    for spec in (3, None, ["tape", "erpe"]):
        with pytest.raises(TypeError):
            resolve(spec, **SIZES)
    for made in (None, nn.Linear(2, 2)):
        with pytest.raises(TypeError):
            resolve(lambda made=made, **sizes: made, **SIZES)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lspe", {"d_hiden": 3}, "'d_hidden'"),
        ("tape+lspe", {"d_hiden": 3}, "'d_hidden'"),
        ("none", {"base": 3}, "option of none"),
        ("fixed+rope", {"rope": {"bse": 9.0}}, "'base'"),
        ("fixed+rope", {"base": 7.0}, "several"),
        ("tape+erpe+tape", {}, "twice"),
        (define(None), {"sise": 4}, "'size'"),
    ],
)
def test_wrong_names_and_options_are_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        resolve(name, **SIZES, **options)


def test_sum_applies_hooks_in_order():
    scale = define("scale")
    scale.embed = lambda self, x, t: x * 3
    define("ramp")
    x, t = torch.ones(1, 6, 8), torch.arange(6.0)[None]
    first_scaled = resolve("scale+ramp", **SIZES, ramp={"size": 10.0}).embed(x, t)
    torch.testing.assert_close(first_scaled, 3 * x + t[..., None])
    then_scaled = resolve(" ramp + scale ", **SIZES, ramp={"size": 10.0}).embed(x, t)
    torch.testing.assert_close(then_scaled, 3 * (x + t[..., None]))


@pytest.mark.parametrize(
    "make", [resolve, lambda *a, **k: EncodingStack(*a, n_layers=2, **k).at(1)]
)
def test_sum_of_all_four_hooks(make):
    class Later(PositionalEncoding, name="later"):
        def __init__(self, *, d_model, n_heads, max_len):
            super().__init__()

        def bias(self, q, k, t):
            return (t[:, None, None, :] - t[:, None, :, None]).expand(1, 1, -1, -1)

    torch.manual_seed(0)
    hooks = make("alibi+tape+erpe+rope+later", **SIZES)
    parts = {encoding.name: encoding for encoding in hooks.parts}
    nn.init.normal_(parts["erpe"].table)
    x, t = torch.randn(2, 6, 8), torch.arange(6.0)[None]
    q, k, v = torch.randn(3, 2, 2, 6, 4)
    assert torch.equal(hooks.embed(x, t), parts["tape"].embed(x, t))
    assert torch.equal(hooks.rotate(q, k, t)[1], parts["rope"].rotate(q, k, t)[1])
    expected = parts["alibi"].bias(q, k, t) + parts["later"].bias(q, k, t)
    assert torch.equal(hooks.bias(q, k, t), expected)
    assert torch.equal(hooks.mix(v, t), parts["erpe"].mix(v, t))


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        ("fixed+rope", "extrapolation", "extends"),
        ("fixed+shaw+learnable", "extrapolation", "clamps"),
        ("tape+erpe", "kind", "embed+mix"),
        ("tape+erpe", "reference", "Foumani et al. 2024"),
        ("tape+fixed", "reference", "Foumani et al. 2024; Vaswani et al. 2017"),
        ("tape+erpe", "symmetric", False),
        ("alibi+none", "symmetric", True),
    ],
)
def test_sum_derives_attributes(name, attribute, value):
    assert getattr(resolve(name, **SIZES), attribute) == value


def test_sum_routes_options_to_the_part_that_has_them():
    both = resolve("lspe+rope", **SIZES, d_hidden=3, fraction=0.5)
    assert (both.parts[0].ffn[0].out_features, both.parts[1].rotated) == (3, 2)
    options = {"fixed": {"base": 7.0}, "rope": {"base": 9.0, "fraction": 0.5}}
    nested = resolve("fixed+rope", **SIZES, **options)
    assert (nested.parts[0].base, nested.parts[1].base, nested.parts[1].rotated) == (7.0, 9.0, 2)


def test_a_class_or_a_factory_is_an_encoding():
    ramp = define(None)
    assert resolve(ramp, **SIZES, size=4).size == 4
    assert resolve(lambda **sizes_and_options: ramp(**sizes_and_options), **SIZES, size=4).size == 4
    sizes = {"n_channels": 1, "n_outputs": 2, "max_len": 6, "stem": "linear"}
    config = ModelConfig(**sizes, encoding=ramp)
    assert TSTransformer(config)(torch.zeros(2, 6, 1)).shape == (2, 2)
    config = ModelConfig(**sizes, encoding="erpe", encoding_params={"causal": True})
    assert TSTransformer(config).encoding.at(0).causal


def test_stack_blocks_own_per_block_parts():
    stack = EncodingStack("lspe+erpe", n_layers=3, **SIZES)
    shapes = {key: tuple(value.shape) for key, value in stack.state_dict().items()}
    assert [shapes[key] for key in shapes if "table" in key] == [(2, 11)] * 3
    assert sum("ffn.0.weight" in key for key in shapes) == 1
    lspe, erpe = zip(*(stack.at(block).parts for block in range(3)), strict=True)
    assert len(set(map(id, lspe))) == 1
    assert len(set(map(id, erpe))) == 3
    assert not erpe[0].causal
    assert len(EncodingStack("erpe", n_layers=0, **SIZES).state_dict()) == 1


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("owned", ["stack", "block"])
def test_stack_computes_bias_of_times_once(shares, owned):
    calls = []

    class Distance(PositionalEncoding):
        bias_of_times = shares
        per_block = owned == "block"

        def __init__(self, *, d_model, n_heads, max_len):
            super().__init__()
            self.slope = nn.Parameter(torch.ones(()))

        def bias(self, q, k, t):
            calls.append(1)
            return (t[:, None, None, :] - t[:, None, :, None]) * self.slope

    sizes = {"n_channels": 1, "n_outputs": 2, "max_len": 6, "stem": "linear", "n_layers": 3}
    model = TSTransformer(ModelConfig(**sizes, encoding=Distance)).eval()
    x = torch.randn(2, 6, 1)
    first = model(x)
    assert len(calls) == (1 if shares and owned == "stack" else 3)
    assert torch.equal(model(x), first)
    assert torch.equal(model(x, times=torch.arange(6.0)[None]), first)
    assert not torch.equal(model(x, times=2 * torch.arange(6.0)[None]), first), "not kept for long"


class Sized(PositionalEncoding):
    def __init__(self, *, d_model, n_heads, max_len):
        super().__init__()


def with_hook(hook: str, function) -> type[PositionalEncoding]:
    """Return an encoding with one hook."""
    return type("Own", (Sized,), {hook: function})


class Unsaved(Sized):
    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.scale = torch.ones(3)  # would be other random numbers after loading

    embed = lambda self, x, t: x  # noqa: E731


WRONG = {
    "masks all": ("bias", lambda self, q, k, t: torch.full((1, 1, 5, 5), -torch.inf)),
    "three axes": ("bias", lambda self, q, k, t: t[:, :, None] - t[:, None, :]),
    "booleans": ("bias", lambda self, q, k, t: torch.ones(1, 1, 5, 5, dtype=torch.bool)),
    "no features": ("embed", lambda self, x, t: (x + t[..., None]).mean(dim=2)),
    "double": ("embed", lambda self, x, t: x.double()),
    "queries alone": ("rotate", lambda self, q, k, t: q),
    "unequal widths": ("rotate", lambda self, q, k, t: (torch.cat([q, q], dim=3), k)),
    "transposed": ("mix", lambda self, v, t: v.transpose(1, 2)),
    "a number": ("mix", lambda self, v, t: 0.0),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_hook_with_a_wrong_result_is_named(case):
    hook, function = WRONG[case]
    with pytest.raises(ValueError, match=f"hook {hook} of Own"):
        TSTransformer(config_of(with_hook(hook, function)))(torch.zeros(3, 5, 1))


@pytest.mark.parametrize(
    "encoding",
    [Sized, Unsaved, with_hook("embed", lambda self, x: x)],
    ids=lambda cls: cls.__name__,
)
def test_an_encoding_that_cannot_act_or_be_saved_is_refused(encoding):
    with pytest.raises(TypeError):
        TSTransformer(config_of(encoding))(torch.zeros(3, 5, 1))


def config_of(encoding: type[PositionalEncoding]) -> ModelConfig:
    sizes = {"n_channels": 1, "n_outputs": 2, "max_len": 5, "d_model": 8, "n_heads": 2}
    return ModelConfig(**sizes, encoding=encoding, stem="linear")
