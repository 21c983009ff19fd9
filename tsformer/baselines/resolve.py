"""From the name or the dotted path of a classifier to its class, and the version of its library."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import tsformer
from tsformer._names import nearest, unknown
from tsformer.baselines.catalogue import BASELINES, Baseline

__all__ = [
    "check_json",
    "check_names",
    "find",
    "is_foreign",
    "library_version",
    "load_class",
    "parameter_names",
    "takes_a_seed",
]

# Set by the comparison.
_SEED = "random_state"
# What else has fit and predict, and its bases.
_CLASSIFIER = "sklearn.base.ClassifierMixin"
_OTHER_KINDS = {
    "a regressor": {"sklearn.base.RegressorMixin", "sktime.regression.base.BaseRegressor"},
    "a clusterer": {"sklearn.base.ClusterMixin", "sktime.clustering.base.BaseClusterer"},
    "an outlier detector": {"sklearn.base.OutlierMixin"},
}


def find(estimator: str) -> Baseline:
    """Return the classifier of a name, or one that only has the dotted path of a class.

    Parameters
    ----------
    estimator : str
        A name in `BASELINES`, or a dotted path such as ``"sklearn.svm.SVC"``. Nothing is imported.

    Raises
    ------
    ValueError
        For an unknown name, with the nearest match.

    Examples
    --------
    >>> find("arsenal").path
    'sktime.classification.kernel_based.Arsenal'
    >>> find("sklearn.svm.SVC").needs
    ()
    """
    if estimator in BASELINES:
        return BASELINES[estimator]
    if "." not in estimator.strip("."):
        message = unknown("classifier", estimator, BASELINES)
        raise ValueError(f"{message}; or name a class by its dotted path, as in sklearn.svm.SVC")
    for known in BASELINES.values():
        if known.path == estimator:  # what it reads is known, its parameters are the caller's
            return replace(known, parameters={})
    return Baseline(estimator)


def is_foreign(estimator: str) -> bool:
    """Return whether a name is the path of a class that neither we nor the short list vouch for."""
    return estimator not in BASELINES and not estimator.startswith("tsformer.")


def load_class(estimator: str) -> type[Any]:
    """Import the class of a classifier.

    Raises
    ------
    ImportError
        If something it needs is not installed; the message has the command that installs it. If its
        module raises or exits when it is imported, as a script does that runs whatever it is for.
    ValueError
        If there is no such name, module or class, with the nearest match. If the class is of an
        interactive session, whose code cannot be told from what it is after the next edit.
    TypeError
        If it is not a class with `fit` and `predict`, or is a regressor or a clusterer.
    """
    baseline = find(estimator)
    for needed in baseline.needs:
        if importlib.util.find_spec(needed) is None:
            raise ImportError(
                f"{estimator} needs {needed}, which is not installed; install it with: "
                f"{baseline.install}"
            )
    home, _, name = baseline.path.rpartition(".")
    if home == "__main__" and not _files_of(home):
        raise ValueError(
            f"{estimator} is defined in an interactive session: a fit is found by the code of its "
            "class, which cannot be read there; save the class in a file of this folder, as in "
            f"mine.py, and name it mine.{name}"
        )
    module = _import(home, estimator)
    found = getattr(module, name, None)
    if found is None:
        classes = [each for each in dir(module) if _is_classifier(getattr(module, each, None))]
        if not classes:
            raise ValueError(
                f"{estimator}: {home} has no class {name!r}, nor any other with fit and predict"
            )
        raise ValueError(unknown(f"class of {home}", name, classes))
    if not _fits_and_predicts(found):
        raise TypeError(f"{estimator} must be a class with fit and predict; got {found!r}")
    kind = _other_kind(found)
    if kind:
        raise TypeError(
            f"{estimator} is {kind}; name a classifier, which is fitted to labels and predicts them"
        )
    checked: type[Any] = found
    return checked


def parameter_names(cls: type[Any]) -> list[str] | None:
    """Return the names of a class's parameters; None if it takes any."""
    parameters = inspect.signature(cls).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        # Ours name all they take. Those of others, as of XGBoost and LightGBM, name some of it.
        return list(cls._get_param_names()) if _is_ours(cls) else None
    return [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]


def takes_a_seed(cls: type[Any]) -> bool:
    """Return whether a class has `random_state`, or passes it on to a base that has it."""
    names = parameter_names(cls)
    if names is not None:
        return _SEED in names
    for base in cls.__mro__[:-1]:
        if "__init__" in vars(base):
            parameters = inspect.signature(vars(base)["__init__"]).parameters
            if _SEED in parameters:
                return True
            if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
                return False
    return False


def check_json(method: str, parameters: Mapping[str, Any]) -> None:
    """Raise for parameters that the fits of a study cannot have."""
    for name, value in parameters.items():
        if name == _SEED:
            raise ValueError(
                f"{name!r} cannot be a parameter of method {method!r}: the comparison sets it for "
                "every fit"
            )
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"parameters of a study are stored as JSON; {name}={value!r} of method {method!r} "
                f"cannot be ({error})"
            ) from error


def check_names(estimator: str, cls: type[Any], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError for a parameter that the class does not have, with the nearest match."""
    allowed = parameter_names(cls)
    for name in parameters:
        if allowed is not None and name not in allowed:
            choices = [each for each in allowed if each != _SEED]
            raise ValueError(unknown(f"parameter of {estimator}", name, choices))


@cache
def library_version(path: str) -> str:
    """Return name and version of the library that a class comes from.

    A module that belongs to no installed package has a hash of its file in place of a version, and
    one in such a package a hash of all of the package's files.

    Examples
    --------
    >>> library_version("sklearn.svm.SVC").split()[0]
    'scikit-learn'
    """
    top = path.partition(".")[0]
    if top == "tsformer":
        return f"tsformer {tsformer.__version__}"
    try:
        return f"{top} {importlib.metadata.version(top)}"
    except importlib.metadata.PackageNotFoundError:
        for name in _distributions().get(top, ()):
            return f"{name} {importlib.metadata.version(name)}"
    files = _files_of(top)
    if not files:
        return f"{top} of unknown version"
    found = hashlib.sha256()
    for name, file in files:
        found.update(f"{name}\n".encode() if len(files) > 1 else b"")
        found.update(file.read_bytes())
    return f"{top} {found.hexdigest()[:8]}"


def _files_of(top: str) -> list[tuple[str, Path]]:
    """Return the files of a module or package, each with its name in it; none if it is not found.

    Which of them a class depends on is not known before it is imported, if it is then.
    """
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a script has a file and no spec
        spec = None
    if spec is not None and spec.submodule_search_locations is not None:
        folders = [Path(each) for each in spec.submodule_search_locations]
        return [
            (file.relative_to(folder).as_posix(), file)
            for folder in folders
            for file in sorted(folder.rglob("*.py"))
        ]
    origin = spec.origin if spec is not None else getattr(sys.modules.get(top), "__file__", None)
    file = Path(origin or "")
    return [(file.name, file)] if file.is_file() else []


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Return the distributions that each importable name comes from, which takes a second."""
    return importlib.metadata.packages_distributions()


def _import(home: str, estimator: str) -> ModuleType:
    """Import a module; a part of its path that is not there gets the nearest match."""
    try:
        return import_module(home)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not missing:  # raised by hand
            raise ImportError(_cannot_be_imported(estimator, error)) from error
        if missing != home and not home.startswith(f"{missing}."):
            raise ImportError(
                f"{estimator} needs {missing}, which is not installed; install it with: "
                f"pip install {missing.partition('.')[0]}"
            ) from error
        parent, _, name = missing.rpartition(".")
        if not parent:
            near = nearest(name, sorted(_distributions()))
            raise ValueError(
                f"{estimator}: there is no module {name!r}"
                + (f": did you mean {near[0]!r}? It" if near else "; it")
                + " must be installed, or be a file in this folder or on PYTHONPATH"
            ) from error
        package = import_module(parent)
        modules = [each.name for each in pkgutil.iter_modules(getattr(package, "__path__", ()))]
        raise ValueError(f"{estimator}: {unknown(f'module of {parent}', name, modules)}") from error
    except (Exception, SystemExit) as error:
        raise ImportError(_cannot_be_imported(estimator, error)) from error


def _cannot_be_imported(estimator: str, error: BaseException) -> str:
    said = " ".join(str(error).split())
    return f"{estimator} cannot be imported: its module raised {type(error).__name__}: {said}"


def _is_ours(cls: type[Any]) -> bool:
    return cls.__module__.partition(".")[0] == "tsformer"


def _is_classifier(found: Any) -> bool:
    return _fits_and_predicts(found) and not _other_kind(found)


def _fits_and_predicts(found: object) -> bool:
    return inspect.isclass(found) and all(hasattr(found, each) for each in ("fit", "predict"))


def _other_kind(cls: type[Any]) -> str:
    """Return what a class is by its bases if that is no classifier, else ""."""
    bases = {f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__}
    if _CLASSIFIER in bases:
        return ""
    return next((kind for kind, theirs in _OTHER_KINDS.items() if bases & theirs), "")
