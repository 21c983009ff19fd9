"""Properties of every registered encoding, within a whole model with a pointwise stem."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from tsformer import ModelConfig, TSTransformer
from tsformer.encodings import available, names, resolve

LENGTH, CHANNELS = 10, 3


def make_model(name: str, *, random_tables: bool = True, seed: int = 0, **config) -> TSTransformer:
    """Return a model in float64 whose encoding has random weights, as some are initially zero."""
    torch.manual_seed(seed)
    sizes = {"n_channels": CHANNELS, "n_outputs": 4, "max_len": LENGTH, "d_model": 8, "n_heads": 2}
    model = TSTransformer(ModelConfig(**sizes | {"encoding": name, "stem": "linear"} | config))
    if random_tables:
        for parameter in model.encoding.parameters():
            nn.init.normal_(parameter)
    return model.double().eval()


def series(n: int = 4, length: int = LENGTH) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, length, CHANNELS, generator=generator, dtype=torch.float64)


def steps(length: int = LENGTH, start: float = 0.0) -> Tensor:
    return start + torch.arange(length, dtype=torch.float64)[None]


def same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-8, atol=1e-8)


ENCODINGS = [*names(), "tape+erpe", "fixed+conv"]

# The table of properties: an encoding that is not in a set must lack its property.
PERMUTATION_INVARIANT = {"none"}
REVERSAL_INVARIANT = {"none", "alibi", "kerple", "gaussian"}
# Made from the tokens and their order, not from their times.
COUNTS_TOKENS = {"none", "conv", "wavelet", "conv_spe", "erpe"}
SHIFT_INVARIANT = COUNTS_TOKENS | {
    *("rope", "xpos", "alibi", "kerple", "gaussian", "shaw", "t5", "fire", "cope", "dape"),
    *("learnable_rope", "pope"),
}
# Made from the contents of the tokens: a step has no code of its own.
OF_THE_SIGNAL = {"conv", "wavelet"}

EMBEDS = [row["name"] for row in available() if row["kind"] == "embed"]
CODES = [name for name in EMBEDS if name not in OF_THE_SIGNAL]

every_encoding = pytest.mark.parametrize("name", ENCODINGS)


@every_encoding
@pytest.mark.parametrize("length", [LENGTH, 3 * LENGTH])
def test_padding_and_other_series_change_nothing(name, length):
    model, x, lengths = make_model(name), series(length=length), [length, 7, 1, 4]
    alone = torch.cat([model(x[i : i + 1, :n]) for i, n in enumerate(lengths)])
    assert alone.isfinite().all()
    keep = torch.arange(length)[None] < torch.tensor(lengths)[:, None]
    assert same(model(torch.where(keep[..., None], x, 7.0), keep), alone)


@every_encoding
def test_other_orders_of_the_steps(name):
    model, x = make_model(name), series()
    order = torch.randperm(LENGTH, generator=torch.Generator().manual_seed(2))
    assert same(model(x[:, order]), model(x)) == (name in PERMUTATION_INVARIANT)
    assert same(model(x.flip(1)), model(x)) == (name in REVERSAL_INVARIANT)
    assert model.encoding.symmetric == (name in REVERSAL_INVARIANT)
    sizes = {"d_model": 8, "n_heads": 2, "max_len": LENGTH}
    assert resolve(name, **sizes).symmetric == (name in REVERSAL_INVARIANT)


@every_encoding
def test_shift_in_time(name):
    model, x = make_model(name), series()
    shifted = model(x, times=steps(start=5.0))
    assert same(shifted, model(x, times=steps())) == (name in SHIFT_INVARIANT)


@every_encoding
def test_default_times_are_the_steps(name):
    """In training too: with times of each series its dropout is that of all."""
    model, x, t = make_model(name, dropout=0.5).float(), series().float(), steps().float()
    torch.testing.assert_close(model(x), model(x, times=t), rtol=0, atol=0)
    trained = []
    for times in (None, t, t.expand(4, -1)):
        torch.manual_seed(0)
        trained.append(model.train()(x, times=times))
    torch.testing.assert_close(trained[1:], trained[:1] * 2)


@every_encoding
def test_irregular_times(name):
    """An encoding that sees times tells apart the same steps at other times."""
    model, x = make_model(name), series()
    times = torch.tensor([[0.0, 0.5, 1.0, 3.0, 4.5, 5.0, 5.0, 6.25, 8.0, 9.0]]).double()
    assert same(model(x, times=times), model(x)) == (name in COUNTS_TOKENS)
    of_series = torch.cat([times, steps(), times, 2 * times])
    alone = [model(x[i : i + 1], times=of_series[i : i + 1]) for i in range(4)]
    assert same(model(x, times=of_series), torch.cat(alone))


@pytest.mark.parametrize("name", CODES)
def test_constant_series_varies_over_time_alike_in_every_series(name):
    encoding = make_model(name).encoding
    coded = encoding.embed(torch.ones(4, LENGTH, 8, dtype=torch.float64), steps())
    assert same(coded, coded[:1].expand_as(coded))
    gaps = torch.cdist(coded[0], coded[0]) + torch.eye(LENGTH)
    assert gaps.min() > 1e-3, "two steps share a code"


@pytest.mark.parametrize("d_model", [1, 2, 15])
@pytest.mark.parametrize("name", [*EMBEDS, "tape+erpe"])
def test_any_width(name, d_model):
    model = make_model(name, d_model=d_model, n_heads=1)
    x = torch.ones(1, LENGTH, d_model, dtype=torch.float64)
    coded = model.encoding.embed(x, steps())
    assert coded.shape == x.shape
    assert (coded.std(dim=1) > 0).all(), "a feature tells nothing of time"
    assert model(series()).isfinite().all()


@every_encoding
@pytest.mark.parametrize("n_heads", [1, 16])
def test_any_number_of_heads(name, n_heads):
    model = make_model(name, d_model=32, n_heads=n_heads)
    assert model(series()).isfinite().all()
    heads = torch.randn(1, n_heads, LENGTH, 32 // n_heads, dtype=torch.float64)
    bias = model.encoding.at(0).bias(heads, heads, steps())
    assert bias is None or bias.shape == (1, n_heads, LENGTH, LENGTH)


def codes(name: str, length: int) -> list[Tensor]:
    """Return what an encoding makes of a constant series: tokens, and scores and weights [N, N]."""
    hooks = make_model(name).encoding.at(0)
    # Scores so high that the gates of cope are open.
    x, heads = torch.ones(1, length, 8).double(), torch.full((1, 2, length, 4), 4.0).double()
    q, k = hooks.rotate(heads, heads, steps(length))
    bias = hooks.bias(heads, heads, steps(length))
    mixed = hooks.mix(torch.eye(length).double().expand(1, 2, -1, -1), steps(length))
    scores = q @ k.mT + (0 if bias is None else bias)
    return [
        hooks.embed(x, steps(length)),
        scores,
        torch.zeros_like(scores) if mixed is None else mixed,
    ]


@pytest.mark.parametrize(
    "row", [row for row in available() if row["name"] not in OF_THE_SIGNAL], ids=lambda r: r["name"]
)
def test_past_the_trained_length(row):
    """extends: trained steps keep their codes; interpolates: the ends do; clamps: values repeat."""
    x, scores, weights = codes(row["name"], LENGTH)
    long_x, long_scores, long_weights = codes(row["name"], 3 * LENGTH)
    first, ends = slice(0, LENGTH), [0, -1]
    if row["extrapolation"] == "extends":
        assert same(long_x[:, first], x)
        assert same(long_scores[..., first, first], scores)
        assert same(long_weights[..., first, first], weights)
    elif row["extrapolation"] == "interpolates":
        assert same(long_x[:, ends], x[:, ends])
        assert same(long_scores[..., ends, :][..., ends], scores[..., ends, :][..., ends])
        assert not (same(long_x[:, first], x) and same(long_scores[..., first, first], scores))
    else:
        assert row["extrapolation"] == "clamps"
        far = (long_scores + long_weights)[..., 0]  # of the first step, from each of the others
        assert same(far[..., LENGTH:], far[..., LENGTH - 1 : LENGTH].expand(1, 2, 2 * LENGTH))
        assert not same(far[..., LENGTH - 2], far[..., LENGTH - 1])


@every_encoding
def test_positions_survive_16_bits(name):
    """bfloat16 has no 4001: an angle or a distance computed in it would be that of 4000."""
    encoding = resolve(name, d_model=8, n_heads=2, max_len=4096).eval()
    x, heads = torch.zeros(1, 3, 8), torch.randn(1, 2, 3, 4)
    t = torch.tensor([[0.0, 4000.0, 4001.0]])

    def hooks(x, heads):
        outs = [encoding.embed(x, t), *encoding.rotate(heads, heads, t)]
        outs += [encoding.bias(heads, heads, t), encoding.mix(heads, t)]
        return [out for out in outs if out is not None]

    exact = hooks(x, heads)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = hooks(x.bfloat16(), heads.bfloat16())
    for ours, wanted in zip(rounded, exact, strict=True):
        assert ours.dtype == torch.bfloat16
        torch.testing.assert_close(ours.float(), wanted, rtol=0.02, atol=0.02)
    if name in CODES:
        assert (rounded[0][:, 1] != rounded[0][:, 2]).any()


@pytest.mark.parametrize("name", ["fire", "fope"])
def test_autocast_does_not_round_sums_that_may_cancel(name):
    encoding = resolve(name, d_model=16, n_heads=2, max_len=64).eval()
    heads, t = torch.randn(1, 2, 9, 8), torch.arange(9.0)[None] * 7
    hook = encoding.bias if name == "fire" else encoding.rotate
    exact = hook(heads, heads, t)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(hook(heads, heads, t), exact)


@every_encoding
def test_state_dict_holds_parameters_alone(name):
    model = make_model(name)
    assert set(model.state_dict()) == {key for key, _ in model.named_parameters()}
    copied = make_model(name, seed=1)
    assert not same(copied(series()), model(series()))
    copied.load_state_dict(model.state_dict())
    for length in (LENGTH, 3 * LENGTH):
        assert torch.equal(copied(series(length=length)), model(series(length=length)))


@every_encoding
def test_weights_without_a_table_fit_any_trained_length(name):
    short, long = make_model(name, max_len=LENGTH), make_model(name, max_len=50)
    if any(key.endswith("table") for key in short.state_dict()):
        pytest.skip("has a row for each trained position, distance or scale")
    short.load_state_dict(long.state_dict())


@every_encoding
def test_copies_compute_the_same(name):
    model, x = make_model(name), series()
    first = model(x)
    model(series(length=3 * LENGTH))  # no state is kept between calls
    for same_model in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(same_model(x), first)


# A series of 10 steps cannot reach all of 16 buckets per side.
REACHABLE = {"t5": {"n_buckets": 8}, "cope": {"max_distance": 2}}
# A hidden ReLU unit may be inactive for all inputs, and the threshold past the end of the series.
MAY_BE_INACTIVE = {"fire", "dape"}


@every_encoding
def test_gradient_reaches_every_parameter(name):
    model = make_model(
        name,
        random_tables=name not in MAY_BE_INACTIVE,
        encoding_params=REACHABLE.get(name, {}),
        dropout=0.0,  # it may drop a feature of all series
    ).train()
    model(series()).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.any(), key
    for key, parameter in model.encoding.named_parameters():
        assert parameter.grad.all() or name in MAY_BE_INACTIVE, f"a part of {key} is never used"


@every_encoding
def test_weights_of_a_diverged_training_give_nan_and_no_error(name):
    model = make_model(name)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, torch.nan)
    assert model(series()).isnan().all()


@pytest.mark.slow
@every_encoding
def test_exports(name):
    model, x = make_model(name, n_layers=1), series()
    keep = torch.arange(LENGTH)[None] < torch.tensor([10, 7, 1, 4])[:, None]
    program = torch.export.export(model, (x, keep))
    assert same(program.module()(x.flip(0), keep), model(x.flip(0), keep))


@pytest.mark.parametrize("name", names())
def test_a_stated_bias_of_times_reads_the_times_alone(name):
    q, k, t = torch.randn(2, 2, 6, 4), torch.randn(2, 2, 6, 4), torch.arange(6.0)[None]
    encoding = resolve(name, d_model=8, n_heads=2, max_len=6)
    bias = encoding.bias(q, k, t)
    of_times = bias is not None and torch.equal(
        bias, encoding.bias(torch.ones_like(q), torch.ones_like(k), t)
    )
    assert of_times == encoding.bias_of_times
