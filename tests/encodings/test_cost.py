"""What encodings cost: how memory grows, the shipped figures, and the script that measures them."""

import pytest
from marks import exhaustive_except

from experiments.cost import encoding_cost
from tsformer.encodings import find, names
from tsformer.encodings.measured import measured_ranks, time_ratios


@pytest.mark.parametrize("name", exhaustive_except(names(), ["lspe", "rope", "alibi", "erpe"]))
def test_memory_of_a_step_grows_linearly_except_with_a_matrix_of_scores(name, monkeypatch):
    """One series twice as long takes twice the memory; a matrix of scores takes four times."""
    monkeypatch.setattr(encoding_cost, "TOKENS", 1)  # one series whatever its length
    short, long = (encoding_cost.peak_memory(name, length, "cpu") for length in (256, 512))
    if find(name).kind == "bias":
        assert 2.5 * short < long < 4.1 * short
    else:
        assert 1.7 * short < long < 2.4 * short


def test_the_figures_are_relative_to_none_and_of_encodings_that_exist():
    measured = time_ratios(1024)
    assert measured["none"] == 1.0
    assert set(measured) <= {*names(), "tape+erpe"}, "a row for an encoding that is gone"
    assert len(measured) > 20
    assert 0.5 < min(measured.values()) < max(measured.values()) < 100
    assert time_ratios(12345) == {}
    assert time_ratios(1024, device="abacus") == {}


@pytest.mark.parametrize("stem", ["linear", "patch", "conv"])
def test_the_ranks_are_those_of_the_study(stem):
    pytest.importorskip("matplotlib", reason='needs the extra "plots"')
    from tools.stems import rank_table

    assert measured_ranks(stem) == rank_table()[stem].to_dict(), "run tools/stems.py --commit"
