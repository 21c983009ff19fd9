"""The generated tables are what their sources say."""

from __future__ import annotations

import pytest

from tools import write_docs


@pytest.mark.parametrize("name", ["encodings", "results", "speed"])
def test_table_is_fresh(name):
    table = {
        "encodings": write_docs.encodings_table,
        "results": write_docs.results_table,
        "speed": write_docs.speed_table,
    }[name]()
    text = write_docs.README.read_text(encoding="utf-8")
    assert write_docs.filled(text, name, table) == text, "stale; run: python tools/write_docs.py"


@pytest.mark.parametrize(
    "name",
    [
        *("language model", "missing values"),
        # These compare every pair of methods, of which there are 36 and 253, once per variant.
        pytest.param("which encoding", marks=pytest.mark.slow),
        pytest.param("whole catalogue", marks=pytest.mark.slow),
    ],
)
def test_table_of_the_results_is_fresh(name):
    text = write_docs.RESULTS_README.read_text(encoding="utf-8")
    table = {
        "language model": write_docs.language_table,
        "missing values": write_docs.missing_table,
        "which encoding": write_docs.study_table,
        "whole catalogue": lambda: write_docs.study_table(write_docs.CATALOGUE_STUDY),
    }[name]()
    assert len(table.splitlines()) > 9
    assert write_docs.filled(text, name, table) == text, "stale; run: python tools/write_docs.py"


def test_results_table_sets_means_beside_published_figures(tmp_path):
    ours, others = tmp_path / "ours.csv", tmp_path / "others.csv"
    ours.write_text(
        "dataset,seed,accuracy,fit_seconds\nNATOPS,0,0.9,10\nNATOPS,1,1.0,14\nFish,0,0.8,3\n",
        encoding="utf-8",
    )
    others.write_text(
        "dataset,rocket,convtran\nFish,0.981,\nNATOPS,0.886,0.944\n", encoding="utf-8"
    )
    assert write_docs.results_table(ours, others).splitlines() == [
        "| data set | tsformer | seconds per fit | ROCKET | ConvTran |",
        "| --- | --- | ---: | ---: | ---: |",
        "| NATOPS | 0.950 ± 0.071 | 12 | 0.886 | 0.944 |",
        "| Fish | 0.800 | 3 | 0.981 | – |",
    ]


def test_a_table_without_its_place_is_an_error():
    with pytest.raises(ValueError, match="one place for the table 'costs'; it has 0"):
        write_docs.filled("a text", "costs", "| a |\n")


def test_tables_of_the_notes_are_fresh():
    text = write_docs.SPEED_NOTES.read_text(encoding="utf-8")
    assert write_docs.speed_notes(text) == text, "stale; run: python tools/write_docs.py"
    assert len(write_docs.speed_table().splitlines()) >= 2 + 2 * 4
