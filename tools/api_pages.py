"""The API reference: a page for each public package, and one for each class and function.

What is public is what the packages name in `__all__`. An object that several packages name has its
page where its path is shortest.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import tsformer

#: Modules that are documented beside the packages, as other pages name what is in them.
MODULES = ("tsformer.metrics", "tsformer.studies.report.write", "tsformer.tracking.register")
#: What these name for other parts of the package alone.
_INTERNAL = {
    "tsformer.studies.report.write": {"compare_command", "write_findings"},
    "tsformer.tracking.register": {"write_model"},
}
#: Methods that stand before the others.
_FIRST = ("fit", "predict", "predict_proba", "transform", "score", "save")


@cache
def packages() -> dict[str, list[str]]:
    """Return the public packages and modules, each with the names in it, sorted."""
    found = {"tsformer": sorted(tsformer.__all__)}
    for _, name, is_package in pkgutil.walk_packages(tsformer.__path__, "tsformer."):
        if name == "tsformer.cli" or not (is_package or name in MODULES):
            continue
        if any(part.startswith("_") for part in name.split(".")):
            continue
        public = set(getattr(import_module(name), "__all__", ())) - _INTERNAL.get(name, set())
        if public:
            found[name] = sorted(public, key=str.lower)
    return dict(sorted(found.items()))


@cache
def homes() -> dict[str, str]:
    """Return for each public path the path under which the object is documented."""
    first: dict[int, str] = {}
    result = {}
    for package in sorted(packages(), key=lambda name: (name.count("."), name)):
        for name in packages()[package]:
            path = f"{package}.{name}"
            thing = getattr(import_module(package), name)
            shared = inspect.isclass(thing) or inspect.isfunction(thing)
            result[path] = first.setdefault(id(thing), path) if shared else path
    return result


def pages() -> dict[str, str]:
    """Return all pages: file names, and their reStructuredText."""
    written = {"index.rst": _index()}
    for package in packages():
        written[f"{package}.rst"] = _package_page(package)
    for path in sorted(set(homes().values())):
        written[f"{path}.rst"] = _object_page(path)
    return written


def write(folder: Path) -> None:
    """Write the pages that have changed, so that Sphinx reads no others anew; remove old ones."""
    folder.mkdir(exist_ok=True)
    wanted = pages()
    for file in folder.glob("*.rst"):
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def _index() -> str:
    rows = "".join(
        f"   * - :doc:`{package} <{package}>`\n     - {_first_line(import_module(package))}\n"
        for package in packages()
    )
    toctree = "".join(f"   {package}\n" for package in packages())
    return (
        f"{_title('API reference')}\n"
        "Every public class and function, by package. A name that is not here is internal and may\n"
        "change without notice.\n\n"
        f".. list-table::\n   :widths: 30 70\n\n{rows}\n"
        f".. toctree::\n   :hidden:\n\n{toctree}"
    )


def _package_page(package: str) -> str:
    described = [f"{package}.{name}" for name in packages()[package]]
    rows = "".join(
        f"   * - :doc:`{path.rpartition('.')[2]} <{homes()[path]}>`\n     - {_summary(path)}\n"
        for path in described
    )
    own = "".join(f"   {path}\n" for path in described if homes()[path] == path)
    hidden = f"\n.. toctree::\n   :hidden:\n\n{own}" if own else ""
    return (
        f"{_title(package)}\n.. automodule:: {package}\n   :no-members:\n\n"
        f".. list-table::\n   :widths: 30 70\n\n{rows}{hidden}"
    )


def _object_page(path: str) -> str:
    package, _, name = path.rpartition(".")
    head = f"{_title(name)}\n.. currentmodule:: {package}\n\n"
    thing = getattr(import_module(package), name)
    if inspect.isclass(thing):
        members = "".join(f"\n   .. {kind}:: {name}.{member}\n" for member, kind in _members(thing))
        return f"{head}.. autoclass:: {name}\n{members}"
    if inspect.isroutine(thing):
        return f"{head}.. autofunction:: {name}\n"
    return f"{head}.. autodata:: {name}\n   :no-value:\n"


def _members(cls: type) -> list[tuple[str, str]]:
    """Return the public methods and properties that tsformer has written."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        if not base.__module__.startswith("tsformer."):
            continue
        for name, member in vars(base).items():
            raw = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            method = inspect.isfunction(raw)
            if name.startswith("_") or not (method or isinstance(raw, property)):
                continue
            if inspect.getdoc(getattr(cls, name)):
                found.setdefault(name, "automethod" if method else "autoproperty")
    first = [name for name in _FIRST if name in found]
    return [(name, found[name]) for name in [*first, *sorted(found.keys() - first)]]


def _summary(path: str) -> str:
    package, _, name = path.rpartition(".")
    return _first_line(getattr(import_module(package), name))


def _first_line(thing: Any) -> str:
    documented = isinstance(thing, ModuleType) or inspect.isclass(thing) or inspect.isroutine(thing)
    doc = (inspect.getdoc(thing) or "") if documented else ""
    line = doc.partition("\n\n")[0].replace("\n", " ")
    return re.sub(r" \[\d+\]_", "", line) or "Data."


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"
