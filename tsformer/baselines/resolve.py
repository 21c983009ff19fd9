"""From the name or the dotted path of a classifier to its class, and the version of its library."""

import hashlib
import importlib.metadata
import importlib.util
import inspect
from collections.abc import Mapping
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
    """A classifier that a study can name."""

    #: Dotted path of its class.
    path: str
    #: Overrides of the class's defaults.
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: Modules without which it cannot be used; the extra `baselines` installs them.
    needs: tuple[str, ...] = ()
    #: Whether it reads unequal lengths and missing values, or series are changed first.
    unequal: bool = False
    gaps: bool = False
    #: The fewest steps it reads; shorter series are padded.
    shortest: int = 1
    #: Whether fits depend on `random_state`; if not, it is fitted once for all seeds.
    random: bool = True
    #: Parameters that make a deterministic method depend on `random_state`.
    chance: tuple[str, ...] = ()
    #: Whether the first fit in a process compiles, and parameters of a small fit that does.
    compiled: bool = False
    quick: Mapping[str, Any] = field(default_factory=dict)


def _ours(name: str, **options: Any) -> Baseline:
    return Baseline(f"tsformer.{name}", unequal=True, gaps=True, **options)


def _sktime(name: str, *needs: str, **options: Any) -> Baseline:
    needed, compiled = ("sktime", *needs), bool(needs)
    return Baseline(f"sktime.classification.{name}", needs=needed, compiled=compiled, **options)


def _aeon(name: str, **options: Any) -> Baseline:
    return Baseline(f"aeon.classification.{name}", needs=("aeon",), compiled=True, **options)


_NEIGHBOURS = "distance_based.KNeighborsTimeSeriesClassifier"  # without a warping window
_FEW_KERNELS, _FEW_TREES = {"n_kernels": 84}, {"n_estimators": 2}
#: The batches of one that are sktime's defaults would take many times as long.
_BATCHES = {"batch_size": 16}

#: The classifiers to compare with, by name: this package first, then by kind.
BASELINES: Mapping[str, Baseline] = {
    "tsformer": _ours("TSTransformerClassifier"),
    "random-convolutions": _ours("RandomConvolutionClassifier"),
    "ensemble": _ours("TSEnsembleClassifier"),
    "majority": replace(
        Baseline("sklearn.dummy.DummyClassifier", {"strategy": "prior"}, gaps=True, random=False),
        chance=("strategy",),
    ),
    "summary-ridge": _ours("baselines.summary_ridge.SummaryRidgeClassifier", random=False),
    "flat-ridge": Baseline("sklearn.linear_model.RidgeClassifierCV", random=False),
    "1nn-dtw": _sktime(_NEIGHBOURS, "numba", parameters={"distance": "dtw"}, random=False),
    # sktime passes the features on as tables of 10,000 columns, which takes seconds.
    "rocket": _aeon("convolution_based.RocketClassifier", quick=_FEW_KERNELS),
    "minirocket": _aeon("convolution_based.MiniRocketClassifier", shortest=9, quick=_FEW_KERNELS),
    "multirocket": _aeon(
        "convolution_based.MultiRocketClassifier",
        parameters={"n_kernels": 6250},  # as in its paper
        shortest=10,
        quick=_FEW_KERNELS,
    ),
    "arsenal": _sktime("kernel_based.Arsenal", "numba", quick={"num_kernels": 8, **_FEW_TREES}),
    "hydra": _aeon("convolution_based.HydraClassifier"),
    "multirocket-hydra": _aeon("convolution_based.MultiRocketHydraClassifier", shortest=10),
    "quant": _aeon("interval_based.QUANTClassifier"),
    "rdst": _aeon("shapelet_based.RDSTClassifier", quick={"max_shapelets": 50}),
    "drcif": _sktime("interval_based.DrCIF", "numba", shortest=10, quick=_FEW_TREES),
    "catch22": _sktime("feature_based.Catch22Classifier", "numba"),
    "inception-time": _sktime("deep_learning.InceptionTimeClassifierTorch"),
    "resnet": _sktime("deep_learning.ResNetClassifierTorch", parameters=_BATCHES),
    "mvts-transformer": _sktime(
        "deep_learning.mvts_transformer.MVTSTransformerClassifier", parameters={"verbose": False}
    ),
    "convtran": _sktime("deep_learning.convtran.ConvTranClassifierTorch", parameters=_BATCHES),
}


def find(estimator: str) -> Baseline:
    """Return the classifier of a name in `BASELINES` or of a dotted path, importing nothing."""
    if estimator in BASELINES:
        return BASELINES[estimator]
    if "." not in estimator.strip("."):
        message = unknown("classifier", estimator, BASELINES)
        raise ValueError(f"{message}; or name a class by its dotted path, as in sklearn.svm.SVC")
    known = {baseline.path: replace(baseline, parameters={}) for baseline in BASELINES.values()}
    return known.get(estimator, Baseline(estimator))


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
    """Import the class of a classifier; ImportError, ValueError or TypeError if it is none."""
    baseline = find(estimator)
    for needed in baseline.needs:
        if importlib.util.find_spec(needed) is None:
            command = install_command("baselines")
            raise ImportError(f"{estimator} needs {needed}; install it with: {command}")
    home, _, name = baseline.path.rpartition(".")
    if home == "__main__":  # which workers cannot import
        raise ValueError(f"{estimator}: save the class in a file mine.py, and name it mine.{name}")
    module = load_module(home, estimator)
    found = getattr(module, name, None)  # ours are imported on demand
    if found is None:
        raise ValueError(unknown(f"class of {home}", name, vars(module)))
    bases = " ".join(base.__name__ for base in getattr(found, "__mro__", ())[1:])
    other = any(kind in bases for kind in ("Regressor", "Cluster", "Outlier"))
    methods = inspect.isclass(found) and hasattr(found, "fit") and hasattr(found, "predict")
    if not methods or (other and "Classifier" not in bases):
        raise TypeError(f"{estimator} is no class of a classifier, but {found!r}; name one")
    return found


def arguments(
    estimator: str, cls: type[Any], parameters: Mapping[str, Any], seed: int | None
) -> dict[str, Any]:
    """Return the constructor's arguments; ValueError for a parameter that the class lacks."""
    given = {**find(estimator).parameters, **parameters}
    known = dict(inspect.signature(cls).parameters)
    passes_on = any(each.kind is each.VAR_KEYWORD for each in known.values())
    for base in cls.__mro__[1:-1] if passes_on else ():  # it takes their parameters, and others
        known = {**inspect.signature(base).parameters, **known}
    for name, value in given.items():
        if not passes_on:
            check_known(f"parameter of {estimator}", name, sorted({*known} - {"random_state"}))
        if isinstance(value, list) and isinstance(getattr(known.get(name), "default", 0), tuple):
            given[name] = tuple(value)  # TOML has no tuples
    return given | ({"random_state": seed} if "random_state" in known else {})


_packages = cache(importlib.metadata.packages_distributions)  # takes a while


@cache
def library_version(path: str) -> str:
    """Return name and version of a class's library, or a hash of its code without a version."""
    top = path.partition(".")[0]
    if top == "tsformer":
        return f"tsformer {tsformer.__version__}"
    for name in _packages().get(top, ()):
        return f"{name} {importlib.metadata.version(name)}"
    spec: Any = importlib.util.find_spec(top)
    if spec is None:
        return f"{top} of unknown version"
    code = hashlib.sha256()
    for place in map(Path, spec.submodule_search_locations or [spec.origin]):
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            name = file.relative_to(place.parent).as_posix()
            code.update(f"{name}\n".encode() + file.read_bytes())
    return f"{top} {code.hexdigest()[:8]}"


def class_version(cls: type[Any]) -> str:
    """Return `library_version`, of a class of a script or notebook a hash of its source."""
    if cls.__module__ != "__main__":
        return library_version(f"{cls.__module__}.{cls.__qualname__}")
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        return "__main__ of unknown version"
    return f"__main__ {hashlib.sha256(source.encode()).hexdigest()[:8]}"


def load_module(home: str, named: str) -> ModuleType:
    """Import a module; errors say what named it."""
    try:
        return import_module(home)
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {' '.join(str(error).split())}"
        where = "its module must be installed, or be a file in this folder or on PYTHONPATH"
        raise ImportError(f"{named} cannot be imported ({cause}): {where}") from error
