"""Study: what it takes, what it refuses, and which fits count as the same."""

from __future__ import annotations

from typing import Any

import pytest

from tsformer.studies import Cell, Study


def test_lists_counts_and_single_names_become_tuples() -> None:
    study = Study(["A", "B"], "lspe", seeds=2, parameters={"n_layers": 1})  # type: ignore[arg-type]
    assert study.datasets == ("A", "B")
    assert study.encodings == ("lspe",)
    assert study.seeds == (0, 1)
    assert Study(["A"], ["lspe"]).seeds == (0, 1, 2)  # type: ignore[arg-type]


def test_every_encoding_comes_before_the_second_seed() -> None:
    study = Study(("A", "B"), ("none", "tape+erpe"), seeds=(7, 3))
    assert study.cells() == [
        Cell(dataset, encoding, seed)
        for seed in (7, 3)
        for dataset in ("A", "B")
        for encoding in ("none", "tape+erpe")
    ]


def test_equal_studies_are_one_and_frozen() -> None:
    one = Study(("A",), ("none",), parameters={"n_layers": 1, "encoding_params": {}})
    same = Study(["A"], ["none"], 3, {"encoding_params": {}, "n_layers": 1})  # type: ignore[arg-type]
    assert one == same
    assert len({one, same}) == 1
    assert one.name == same.name
    with pytest.raises(AttributeError):
        one.seeds = (1,)  # type: ignore[misc]


def test_a_study_that_grows_keeps_its_fits() -> None:
    small = Study(("A",), ("none",), seeds=1, parameters={"n_layers": 1})
    large = Study(("A", "B"), ("none", "lspe"), seeds=5, parameters={"n_layers": 1})
    assert small.key("A", "none", 0) == large.key("A", "none", 0) == f"A/none/0/{small.hash}"
    assert small.name != large.name


def test_whatever_changes_a_fit_changes_its_key() -> None:
    plain = Study(("A",), ("none",))
    assert Study(("A",), ("none",), parameters={"n_layers": 1}).hash != plain.hash
    assert Study(("A",), ("none",), parameters={"n_layers": 2}).hash == plain.hash, "the default"
    keys = {plain.key(*cell) for cell in Study(("A", "B"), ("none", "lspe"), seeds=3).cells()}
    assert len(keys) == 12


def test_the_configuration_is_complete() -> None:
    configuration = Study(("A",), ("none",), parameters={"d_model": 32}).configuration()
    assert configuration["d_model"] == 32
    assert configuration["learning_rate"] > 0
    assert not {"encoding", "random_state", "callbacks", "verbose"} & set(configuration)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"encodings": ["lpse"]}, ValueError, "unknown encoding 'lpse': did you mean 'lspe'"),
        ({"encodings": ["tape+erpee"]}, ValueError, "unknown encoding 'erpee'"),
        ({"encodings": ["none", "none"]}, ValueError, "encodings names 'none' twice"),
        ({"encodings": []}, ValueError, "at least one of its encodings"),
        ({"datasets": ()}, ValueError, "at least one of its datasets"),
        ({"datasets": [3]}, TypeError, "datasets must be of type str; got 3"),
        ({"seeds": 0}, ValueError, "at least one of its seeds"),
        ({"seeds": [0.5]}, TypeError, "seeds must be of type int; got 0.5"),
        ({"seeds": [1, 1]}, ValueError, "seeds names 1 twice"),
        ({"parameters": {"n_layer": 1}}, ValueError, "did you mean 'n_layers'"),
        ({"parameters": {"random_state": 1}}, ValueError, "the comparison sets it"),
        ({"parameters": {"encoding_params": {"f": print}}}, TypeError, "kept as JSON"),
        ({"parameters": {"max_epochs": 0}}, ValueError, "max_epochs must be"),
    ],
)
def test_what_cannot_be_studied_is_refused_at_once(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    everything: dict[str, Any] = {"datasets": ["A"], "encodings": ["none"], **arguments}
    with pytest.raises(error, match=message):
        Study(**everything)
