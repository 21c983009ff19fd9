"""Study: which fits a comparison is made of, frozen, and the key of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tsformer._names import unknown
from tsformer.encodings.registry import find
from tsformer.estimators.classifier import TSTransformerClassifier

__all__ = ["Cell", "Study"]

# What the cells or the comparison set themselves, and what changes no result.
_NOT_SHARED = ("encoding", "random_state", "callbacks", "warm_start", "verbose")


class Cell(NamedTuple):
    """One fit of a study."""

    dataset: str
    encoding: str
    seed: int


@dataclass(frozen=True)
class Study:
    """Data sets x encodings x seeds, all else equal.

    The design is paired: seed `s` is ``random_state=s`` of every encoding, so that encodings meet
    the same initial weights and the same batches.

    Parameters
    ----------
    datasets : sequence of str
        Names that `tsformer.data.load_dataset` knows.
    encodings : sequence of str
        Names of encodings, or sums of names such as ``"tape+erpe"``.
    seeds : sequence of int, or int, default=(0, 1, 2)
        The seeds; a number `n` stands for ``0, ..., n - 1``.
    parameters : mapping
        Other parameters of `TSTransformerClassifier`, the same in every fit.

    Raises
    ------
    ValueError
        For an unknown encoding or parameter, with the nearest match; for a parameter's value that
        is not allowed; for a list that is empty or names something twice.
    TypeError
        For a value of the wrong type, or one that has no JSON form and hence no stable hash.

    Examples
    --------
    >>> study = Study(["BasicMotions"], ["none", "lspe"], seeds=2, parameters={"n_layers": 1})
    >>> len(study.cells())
    4
    """

    datasets: tuple[str, ...]
    encodings: tuple[str, ...]
    seeds: tuple[int, ...] = (0, 1, 2)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        seeds: Any = self.seeds
        if isinstance(seeds, int):
            seeds = range(seeds)
        object.__setattr__(self, "datasets", _distinct("datasets", self.datasets, str))
        object.__setattr__(self, "encodings", _distinct("encodings", self.encodings, str))
        object.__setattr__(self, "seeds", _distinct("seeds", seeds, int))
        object.__setattr__(self, "parameters", dict(self.parameters))
        for encoding in self.encodings:
            for part in encoding.split("+"):
                find(part.strip())
        _check_shared(self.parameters)

    def __hash__(self) -> int:
        return hash(json.dumps(self.as_dict(), sort_keys=True))

    def as_dict(self) -> dict[str, Any]:
        """Return the study as plain lists and dicts, ready for JSON or TOML."""
        return {
            "datasets": list(self.datasets),
            "encodings": list(self.encodings),
            "seeds": list(self.seeds),
            "parameters": dict(self.parameters),
        }

    def configuration(self) -> dict[str, Any]:
        """Return the parameters that all fits share, the estimator's defaults included."""
        everything = TSTransformerClassifier(**self.parameters).get_params()
        return {name: value for name, value in everything.items() if name not in _NOT_SHARED}

    @property
    def hash(self) -> str:
        """Eight hex digits of the shared configuration.

        Data sets, encodings and seeds are left out, so that a study can grow and keep the fits it
        has; defaults are in, so that a changed default makes new fits.
        """
        return _digest(self.configuration())

    @property
    def name(self) -> str:
        """Name of the study as a whole: its hash covers everything."""
        return f"study-{_digest([self.as_dict(), self.configuration()])}"

    def cells(self) -> list[Cell]:
        """Return all fits. Seeds go round last, so that an unfinished study has every encoding."""
        return [
            Cell(dataset, encoding, seed)
            for seed in self.seeds
            for dataset in self.datasets
            for encoding in self.encodings
        ]

    def key(self, dataset: str, encoding: str, seed: int) -> str:
        """Return what tells this fit from all others, in this study and the next."""
        return f"{dataset}/{encoding}/{seed}/{self.hash}"


def _distinct(what: str, values: Iterable[Any], kind: type) -> tuple[Any, ...]:
    values = (values,) if isinstance(values, str) else tuple(values)
    if not values:
        raise ValueError(f"a study needs at least one of its {what}; got none")
    for value in values:
        if not isinstance(value, kind) or isinstance(value, bool) or value == "":
            raise TypeError(f"{what} must be of type {kind.__name__}; got {value!r}")
        if values.count(value) > 1:
            raise ValueError(f"{what} names {value!r} twice; name each once")
    return values


def _check_shared(parameters: Mapping[str, Any]) -> None:
    allowed = [name for name in TSTransformerClassifier().get_params() if name not in _NOT_SHARED]
    for name, value in parameters.items():
        if name in _NOT_SHARED:
            raise ValueError(
                f"{name!r} cannot be a parameter of a study: the comparison sets it for every fit"
            )
        if name not in allowed:
            raise ValueError(unknown("parameter of TSTransformerClassifier", name, allowed))
        try:
            json.dumps(value)
        except TypeError as error:
            raise TypeError(
                f"parameters of a study are kept as JSON; {name}={value!r} cannot be ({error})"
            ) from error
    # Now rather than in every fit.
    TSTransformerClassifier(**parameters)._check_parameters()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
