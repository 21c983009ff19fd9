"""From the name or the dotted path of a classifier to its class, and the version of its library."""

import hashlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import tsformer
from tsformer import encodings
from tsformer._checks import check_known, unknown
from tsformer._optional import install_command
from tsformer._registry import part_names

#: The class that a study compares encodings of.
TRANSFORMER = "tsformer.TSTransformerClassifier"


@dataclass(frozen=True)
class Baseline:
    """A classifier that a study can name.

    Attributes
    ----------
    path : str
        Dotted path of its class.
    parameters : mapping
        Overrides of the class's defaults.
    needs : tuple of str
        Modules without which it cannot be used; the extra `baselines` installs them.
    unequal, gaps : bool
        Whether it reads unequal lengths and missing values. Other series are padded or
        interpolated first.
    shortest : int
        The fewest steps it reads; shorter series are padded.
    random : bool
        Whether fits depend on `random_state`. A deterministic method is fitted once for all seeds.
    chance : tuple of str
        Parameters that make a deterministic method depend on `random_state`.
    compiled : bool
        Whether the first fit in a process compiles; measured seconds exclude it.
    quick : mapping
        Parameters of the small fit that compiles.
    """

    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    unequal: bool = False
    gaps: bool = False
    shortest: int = 1
    random: bool = True
    chance: tuple[str, ...] = ()
    compiled: bool = False
    quick: Mapping[str, Any] = field(default_factory=dict)


def _ours(name: str) -> Baseline:
    return Baseline(f"tsformer.{name}", unequal=True, gaps=True)


def _sktime(name: str, *needs: str, **options: Any) -> Baseline:
    needed, compiled = ("sktime", *needs), bool(needs)
    return Baseline(f"sktime.classification.{name}", needs=needed, compiled=compiled, **options)


def _aeon(name: str, **options: Any) -> Baseline:
    return Baseline(f"aeon.classification.{name}", needs=("aeon",), compiled=True, **options)


_DEEP = "deep_learning"

#: The classifiers to compare with, by name: this package first, then by kind.
BASELINES: Mapping[str, Baseline] = {
    "tsformer": _ours("TSTransformerClassifier"),
    "random-convolutions": _ours("RandomConvolutionClassifier"),
    "ensemble": _ours("TSEnsembleClassifier"),
    "majority": Baseline(
        "sklearn.dummy.DummyClassifier",
        {"strategy": "prior"},
        gaps=True,
        random=False,
        chance=("strategy",),
    ),
    "summary-ridge": replace(_ours("baselines.summary_ridge.SummaryRidgeClassifier"), random=False),
    "flat-ridge": Baseline("sklearn.linear_model.RidgeClassifierCV", random=False),
    "1nn-dtw": _sktime(  # without a warping window
        "distance_based.KNeighborsTimeSeriesClassifier",
        "numba",
        parameters={"distance": "dtw"},
        random=False,
    ),
    # sktime passes the features on as tables of 10,000 columns, which takes seconds.
    "rocket": _aeon("convolution_based.RocketClassifier", quick={"n_kernels": 8}),
    "minirocket": _aeon(
        "convolution_based.MiniRocketClassifier", shortest=9, quick={"n_kernels": 84}
    ),
    "multirocket": _aeon(
        "convolution_based.MultiRocketClassifier",
        parameters={"n_kernels": 6250},  # as in its paper
        shortest=10,
        quick={"n_kernels": 84},
    ),
    "arsenal": _sktime(
        "kernel_based.Arsenal", "numba", quick={"num_kernels": 8, "n_estimators": 2}
    ),
    "hydra": _aeon("convolution_based.HydraClassifier"),
    "multirocket-hydra": _aeon("convolution_based.MultiRocketHydraClassifier", shortest=10),
    "quant": _aeon("interval_based.QUANTClassifier"),
    "rdst": _aeon("shapelet_based.RDSTClassifier", quick={"max_shapelets": 50}),
    "drcif": _sktime("interval_based.DrCIF", "numba", shortest=10, quick={"n_estimators": 2}),
    "catch22": _sktime("feature_based.Catch22Classifier", "numba"),
    # The batches of one that are sktime's defaults would take many times as long.
    "inception-time": _sktime(f"{_DEEP}.InceptionTimeClassifierTorch"),
    "resnet": _sktime(f"{_DEEP}.ResNetClassifierTorch", parameters={"batch_size": 16}),
    "mvts-transformer": _sktime(
        f"{_DEEP}.mvts_transformer.MVTSTransformerClassifier", parameters={"verbose": False}
    ),
    "convtran": _sktime(f"{_DEEP}.convtran.ConvTranClassifierTorch", parameters={"batch_size": 16}),
}
#: Part of a base class's name -> kind of estimator, if no base is a classifier.
_KINDS = {
    "Regressor": "a regressor",
    "Cluster": "a clusterer",
    "OutlierMixin": "an outlier detector",
}


def find(estimator: str) -> Baseline:
    """Return the classifier of a name in `BASELINES` or of the dotted path of a class.

    Nothing is imported. ValueError for an unknown name, with the nearest match.

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
        if known.path == estimator:
            return replace(known, parameters={})
    return Baseline(estimator)


def import_encodings(encoding: str) -> None:
    """Import the modules of a sum's parts that are paths of classes, as in ``"mine.Log"``."""
    for part in part_names(encoding):
        home = part.rpartition(".")[0]
        if home and part not in encodings.names():
            load_module(home, part)
        encodings.find(part)


def is_foreign(estimator: str) -> bool:
    """Return whether a name is a path outside this package and its list of names."""
    return estimator not in BASELINES and not estimator.startswith("tsformer.")


def load_class(estimator: str) -> type[Any]:
    """Import the class of a classifier.

    Raises
    ------
    ImportError
        If a library is not installed, with the command that installs it, or if the module raises
        or exits on import.
    ValueError
        If there is no such name, module or class. If the class was defined in an interactive
        session: a fit is identified by the code of its class, which is unreadable there.
    TypeError
        If it is not a class with `fit` and `predict`, or is a regressor or a clusterer.
    """
    baseline = find(estimator)
    for needed in baseline.needs:
        if importlib.util.find_spec(needed) is None:
            raise ImportError(
                f"{estimator} needs {needed}, which is not installed; install it with: "
                f"{install_command('baselines')}"
            )
    home, _, name = baseline.path.rpartition(".")
    if home == "__main__" and not _places(home):
        raise ValueError(
            f"{estimator} is defined in an interactive session, whose code cannot be read again; "
            f"save the class in a file of this folder, as in mine.py, and name it mine.{name}"
        )
    module = load_module(home, estimator)
    if not hasattr(module, name):
        classes = [key for key, found in vars(module).items() if not _other_kind(found)]
        raise ValueError(unknown(f"class of {home}", name, classes))
    if kind := _other_kind(found := getattr(module, name)):  # ours are imported on demand
        raise TypeError(f"{estimator} {kind}")
    return found


def arguments(
    estimator: str, cls: type[Any], parameters: Mapping[str, Any], seed: int | None
) -> dict[str, Any]:
    """Return the constructor's arguments; ValueError for a parameter that the class lacks."""
    given = {**find(estimator).parameters, **parameters}
    known = inspect.signature(cls).parameters
    names, bases = set(known), cls.__mro__[:-1]
    if any(each.kind is each.VAR_KEYWORD for each in known.values()):
        # A class that passes arguments on takes the parameters of its bases, and others.
        names = {name for base in bases for name in inspect.signature(base).parameters} | {*given}
    for name in given:
        check_known(f"parameter of {estimator}", name, sorted(names - {"random_state"}))
        default = known[name].default if name in known else None
        if isinstance(given[name], list) and isinstance(default, tuple):
            given[name] = tuple(given[name])  # TOML has no tuples
    return given | ({"random_state": seed} if "random_state" in names else {})


@cache
def library_version(path: str) -> str:
    """Return name and version of a class's library, or a hash of its code without a version.

    Examples
    --------
    >>> library_version("sklearn.svm.SVC").split()[0]
    'scikit-learn'
    """
    top = path.partition(".")[0]
    if top == "tsformer":
        return f"tsformer {tsformer.__version__}"
    places, names = _places(top), [top]
    if any(True for place in places for _ in place.parent.glob("*.dist-info")):  # installed
        names += importlib.metadata.packages_distributions().get(top, ())
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):
            return f"{name} {importlib.metadata.version(name)}"
    code = hashlib.sha256()
    for place in places:
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            name = file.relative_to(place.parent).as_posix()
            code.update(f"{name}\n".encode() + file.read_bytes())
    return f"{top} {code.hexdigest()[:8]}" if places else f"{top} of unknown version"


def class_version(cls: type[Any]) -> str:
    """Return `library_version`, of a class of a script or notebook a hash of its source."""
    if cls.__module__ != "__main__":
        return library_version(f"{cls.__module__}.{cls.__qualname__}")
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        return "__main__ of unknown version"
    return f"__main__ {hashlib.sha256(source.encode()).hexdigest()[:8]}"


def _places(top: str) -> list[Path]:
    """Return the folders of a package, or the file of a module."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a script has a file and no spec
        spec = None
    origin = spec.origin if spec is not None else getattr(sys.modules.get(top), "__file__", None)
    inside: Any = spec.submodule_search_locations if spec is not None else None
    places = inside or [origin]
    return [Path(place) for place in places if place and Path(place).exists()]


def load_module(home: str, named: str) -> ModuleType:
    """Import a module; errors say what named it."""
    try:
        return import_module(home)
    except (Exception, SystemExit) as error:
        missing = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        if missing and f"{home}.".startswith(f"{missing}."):
            raise ValueError(
                f"{named}: there is no module {missing!r}; it must be installed, or be a file "
                "in this folder or on PYTHONPATH"
            ) from error
        cause = f"{type(error).__name__}: {' '.join(str(error).split())}"
        problem = f"cannot be imported: its module raised {cause}"
        if missing:
            problem = f"needs {missing}: install it with pip install {missing.partition('.')[0]}"
        raise ImportError(f"{named} {problem}") from error


def _other_kind(found: Any) -> str:
    """Return what makes it no classifier; "" for a classifier or an unknown kind."""
    if not inspect.isclass(found) or not (hasattr(found, "fit") and hasattr(found, "predict")):
        return f"must be a class with fit and predict; got {found!r}"
    bases = [base.__name__ for base in found.__mro__[1:]]
    if "ClassifierMixin" in bases or "BaseClassifier" in bases:
        return ""
    kinds = [kind for part, kind in _KINDS.items() if any(part in base for base in bases)]
    return f"is {kinds[0]}; name a classifier" if kinds else ""
