"""PanelClassifier: any classifier behind one interface, with series that it can read."""

import inspect
import random
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from tsformer.baselines.resolve import TRANSFORMER, arguments, find, load_class
from tsformer.data.containers import to_arrays
from tsformer.data.layout import check_ids, refuse_nul, refuse_recording
from tsformer.data.series import Floats


class UnreadableSeries(ValueError):
    """A classifier cannot read these series, padded or interpolated or not."""


@dataclass(eq=False)
class PanelClassifier:
    """Fit any classifier to any series; pad or interpolate series that it cannot read.

    Classifiers of this package get the series as given. Classes with sktime's ``get_tag`` (aeon's
    too) and scikit-learn classes with the tag ``three_d_array`` get an array (B, C, L), tslearn's
    (B, L, C), and others one row of C times L values per series. Short series are padded with the
    mean of each channel and long series cut to the longest training series; gaps are interpolated.
    Global generators are seeded for each call; they and torch's threads are restored after it.

    Parameters
    ----------
    estimator : str
        A name in `tsformer.baselines.BASELINES`, or the dotted path of a class.
    parameters : mapping, optional
        Its parameters, beside the defaults of the name.
    random_state : int, optional
        Passed on if the class has the parameter.

    Examples
    --------
    >>> X, y = [np.zeros((1, 4)), np.ones((1, 5)), np.full((1, 5), 2.0)], np.array(list("abb"))
    >>> classifier = PanelClassifier("sklearn.neighbors.NearestCentroid").fit(X, y)
    >>> classifier.predict([np.ones((1, 6))]).tolist(), classifier.helped_
    (['b'], 'padded, cut')
    """

    estimator: str = TRANSFORMER
    parameters: Mapping[str, Any] = field(default_factory=dict)
    random_state: int | None = None

    def check(self) -> None:
        """Construct the classifier and discard it, to raise its errors before any fit."""
        cls = load_class(self.estimator)
        parameters = arguments(self.estimator, cls, self.parameters, self.random_state)
        try:  # each fit constructs it again, and warns
            with _isolated(self.random_state), warnings.catch_warnings(action="ignore"):
                cls(**parameters)
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise ValueError(f"{self.estimator} cannot be constructed: {reason}") from error

    def fit(self, X: Any, y: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Self:
        """Fit to series X, in any container, labels y (B,), and groups (B,) if `fit` has them."""
        check_ids(X, y, "y")
        refuse_recording(X, y)
        refuse_nul(y, "y")
        series, labels = X, np.array(y)  # a copy, since foreign code may write into it
        baseline, cls = find(self.estimator), load_class(self.estimator)
        parameters = arguments(self.estimator, cls, self.parameters, self.random_state)
        self._changes: dict[str, None] = {}
        with _isolated(self.random_state):
            self.estimator_ = cls(**parameters)
            self._layout, gaps, several = _reads(self.estimator_)
            self._gaps = gaps or baseline.gaps
            if self._layout != "any":
                arrays = to_arrays(X)
                if len(arrays[0]) > 1 and not several:
                    raise UnreadableSeries(
                        f"{self.estimator} reads one channel; these series have {len(arrays[0])}"
                    )
                self._length = max(baseline.shortest, *(x.shape[1] for x in map(_trimmed, arrays)))
                series = self._read(arrays)
            # These never shuffle: with series sorted by class, a batch would have one class.
            if _descends(cls, "sktime.classification.deep_learning", "BaseDeepClassifierPytorch"):
                order = np.random.default_rng(self.random_state).permutation(len(labels))
                series, labels = series[order], labels[order]
                self._changes["shuffled"] = None
            takes_groups = "groups" in inspect.signature(self.estimator_.fit).parameters
            options = {"groups": groups} if groups is not None and takes_groups else {}
            self.estimator_.fit(series, labels, **options)
        self.has_probabilities_ = hasattr(self.estimator_, "predict_proba")
        own = np.asarray(getattr(self.estimator_, "classes_", np.unique(y)))
        self._columns = np.argsort(own, kind="stable")
        self.classes_ = own[self._columns]
        return self

    @property
    def helped_(self) -> str:
        """Changes of the series: "padded", "interpolated", "cut" and "shuffled"."""
        return ", ".join(self._changes)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the label of each series, (B,); ValueError for an answer of another shape."""
        return self._answer("predict", X)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each class in the order of `classes_`, (B, K).

        AttributeError if the classifier has no method, does not implement it or, with sktime's
        contract, has only zeros and ones, which its base class substitutes.
        """
        answer = None
        if self.has_probabilities_:
            with suppress(NotImplementedError):
                answer = self._answer("predict_proba", X, len(self.classes_))[:, self._columns]
        substitutes = hasattr(self.estimator_, "get_tag")
        if answer is None or (substitutes and np.isin(answer, (0, 1)).all()):
            self.has_probabilities_ = False
            raise AttributeError(f"{self.estimator} has no probabilities")
        sums = answer.sum(axis=1, keepdims=True, dtype=np.float64)
        if answer.dtype == np.float32 and np.allclose(sums, 1, rtol=0, atol=1e-3):
            return np.asarray(answer / sums)  # rounded: scikit-learn's scores want sums of one
        return np.asarray(answer, dtype=np.float64)

    def _answer(self, method: str, X: Any, *columns: int) -> npt.NDArray[Any]:
        """Call a method of the classifier and check the shape, (B, *columns)."""
        with _isolated(self.random_state):
            series = X if self._layout == "any" else self._read(to_arrays(X))
            answer = np.asarray(getattr(self.estimator_, method)(series))
        if not columns and answer.ndim == 2 and answer.shape[1] == 1:
            answer = answer[:, 0]
        if self._layout != "any" and answer.shape != (expected := (len(series), *columns)):
            raise ValueError(
                f"{method} of {self.estimator} must return the shape {expected}; got {answer.shape}"
            )
        return answer

    def _read(self, arrays: list[Floats]) -> Floats:
        """Interpolate, pad and cut as needed; return one array in the classifier's layout."""
        series = list(map(_trimmed, arrays))
        if not self._gaps and any(np.isnan(x).any() for x in series):
            frames = (pd.DataFrame(x.T).interpolate(limit_direction="both") for x in series)
            series = [np.ascontiguousarray(frame.fillna(0.0).to_numpy().T) for frame in frames]
            self._changes["interpolated"] = None
        lengths = [x.shape[1] for x in series]
        self._changes |= {"padded": None} if min(lengths) < self._length else {}
        self._changes |= {"cut": None} if max(lengths) > self._length else {}
        panel = np.empty((len(series), len(series[0]), self._length))
        for row, x in zip(panel, series, strict=True):
            row[:] = pd.DataFrame(x.T).mean().fillna(0.0).to_numpy()[:, None]
            row[:, : x.shape[1]] = x[:, : self._length]
        if self._layout == "steps first":
            return panel.transpose(0, 2, 1)
        return panel.reshape(len(panel), -1) if self._layout == "flat" else panel


def _reads(estimator: Any) -> tuple[str, bool, bool]:
    """Return the layout, and whether gaps and several channels are readable."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    inputs = None if tags is None else tags().input_tags
    gaps = inputs is not None and bool(inputs.allow_nan)
    if gaps and type(estimator).__module__.startswith("tsformer."):
        return "any", True, True
    if hasattr(estimator, "get_tag"):
        # Tags of gaps and lengths are unreliable: sktime's neighbours claim both and raise.
        # Keywords, because sktime and aeon order these arguments differently.
        tag = {"tag_value_default": False, "raise_error": False}
        return "panel", False, bool(estimator.get_tag("capability:multivariate", **tag))
    if _descends(type(estimator), "tslearn", "TimeSeriesMixin"):  # whatever its tags say
        return "steps first", gaps, True
    return "panel" if inputs is not None and inputs.three_d_array else "flat", gaps, True


def _descends(cls: type[Any], package: str, name: str) -> bool:
    """Find a base class by name, without importing it."""
    return any(base.__name__ == name and base.__module__.startswith(package) for base in cls.mro())


def _trimmed(x: Floats) -> Floats:
    """Return a series (C, L) without trailing steps that have no value."""
    there = np.flatnonzero(~np.isnan(x).all(axis=0))
    return np.asarray(x[:, : max([0, *there[-1:]]) + 1], dtype=float)


@contextmanager
def _isolated(seed: int | None) -> Iterator[None]:
    """Seed the global generators; restore them and torch's threads afterwards."""
    n_threads = torch.get_num_threads()
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        if seed is not None:
            torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            if torch.get_num_threads() != n_threads:
                torch.set_num_threads(n_threads)
