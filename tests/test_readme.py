"""README.md: its examples run as they stand, its links lead somewhere, and its map is true."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: Path -> what the map says of it.
MAP = dict(
    re.findall(r"^\| `([^`]+)` \| (.*) \|$", README.partition("## The map")[2], re.MULTILINE)
)
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example_runs(number, tmp_path):
    pytest.importorskip("sktime", reason='the problems come with the extra "data"')
    (tmp_path / "example.py").write_text(EXAMPLES[number], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # Far above chance, 0.25 and 0.5 here: the example learns something.
    assert float(re.search(r"accuracy ([\d.]+)", done.stdout)[1]) > 0.8


@pytest.mark.slow
def test_commands_on_ones_own_tables_run(tmp_path, monkeypatch, capsys):
    for library in ("sktime", "mlflow", "typer", "matplotlib"):
        pytest.importorskip(library, reason='needs the extra "all"')
    from tsformer.cli import main
    from tsformer.data import load_dataset, to_long

    parts = {"long": "train", "test": "test", "new": "test"}
    for name, split in parts.items():
        X, y = load_dataset("BasicMotions", split)
        long = to_long(X[:, :3, :40], y, case="id", time="t", value=["a", "b", "c"], label="y")
        long = long if name != "new" else long.drop(columns="y")
        long.to_csv(tmp_path / f"{name}.csv", index=False)
    X, y = load_dataset("ItalyPowerDemand", "train")
    pd.DataFrame(X[:, 0]).add_prefix("h").assign(y=y).to_csv(tmp_path / "wide.csv", index=False)

    (block,) = re.findall(r"```bash\n(tsformer fit long\.csv.*?)```", README, re.DOTALL)
    commands = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    assert [words[0] for words in commands] == [
        "fit", "predict", "evaluate", "compare", "fit", "convert",
    ]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    printed = []
    for words in commands:
        if words[0] in ("fit", "compare"):  # as they stand, they take minutes
            words += ["--max-epochs", "2", "--set", "n_layers=1"]
        words += ["--seeds", "1"] if words[0] == "compare" else []
        with pytest.raises(SystemExit) as stopped:  # in this process, since each import takes time
            main(words)
        said = capsys.readouterr()
        assert not stopped.value.code, said.err
        printed.append(said.out)
    assert printed[1].startswith("id,label,p(Badminton),")
    assert "28 series to train on and 12 to test on" in printed[3]
    assert (tmp_path / "wide/estimator.json").is_file()
    assert len(load_dataset("Own", "train", folder=tmp_path / "data")[1]) == 40


def test_there_are_examples_to_run():
    assert len(EXAMPLES) == 3
    assert "from_long(" in EXAMPLES[1]
    assert 'PositionalEncoding, name="ramp"' in EXAMPLES[2]


def test_links_lead_to_files_and_places():
    targets = re.findall(r"\]\(([^)]+)\)", README)
    assert "docs/encodings.md#lspe" in targets
    for target in targets:
        name, _, place = target.partition("#")
        text = (ROOT / name).read_bytes().decode("utf-8", errors="ignore")
        assert not place or f"\n### {place}\n" in text, f"{target} leads nowhere"


def test_every_path_on_the_map_exists():
    assert len(MAP) > 12
    for where, what in MAP.items():
        assert (ROOT / where).exists(), f"the map in README.md names {where}"
        for name in re.findall(r"`([\w./-]+(?:/|\.py|\.md|\.csv))`", what):
            there = (ROOT / where / name).exists() or (ROOT / name).exists()
            assert there, f"the map in README.md names {name} at {where}"


def test_the_map_lists_every_part_of_the_package():
    for part in (ROOT / "tsformer").iterdir():
        if part.name[0] not in "_." and (part.is_dir() or part.suffix == ".py"):
            name = f"tsformer/{part.name}{'/' if part.is_dir() else ''}"
            assert name in MAP, f"the map in README.md lacks {name}"


def test_the_map_names_every_subpackage():
    for file in (ROOT / "tsformer").glob("*/*/__init__.py"):
        package = file.parent
        what = MAP[f"tsformer/{package.parent.name}/"]
        assert f"`{package.name}/`" in what, f"the map in README.md lacks {package}"
