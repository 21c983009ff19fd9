"""The catalogue of data sets, and that the files are as it says."""

import os
from pathlib import Path

import pandas as pd
import pytest

from tsformer.data import list_datasets, load_dataset

sktime_datasets = pytest.importorskip("sktime.datasets", reason='needs the extra "data"')
SHIPPED = Path(sktime_datasets.__file__).parent / "data"

# Read before the tests, none of which shall see it.
ARCHIVE = Path(os.environ.get("TSFORMER_DATA", ""))


@pytest.fixture(autouse=True)
def bare(tmp_path, monkeypatch):
    """Start in an empty folder without $TSFORMER_DATA, so that only sktime has any data."""
    monkeypatch.delenv("TSFORMER_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_catalogue_is_whole():
    table = list_datasets()
    assert table["name"].is_unique
    table = table[table["archive"] != "own"]  # there may be some in the checkout
    assert table["archive"].value_counts().to_dict() == {"UCR": 128, "UEA": 30}
    assert (table.loc[table["archive"] == "UCR", "channels"] == 1).all()
    numbers = table.select_dtypes("Int64")
    assert list(numbers) == [
        "train_size", "test_size", "channels", "length_min", "length_max", "classes",
    ]  # fmt: skip
    assert (numbers > 0).all(axis=None)
    assert (table["length_min"] <= table["length_max"]).all()
    undocumented = table.loc[numbers.isna().any(axis=1), "name"]
    assert undocumented.tolist() == ["InsectWingbeat"]
    assert table["type"].notna().all()


def test_the_catalogue_has_the_problems_sktime_lists():
    from sktime.datasets import tsc_dataset_names as theirs

    table = list_datasets().set_index("name")
    later = {name for name in theirs.multivariate if name.startswith("Asphalt")}
    assert set(theirs.multivariate) - later == set(table.index[table["archive"] == "UEA"])
    unequal = table.index[table["length_min"] < table["length_max"]]
    assert set(theirs.univariate_variable_length) <= set(unequal)
    assert not set(theirs.univariate_equal_length) & set(unequal)


def test_list_datasets_is_a_fresh_table():
    table = list_datasets()
    table["classes"] = pd.NA
    assert list_datasets()["classes"].notna().all()


def test_what_sktime_ships_loads():
    table = list_datasets()
    shipped = table.loc[table["available"] == "sktime", "name"]
    assert {"BasicMotions", "ItalyPowerDemand", "JapaneseVowels"} <= set(shipped)
    for name in shipped:
        load_dataset(name, "train+test")


@pytest.mark.archive
@pytest.mark.slow  # reads every file of the archives
def test_the_archives_files_match_the_catalogue():
    table = list_datasets().set_index("name")
    names = [name for name in table.index if (ARCHIVE / name).is_dir()]
    assert names
    for name in names:
        X, y = load_dataset(name, "train+test", folder=ARCHIVE)
        entry = table.loc[name]
        lengths = [x.shape[1] for x in X]
        assert len(X) == len(y) == entry["train_size"] + entry["test_size"], name
        assert (min(lengths), max(lengths)) == (entry["length_min"], entry["length_max"]), name
        assert {x.shape[0] for x in X} == {entry["channels"]}, name
        assert len(set(y)) == entry["classes"], name
