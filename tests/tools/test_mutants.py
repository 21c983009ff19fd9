"""tools/mutants.py: its list applies to the package, and a change that tests miss is reported."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tools import mutants
from tools.mutants import LIST, ROOT, Mutant, Trial, read_list, report

ALL = read_list()
FILE = "tsformer/encodings/none.py"
MUTANT = Mutant(FILE, "symmetric = True", "symmetric = False", "tests/encodings/test_base.py")


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: f"{mutant.file}:{mutant.new[:20]}")
def test_each_applies_to_one_place_and_names_tests(mutant: Mutant) -> None:
    mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8"))
    assert mutant.paths()
    assert all((ROOT / path).is_file() for path in mutant.paths())


def test_there_are_enough_of_them_all_over_the_package() -> None:
    assert len(set(ALL)) == len(ALL) >= 60
    rooms = {Path(mutant.file).parts[1] for mutant in ALL}
    assert {"encodings", "model", "training", "data", "estimators", "studies"} <= rooms


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("not there", "x", "0 times, not once"),
        ("x", "y", "times, not once"),
        ("only", "whole", "changes nothing"),
    ],
)
def test_what_does_not_apply_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mutant("file.py", old, new, "tests").applied("x = 1  # only one\nx = 2\n")


class Pytest:
    """Stands in for `run_tests`: fails if the tree is not as it is in the checkout."""

    def __init__(self, *, sees: bool):
        self.sees = sees
        self.calls = 0

    def __call__(self, tests: str, tree: Path, seconds: float) -> int:
        assert tree != ROOT
        assert (ROOT / FILE).read_text() == self.whole
        self.calls += 1
        return int(self.sees and (tree / FILE).read_text() != self.whole)

    whole = (ROOT / FILE).read_text(encoding="utf-8")


def tried(monkeypatch: Any, results: Path, *, sees: bool = True, minutes: float = 1) -> Any:
    stand_in = Pytest(sees=sees)
    monkeypatch.setattr(mutants, "run_tests", stand_in)
    trial = Trial(results, time.monotonic() + 60 * minutes, say=lambda text: None)
    with mutants.copies(1) as free:
        return trial.noticed(MUTANT, free), stand_in.calls


def test_a_change_is_tried_in_a_copy_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    results = tmp_path / "build/mutants.json"
    assert tried(monkeypatch, results, minutes=0) == (None, 0), "there was no time"
    assert tried(monkeypatch, results) == (True, 2), "the tests on the package, and on the change"
    assert tried(monkeypatch, results) == (True, 0), "it is known"
    monkeypatch.setattr(mutants, "_digest", lambda *_: "another package")
    assert tried(monkeypatch, results, sees=False) == (False, 2)


def test_tests_that_fail_anyway_show_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mutants, "run_tests", lambda *_: 1)
    with mutants.copies(1) as free, pytest.raises(ValueError, match="before anything is broken"):
        Trial(tmp_path / "mutants.json", time.monotonic() + 60).noticed(MUTANT, free)


def test_the_report_lists_survivors_and_equivalents(capsys: pytest.CaptureFixture[str]) -> None:
    made = [Mutant("a.py", str(i), "new", "tests/x.py") for i in range(21)]
    same = Mutant("b.py", "old", "new", "tests/x.py", "nothing reads it")
    found: dict[Mutant, bool | None] = dict.fromkeys(made, True)
    found[made[0]], found[made[20]] = False, None
    assert report([*made, same], found) == 0
    printed = capsys.readouterr().out
    assert "survived: a.py: 0  ->  new\n          tests/x.py\n" in printed
    assert "equivalent: b.py: old  ->  new\n            nothing reads it\n" in printed
    assert "19 of 20 noticed, 95%; 1 not yet tried, repeat to go on" in printed
    found[made[1]] = found[made[2]] = False
    assert report(made, found) == 1


def test_an_expression_of_pytest_is_one_argument() -> None:
    assert mutants._words("tests/a.py tests/b.py -k x or y") == [
        *("tests/a.py", "tests/b.py"), "-k", "x or y",
    ]  # fmt: skip
    assert LIST.is_relative_to(ROOT)
