"""Scores are read from a folder or a file, split by variant, and cut to what is paired."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tsformer.studies.analysis.study_scores import (
    StudyScores,
    complete,
    read_scores,
    read_study,
    variant_scores,
)


def rows(**more: object) -> pd.DataFrame:
    table = pd.DataFrame(
        [(d, e, s, 0.5) for d in "AB" for e in ("none", "rope") for s in (0, 1)],
        columns=["dataset", "encoding", "seed", "accuracy"],
    )
    return table.assign(**more)


def test_a_folder_is_read_with_its_design(tmp_path):
    rows().to_csv(tmp_path / "results.csv", index=False)
    study = read_study(tmp_path)
    assert (study.ours, study.design) == (True, None)
    assert {"method", "score"} <= set(study.rows)
    methods = rows().rename(columns={"encoding": "method"})
    methods.to_csv(tmp_path / "results.csv", index=False)
    assert not read_study(tmp_path).ours
    design = {"methods": {"none": {}}}
    (tmp_path / "study.json").write_text(json.dumps(design))
    study = read_study(tmp_path / "results.csv")
    assert (study.ours, study.design) == (True, design)
    methods.rename(columns={"accuracy": "score"}).to_csv(tmp_path / "scores.csv", index=False)
    assert not read_study(tmp_path / "scores.csv").ours
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(ValueError):
        read_study(tmp_path)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (None, FileNotFoundError, "results.csv"),
        ("dataset,method,seed,score\n", ValueError, "no rows"),
        ("dataset,method,sed,score\nA,b,0,1\n", ValueError, "'sed'"),
        ('dataset,encoding,seed,accuracy\nA,b,0,"0,5"\n', ValueError, "2: '0,5'.*score"),
        ("dataset,method,seed,score,fit_seconds\nA,b,0,1,-\n", ValueError, "'-'.*fit_seconds"),
        ("dataset,method,seed,score\nA,b,0,1\n,b,0,1\n", ValueError, "3: ''.*dataset"),
    ],
)
def test_what_is_no_study(tmp_path, text, error, message):
    if text is not None:
        (tmp_path / "results.csv").write_text(text)
    with pytest.raises(error, match=message):
        read_study(tmp_path)


def test_scores_keep_what_tells_fits_apart(tmp_path):
    table = rows(stem=["conv", "linear"] * 4, d_model=32, resample=0, fit_seconds=1.0)
    table.to_csv(tmp_path / "results.csv", index=False)
    path = tmp_path / "results.csv"
    bare = ["dataset", "method", "seed", "score", "resample"]
    assert list(read_scores(path)) == bare
    assert list(read_scores(path, vary="stem")) == [*bare, "stem"]
    assert list(read_scores(path, vary=["d_model"])) == bare, "one value makes no variants"


def test_only_draws_that_every_method_has_are_paired():
    table = rows().rename(columns={"encoding": "method"})
    missing = (table["dataset"] == "B") & (table["method"] == "rope") & (table["seed"] == 1)
    kept = complete(table[~missing])
    assert kept.groupby("dataset")["seed"].unique().map(list).to_dict() == {"A": [0, 1], "B": [0]}
    split = pd.concat([table.assign(resample=0), table[~missing].assign(resample=1)])
    assert len(complete(split)) == len(table) + len(table) - 2
    for ours, n in ((True, 6), (False, 7)):
        study = StudyScores(table[~missing], Path("results.csv"), ours=ours)
        assert [len(variant.used) for variant in variant_scores(study)] == [n]


def test_words_numbers_and_ids_are_read_as_they_were_written(tmp_path):
    numbers = [0.1 + 0.2, 1 / 3, 0.8999999999999999, 2 / 7] * 2
    table = rows(accuracy=numbers, run_id=["12345678901234567890123456789012", ""] * 4)
    table["d_ff"] = pd.Series([None, 16] * 4, dtype=object)
    table = table.replace({"encoding": {"none": " None", "rope": "NA "}})
    table.to_csv(tmp_path / "results.csv", index=False, na_rep="None")
    study = read_study(tmp_path, vary="d_ff")
    assert study.rows["score"].tolist() == numbers
    assert study.rows["run_id"].tolist() == table["run_id"].tolist()
    assert study.rows["method"].tolist() == ["None", "None", "NA", "NA"] * 2
    assert [variant.label for variant in variant_scores(study)] == ["d_ff=None", "d_ff=16"]
    (tmp_path / "results.csv").write_text("dataset,method,seed,score\nA,b,0,1,\nB,b,0,1,\n")
    assert read_scores(tmp_path / "results.csv")["dataset"].tolist() == ["A", "B"]


def test_only_what_the_design_or_the_caller_names_makes_variants(tmp_path):
    table = rows(device=["cpu", "cuda"] * 4, stem=["conv"] * 4 + ["linear"] * 4)
    table.assign(train_size=["10", "50%"] * 4).to_csv(tmp_path / "results.csv", index=False)
    for design, vary, labels in (
        ({}, None, [""]),
        ({"vary": {"stem": ["conv", "linear"]}}, None, ["stem=conv", "stem=linear"]),
        ({"train_sizes": ["10", "50%"]}, None, ["train_size=10", "train_size=50%"]),
        ({"train_sizes": ["10", "50%"]}, "device", ["device=cpu", "device=cuda"]),
    ):
        (tmp_path / "study.json").write_text(json.dumps(design))
        variants = variant_scores(read_study(tmp_path, vary=vary))
        assert [variant.label for variant in variants] == labels
    with pytest.raises(ValueError):
        read_study(tmp_path, vary=["stm"])
