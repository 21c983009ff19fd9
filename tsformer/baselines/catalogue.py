"""Named classifiers: class, requirements and readable series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tsformer._optional import install_command

#: The class that a study compares encodings of.
TRANSFORMER = "tsformer.TSTransformerClassifier"

_INSTALL = install_command("baselines")


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
        Modules without which it cannot be used.
    install : str
        The command that installs them.
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
    install: str = _INSTALL
    unequal: bool = False
    gaps: bool = False
    shortest: int = 1
    random: bool = True
    chance: tuple[str, ...] = ()
    compiled: bool = False
    quick: Mapping[str, Any] = field(default_factory=dict)


def _ours(name: str, **options: Any) -> Baseline:
    return Baseline(f"tsformer.{name}", unequal=True, gaps=True, **options)


def _sktime(name: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> Baseline:
    return Baseline(f"sktime.classification.{name}", parameters or {}, ("sktime",), **options)


def _numba(name: str, parameters: Mapping[str, Any] | None = None, **options: Any) -> Baseline:
    needs = ("sktime", "numba")
    path = f"sktime.classification.{name}"
    return Baseline(path, parameters or {}, needs, compiled=True, **options)


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
    "summary-ridge": Baseline(
        "tsformer.baselines.summary.SummaryRidgeClassifier", unequal=True, gaps=True, random=False
    ),
    "flat-ridge": Baseline("sklearn.linear_model.RidgeClassifierCV", random=False),
    "1nn-dtw": _numba(  # without a warping window
        "distance_based.KNeighborsTimeSeriesClassifier", {"distance": "dtw"}, random=False
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
    "arsenal": _numba("kernel_based.Arsenal", quick={"num_kernels": 8, "n_estimators": 2}),
    "hydra": _aeon("convolution_based.HydraClassifier"),
    "multirocket-hydra": _aeon("convolution_based.MultiRocketHydraClassifier", shortest=10),
    "quant": _aeon("interval_based.QUANTClassifier"),
    "drcif": _numba("interval_based.DrCIF", shortest=10, quick={"n_estimators": 2}),
    "catch22": _numba("feature_based.Catch22Classifier"),
    # The batches of one that are sktime's defaults would take many times as long.
    "inception-time": _sktime(f"{_DEEP}.InceptionTimeClassifierTorch"),
    "resnet": _sktime(f"{_DEEP}.ResNetClassifierTorch", {"batch_size": 16}),
    "mvts-transformer": _sktime(
        f"{_DEEP}.mvts_transformer.MVTSTransformerClassifier", {"verbose": False}
    ),
    "convtran": _sktime(f"{_DEEP}.convtran.ConvTranClassifierTorch", {"batch_size": 16}),
}
