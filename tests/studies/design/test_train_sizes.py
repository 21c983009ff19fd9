"""Train sizes of a study: what may be written, and which fits stay the same."""

from __future__ import annotations

import pytest

from tsformer.studies import Study
from tsformer.studies.design.study_file import train_sizes


def test_each_size_has_one_spelling():
    said = (20, "50", " 7 ", "10%", "12.50 %", "100.0%", "2%")
    assert train_sizes(said) == ("20", "50", "7", "10%", "12.5%", "100%", "2%")
    assert train_sizes(()) == ()


@pytest.mark.parametrize(
    ("sizes", "error", "said"),
    [
        ([0], ValueError, "above zero.*got 0"),
        (["101%"], ValueError, "at most 100%"),
        (["12.5"], ValueError, "whole number of series"),
        (["half"], ValueError, "got 'half'"),
        ([0.1], TypeError, 'write "10%" for a share'),
        ("10%", TypeError, "must be a list"),
        (["10%", "10.0 %"], ValueError, "names '10%' twice"),
    ],
)
def test_what_is_no_size_is_refused(sizes, error, said):
    with pytest.raises(error, match=said):
        Study(("A",), ("none",), train_sizes=sizes)


def test_sizes_are_variants_with_keys_of_their_own():
    plain = Study(("A",), ("none", "lspe"), 2)
    study = Study(("A",), ("none", "lspe"), 2, train_sizes=(20, "50%", "100%"))
    assert list(study.variants) == ["train_size=20", "train_size=50%", "train_size=100%"]
    keys = {study.key(*trial) for trial in study.trials()}
    assert len(keys) == len(study.trials()) == 12
    shared = {plain.key(*trial) for trial in plain.trials()}
    assert shared < keys, "the whole split is what studies without sizes have"
    assert study.key("A", "none", 1, "train_size=20") == plain.key("A", "none", 1) + "/train-20"
    drawn = study.key("A", "none", 1, "train_size=50%", 2)
    assert drawn == plain.key("A", "none", 1, "", 2) + "/train-50%"

    vary = {"stem": ["conv", "linear"]}
    both = Study(("A",), ("none",), 1, vary=vary, train_sizes=("10%", "100%"))
    assert list(both.variants)[1] == "stem=conv, train_size=100%"
    assert both.train_size_of("stem=linear, train_size=10%") == "10%"
    assert both.parameters_of("stem=linear, train_size=10%") == {"stem": "linear"}
    assert Study(**both.as_dict()) == both
    # 1nn-dtw is not random, but every seed draws its own subset.
    nearest = Study(("A",), methods={"1nn-dtw": {}}, seeds=2, train_sizes=("50%", "100%"))
    assert len({nearest.key(*trial) for trial in nearest.trials()}) == 2 + 1
