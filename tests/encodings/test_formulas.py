"""Each encoding against its formula, forward and gradient, inside one attention in float64."""

import pytest
import torch
from brute_force import FORMULAS, encode_and_attend
from torch import nn

from tsformer.encodings import names, resolve
from tsformer.model.transformer import SelfAttention

N = 6
REGULAR = [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]] * 2
IRREGULAR = [[0.0, 0.5, 1.75, 3.0, 3.25, 4.9], [0.3, 1.0, 1.0, 2.5, 6.5, 9.0]]

#: Options that change the formula, beside the defaults.
OPTIONS = {
    "fixed": [{"base": 20.0}],
    "lspe": [{"apply_to": "sum"}, {"d_hidden": 3, "base": 20.0}],
    "fourier": [{"n_frequencies": 3, "d_hidden": 4, "gamma": 2.0}],
    "cape": [{"base": 20.0}],
    "conv": [{"kernel_size": 3}, {"causal": True}],
    "wavelet": [
        *({"causal": True}, {"causal": True, "wavelet": "haar", "n_levels": 3}),
        *({"wavelet": "db2", "n_levels": 2}, {"wavelet": "haar", "n_levels": 3}),
    ],
    "rope": [{"fraction": 0.5, "base": 20.0}],
    "alibi": [{"signed": True}],
    "xpos": [{"scale_base": 3.0, "gamma": 1.0, "fraction": 0.5}],
    "sine_spe": [{"n_realizations": 3}, {"n_realizations": 2, "n_sines": 2, "seed": 5}],
    "conv_spe": [
        *({"n_realizations": 3, "kernel_size": 4}, {"n_realizations": 2, "kernel_size": 1})
    ],
    "kerple": [{"variant": "power"}],
    "shaw": [{"max_distance": 2}],
    "t5": [{"n_buckets": 8}, {"n_buckets": 6, "max_distance": 4}],
    "fire": [{"d_hidden": 5, "signed": False}],
    "erpe": [{"causal": True}],
    "cope": [{"max_distance": 2}],
    "dape": [{"static": "kerple", "d_hidden": 5}],
    "fope": [{"fraction": 0.5, "base": 20.0}],
    "learnable_rope": [{"fraction": 0.5, "base": 20.0}],
    "pope": [{"base": 20.0}],
}
MANY_REALISATIONS = ("sine_spe", "conv_spe")  # by default, which loops take long over
ENCODINGS = [(name, {}) for name in names() if name not in MANY_REALISATIONS]
ENCODINGS += [(name, params) for name in OPTIONS for params in OPTIONS[name]]
ENCODINGS += [(name, {}) for name in ("tape+erpe", "fixed+conv+tupe+shaw", "pope+tupe")]
ENCODINGS += [("lspe+rope+alibi", {"apply_to": "sum", "signed": True})]
LABELS = ["-".join([name, *(f"{k}={v}" for k, v in params.items())]) for name, params in ENCODINGS]


#: Regular and irregular times, at and past the trained length.
CASES = [(6, 2, REGULAR, 4), (8, 2, IRREGULAR, N), (7, 1, IRREGULAR, 4)]


@pytest.mark.parametrize(("d_model", "n_heads", "times", "max_len"), CASES)
@pytest.mark.parametrize(("name", "params"), ENCODINGS, ids=LABELS)
def test_values_and_gradients(name, params, d_model, n_heads, times, max_len):
    sizes = {"d_model": d_model, "n_heads": n_heads, "max_len": max_len}
    encoding = resolve(name, **sizes, **params).double().eval()
    attention = SelfAttention(d_model, n_heads).double()
    for parameter in encoding.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, N, d_model, dtype=torch.float64, requires_grad=True)
    t = torch.tensor(times, dtype=torch.float64)
    leaves = [x, *encoding.parameters(), *attention.parameters()]
    probe = torch.randn(2, N, d_model, dtype=torch.float64)

    ours = attention(encoding.embed(x, t), t, encoding)
    expected = encode_and_attend(encoding, attention, x, t)

    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-11)
    losses = [(x * probe).sum() for x in (ours, expected)]
    grads = [torch.autograd.grad(loss, leaves, materialize_grads=True) for loss in losses]
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", [row for row in FORMULAS if FORMULAS[row]])
def test_only_the_stated_hooks_act(name):
    encoding = resolve(name, d_model=8, n_heads=2, max_len=N)
    for parameter in encoding.parameters():
        nn.init.normal_(parameter)
    x, heads, t = torch.randn(2, N, 8), torch.randn(2, 2, N, 4), torch.arange(N * 1.0)[None]
    acts = {
        "embed": not torch.equal(encoding.embed(x, t), x),
        "rotate": not torch.equal(encoding.rotate(heads, heads, t)[0], heads),
        "bias": encoding.bias(heads, heads, t) is not None,
        "mix": encoding.mix(heads, t) is not None,
    }
    formulas = [hook.replace("scored", "bias") for hook in FORMULAS[name]]
    assert [hook for hook, does in acts.items() if does] == formulas == [encoding.kind]
