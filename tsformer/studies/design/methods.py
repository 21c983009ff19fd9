"""A method of a study: a classifier and its parameters under a name, and their hash."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tsformer._checks import check_known, nearest, shortened
from tsformer.baselines.reader import PanelClassifier
from tsformer.baselines.resolve import BASELINES, TRANSFORMER, Baseline, find, library_version
from tsformer.estimators.classifier import TSTransformerClassifier

# Set by the trials or the comparison.
_NOT_SHARED = (
    *("callbacks", "checkpoint_dir", "checkpoint_minutes", "encoding"),
    *("random_state", "resume", "verbose", "warm_start"),
)
#: Allowed, without effect on results.
_HARMLESS = ("n_jobs", "n_threads")


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise for parameters that the fits of a study cannot share."""
    allowed = [name for name in TSTransformerClassifier().get_params() if name not in _NOT_SHARED]
    for name in parameters:
        check_known("parameter of TSTransformerClassifier in a study", name, allowed)
    TSTransformerClassifier(**parameters).check_parameters()  # now rather than in every fit


def digest(value: Any) -> str:
    """Return a hash of a value that has a JSON form, eight hex digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Method:
    """A classifier with its parameters."""

    name: str
    estimator: str
    overrides: Mapping[str, Any]

    @property
    def baseline(self) -> Baseline:
        """The entry of its class, by default without special needs."""
        return find(self.estimator)

    @property
    def ours(self) -> bool:
        """Whether its class is of this package."""
        return self.baseline.path.startswith("tsformer.")

    @property
    def transformer(self) -> bool:
        """Whether it is the transformer, which shares the parameters of the study."""
        return self.ours and self.baseline.path.endswith(".TSTransformerClassifier")

    @property
    def random(self) -> bool:
        """Whether the fit depends on the seed. If not, it runs once for all seeds."""
        return self.baseline.random or any(name in self.overrides for name in self.baseline.chance)

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters that differ from the defaults of the class."""
        return {**self.baseline.parameters, **self.overrides}

    def configuration(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """Return what can affect a fit: parameters, or class, library with version, parameters."""
        if self.transformer:
            everything = TSTransformerClassifier(**shared).get_params()
            left_out = (*_NOT_SHARED, *_HARMLESS)
            return {name: value for name, value in everything.items() if name not in left_out}
        # Our ensembles of other libraries depend on their versions.
        parts = (self.baseline.path, *(self.baseline.needs if self.ours else ()))
        library = ", ".join(map(library_version, parts))
        return {"estimator": parts[0], "library": library, "parameters": self.parameters}

    def check(self) -> None:
        """Construct the classifier once, to raise its errors before any fit."""
        if not self.transformer:
            PanelClassifier(self.estimator, self.overrides, 0).check()


def read_method(name: Any, described: Any, shared: Mapping[str, Any]) -> Method:
    """Return a method of a study, checked without importing its class."""
    params = dict(described) if isinstance(described, Mapping) else {"estimator": None}
    estimator = params.pop("estimator", "")
    if not isinstance(name, str) or not name or not isinstance(estimator, str):
        raise TypeError(
            "a method must have a name and a table of parameters, with a name or a dotted path as "
            f"its estimator, as in {{'mini': {{'estimator': 'minirocket'}}}}; got {name!r}: "
            f"{shortened(described)}"
        )
    near = nearest(name, BASELINES)[:1]  # a typo must not select the transformer
    if not estimator and name not in BASELINES and (not params or near not in ([], ["tsformer"])):
        meant = f": did you mean {near[0]!r}?" if near else "."
        raise ValueError(
            f"method {name!r} names no estimator{meant} Name one or the path of a class, as in "
            'estimator = "sklearn.svm.SVC", or say estimator = "tsformer"'
        )
    method = Method(name, estimator or (name if name in BASELINES else TRANSFORMER), params)
    find(method.estimator)
    if "random_state" in params:
        raise ValueError(
            f"'random_state' cannot be a parameter of method {name!r}: every fit has its own"
        )
    if method.transformer:
        check_parameters({**shared, **{k: v for k, v in params.items() if k != "encoding"}})
    return method
