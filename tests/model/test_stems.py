"""From values to tokens: their number, their times, and independence of padding."""

import pytest
import torch
from torch import Tensor, nn

from tsformer.model.stems import STEMS, make_stem

CHANNELS, D = 2, 6
STEM_OPTIONS = [
    ("linear", {}),
    ("patch", {"stride": 1}),
    ("patch", {"stride": 5}),
    ("patch", {}),
    ("conv", {}),
    ("conv", {"strides": (1, 3), "kernel_size": 3}),
    ("conv", {"strides": (2, 1), "kernel_size": 5, "dilations": (1, 3)}),
    ("conv", {"strides": (2, 3), "kernel_size": 3, "n_residual": 2}),
    ("conv", {"strides": (3, 1), "downsampling": "pool", "n_residual": 1}),
    ("conv", {"strides": (1, 3), "downsampling": "pool"}),
    ("embedding", {"n_codes": 9}),
]
every_stem = pytest.mark.parametrize(
    ("name", "options"), STEM_OPTIONS, ids=[f"{n}-{tuple(o.values())}" for n, o in STEM_OPTIONS]
)


def make(name: str, options: dict, max_len: int = 40) -> nn.Module:
    torch.manual_seed(0)
    channels = 1 if name == "embedding" else CHANNELS
    stem = make_stem(name, channels, D, max_len, **options)
    for norm in (module for module in stem.modules() if isinstance(module, nn.BatchNorm1d)):
        nn.init.normal_(norm.bias)  # zeros would hide padding that leaks
        nn.init.normal_(norm.running_mean)
    return stem.double().eval()


def series(n: int, length: int, name: str = "conv") -> Tensor:
    generator = torch.Generator().manual_seed(length)
    if name == "embedding":
        return torch.randint(10, (n, length, 1), generator=generator).double()
    return torch.randn(n, length, CHANNELS, generator=generator, dtype=torch.float64)


def steps(length: int) -> Tensor:
    return torch.arange(length, dtype=torch.float64)[None]


@every_stem
def test_number_and_times_of_tokens(name, options):
    stem = make(name, options)
    for length in (1, 2, 3, 7, 12, 39, 40, 41):
        tokens, mask, times = stem(series(3, length, name), None, steps(length))
        assert tokens.shape == (3, stem.n_tokens(length), D)
        assert times.shape == (1, stem.n_tokens(length))
        assert mask is None
        whole = length // stem.stride  # the last token may stand for fewer steps, and be nearer
        torch.testing.assert_close(times[:, :whole], steps(whole))
        assert (times.diff() > 0).all()


@every_stem
@pytest.mark.parametrize("lengths", [(12, 12, 12), (12, 7, 1), (11, 6, 5)])
def test_padding_changes_nothing(name, options, lengths):
    stem, x = make(name, options), series(3, 20, name)
    mask = torch.arange(20)[None] < torch.tensor(lengths)[:, None]
    tokens, kept, times = stem(x * mask[..., None], mask, steps(20))
    for i, length in enumerate(lengths):
        alone, _, when = stem(x[i : i + 1, :length], None, steps(length))
        assert kept[i].sum() == alone.shape[1] == stem.n_tokens(length)
        torch.testing.assert_close(tokens[i, kept[i]], alone[0])
        torch.testing.assert_close(times.expand(3, -1)[i, kept[i]], when[0])


@pytest.mark.parametrize(("max_len", "n_tokens", "stride"), [(96, 32, 3), (50, 32, 2), (20, 32, 1)])
def test_conv_n_tokens_sets_stride(max_len, n_tokens, stride):
    stem = make("conv", {"n_tokens": n_tokens}, max_len)
    assert stem.stride == stride
    tokens, _, t = stem(series(2, max_len), None, steps(max_len))
    assert tokens.shape[1] == t.shape[1] == stem.n_tokens(max_len) == -(-max_len // stride)


def test_irregular_times():
    x, t = series(1, 7), torch.tensor([[0.0, 1.0, 4.0, 5.0, 6.0, 8.0, 20.0]], dtype=torch.float64)
    _, _, patched = make("patch", {"stride": 2})(x, None, t)
    expected = [[(0.5 - 0.5) / 2, (4.5 - 0.5) / 2, (7 - 0.5) / 2, (20 - 0.5) / 2]]
    torch.testing.assert_close(patched, torch.tensor(expected).double())
    _, _, centred = make("conv", {"strides": (2, 1)})(x, None, t)
    torch.testing.assert_close(centred, t[:, ::2] / 2)
    assert make("linear", {})(x, None, t)[2] is t


@pytest.mark.parametrize("lengths", [(20, 20), (19, 13)])
def test_conv_pool_reduces_windows(lengths):
    """Against the same weights without a stride, in plain loops over the valid steps."""
    options = {"kernel_size": 3, "dilations": (1, 2)}
    reducing = make("conv", {**options, "strides": (3, 2), "downsampling": "pool"})
    narrow = -(-D // 4)
    every = make_stem("conv", CHANNELS, narrow, 40, **options, strides=(1, 1)).double().eval()
    every.first.load_state_dict(reducing.first.state_dict())
    mask = torch.arange(20)[None] < torch.tensor(lengths)[:, None]
    x = series(2, 20) * mask[..., None]
    got, kept = reducing.first(x, mask)
    features, _ = every.first(x, mask)
    assert got.shape == (2, 7, 2 * narrow)
    for i, length in enumerate(lengths):
        for token in range(7):
            window = range(3 * token, min(3 * token + 3, length))
            assert kept[i, token] == (len(window) > 0)
            if len(window):
                seen = torch.stack([features[i, step] for step in window])
                wanted = torch.cat([seen.amax(0), seen.mean(0)])
                torch.testing.assert_close(got[i, token], wanted)
    whole = series(2, 20)
    everywhere = torch.ones(2, 20, dtype=torch.bool)
    torch.testing.assert_close(reducing.first(whole, None)[0], reducing.first(whole, everywhere)[0])


@every_stem
def test_the_receptive_field_is_the_steps_that_move_a_token(name, options):
    stem = make(name, options)
    if name == "embedding":
        assert stem.receptive_field == 1
        return
    length = 4 * stem.receptive_field + 40
    x = series(4, length, name).requires_grad_()
    tokens = stem(x, None, steps(length))[0]
    (gradient,) = torch.autograd.grad(tokens[:, tokens.shape[1] // 2].sum(), x)
    (moves,) = gradient.abs().sum(dim=(0, 2)).nonzero(as_tuple=True)
    assert int(moves[-1] - moves[0]) + 1 == stem.receptive_field


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("conv", {"n_tokens": 0}, "n_tokens"),
        ("conv", {"n_tokens": 8, "strides": (1, 2)}, "not both"),
        ("conv", {"downsampling": "pol"}, "'pool'"),
        ("conv", {"kernel_size": 8}, "odd"),
        ("conv", {"kernel": 3}, "'kernel_size'"),
        ("linear", {"stride": 3}, "'stride'"),
    ],
)
def test_options_are_checked(name, options, message):
    with pytest.raises(ValueError, match=message):
        make(name, options)


assert {name for name, _ in STEM_OPTIONS} == set(STEMS)
