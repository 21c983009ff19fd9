"""Structure: no circle of imports, few functions to a fit, and distinct names of test files."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import tsformer
from tools.functions_entered import counts


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


#: Functions entered, calls, and reads of X; they only go down.
MOST = {"fit": (220, 998, 1), "predict_proba": (69, 102, 1)}


def test_the_way_through_a_fit_and_a_prediction_gets_no_longer():
    """A reader follows each function; tools/functions_entered.py --list names them."""
    for name, (calls, n_reads) in counts().items():
        entered = len(calls), calls.total(), n_reads
        assert all(n <= most for n, most in zip(entered, MOST[name], strict=True)), (name, entered)


def test_auto_is_resolved_by_the_settings():
    """Others check or show a value, resolve a device or a precision, or have an own option."""
    allowed = {"settings.py", "_devices.py", "_precision.py", "base.py", "summary.py", "tracker.py"}
    for path in Path(tsformer.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and path.name not in allowed:
                assert "auto" not in [getattr(x, "value", None) for x in node.comparators], path
