"""What is particular to one encoding: its options, its draws, the pitfalls of its formula."""

import math

import pytest
import torch

from tsformer import encodings
from tsformer.encodings import resolve
from tsformer.encodings.bias.fire import relu_network
from tsformer.encodings.embed.wavelet import WAVELETS

SIZES = {"d_model": 8, "n_heads": 2, "max_len": 12}


def steps(n: int) -> torch.Tensor:
    return torch.arange(float(n))[None]


def test_a_rotation_needs_a_pair():
    with pytest.raises(ValueError):
        resolve("rope", d_model=4, n_heads=4, max_len=5)


def test_fourier_features_need_not_be_trained():
    encoding = resolve("fourier", **SIZES, trainable=False)
    encoding.embed(torch.zeros(1, 12, 8), steps(12)).sum().backward()
    assert encoding.frequencies.grad is None
    assert "frequencies" in encoding.state_dict(), "drawn at random, they must be kept"


def test_fourier_codes_stay_alike_over_gamma():
    encoding = resolve("fourier", **SIZES, n_frequencies=20000, gamma=5.0)
    features = []
    encoding.mlp.register_forward_pre_hook(lambda module, args: features.append(args[0][0]))
    encoding.embed(torch.zeros(1, 12, 8), steps(12))
    gap = steps(12) - steps(12).T
    expected = torch.exp(-gap.square() / (2 * 5.0**2))
    torch.testing.assert_close(features[0] @ features[0].T, expected, atol=0.02, rtol=0)


def test_cape_draws_keep_to_their_ranges():
    t = steps(12).expand(5000, -1)
    sizes = SIZES | {"max_jitter": 0.0, "max_scale": 1.0, "max_shift": 0.0}
    shift = resolve("cape", **sizes | {"max_shift": 3.0}).augmented(t) - t
    assert torch.allclose(shift, shift[:, :1].expand_as(shift), atol=1e-5), "one for each series"
    assert -3 <= shift.min() < -2.9 < 2.9 < shift.max() <= 3
    jitter = resolve("cape", **sizes | {"max_jitter": 0.5}).augmented(t) - t
    assert -0.5 <= jitter.min() < -0.49 < 0.49 < jitter.max() <= 0.5
    assert jitter.std(dim=1).min() > 0.05, "each token is jittered by itself"
    scale = resolve("cape", **sizes | {"max_scale": 1.25}).augmented(t)[:, 1:] / t[:, 1:]
    assert 0.8 <= scale.min() < 0.81 < 1.24 < scale.max() <= 1.2501
    assert scale.std(dim=1).max() < 1e-5
    assert scale.log().mean().abs() < 0.01, "stretching is as likely as shrinking"


def test_defaults_follow_the_trained_length():
    def made(name: str, n: int):
        return resolve(name, d_model=8, n_heads=2, max_len=n)

    assert [made("t5", n).max_distance for n in (1, 12, 500)] == [1, 11, 128]
    assert [made("wavelet", n).n_levels for n in (1, 8, 64, 1000)] == [1, 1, 4, 7]
    heads, told = torch.ones(1, 2, 7, 4), resolve("xpos", **SIZES, scale_base=12.0)
    ours, expected = (e.rotate(heads, heads, steps(7)) for e in (made("xpos", 12), told))
    assert all(map(torch.equal, ours, expected))
    torch.manual_seed(0)
    encoding = resolve("time2vec", d_model=1000, n_heads=1, max_len=50)
    period = 2 * math.pi * 50 / encoding.weight[1:].detach()
    assert 2 <= period.min() < 2.1, "two tokens"
    assert 48 < period.max() <= 50


def test_t5_buckets_equal_original_code():
    """Expected: relative_position_bucket of the authors' code, 32 buckets, both ways, up to 128."""
    encoding = resolve("t5", d_model=8, n_heads=2, max_len=500)
    gaps = [0, -1, -7, -8, -15, -20, -64, -127, -128, -500, 1, 7, 8, 15, 20, 64, 127, 128, 500]
    theirs = [0, 1, 7, 8, 9, 10, 14, 15, 15, 15, 17, 23, 24, 25, 26, 30, 31, 31, 31]
    # Theirs has an empty bucket, number 16, for a later key at a distance of zero.
    expected = [bucket - (bucket > 16) for bucket in theirs]
    assert encoding.bucket(torch.tensor(gaps).float()).tolist() == expected


def test_gaussian_widths_are_spread_over_the_scales():
    encoding = resolve("gaussian", d_model=8, n_heads=4, max_len=128)
    expected = torch.tensor([64.0, 64 / 32 ** (1 / 3), 64 / 32 ** (2 / 3), 2.0])
    torch.testing.assert_close(encoding.log_width.exp().detach(), expected)
    fixed = resolve("gaussian", d_model=8, n_heads=1, max_len=3, trainable=False)
    assert not fixed.bias(torch.zeros(1, 1, 5, 8), None, steps(5)).requires_grad


@pytest.mark.parametrize("zero", [None, "weight", "bias"])
def test_fire_reads_its_network_segment_by_segment(zero):
    """Values and gradients are those of the network itself, wherever units turn on and off."""
    hidden, out = torch.nn.Linear(1, 40).double(), torch.nn.Linear(40, 3).double()
    if zero is not None:
        getattr(hidden, zero).data[:10] = 0.0
    u = torch.cat([torch.zeros(5), torch.ones(5), torch.rand(90)]).double().view(1, 10, 10)
    u.requires_grad_()
    case = torch.zeros(1, 10, 10, dtype=torch.long)
    ours = relu_network(u, case, hidden.weight[:, 0], hidden.bias[None], out)
    expected = out(hidden(u[..., None]).relu()).permute(0, 3, 1, 2)
    torch.testing.assert_close(ours, expected)
    probe = torch.randn_like(ours)
    leaves = [u, *hidden.parameters(), *out.parameters()]
    grads = [torch.autograd.grad((x * probe).sum(), leaves) for x in (ours, expected)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("max_len", [1, 12, 300])
@pytest.mark.parametrize("apply_to", ["encoding", "sum"])
def test_the_codes_of_lspe_start_with_their_deviation(apply_to, max_len):
    t, sizes = steps(max(max_len, 2)), SIZES | {"max_len": max_len}
    encoding = resolve("lspe", **sizes, init_std=0.2, apply_to=apply_to).eval()
    code = encoding.embed(torch.zeros(1, t.shape[1], 8), t)[0]
    assert code.var(dim=0, correction=0).mean().sqrt().item() == pytest.approx(0.2, rel=1e-4)


@pytest.mark.parametrize("name", ["learnable", "shaw", "t5", "tupe"])
def test_tables_are_drawn_with_their_deviation(name):
    sizes = {"d_model": 64, "n_heads": 8, "max_len": 200}
    for std in (0.02, 1.5):
        table = resolve(name, **sizes, init_std=std).table
        assert table.std().item() == pytest.approx(std, rel=0.2)


def test_xpos_stays_finite_far_out():
    encoding, heads = resolve("xpos", d_model=8, n_heads=2, max_len=100), torch.ones(1, 2, 3, 4)
    q, k = encoding.rotate(heads, heads, torch.tensor([[0.0, 1000.0, 2000.0]]))
    assert (q @ k.mT).isfinite().all()


@pytest.mark.parametrize(
    ("name", "options"), [("alibi", {}), ("gaussian", {}), ("kerple", {"variant": "power"})]
)
def test_weights_cut_off_are_nothing_in_float32(name, options, monkeypatch):
    """Against the same attention in float64 with the bias as the formula has it."""
    encoding = resolve(name, d_model=8, n_heads=2, max_len=2000, **options)
    if name == "kerple":
        encoding.r2_raw.data.fill_(0.0)  # an exponent of one
    q, k, v = torch.randn(3, 1, 2, 400, 4)
    t = 5 * steps(400)
    bias = encoding.bias(q, k, t)
    assert bias.isneginf().any()
    assert bias[~bias.isneginf()].min() >= -60
    monkeypatch.setattr(f"tsformer.encodings.bias.{name}.mask_negligible", lambda bias: bias)
    exact = encoding.double().bias(q.double(), k.double(), t.double())
    expected = (q.double() @ k.double().mT / 2 + exact).softmax(-1) @ v.double()
    ours = torch.nn.functional.scaled_dot_product_attention(q, k, v, bias)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-5, atol=1e-5)


def test_pope_leaves_features_of_an_earlier_part_as_they_are():
    both, heads = resolve("tupe+pope", **SIZES), torch.randn(1, 2, 12, 4)
    widened = both.parts[0].rotate(heads, heads, steps(12))
    for ours, wide in zip(both.rotate(heads, heads, steps(12)), widened, strict=True):
        assert torch.equal(ours[..., 8:], wide[..., 4:])


E, N = 3, 7
NARROW = {"d_model": E, "n_heads": 1, "max_len": N}

every_spe = pytest.mark.parametrize("name", ["sine_spe", "conv_spe"])


def scores(encoding, q, k, n=N):
    t = torch.arange(float(n), dtype=q.dtype)[None]
    q, k = encoding.rotate(q.expand(1, 1, n, E), k.expand(1, 1, n, E), t)
    return (q @ k.mT)[0, 0]


@every_spe
def test_spe_seed_determines_noise(name):
    first = resolve(name, **NARROW, seed=3)
    torch.manual_seed(1)
    again, reseeded = resolve(name, **NARROW, seed=3), resolve(name, **NARROW, seed=4)
    assert torch.equal(first.noise, again.noise)
    assert not torch.equal(first.noise, reseeded.noise)
    again.load_state_dict(first.state_dict())
    q = torch.ones(E)
    assert torch.equal(scores(first.eval(), q, q), scores(again.eval(), q, q))


@every_spe
def test_spe_resamples_in_training_if_set(name):
    q = torch.ones(E)
    kept, redrawn = resolve(name, **NARROW), resolve(name, **NARROW, resample=True)
    assert torch.equal(scores(kept.train(), q, q), scores(kept, q, q))
    assert not torch.equal(scores(redrawn.train(), q, q), scores(redrawn, q, q))
    assert torch.equal(scores(redrawn.eval(), q, q), scores(redrawn, q, q))


@pytest.mark.parametrize("wavelet", WAVELETS)
def test_filters_are_orthonormal_and_smooth(wavelet):
    h = torch.tensor(WAVELETS[wavelet], dtype=torch.float64)
    for shift in range(len(h) // 2):
        product = (h[2 * shift :] * h[: len(h) - 2 * shift]).sum().item()
        assert product == pytest.approx(float(shift == 0), abs=1e-12)
    assert h.sum().item() == pytest.approx(2**0.5, abs=1e-12)
    # Vanishing moments: the high-pass filter does not see a polynomial of lower degree.
    high = h.flip(0) * (-1.0) ** torch.arange(len(h))
    for degree in range(len(h) // 2):
        moment = (high * torch.arange(len(h)) ** float(degree)).sum().item()
        assert moment == pytest.approx(0, abs=1e-8)


def test_sine_spe_starts_with_slow_waves():
    encoding = encodings.SineSPE(d_model=32, n_heads=4, max_len=50, n_sines=5)
    assert -4.5 < encoding.frequency_raw.mean() < -3.5
