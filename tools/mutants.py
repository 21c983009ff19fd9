"""Break single statements of the package and report the mutants that no test catches.

    python tools/mutants.py LIST.csv [--again OLD.csv] [--number 200] [--seed 0] [--limit 25]

Run it in the root of the tree. LIST.csv is sampled if it does not exist; `--again` takes the
mutants of another list instead. A mutant is located by the text of its statement, which may have
moved; without that text it is "gone" and does not count. Rows that have a result are skipped.
The tests that cover a mutant run, nearest and fastest first, until one fails. The first call
records in build/mutants which test covers which line; delete that folder to record again.

No file changes: a mutant is loaded in a fork of a process that has imported the libraries.
mutmut skips properties and class attributes; cosmic-ray imports torch again for each mutant.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import csv
import importlib
import importlib.machinery
import multiprocessing
import os
import random
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple
from xml.etree import ElementTree

import coverage
import pytest

FORK = multiprocessing.get_context("fork")
COVERAGE, SECONDS = Path("build/mutants/coverage"), Path("build/mutants/tests.xml")
FIELDS = ("file", "function", "before", "after", "operator", "result", "test", "seconds", "note")
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=120"]
OPTIONS += ["-m", "not slow and not processes and not exhaustive"]
LIBRARIES = "torch._dynamo sklearn.ensemble matplotlib.pyplot mlflow sktime.base aeon hypothesis"
PAIRS = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
PAIRS += [(ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div)]
PAIRS += [(ast.FloorDiv, ast.Div), (ast.Mod, ast.Mult), (ast.Pow, ast.Mult)]
OPPOSITE: dict[Any, Any] = {b: a for a, b in PAIRS} | dict(PAIRS)
IGNORED = ("annotation", "returns", "decorator_list", "strict", "stacklevel")
Row = dict[str, str]
Groups = list[tuple[str, list[str]]]


def changes(node: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield an operator, a field and its new value."""
    match node:
        case ast.Compare(ops=[op, *rest]):
            yield "comparison", "ops", [OPPOSITE[type(op)](), *rest]
        case ast.BoolOp(op=op):
            yield "boolean", "op", OPPOSITE[type(op)]()
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPPOSITE:
            yield "arithmetic", "op", OPPOSITE[type(op)]()
        case ast.Constant(value=bool(value)):
            yield "constant", "value", not value
        case ast.Constant(value=int(value) | float(value)):
            yield from (("constant", "value", value + i) for i in (-1, 1))
        case ast.If() | ast.While() | ast.IfExp():
            yield "not", "test", ast.UnaryOp(ast.Not(), node.test)
            yield "removed statement", "test", ast.Constant(False)
        case ast.Call(args=args, keywords=keywords):
            if len(args) > 1:
                yield "swapped arguments", "args", [args[1], args[0], *args[2:]]
            for keyword in keywords:
                if keyword.arg not in IGNORED:
                    left = [k for k in keywords if k is not keyword]
                    yield "omitted argument", "keywords", left
        case ast.Return(value=ast.expr()):
            yield "return value", "value", ast.Constant(None)
        case ast.Expr(value=ast.Call()):
            yield "removed statement", "value", ast.Constant(...)


def variants(statement: Any) -> Iterator[tuple[str, str]]:
    """Yield operators and the mutated texts of a statement."""

    def nodes(node: ast.AST) -> Iterator[ast.AST]:
        yield node
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                skipped = name in IGNORED or getattr(child, "arg", None) in IGNORED
                if isinstance(child, ast.expr | ast.keyword | ast.arguments) and not skipped:
                    yield from nodes(child) if not isinstance(child, ast.JoinedStr) else ()

    if not isinstance(statement, ast.Raise):
        for node in list(nodes(statement)):
            for operator, field, value in changes(node):
                kept = getattr(node, field)
                setattr(node, field, value)
                yield operator, header(statement)
                setattr(node, field, kept)


def header(statement: Any) -> str:
    """Return a statement as one line, without its body and decorators."""
    alone = copy.copy(statement)
    if isinstance(getattr(alone, "body", None), list):
        alone.body = [ast.Pass()]
        for name in {"orelse", "handlers", "finalbody", "decorator_list"} & vars(alone).keys():
            setattr(alone, name, [])
    return ast.unparse(alone).removesuffix("\n    pass").strip()


class Site(NamedTuple):
    """A statement: its file, function, module, block, and the functions and classes around it."""

    file: str
    function: str
    module: ast.Module
    block: list[Any]
    statement: Any
    around: tuple[Any, ...]


def index_statements() -> dict[str, list[Site]]:
    """Map the text of each statement of the package to its sites."""
    index: dict[str, list[Site]] = {}

    def enter(file: str, module: Any, parent: Any, around: tuple[Any, ...]) -> None:
        for block in [value for value in vars(parent).values() if isinstance(value, list)]:
            for node in block:
                is_scope = isinstance(node, ast.FunctionDef | ast.ClassDef)
                scopes = (*around, node) if is_scope else around
                if isinstance(node, ast.stmt):
                    name = ".".join(scope.name for scope in scopes)
                    site = Site(file, name, module, block, node, scopes)
                    index.setdefault(header(node), []).append(site)
                if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                    enter(file, module, node, scopes)

    for file in sorted(Path("tsformer").rglob("*.py")):
        module = ast.parse(file.read_text(encoding="utf-8"))
        enter(str(file), module, module, ())
    return index


def find(row: Row, index: dict[str, list[Site]]) -> Site | None:
    """Return the statement: in its function, its file, a function of that name, or anywhere."""
    sites = index.get(row["before"], [])
    name = row["function"].rpartition(".")[2]
    here = [site for site in sites if site.file == row["file"]]
    moved = [site for site in sites if site.function.rpartition(".")[2] == name]
    same = [site for site in here if site.function == row["function"]]
    for matches in (same, here, moved, sites if len(row["before"]) > 30 else []):
        if len(matches) == 1:
            return matches[0]
    return None


def sample(number: int, seed: int) -> list[Row]:
    """Draw statements of all files, and mutants, as many of each operator."""
    index = index_statements()
    sites = [site for sites in index.values() for site in sites]
    generator = random.Random(seed)
    generator.shuffle(sites)
    rows: list[Row] = []
    drawn: Counter[str] = Counter()
    for site in sites:
        before = header(site.statement)
        row = {"file": site.file, "function": site.function, "before": before}
        pairs = sorted({pair for pair in variants(site.statement) if pair[1] != before})
        if pairs and len(rows) < number and find(row, index) is site:
            rarest = min(drawn[operator] for operator, _ in pairs)
            operator, after = generator.choice([p for p in pairs if drawn[p[0]] == rarest])
            rows.append(dict.fromkeys(FIELDS, "") | row | {"operator": operator, "after": after})
            drawn.update([operator])
    return rows


def compiled(site: Site, after: str) -> CodeType:
    """Return the code of a module with a mutant."""
    new: Any = ast.parse(after + " pass" * after.endswith(":")).body[0]
    ast.increment_lineno(new, site.statement.lineno - 1)
    if after.endswith(":"):
        for name in {"body", "orelse", "decorator_list"} & vars(site.statement).keys():
            setattr(new, name, getattr(site.statement, name))
    i = site.block.index(site.statement)
    site.block[i] = new
    try:
        # Without this module's future statements, which would make text of annotations.
        path = str(Path(site.file).absolute())
        return compile(site.module, path, "exec", dont_inherit=True)
    finally:
        site.block[i] = site.statement


class Covered:
    """Finds the tests that cover a statement."""

    def __init__(self) -> None:
        if not SECONDS.exists():
            os.environ["COVERAGE_FILE"] = str(COVERAGE)
            arguments = [*OPTIONS, "--cov=tsformer", "--cov-context=test", "--cov-report="]
            arguments += [f"--cov-config={os.devnull}", f"--junitxml={SECONDS}"]
            process = FORK.Process(target=pytest.main, args=([*arguments, "tests"],))
            process.start()
            process.join()
        self.data = coverage.CoverageData(str(COVERAGE))
        self.data.read()
        self.seconds: dict[str, float] = {}
        for case in ElementTree.parse(SECONDS).iter("testcase"):
            file, name, seconds = (case.get(key, "") for key in ("classname", "name", "time"))
            if case.find("failure") is None and case.find("error") is None:
                self.seconds[f"{file.replace('.', '/')}.py::{name}"] = float(seconds)

    def groups(self, site: Site) -> Groups:
        """Return tests file by file, nearest and fastest first."""
        by_line = self.data.contexts_by_lineno(str(Path(site.file).absolute()))
        first, last = site.statement.lineno, site.statement.end_lineno
        if isinstance(getattr(site.statement, "body", None), list):
            last = max(first, site.statement.body[0].lineno - 1)
        contexts = {test for n in range(first, last + 1) for test in by_line.get(n, ())}
        if "" in contexts:  # run at import: it acts in the function or class around it
            scope = site.around[-1] if site.around else ast.Pass(lineno=1, end_lineno=10**6)
            lines = [n for n in by_line if scope.lineno <= n <= scope.end_lineno]
            contexts |= {test for n in lines for test in by_line[n]}
        covering = {re.sub(r"\|(setup|run|teardown)$", "", test) for test in contexts}
        files: dict[str, list[str]] = {}
        for test in sorted(covering & self.seconds.keys(), key=self.seconds.__getitem__):
            files.setdefault(test.split("::")[0], []).append(test)

        def order(file: str) -> tuple[bool, bool, float]:
            far = file.split("/")[1] != site.file.split("/")[1]
            distant = f"test_{Path(site.file).stem}" not in file
            return far, distant, sum(self.seconds[test] for test in files[file])

        groups = [(file, files[file]) for file in sorted(files, key=order)]
        # A test that uses what another test of its file has computed does not cover it itself.
        uncovered = sorted(self.seconds.keys() - covering, key=self.seconds.__getitem__)
        return groups + [(f, [t for t in uncovered if t.split("::")[0] == f]) for f, _ in groups]


class Chosen:
    """Runs some tests of a file in their order, until one fails or the time is up."""

    def __init__(self, tests: Sequence[str], limit: float, report: Callable[[Row], None]):
        self.tests, self.limit, self.report = tests, limit, report
        self.failed = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        by_id = {item.nodeid: item for item in items}
        items[:] = [by_id[test] for test in self.tests if test in by_id]

    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self.report({"result": "caught", "test": item.nodeid})
        if sum(os.times()[:4]) > self.limit:
            item.session.shouldstop = "no time is left"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed

    pytest_collectreport = pytest_runtest_logreport


def run_tests(code: CodeType, groups: Groups, limit: float, report: Callable[[Row], None]) -> None:
    """Load a mutant and run tests until one fails; the last report names it."""
    hard = int(2 * limit + 120)  # a test that does not end has failed
    resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    loader: Any = importlib.machinery.SourceFileLoader
    original = loader.get_code
    loader.get_code = lambda self, name: (
        code if self.path == code.co_filename else original(self, name)
    )
    for file, tests in groups:
        if tests and sum(os.times()[:4]) < limit:
            report({"result": "caught", "test": tests[0]})  # if the package cannot be imported
            chosen = Chosen(tests, limit, report)
            ended = pytest.main([*OPTIONS, "-x", file], plugins=[chosen])
            if chosen.failed or ended == pytest.ExitCode.USAGE_ERROR:  # conftest.py failed
                return
    report({"result": "survived", "test": ""})


def attempt(code: CodeType, groups: Groups, limit: float) -> Row:
    """Run tests on a mutant in a process that has loaded the libraries only."""
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=run_tests, args=(code, groups, limit, sender.send))
    child.start()
    sender.close()
    state: Row = {}
    with contextlib.suppress(EOFError):
        while child.is_alive() or receiver.poll():
            if receiver.poll(1):
                state = receiver.recv()
    child.join()
    return state


def try_all(path: Path, limit: float) -> None:
    """Enter the results that are missing in a list."""
    covered, index, rows = Covered(), index_statements(), read(path)
    for name in LIBRARIES.split():
        importlib.import_module(name)
    for row in [row for row in rows if not row["result"]]:
        start, site, state = time.perf_counter(), find(row, index), {"result": "gone"}
        if site is not None:
            state = attempt(compiled(site, row["after"]), covered.groups(site), limit)
        row |= state | {"seconds": f"{time.perf_counter() - start:.1f}"}
        write(rows, path)
        print(row["result"], row["file"], row["before"], "->", row["after"], flush=True)


def summarise(rows: Sequence[Row]) -> int:
    """Print the rate and the survivors; return 1 if fewer than nine of ten are caught."""
    counted = [r for r in rows if r["result"] != "gone" and not r["note"].startswith("equivalent")]
    caught = sum(row["result"] == "caught" for row in counted)
    for row in counted:
        if row["result"] != "caught":
            print(f"{row['file']}: {row['before']}  ->  {row['after']}  {row['note']}")
    print(f"{caught} of {len(counted)} caught, {len(rows) - len(counted)} gone or equivalent")
    return int(caught < 0.9 * len(counted))


def read(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(rows: Sequence[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("list", type=Path, help="CSV file of mutants, sampled if it does not exist")
    parser.add_argument("--again", type=Path, metavar="OLD", help="take the mutants of this list")
    parser.add_argument("--number", type=int, default=200, help="of mutants sampled")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=25, help="seconds of tests per mutant")
    options = parser.parse_args(argv)
    if not options.list.exists():
        rows = read(options.again) if options.again else sample(options.number, options.seed)
        tried = dict.fromkeys(("result", "test", "seconds"), "")
        write([row | tried for row in rows], options.list)
    try_all(options.list, options.limit)
    return summarise(read(options.list))


if __name__ == "__main__":
    sys.exit(main())
