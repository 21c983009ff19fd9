"""Do the tests notice when the package is wrong? Break one line at a time, and see.

    python tools/mutants.py [--minutes 30] [--seed 0] [--only encodings/] [--list FILE]

Each entry of tools/mutants.toml changes one line of a file and names the tests nearest to it,
which must then fail. It is applied in a copy of the working tree in a temporary folder, never in
the tree itself. Entries are taken in random order until the time is up. Results are kept in
build/mutants.json and used again as long as neither the package, the entry nor its tests change,
so that the next call goes on where this one ended. Exits with 1 if fewer than nine of ten are
noticed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tools/mutants.toml"
RESULTS = ROOT / "build/mutants.json"
LEAST_SCORE = 0.9
#: Exit codes of pytest: tests failed; an error while importing them.
NOTICED = (1, 2)


@dataclass(frozen=True)
class Mutant:
    """A change of one line, and the tests that should notice it.

    Attributes
    ----------
    file : str
        The file, from the root of the project.
    old, new : str
        Text that occurs once in it, and what replaces it.
    tests : str
        Arguments of pytest.
    equivalent : str
        Why the change makes no difference, if it makes none; it is then not run.
    """

    file: str
    old: str
    new: str
    tests: str
    equivalent: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {_line(self.old)}  ->  {_line(self.new)}"

    def applied(self, text: str) -> str:
        """Return the text of the file with the change.

        Raises
        ------
        ValueError
            If it does not apply to exactly one place, or leaves something that is not Python.
        """
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {text.count(self.old)} times, not once")
        changed = text.replace(self.old, self.new)
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text)):
            raise ValueError(f"{self.new!r} changes nothing in {self.file}")
        return changed

    def paths(self) -> list[str]:
        """Return the files of its tests."""
        words = self.tests.split()
        return [word.partition("::")[0] for word in words if word.startswith("tests/")]


def read_list(path: Path = LIST) -> list[Mutant]:
    return [Mutant(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]]


@contextmanager
def copies(number: int) -> Iterator[SimpleQueue[Path]]:
    """Make copies of the working tree, as it is, without what git ignores."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        free: SimpleQueue[Path] = SimpleQueue()
        for i in range(number):
            copy = Path(folder, str(i))
            for name in filter(None, names):
                if (ROOT / name).is_file():
                    (copy / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
            free.put(copy)
        yield free


def run_tests(tests: str, tree: Path, seconds: float) -> int | None:
    """Return pytest's exit code, or None if it was stopped after this time."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    try:
        return subprocess.run(
            [*command, *_words(tests)], cwd=tree, env=environment, timeout=seconds, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ).returncode  # fmt: skip
    except subprocess.TimeoutExpired:
        return None


class Trial:
    """Runs mutants, and keeps what came of each."""

    def __init__(self, results: Path, until: float, say: Callable[[str], None] = print):
        self.results = results
        self.until = until
        self.say = say
        self.known: dict[str, bool] = (
            json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
        )
        self._package = _digest(sorted((ROOT / "tsformer").rglob("*.py")))
        self._seconds: dict[str, float] = {}

    def key(self, mutant: Mutant) -> str:
        tests = sorted(ROOT / path for path in mutant.paths())
        return _digest(tests, self._package, *vars(mutant).values())

    def noticed(self, mutant: Mutant, free: SimpleQueue[Path]) -> bool | None:
        """Return whether the tests noticed the change, or None if there was no time to see."""
        key = self.key(mutant)
        if key in self.known:
            return self.known[key]
        tree = free.get()
        try:
            if time.monotonic() >= self.until:
                return None
            limit = 30 + 5 * self._seconds_unchanged(mutant.tests, tree)
            file = tree / mutant.file
            whole = file.read_text(encoding="utf-8")
            file.write_text(mutant.applied(whole), encoding="utf-8")
            try:
                code = run_tests(mutant.tests, tree, limit)
            finally:
                file.write_text(whole, encoding="utf-8")
        finally:
            free.put(tree)
        if code not in (0, None, *NOTICED):
            raise ValueError(f"pytest {mutant.tests} ended with {code}: correct {LIST.name}")
        self.known[key] = code != 0
        self.say(f"{'noticed ' if code != 0 else 'SURVIVED'}  {mutant}")
        self._save()
        return self.known[key]

    def _seconds_unchanged(self, tests: str, tree: Path) -> float:
        """Return how long the tests take on the package as it is, which they must pass."""
        if tests not in self._seconds:
            start = time.monotonic()
            code = run_tests(tests, tree, 600)
            if code != 0:
                raise ValueError(f"pytest {tests} ends with {code} before anything is broken")
            self._seconds[tests] = time.monotonic() - start
        return self._seconds[tests]

    def _save(self) -> None:
        self.results.parent.mkdir(exist_ok=True)
        part = self.results.with_suffix(".part")
        part.write_text(json.dumps(self.known, indent=1) + "\n", encoding="utf-8")
        part.replace(self.results)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of the order in which they are tried")
    parser.add_argument("--only", default="", help="a part of the files' names")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", type=Path, default=LIST)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    listed = [mutant for mutant in read_list(options.list) if options.only in mutant.file]
    tried = [mutant for mutant in listed if not mutant.equivalent]
    random.Random(options.seed).shuffle(tried)
    trial = Trial(options.results, time.monotonic() + 60 * options.minutes)
    with copies(options.jobs) as free, ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda mutant: trial.noticed(mutant, free), tried))
    return report(listed, dict(zip(tried, found, strict=True)))


def report(listed: Sequence[Mutant], found: dict[Mutant, bool | None]) -> int:
    """Print the score and the survivors; return the exit code."""
    run = {mutant: noticed for mutant, noticed in found.items() if noticed is not None}
    for mutant, noticed in run.items():
        if not noticed:
            print(f"survived: {mutant}\n          {mutant.tests}")
    for mutant in listed:
        if mutant.equivalent:
            print(f"equivalent: {mutant}\n            {mutant.equivalent}")
    n, noticed = len(run), sum(run.values())
    left = f"; {len(found) - n} not yet tried, repeat to go on" if n < len(found) else ""
    print(f"{noticed} of {n} noticed{f', {noticed / n:.0%}' if n else ''}{left}")
    return int(n > 0 and noticed / n < LEAST_SCORE)


def _line(text: str) -> str:
    return " ".join(text.split())


def _words(tests: str) -> list[str]:
    """Split the arguments of pytest; what follows -k is one of them."""
    paths, _, expression = tests.partition(" -k ")
    return [*paths.split(), *(["-k", expression] if expression else [])]


def _digest(files: Sequence[Path], *texts: str) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for text in (*texts, *(file.read_text(encoding="utf-8") for file in files)):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
