"""CONTRIBUTING.md: the encoding that it adds is one, and its formula is what it computes."""

import doctest
import re
from pathlib import Path

import brute_force
import pytest
import torch

from tsformer.encodings import resolve
from tsformer.model.transformer import SelfAttention

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture
def encoding(monkeypatch):
    """Run both pieces of code of the page as they stand, and return the module of the first."""
    module, formula = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    defined: dict = {"__name__": "tsformer.encodings.embed.log"}
    exec(compile(module, "log.py", "exec"), defined)
    monkeypatch.setattr(brute_force, "FORMULAS", dict(brute_force.FORMULAS))
    exec(compile(formula, "brute_force.py", "exec"), vars(brute_force).copy())
    return defined


def test_it_computes_its_formula(encoding):
    assert "log" in brute_force.FORMULAS
    module = resolve("log", d_model=6, n_heads=2, max_len=4, init_std=1.0).double().eval()
    attention = SelfAttention(6, 2).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    t = torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.5, 3.0, 3.0, 9.5]], dtype=torch.float64)
    expected = brute_force.encode_and_attend(module, attention, x, t)
    torch.testing.assert_close(attention(module.embed(x, t), t, module), expected)
    assert (module.embed(x, t) - x).abs().max() > 0.1


def test_the_example_of_its_docstring_runs(encoding):
    text = encoding["LogEncoding"].__doc__
    example = doctest.DocTestParser().get_doctest(text, encoding, "LogEncoding", None, None)
    assert example.examples
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0
