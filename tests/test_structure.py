"""Structure: no circle of imports, few files to a fit, and distinct names of test files."""

import ast
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np

import tsformer
from tools.files_passed import passed


def test_no_two_test_files_share_a_name():
    """Without packages of their own pytest tells test modules apart by their names alone."""
    names = Counter(path.stem for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_circle_of_imports():
    """Imports inside functions and under TYPE_CHECKING count; import-linter skips the latter."""
    package = Path(tsformer.__file__).parent
    files = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts): path
        for path in package.rglob("*.py")
    }
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    graph: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"a relative import in {path}"
                for alias in node.names:
                    member = f"{node.module}.{alias.name}"
                    graph[name].add(member if member in files else str(node.module))
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_a_fit_and_a_prediction_pass_through_few_files():
    """A reader who follows a fit opens each of them; tools/files_passed.py --list names them."""
    X, y = np.random.default_rng(0).normal(size=(12, 1, 30)), [0, 1] * 6
    classifier = tsformer.TSTransformerClassifier(max_epochs=1, random_state=0)
    assert len(passed(lambda: classifier.fit(X, y))) <= 30
    assert len(passed(lambda: classifier.predict_proba(X))) <= 15
