"""Structure: no circle of imports, names that tell what they hold, and few functions to a fit."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import tsformer
from tools.functions_entered import counts

PACKAGE = Path(tsformer.__file__).parent
#: Module -> the nodes of its syntax tree.
NODES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): [
        *ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    for path in PACKAGE.rglob("*.py")
}
#: Names that do not tell what they hold.
VAGUE = {"said", "asked", "given", "own", "each", "part", "found", "place", "what", "strange"}
VAGUE |= {"other", "others"}


def test_no_circle_of_imports():
    """Imports inside functions and under TYPE_CHECKING count; import-linter skips the latter."""
    graph: dict[str, set[str]] = {name: set() for name in NODES}
    for name, nodes in NODES.items():
        for node in nodes:
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"a relative import in {name}"
                for alias in node.names:
                    member = f"{node.module}.{alias.name}"
                    graph[name].add(member if member in NODES else str(node.module))
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_names_tell_what_they_hold():
    """Bound names and arguments are nouns with a technical meaning."""
    for module, nodes in NODES.items():
        names = {n.arg for n in nodes if isinstance(n, ast.arg)}
        names |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        assert not names & VAGUE, module


#: Functions entered, calls, and reads of X; they only go down.
MOST = {"fit": (220, 998, 1), "predict_proba": (69, 102, 1)}


def test_the_way_through_a_fit_and_a_prediction_gets_no_longer():
    """A reader follows each function; tools/functions_entered.py --list names them."""
    for name, (calls, n_reads) in counts().items():
        entered = len(calls), calls.total(), n_reads
        assert all(n <= most for n, most in zip(entered, MOST[name], strict=True)), (name, entered)


def test_auto_is_resolved_by_the_settings():
    """The allowed modules check or show a value, or resolve a device, a precision or an option."""
    allowed = {"settings", "_devices", "_precision", "base", "summary", "tracker"}
    for module, nodes in NODES.items():
        for node in nodes:
            if isinstance(node, ast.Compare) and module.rpartition(".")[2] not in allowed:
                assert "auto" not in [getattr(x, "value", None) for x in node.comparators], module
