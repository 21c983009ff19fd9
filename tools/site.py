"""The site: API pages, pictures, and links that also work in the repository.

Sphinx calls these functions while it builds; docs/conf.py connects them. Links in docs/ are written
for the repository. On the site they lead to the page of a file: a Markdown file, a program of the
gallery, a package, or a class whose name is the text of the link. Any other file has its path in
place of a link.
"""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import tsformer
from tsformer.encodings import names

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

# API reference

#: Modules documented beside the packages, and the names in them that are for users.
MODULES: dict[str, set[str] | None] = {
    "tsformer.estimators.summary": {"Summary"},
    "tsformer.metrics": None,
    "tsformer.studies.report.write": {"ReportFiles", "write_report"},
}


@cache
def public() -> dict[str, list[str]]:
    """Return the public packages with their names; an object is listed at its shortest path."""
    rooms = ["tsformer", *(name for name in _packages() if name != "tsformer.cli"), *MODULES]
    seen: set[int] = set()
    listed = {}
    for room in sorted(rooms, key=lambda name: (name.count("."), name)):
        module = import_module(room)
        exported = []
        for name in sorted(getattr(module, "__all__", ()), key=str.lower):
            chosen, thing = MODULES.get(room), getattr(module, name)
            shared = inspect.isclass(thing) or inspect.isfunction(thing)
            if (chosen and name not in chosen) or (shared and id(thing) in seen):
                continue
            seen.add(id(thing))
            exported.append(name)
        if exported:
            listed[room] = exported
    return dict(sorted(listed.items()))


def _packages() -> list[str]:
    walked = pkgutil.walk_packages(tsformer.__path__, "tsformer.")
    return [name for _, name, is_package in walked if is_package and "._" not in name]


#: Sections of the API index: packages, with the names that come first or alone in a section.
SECTIONS: dict[str, dict[str, str]] = {
    "Estimators": {
        "tsformer": "TSTransformerClassifier TSEnsembleClassifier RandomConvolutionClassifier "
        "TSTransformerRegressor TSTransformerEncoder EarlyClassifier",
        **{f"tsformer.estimators{room}": "" for room in ("", ".frameworks", ".summary")},
    },
    "Load": {"tsformer": "load load_dataset autolog", "tsformer.data": ""},
    "Encodings and augmentations": {"tsformer.encodings": "", "tsformer.augmentation": ""},
    "Comparisons": {
        f"tsformer.{room}": "" for room in ("studies", "studies.report.write", "baselines")
    },
    "Tracking, export and pictures": {
        f"tsformer.{room}": ""
        for room in ("tracking", "export", "plots", "explain", "inspection", "metrics")
    },
    "Building blocks": {
        "tsformer": "TSTransformer ModelConfig",
        **{f"tsformer.{room}": "" for room in ("model", "training", "objectives", "features")},
    },
}


def write_api(folder: Path, environment: Path) -> None:
    """Write the index and a page per package; autosummary writes the pages of their names.

    Autosummary does so for the pages that an earlier `environment` of Sphinx knows, so that a new
    page deletes it.
    """
    folder.mkdir(exist_ok=True)
    pages = {"index": _index()}
    for room, exported in public().items():
        pages[room] = (
            f"{_title(room)}\n.. automodule:: {room}\n   :no-members:\n\n"
            f".. currentmodule:: {room}\n\n.. autosummary::\n   :toctree:\n   :nosignatures:\n\n"
            + "".join(f"   {name}\n" for name in exported)
        )
    wanted = {f"{room}.{name}" for room, exported in public().items() for name in exported}
    for file in folder.glob("*.rst"):
        if file.stem not in wanted | pages.keys():
            file.unlink()
    for name, text in pages.items():
        file = folder / f"{name}.rst"
        if not file.exists():
            environment.unlink(missing_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != text:  # else Sphinx rereads it
            file.write_text(text, encoding="utf-8")


def _index() -> str:
    """Return the index: a line per name, the estimators first."""
    parts = [
        f"{_title('API reference')}\nEvery public class and function. Other names may change "
        "without notice.\n"
    ]
    for section, rooms in SECTIONS.items():
        parts.append(f"\n{section}\n{'-' * len(section)}\n")
        for room, chosen in rooms.items():
            exported = chosen.split() or public()[room]
            rows = "".join(f"   ~{room}.{name}\n" for name in exported)
            parts.append(f"\n:doc:`{room}`\n\n.. autosummary::\n   :nosignatures:\n\n{rows}")
    links = "".join(f"   {room}\n" for room in public())
    parts.append(f"\n.. toctree::\n   :hidden:\n   :maxdepth: 1\n\n{links}")
    return "".join(parts)


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


#: Members of an estimator's page, in this order; other members follow.
FIRST = (
    *("fit", "predict", "predict_proba", "predict_set", "score", "transform", "fit_transform"),
    *("decision_function", "summary", "save", "explain", "attention", "calibrate"),
)
#: Members that estimators share with each other and with this package's other parts.
INTERNAL = {
    *("check_parameters", "conv_params", "default_method", "describe_models", "facts_"),
    "feature_importances_",  # absent
    *("from_fitted_state", "left_out", "logits", "masks_unknown", "not_saved", "params_of_parts"),
    *("parts", "read_series", "restore_models", "restored_target", "used_values"),
}


def members(path: str) -> list[tuple[str, str]]:
    """Return the directive and name of each member of an estimator, or nothing."""
    module, _, name = path.rpartition(".")
    cls = getattr(import_module(module), name)
    if not hasattr(cls, "fit") or not hasattr(cls, "get_params"):
        return []
    kinds = {}
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        is_ours = str(getattr(function, "__module__", "")).startswith("tsformer")
        if is_ours and name[0] != "_" and name not in INTERNAL and inspect.getdoc(function):
            is_method = inspect.isfunction(function) and not isinstance(member, property)
            kinds[name] = "method" if is_method else "attribute"
    order = sorted(kinds, key=lambda name: (*_place(name), name))
    return [(kinds[name], name) for name in order]


def _place(name: str) -> tuple[int]:
    return (FIRST.index(name) if name in FIRST else len(FIRST),)


#: First parameter of each group on the page of a transformer; the docstring has their order.
GROUPS = {
    "encoding": "Encoding and model",
    "scaling": "Reading of the series",
    "augmentation": "Augmentation and pretraining",
    "max_epochs": "Training",
    "early_stopping": "Early stopping",
    "n_estimators": "Members, threads and devices",
    "checkpoint_dir": "Checkpoints and progress",
    "label_smoothing": "Classes and probabilities",
}


def group_parameters(
    app: Any, kind: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Put headings between the groups of many parameters, after numpydoc has formatted them."""
    if kind != "class" or not {"**encoding** : ", "**checkpoint_dir** : "} <= {
        line.strip().partition(" : ")[0] + " : " for line in lines
    }:
        return
    done = set()
    grouped = []
    for line in lines:
        first = line.strip().partition(" : ")[0].strip("*").split(",")[0]
        if line.strip().startswith("**") and first in GROUPS and first not in done:
            done.add(first)
            margin = line[: len(line) - len(line.lstrip())]
            grouped += ["", f"{margin}.. rubric:: {GROUPS[first]}", ""]
        grouped.append(line)
    lines[:] = grouped


def skip_foreign(app: Any, kind: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members inherited from other libraries."""
    member = getattr(obj, "fget", None) or getattr(obj, "__func__", obj)
    module = getattr(member, "__module__", None)
    if kind == "class" and not str(module or type(obj).__module__).startswith("tsformer"):
        return True
    return None


def describe_data(app: Any, kind: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Describe a constant or type alias by the ``#:`` comment at its definition, not its type."""
    package, _, name = name.rpartition(".")
    if kind == "data" and not callable(obj):
        lines[:] = comments_of_data(package)[name]


@cache
def comments_of_data(package: str) -> dict[str, list[str]]:
    """Return the ``#:`` comments of the constants in the modules of a package, by name."""
    from sphinx.pycode import ModuleAnalyzer

    comments = {}
    for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
        docs = ModuleAnalyzer.for_module(module.name).find_attr_docs()
        comments |= {name: lines for (owner, name), lines in docs.items() if not owner}
    return comments


# Pictures


def draw_encodings(docs: Path) -> None:
    """Draw each encoding before training, unless its picture is up to date."""
    from tsformer.plots import plot_encoding

    folder = docs / "_drawn"
    folder.mkdir(exist_ok=True)
    package = Path(tsformer.__file__).parent
    sources = [file for room in ("encodings", "plots") for file in (package / room).rglob("*.py")]
    newest = max(file.stat().st_mtime for file in sources)
    for name in names():
        path = folder / f"{name}.png"
        if not path.exists() or path.stat().st_mtime < newest:
            plot_encoding(name, 64).savefig(path, dpi=80)


# Gallery


def figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures that a block made; sphinx-gallery itself finds only pyplot's."""
    from matplotlib.figure import Figure
    from sphinx_gallery.scrapers import figure_rst

    done = block_vars.setdefault("shown", set())
    saved = []
    for value in list(block_vars["example_globals"].values()):
        if isinstance(value, Figure) and id(value) not in done:
            done.add(id(value))
            path = next(block_vars["image_path_iterator"])
            value.savefig(path, dpi=100)
            saved.append(path)
    words = Path(block_vars["src_file"]).stem.removeprefix("plot_").replace("_", " ")
    return str(figure_rst(saved, gallery_conf["src_dir"], words))


def one_thread(gallery_conf: dict[str, Any], fname: str) -> None:
    """Compute with one thread: models this small lose time with more."""
    import torch

    torch.set_num_threads(1)


# Includes and links

_INCLUDE = re.compile(r"^```\{include\} (\S+)\n```$", re.MULTILINE)
_FENCED = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\]\\]|\\.)*)\]\(([^)\s]+)\)")
_PICTURE = {".png", ".svg", ".jpg"}


def read(app: Any, docname: str, source: list[str]) -> None:
    """Prepare the text of a page before Sphinx parses it."""
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        for file in _INCLUDE.findall(source[0]):
            app.env.note_dependency(str((path.parent / file).resolve()))
        source[0] = page_text(path, source[0])


def page_text(path: Path, text: str) -> str:
    """Return a page with its includes, pictures and links as the site has them."""
    if path == DOCS / "encodings.md":
        for name in names():
            title = f"\n### {name}\n"
            text = text.replace(title, f"{title}\n![{name}](_drawn/{name}.png)\n")
    included = _INCLUDE.findall(text)
    text = relinked(text, path, path)
    for name in included:
        file = (path.parent / name).resolve()
        inside = relinked(file.read_text(encoding="utf-8"), file, path)
        text = text.replace(f"```{{include}} {name}\n```", inside)
    return text


@cache
def pages() -> dict[Path, Path]:
    """Map each file of the repository that is on the site to its page."""
    page_of = {}
    for path in sorted(DOCS.rglob("*.md")):
        if "_build" in path.parts or "gallery" in path.parts:
            continue
        page_of[path] = path
        for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            page_of[(path.parent / name).resolve()] = path
    return page_of


def relinked(text: str, file: Path, page: Path) -> str:
    """Return Markdown from `file` with links as they are on `page`; code is unchanged."""
    parts, end = [], 0
    for fenced in _FENCED.finditer(text):
        parts += [_relinked(text[end : fenced.start()], file, page), fenced[0]]
        end = fenced.end()
    return "".join([*parts, _relinked(text[end:], file, page)])


def _relinked(text: str, file: Path, page: Path) -> str:
    def link(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        if ":" in target or target.startswith(("#", "_drawn/")):
            return match[0]
        name, _, anchor = target.partition("#")
        there = (file.parent / name).resolve()
        there = _generated(there, words)
        if there in pages():
            new = os.path.relpath(pages()[there], page.parent) + (f"#{anchor}" if anchor else "")
            return f"{picture}[{words}]({new})"
        if there.suffix in _PICTURE or there.is_relative_to(DOCS):
            return f"{picture}[{words}]({os.path.relpath(there, page.parent)})"
        path = str(there.relative_to(ROOT))
        return words if path in words else f"{words} (`{path}`)"

    return _LINK.sub(link, text)


def _generated(file: Path, words: str) -> Path:
    """Return the page that Sphinx generates from a file of the repository, else the file."""
    if file.is_relative_to(DOCS / "examples"):
        page = DOCS / "gallery" / file.relative_to(DOCS / "examples").with_suffix(".rst")
        return page.with_stem("index") if page.stem == "GALLERY_HEADER" else page
    if file.is_relative_to(ROOT / "tsformer") and file.suffix == ".py":
        if file.name == "__init__.py":
            return DOCS / f"api/{'.'.join(file.parent.relative_to(ROOT).parts)}.rst"
        for room, exported in public().items():
            if words.strip("`") in exported:
                return DOCS / f"api/{room}.{words.strip('`')}.rst"
    return file
