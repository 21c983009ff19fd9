"""A method of a study: a classifier and its parameters under a name, and their hash."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tsformer._checks import check_known, nearest, shortened
from tsformer.baselines.reader import PanelClassifier
from tsformer.baselines.resolve import BASELINES, TRANSFORMER, find, library_version
from tsformer.estimators.classifier import TSTransformerClassifier

# Set by the trials or the comparison.
_NOT_SHARED = (
    *("callbacks", "checkpoint_dir", "checkpoint_minutes", "encoding"),
    *("random_state", "resume", "verbose", "warm_start"),
)
#: Allowed, without effect on results.
HARMLESS = ("n_jobs", "n_threads")


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise for parameters that the fits of a study cannot share."""
    allowed = [name for name in TSTransformerClassifier().get_params() if name not in _NOT_SHARED]
    for name in parameters:
        if name in _NOT_SHARED:
            raise ValueError(
                f"{name!r} cannot be a parameter of a study: the comparison sets it for every fit"
            )
        check_known("parameter of TSTransformerClassifier", name, allowed)
    check_json("the study", parameters)
    # Fail now rather than in every fit.
    TSTransformerClassifier(**parameters).check_parameters()


def check_json(of: str, parameters: Mapping[str, Any]) -> None:
    """Raise TypeError for parameters that cannot be stored with a study."""
    for name, value in parameters.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"parameters of {of} are stored as JSON; {name}={value!r} cannot be ({error})"
            ) from error


def configuration(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters that can affect a fit, including the estimator's defaults."""
    everything = TSTransformerClassifier(**parameters).get_params()
    left_out = (*_NOT_SHARED, *HARMLESS)
    return {name: value for name, value in everything.items() if name not in left_out}


def configuration_hash(parameters: Mapping[str, Any]) -> str:
    """Return a hash of the configuration, eight hex digits."""
    counted = configuration(parameters)
    if counted["compile"] == "auto":
        counted["compile"] = False  # replayed graphs compute the same
    if counted["stem"] != "conv" and counted["scaling"] == "auto":
        counted["scaling"] = "channel"  # the meaning of "auto" there
    return digest(counted)


def digest(value: Any) -> str:
    """Return a hash of a value that has a JSON form, eight hex digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


_TRANSFORMERS = (
    "tsformer",
    TRANSFORMER,
    "tsformer.estimators.TSTransformerClassifier",
    "tsformer.estimators.classifier.TSTransformerClassifier",
)


@dataclass(frozen=True)
class Method:
    """A classifier with its parameters."""

    name: str
    estimator: str
    given: Mapping[str, Any]

    @property
    def transformer(self) -> bool:
        """Whether it is the transformer, which shares the parameters of the study."""
        return self.estimator in _TRANSFORMERS

    @property
    def ours(self) -> bool:
        """Whether its class is of this package."""
        return find(self.estimator).path.startswith("tsformer.")

    @property
    def random(self) -> bool:
        """Whether the fit depends on the seed. If not, it runs once for all seeds."""
        baseline = find(self.estimator)
        return baseline.random or any(name in self.given for name in baseline.chance)

    @property
    def class_name(self) -> str:
        """The last part of the path of its class."""
        return find(self.estimator).path.rpartition(".")[2]

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters that differ from the defaults of the class."""
        return {**find(self.estimator).parameters, **self.given}

    def configuration(self) -> dict[str, Any]:
        """Return everything that can affect a fit: class, library with version, parameters."""
        baseline = find(self.estimator)
        path = baseline.path
        # Our ensembles of other libraries depend on their versions.
        parts = baseline.needs if path.startswith("tsformer.") else ()
        library = ", ".join(library_version(each) for each in (path, *parts))
        return {"estimator": path, "library": library, "parameters": self.parameters}

    def check(self) -> None:
        """Construct the classifier once, to raise its errors before any fit."""
        if not self.transformer:
            PanelClassifier(self.estimator, self.given, 0).check()


def read_methods(
    methods: Mapping[str, Mapping[str, Any]], shared: Mapping[str, Any]
) -> dict[str, Method]:
    """Return the methods of a study by name, checked without importing any."""
    if not isinstance(methods, Mapping):
        raise TypeError(f"methods must map names to parameters; got {shortened(methods)}")
    found = {}
    for name, said in methods.items():
        if not isinstance(name, str) or not name or not isinstance(said, Mapping):
            raise TypeError(
                "a method must have a name and a table of parameters, as in "
                f'"minirocket": {{"n_kernels": 84}}; got {name!r}: {shortened(said)}'
            )
        given = dict(said)
        estimator = given.pop("estimator", None) or (name if name in BASELINES else TRANSFORMER)
        near = nearest(name, BASELINES)
        guessed = not said.get("estimator") and name not in BASELINES
        # A typo must not select the transformer.
        if guessed and (not given or (near and near[0] != "tsformer")):
            meant = f": did you mean {near[0]!r}?" if near else "."
            raise ValueError(
                f"method {name!r} names no estimator{meant} Name one or the path of a class, as in "
                'estimator = "sklearn.svm.SVC", or say estimator = "tsformer"'
            )
        if not isinstance(estimator, str):
            raise TypeError(
                f"estimator of method {name!r} must be a name or the dotted path of a class; got "
                f"{shortened(estimator)}"
            )
        find(estimator)
        if "random_state" in given:
            raise ValueError(
                f"'random_state' cannot be a parameter of method {name!r}: the comparison sets it "
                "for every fit"
            )
        check_json(f"method {name!r}", given)
        method = Method(name, estimator, given)
        if method.transformer:
            rest = {key: value for key, value in given.items() if key != "encoding"}
            check_parameters({**shared, **rest})
        found[name] = method
    return found
