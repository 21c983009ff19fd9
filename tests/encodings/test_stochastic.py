"""Stochastic encodings: their mean is the stated kernel, and their noise is that of the seed."""

from __future__ import annotations

import math

import pytest
import torch

from tsformer.encodings import resolve

E, N = 3, 7
SIZES = {"d_model": E, "n_heads": 1, "max_len": N}
NAMES = ("sine_spe", "conv_spe")

both = pytest.mark.parametrize("name", NAMES)


def scores(encoding, q, k, n=N):
    t = torch.arange(float(n), dtype=q.dtype)[None]
    q, k = encoding.rotate(q.expand(1, 1, n, E), k.expand(1, 1, n, E), t)
    return (q @ k.mT)[0, 0]


def kernel(encoding, feature: int, gap: float) -> float:
    """Return P_e of the paper, from the parameters."""
    if encoding.name == "sine_spe":
        frequency = encoding.frequency_raw[0, feature].sigmoid() / 2
        gain = torch.nn.functional.softplus(encoding.gain_raw[0, feature])
        wave = torch.cos(2 * math.pi * frequency * gap + encoding.offset[0, feature])
        positional = (gain.square() * wave).mean().item()
    else:
        f_q, f_k = encoding.filter_q[0, feature].tolist(), encoding.filter_k[0, feature].tolist()
        shift = int(gap)
        inside = [p for p in range(len(f_q)) if 0 <= p + shift < len(f_k)]
        positional = sum(f_q[p] * f_k[p + shift] for p in inside)
    share = encoding.gate[0, feature].sigmoid().item()
    return (1 - share) * positional + share


@pytest.mark.parametrize(
    ("name", "options"), [("sine_spe", {"n_sines": 4}), ("conv_spe", {"kernel_size": 5})]
)
def test_the_mean_of_many_realisations_is_the_kernel(name, options):
    torch.manual_seed(0)
    encoding = resolve(name, **SIZES, **options, n_realizations=100_000)
    q, k = torch.tensor([1.0, -0.5, 0.3]), torch.tensor([0.7, 0.6, -1.0])
    found = scores(encoding, q, k)
    for i in range(N):
        for j in range(N):
            expected = sum(q[e].item() * k[e].item() * kernel(encoding, e, i - j) for e in range(E))
            assert found[i, j].item() == pytest.approx(expected, abs=0.03)


@both
def test_the_seed_gives_the_noise(name):
    torch.manual_seed(0)
    first = resolve(name, **SIZES, seed=3)
    torch.manual_seed(1)
    again, other = resolve(name, **SIZES, seed=3), resolve(name, **SIZES, seed=4)
    assert torch.equal(first.noise, again.noise)
    assert not torch.equal(first.noise, other.noise)
    again.load_state_dict(first.state_dict())
    q = torch.ones(E)
    assert torch.equal(scores(first.eval(), q, q), scores(again.eval(), q, q))


@both
def test_building_one_leaves_the_global_generator_to_the_weights(name):
    """Were the noise drawn from it, the seed would change the weights of later modules."""
    states = []
    for seed in (0, 1):
        torch.manual_seed(0)
        resolve(name, **SIZES, seed=seed, n_realizations=seed + 1)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


@both
def test_new_noise_in_training_only_where_asked(name):
    q = torch.ones(E)
    kept, redrawn = resolve(name, **SIZES), resolve(name, **SIZES, resample=True)
    assert torch.equal(scores(kept.train(), q, q), scores(kept, q, q))
    assert not torch.equal(scores(redrawn.train(), q, q), scores(redrawn, q, q))
    assert torch.equal(scores(redrawn.eval(), q, q), scores(redrawn, q, q))


def test_noise_repeats_past_the_trained_length():
    encoding = resolve("conv_spe", **SIZES, kernel_size=2).eval()
    q = torch.ones(E)
    long = scores(encoding, q, q, n=3 * (N + 1))
    torch.testing.assert_close(long[: N + 1, : N + 1], long[N + 1 : 2 * N + 2, : N + 1])
    torch.testing.assert_close(long[:N, :N], scores(encoding, q, q))
