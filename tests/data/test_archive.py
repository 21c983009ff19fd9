"""Data sets by name: the catalogue, the folders, the checks and the download."""

import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer.data import DatasetError, list_datasets, load_dataset

sktime_datasets = pytest.importorskip("sktime.datasets", reason='needs the extra "data"')
SHIPPED = Path(sktime_datasets.__file__).parent / "data"


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """Unset $TSFORMER_DATA, so that only sktime has any data."""
    monkeypatch.delenv("TSFORMER_DATA", raising=False)


def put(folder, name="BasicMotions", source="BasicMotions", edit=None):
    """Lay a copy of a shipped problem into `folder` as `name`; `edit` changes the lines."""
    home = Path(folder) / name
    home.mkdir(parents=True)
    for split in ("TRAIN", "TEST"):
        lines = (SHIPPED / source / f"{source}_{split}.ts").read_text().splitlines(keepends=True)
        lines = lines if edit is None else edit(lines)
        (home / f"{name}_{split}.ts").write_text("".join(lines))
    return home


def test_lengths_decide_on_the_container_and_no_split_warns():
    X, y = load_dataset("BasicMotions", split="train")
    assert X.shape == (40, 6, 100)
    assert X.dtype == np.float64
    assert sorted(set(y)) == ["Badminton", "Running", "Standing", "Walking"]
    X, y = load_dataset("JapaneseVowels", split="test")
    assert len(X) == len(y) == 370
    assert {x.shape[0] for x in X} == {12}
    assert len({x.shape[1] for x in X}) > 1
    with pytest.warns(UserWarning) as warned:
        X, y = load_dataset("BasicMotions")
    assert warned[0].filename == __file__
    assert len(X) == len(y) == 80


def test_places_are_searched_in_order(monkeypatch):
    def available():
        return list_datasets().set_index("name").loc["BasicMotions", "available"]

    assert available() == "sktime"
    put("data")
    assert available() == "data"
    put("named")
    monkeypatch.setenv("TSFORMER_DATA", "named")
    assert available() == "TSFORMER_DATA"
    (put("other") / "BasicMotions_TRAIN.ts").write_text("")
    with pytest.raises(DatasetError, match="other/BasicMotions"):
        load_dataset("BasicMotions", "train", folder="other")


def test_what_is_not_there_is_named(monkeypatch):
    for arguments, message in {
        ("BasicMotions", None): "empty/BasicMotions",
        ("Natop", None): "'NATOPS'",
        ("BasicMotions", "tset"): "'test'",
    }.items():
        with pytest.raises(DatasetError, match=message):
            load_dataset(*arguments, folder="empty")
    for name in ["../x", "", "a\\b", "NATOPS\n", None, "\0" * 5000]:
        with pytest.raises(DatasetError) as caught:
            load_dataset(name)
        assert len(str(caught.value)) < 500
    monkeypatch.setenv("TSFORMER_DATA", "nowhere")
    with pytest.raises(DatasetError, match="TSFORMER_DATA"):
        load_dataset("BasicMotions")


def test_your_own_data_set_needs_no_catalogue_but_one_number_of_channels(tmp_path):
    put("data", name="My-Motions_2", edit=lambda lines: lines[:-1])
    X, _ = load_dataset("My-Motions_2", "train+test")
    assert X.shape == (78, 6, 100)
    (tmp_path / "data/My-Motions_2/My-Motions_2_TEST.ts").unlink()
    assert len(load_dataset("My-Motions_2", "train")[0]) == 39
    with pytest.raises(DatasetError):
        load_dataset("My-Motions_2")
    home = put("data", name="Mine")
    shutil.copy(SHIPPED / "ArrowHead/ArrowHead_TEST.ts", home / "Mine_TEST.ts")
    with pytest.raises(DatasetError):
        load_dataset("Mine")


@pytest.mark.parametrize("lengths", [(4, 4, 4), (4, 2, 3)])
@pytest.mark.parametrize(
    ("ending", "sep", "number"),
    [("tsv", "\t", "{!r}"), ("txt", "   ", "{:.17e}"), ("txt", ",", "{!r}")],
)
def test_the_older_files_of_the_archive_are_read_by_name(lengths, ending, sep, number):
    """Label first, no names of columns, and NaN past the end of a series."""
    Path("data/Own").mkdir(parents=True)
    X = [np.random.default_rng(n).normal(size=n) for n in lengths]
    rows = [[2.0 - i, *x, *[float("nan")] * (5 - len(x))] for i, x in enumerate(X)]
    text = "\n".join(sep.join(number.format(float(cell)) for cell in row) for row in rows)
    Path(f"data/Own/Own_TEST.{ending}").write_text(text)
    again, labels = load_dataset("Own", "test")
    assert isinstance(again, np.ndarray) == (len(set(lengths)) == 1)
    assert labels.tolist() == ["2", "1", "0"]
    for x, expected in zip(again, X, strict=True):
        np.testing.assert_array_equal(x, [expected])


def test_faults_of_older_files_are_located_and_their_labels_kept():
    Path("data/Mine").mkdir(parents=True)
    Path("data/Mine/Mine_TRAIN.tsv").write_text("1.0\t0.5\t3\n007\t0.5\tNaN\n3_1\t4\t5\n")
    assert load_dataset("Mine", "train")[1].tolist() == ["1", "007", "3_1"]
    Path("data/Mine/Mine_TRAIN.tsv").write_text("1\t0.5\t3\n2\tx\t1\n")
    with pytest.raises(ValueError, match=r"Mine_TRAIN\.tsv: row 2.*'1'"):
        load_dataset("Mine", "train")


def test_your_own_data_sets_are_listed_after_those_of_the_archives(monkeypatch, tmp_path):
    for folder, name in (("data", "Mine"), ("data", "not a name"), ("named", "Other")):
        put(folder, name=name)
    put("named", name="Mine")
    put("data", name="Torn", edit=lambda lines: lines[:3])
    (tmp_path / "data/Empty").mkdir()
    monkeypatch.setenv("TSFORMER_DATA", "named")
    table = list_datasets()
    local = table[table["archive"] == "own"].set_index("name")
    # The checkout's folder data/ may have further data sets.
    assert {"Mine", "Other"} <= {*local.index} <= {*local.index} - {"Empty", "not a name"}
    assert table["archive"].iloc[: len(table) - len(local)].isin(["UCR", "UEA"]).all()
    assert local.loc["Mine", "available"] == "TSFORMER_DATA"
    assert tuple(local.loc["Mine", ["train_size", "length_max"]]) == (40, 100)
    assert local.loc["Torn", "train_size"] is pd.NA
    assert table.dtypes["train_size"] == "Int64"
    with pytest.raises(DatasetError, match="'Mine'"):
        load_dataset("Mime")


def test_files_that_are_not_the_catalogues():
    put("data", edit=lambda lines: lines[:-1])
    put("data", "ArrowHead", "GunPoint")
    for name, message in (
        ("BasicMotions", "train_size 39, expected 40"),
        ("ArrowHead", "length_min 150, expected 251; classes 2, expected 3"),
    ):
        with pytest.raises(DatasetError, match=message):
            load_dataset(name, "train")


@pytest.fixture
def downloads(monkeypatch):
    """Stand in for sktime's download: `downloads.does` gets the folder it must write into."""

    class Downloads:
        does = staticmethod(put)

    def load(name, split, extract_path):
        Downloads.does(extract_path)

    # sktime's own copies are not found, so that a data set with known files is downloaded.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(sktime_datasets, "load_UCR_UEA_dataset", load)
    return Downloads


def half_then(error):
    def download(folder):
        home = put(folder)
        path = home / "BasicMotions_TEST.ts"
        path.write_text(path.read_text()[:1000])
        raise error

    return download


@pytest.mark.parametrize(
    ("does", "error"),
    [
        (half_then(KeyboardInterrupt()), KeyboardInterrupt),
        (half_then(RuntimeError("All download strategies\nfailed")), DatasetError),
        (lambda folder: put(folder, edit=lambda lines: lines[:-1]), DatasetError),
    ],
    ids=["interrupted", "offline", "wrong content"],
)
def test_a_failed_download_leaves_nothing(downloads, does, error):
    downloads.does = does
    with pytest.raises(error):
        load_dataset("BasicMotions")
    assert os.listdir("data") == []
    downloads.does = put
    assert len(load_dataset("BasicMotions", "train+test")[0]) == 80


def test_the_catalogue_is_whole():
    table = list_datasets()
    assert table["name"].is_unique
    table = table[table["archive"] != "own"]  # there may be some in the checkout
    assert table["archive"].value_counts().to_dict() == {"UCR": 128, "UEA": 30}
    numbers = table.select_dtypes("Int64")
    assert (numbers.shape[1], bool((numbers > 0).all(axis=None))) == (6, True)
    assert table.loc[numbers.isna().any(axis=1), "name"].tolist() == ["InsectWingbeat"]
    table["classes"] = pd.NA
    assert list_datasets()["classes"].notna().any(), "each table is a fresh one"
