"""From the name or the dotted path of a classifier to its class, and the version of its library."""

import hashlib
import importlib.metadata
import importlib.util
import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import tsformer.encodings
from tsformer._checks import check_known, unknown
from tsformer._optional import require
from tsformer._registry import part_names

TRANSFORMER = "tsformer.TSTransformerClassifier"  # a study compares its encodings


@dataclass(frozen=True)
class Baseline:
    """A classifier that a study can name."""

    #: Dotted path of its class, and overrides of the defaults of the class.
    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: Modules without which it cannot be used; the extra `baselines` installs them.
    needs: tuple[str, ...] = ()
    #: Whether it reads unequal lengths and missing values, or series are changed first.
    unequal: bool = False
    gaps: bool = False
    #: The fewest steps it reads; shorter series are padded.
    shortest: int = 1
    #: Whether fits depend on `random_state`, and parameters with which they always do.
    random: bool = True
    chance: tuple[str, ...] = ()
    #: Whether the first fit in a process compiles, and parameters of a small fit that does.
    compiled: bool = False
    quick: Mapping[str, Any] = field(default_factory=dict)


_ours = partial(Baseline, unequal=True, gaps=True)
_aeon = partial(Baseline, needs=("aeon",), compiled=True)
_sktime = partial(Baseline, needs=("sktime",))
_numba = partial(Baseline, needs=("sktime", "numba"), compiled=True)
_DUMMY = Baseline("sklearn.dummy.DummyClassifier", gaps=True, random=False, chance=("strategy",))
_AEON, _SKTIME = "aeon.classification", "sktime.classification"
_ROCKETS, _NETWORKS = f"{_AEON}.convolution_based", f"{_SKTIME}.deep_learning"
_NEIGHBOURS = f"{_SKTIME}.distance_based.KNeighborsTimeSeriesClassifier"  # no warping window
_KERNELS, _TREES = {"n_kernels": 84}, {"n_estimators": 2}
#: As in the paper of MultiRocket; sktime's batches of one would take many times as long.
_PAPER, _BATCHES = {"n_kernels": 6250}, {"batch_size": 16}

#: The classifiers to compare with, by name: this package first, then by kind.
BASELINES: Mapping[str, Baseline] = {
    "tsformer": _ours("tsformer.TSTransformerClassifier"),
    "random-convolutions": _ours("tsformer.RandomConvolutionClassifier"),
    "ensemble": _ours("tsformer.TSEnsembleClassifier"),
    "majority": replace(_DUMMY, parameters={"strategy": "prior"}),
    "summary-ridge": _ours("tsformer.baselines.summary_ridge.SummaryRidgeClassifier", random=False),
    "flat-ridge": Baseline("sklearn.linear_model.RidgeClassifierCV", random=False),
    "1nn-dtw": _numba(_NEIGHBOURS, parameters={"distance": "dtw"}, random=False),
    # sktime passes the features on as tables of 10,000 columns, which takes seconds.
    "rocket": _aeon(f"{_ROCKETS}.RocketClassifier", quick=_KERNELS),
    "minirocket": _aeon(f"{_ROCKETS}.MiniRocketClassifier", shortest=9, quick=_KERNELS),
    "multirocket": _aeon(
        f"{_ROCKETS}.MultiRocketClassifier", parameters=_PAPER, shortest=10, quick=_KERNELS
    ),
    "arsenal": _numba(f"{_SKTIME}.kernel_based.Arsenal", quick={"num_kernels": 8, **_TREES}),
    "hydra": _aeon(f"{_ROCKETS}.HydraClassifier"),
    "multirocket-hydra": _aeon(f"{_ROCKETS}.MultiRocketHydraClassifier", shortest=10),
    "quant": _aeon(f"{_AEON}.interval_based.QUANTClassifier"),
    "rdst": _aeon(f"{_AEON}.shapelet_based.RDSTClassifier", quick={"max_shapelets": 50}),
    "drcif": _numba(f"{_SKTIME}.interval_based.DrCIF", shortest=10, quick=_TREES),
    "catch22": _numba(f"{_SKTIME}.feature_based.Catch22Classifier"),
    "inception-time": _sktime(f"{_NETWORKS}.InceptionTimeClassifierTorch"),
    "resnet": _sktime(f"{_NETWORKS}.ResNetClassifierTorch", parameters=_BATCHES),
    "mvts-transformer": _sktime(
        f"{_NETWORKS}.mvts_transformer.MVTSTransformerClassifier", parameters={"verbose": False}
    ),
    "convtran": _sktime(f"{_NETWORKS}.convtran.ConvTranClassifierTorch", parameters=_BATCHES),
}


def find(estimator: str) -> Baseline:
    """Return the classifier of a name in `BASELINES` or of a dotted path, importing nothing."""
    if "." in estimator.strip("."):
        known = {baseline.path: replace(baseline, parameters={}) for baseline in BASELINES.values()}
        return known.get(estimator, Baseline(estimator))
    check_known("name or path of a classifier", estimator, BASELINES)
    return BASELINES[estimator]


def import_encodings(encoding: str) -> None:
    """Import the modules of a sum's terms that are paths of classes, as in ``"mine.Log"``."""
    for term in part_names(encoding):
        if "." in term and term not in tsformer.encodings.names():
            load_module(term.rpartition(".")[0], term)
        tsformer.encodings.find(term)


def load_class(estimator: str) -> type[Any]:
    """Import the class of a classifier; ImportError, ValueError or TypeError without one."""
    baseline = find(estimator)
    for library in baseline.needs:
        require(library, extra="baselines", purpose=estimator)
    module, _, name = baseline.path.rpartition(".")
    if module == "__main__":  # which workers cannot import
        raise ValueError(f"{estimator}: save the class in a file mine.py, and name it mine.{name}")
    loaded = load_module(module, estimator)
    cls = getattr(loaded, name, None)  # ours are imported on demand
    if cls is None:
        raise ValueError(unknown(f"class of {module}", name, vars(loaded)))
    bases = " ".join(base.__name__ for base in getattr(cls, "__mro__", ())[1:])
    kinds = [kind for kind in ("Regressor", "Cluster", "Outlier") if kind in bases]
    methods = inspect.isclass(cls) and hasattr(cls, "fit") and hasattr(cls, "predict")
    if not methods or (kinds and "Classifier" not in bases):
        raise TypeError(f"{estimator} is no class of a classifier, but {cls!r}; name one")
    return cls


def construct(estimator: str, parameters: Mapping[str, Any], seed: int | None) -> Any:
    """Construct a classifier; ValueError for a parameter that its class lacks."""
    cls, params = load_class(estimator), {**find(estimator).parameters, **parameters}
    known = dict(inspect.signature(cls).parameters)
    passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for base in cls.mro()[1:-1] if passes_on else ():  # it takes their parameters, and others
        known = {**inspect.signature(base).parameters, **known}
    for name, value in params.items():
        if not passes_on:
            check_known(f"parameter of {estimator}", name, sorted({*known} - {"random_state"}))
        if isinstance(value, list) and isinstance(getattr(known.get(name), "default", 0), tuple):
            params[name] = tuple(value)  # TOML has no tuples
    return cls(**params | ({"random_state": seed} if "random_state" in known else {}))


@cache
def library_version(path: str) -> str:
    """Return name and version of a class's library, or a hash of its code without a version."""
    top = path.partition(".")[0]
    if top == "tsformer":
        return f"tsformer {tsformer.__version__}"
    with suppress(importlib.metadata.PackageNotFoundError):
        name = "scikit-learn" if top == "sklearn" else top
        return f"{name} {importlib.metadata.version(name)}"
    spec: Any = importlib.util.find_spec(top)
    if spec is None:
        return f"{top} of unknown version"
    code = hashlib.sha256()
    for root in map(Path, spec.submodule_search_locations or [spec.origin]):
        for file in [root] if root.is_file() else sorted(root.rglob("*.py")):
            code.update(f"{file.relative_to(root.parent).as_posix()}\n".encode())
            code.update(file.read_bytes())
    return f"{top} {code.hexdigest()[:8]}"


def class_version(cls: type[Any]) -> str:
    """Return `library_version`, of a class of a script or notebook a hash of its source."""
    if cls.__module__ != "__main__":
        return library_version(f"{cls.__module__}.{cls.__qualname__}")
    with suppress(OSError, TypeError):
        return f"__main__ {hashlib.sha256(inspect.getsource(cls).encode()).hexdigest()[:8]}"
    return "__main__ of unknown version"


def load_module(module: str, named: str) -> Any:
    """Import a module; errors say what named it."""
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ImportError(f"{named} is not importable here or on PYTHONPATH ({cause})") from error
