"""PanelClassifier: any classifier behind one interface, with what it needs to read the series."""

from __future__ import annotations

import inspect
import random
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from tsformer._names import shortened
from tsformer.baselines.catalogue import TRANSFORMER, Baseline
from tsformer.baselines.resolve import check_names, find, load_class, takes_a_seed
from tsformer.data.containers import to_arrays
from tsformer.data.ids import check_ids, refuse_nul
from tsformer.estimators.ensemble import TSEnsembleClassifier

__all__ = ["PanelClassifier", "UnreadableSeries"]

#: Where sktime and aeon put `predict_proba` for classifiers that have none: a one for the answer.
_NO_PROBABILITIES = (
    "sktime.classification.base",
    "sktime.classification._delegate",
    "aeon.classification.base",
)
#: Where aeon puts classifiers that have the probabilities of their last part, and a one for the
#: answer if that has none, which a ridge has not.
_PROBABILITIES_OF_A_PART = "aeon.classification."
#: What aeon calls that part: most of its classifiers, SAST and RSAST, WEASEL and MUSE.
_LAST_PARTS = ("estimator_", "classifier_", "clf")
#: The base of sktime's networks in torch, which train on batches of neighbouring series, the same
#: in each epoch. Where a training set is sorted by class, as many of the archives are, a batch has
#: one class, and the network learns next to nothing.
_TRAINS_IN_ORDER = ("sktime.classification.deep_learning", "BaseDeepClassifierPytorch")
#: The base of XGBoost's classifiers, whose labels must be the whole numbers from 0.
_READS_NUMBERS = ("xgboost", "XGBClassifier")
#: The base of tslearn's estimators, whose arrays are (B, L, C), though their scikit-learn tags say
#: ``three_d_array`` as those of others do.
_STEPS_FIRST = ("tslearn", "TimeSeriesMixin")


class UnreadableSeries(ValueError):
    """A classifier cannot read these series, however they are padded or interpolated."""


class PanelClassifier:
    """Fit any classifier to any series: what it cannot read is padded or interpolated.

    Classifiers of this package get the series as they are; those of sktime and aeon, and others
    whose scikit-learn tags say ``three_d_array``, an array (B, C, L), tslearn's one
    (B, L, C); all others one row of C times L values per series. Where unequal lengths cannot be
    read, shorter series are padded at the end with the mean of each channel to the length of the
    longest training series, and longer ones are cut there; where gaps cannot be read, they are
    interpolated linearly. sktime's networks in torch, whose batches are neighbouring series, get
    the training series in random order. `helped_` says what was done. XGBoost's classifiers, which
    read no other labels, get the places of the labels in `classes_`.

    Code that draws from the global generators of Python, NumPy or torch draws the same for the
    same `random_state`, and leaves them as they were. So does code that sets the number of threads,
    as numba does through OpenMP's: with another number torch's sums differ in their last bits.

    Parameters
    ----------
    estimator : str
        A name in `tsformer.baselines.BASELINES`, or the dotted path of a class.
    parameters : mapping, optional
        Its parameters, beside those that the name stands for.
    random_state : int, optional
        Passed on if the class has the parameter, and the seed of the order of the series.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray (K,)
        The labels, sorted.
    helped_ : str
        ``"padded"``, ``"interpolated"``, ``"cut"``, ``"shuffled"``, or several of them; "" if the
        series were read as they are.
    has_probabilities_ : bool
        Whether `predict_proba` returns more than the answer.

    Raises
    ------
    ImportError, TypeError, ValueError
        As `tsformer.baselines.load_class` raises them, and for an unknown parameter.

    Examples
    --------
    >>> X, y = [np.zeros((1, 4)), np.ones((1, 5)), np.full((1, 5), 2.0)], np.array(list("abb"))
    >>> classifier = PanelClassifier("sklearn.neighbors.NearestCentroid").fit(X, y)
    >>> classifier.predict([np.ones((1, 6))]).tolist(), classifier.helped_
    (['b'], 'padded, cut')
    """

    def __init__(
        self,
        estimator: str = TRANSFORMER,
        parameters: Mapping[str, Any] | None = None,
        random_state: int | None = None,
    ):
        self.estimator = estimator
        self.parameters = dict(parameters or {})
        self.random_state = random_state

    def check(self) -> None:
        """Construct the classifier and discard it, to find what it lacks before any fit.

        Raises
        ------
        ImportError, TypeError, ValueError
            As `tsformer.baselines.load_class` raises them, for an unknown parameter, and where its
            own code says that it cannot be constructed.
        """
        cls, parameters = self._resolved()
        try:
            with _isolated(self.random_state), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # each fit constructs it again, and warns
                _check_dependencies(cls(**parameters))
        except (Exception, SystemExit) as error:
            kind = ImportError if isinstance(error, ImportError) else ValueError
            given = f" with {shortened(self.parameters)}" if self.parameters else ""
            said = " ".join(str(error).split())
            raise kind(
                f"{self.estimator} cannot be constructed{given}: {type(error).__name__}: {said}"
            ) from error

    def fit(self, X: Any, y: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Self:
        """Fit the classifier to series X, in any container, and labels y (B,).

        Its `fit` gets the groups (B,) if it has a parameter of that name.

        Raises
        ------
        UnreadableSeries
            If it reads one channel only and the series have several.
        """
        check_ids(X, y, "y")
        refuse_nul(y, "y")
        labels = np.array(y)  # a copy, since code of others may write into it
        baseline = find(self.estimator)
        cls, parameters = self._resolved()
        with _isolated(self.random_state):
            self.estimator_ = cls(**parameters)
            self._reader = _Reader(*_reads(self.estimator_, baseline), baseline.shortest)
            series = self._reader.fit(X, self.estimator)
            self._codes = None
            if _descends(cls, *_READS_NUMBERS):
                self._codes, labels = np.unique(labels, return_inverse=True)
            if _descends(cls, *_TRAINS_IN_ORDER):
                order = np.random.default_rng(self.random_state).permutation(len(labels))
                series, labels = series[order], labels[order]
                self._reader.say("shuffled")
            takes_groups = "groups" in inspect.signature(self.estimator_.fit).parameters
            options = {"groups": groups} if groups is not None and takes_groups else {}
            self.estimator_.fit(series, labels, **options)
        self.has_probabilities_ = _has_probabilities(self.estimator_)
        own = self._codes
        if own is None:
            own = np.asarray(getattr(self.estimator_, "classes_", np.unique(y)))
        self._columns = np.argsort(own, kind="stable")
        self.classes_ = own[self._columns]
        return self

    def _resolved(self) -> tuple[type[Any], dict[str, Any]]:
        """Return the class and all that it is constructed with."""
        cls = load_class(self.estimator)
        given = {**find(self.estimator).parameters, **self.parameters}
        check_names(self.estimator, cls, given)
        if takes_a_seed(cls):
            given["random_state"] = self.random_state
        return cls, _with_tuples(cls, given)

    @property
    def helped_(self) -> str:
        """What was done to the series so that they could be read, in fit and predict."""
        return ", ".join(self._reader.helped)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the label of each series, (B,).

        Raises
        ------
        ValueError
            If the classifier answers with an array of another shape.
        """
        answer = self._answer("predict", X)
        if self._codes is not None:
            return self._codes[answer]
        return answer

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each class in the order of `classes_`, (B, K).

        Raises
        ------
        AttributeError
            If the classifier has no probabilities.
        ValueError
            If the classifier answers with an array of another shape.
        """
        if not self.has_probabilities_:
            raise AttributeError(f"{self.estimator} has no probabilities")
        try:
            answer = self._answer("predict_proba", X, len(self.classes_))
        except (AttributeError, NotImplementedError) as error:
            # As of a support vector machine that was not asked to estimate any, or a base class.
            if isinstance(error, AttributeError) and "predict_proba" not in str(error):
                raise
            self.has_probabilities_ = False
            raise AttributeError(f"{self.estimator} has no probabilities: {error}") from error
        if self._reader.layout != "any":
            answer = answer[:, self._columns]
        probabilities: npt.NDArray[np.float64] = answer.astype(float, copy=False)
        if answer.dtype == np.float32:
            # In double precision their sums are not one, of which scikit-learn's scores warn.
            sums = probabilities.sum(axis=1, keepdims=True)
            if np.allclose(sums, 1, rtol=0, atol=1e-3):
                return probabilities / sums
        return probabilities

    def _answer(self, method: str, X: Any, *columns: int) -> npt.NDArray[Any]:
        """Return what a method of the classifier answers, (B, *columns)."""
        with _isolated(self.random_state):
            series = self._reader.read(X)
            answer = np.asarray(getattr(self.estimator_, method)(series))
        if self._reader.layout == "any":  # ours, which read containers without a length as well
            return answer
        expected = (len(series), *columns)
        if method == "predict" and answer.shape == (len(series), 1):
            return answer[:, 0]  # of CatBoost, where there are more than two classes
        if answer.shape != expected:
            of = f" and {columns[0]} classes" if columns else ""
            raise ValueError(
                f"{method} of {self.estimator} must return an array of shape {expected} for "
                f"{expected[0]} series{of}; got shape {answer.shape}"
            )
        return answer

    def score_parts(self, X: Any, y: npt.ArrayLike) -> dict[str, float]:
        """Return the accuracy of each part of a `TSEnsembleClassifier`; of others, nothing."""
        if not isinstance(self.estimator_, TSEnsembleClassifier):
            return {}
        with _isolated(self.random_state):
            scores = self.estimator_.score_parts(self._reader.read(X), y)
        return {name: score for name, score in scores.items() if name != "ensemble"}


def _with_tuples(cls: type[Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with a tuple for each list whose default is one: JSON has no tuples."""
    defaults = {name: each.default for name, each in inspect.signature(cls).parameters.items()}
    return {
        name: tuple(value)
        if isinstance(value, list) and isinstance(defaults.get(name), tuple)
        else value
        for name, value in parameters.items()
    }


class _Reader:
    """Turns series into what a classifier reads, with the length of those it was fitted to."""

    def __init__(self, layout: str, gaps: bool, channels: bool, shortest: int):
        self.layout = layout
        self.gaps = gaps
        self.channels = channels
        self.shortest = shortest
        self.helped: list[str] = []

    def fit(self, X: Any, name: str) -> Any:
        if self.layout == "any":
            return X
        series = _trimmed(X)
        if len(series[0]) > 1 and not self.channels:
            raise UnreadableSeries(f"{name} reads one channel; these series have {len(series[0])}")
        self.length = max(self.shortest, *(x.shape[1] for x in series))
        return self._read(series)

    def read(self, X: Any) -> Any:
        return X if self.layout == "any" else self._read(_trimmed(X))

    def _read(self, series: list[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        if not self.gaps and any(np.isnan(x).any() for x in series):
            series = [_interpolated(x) for x in series]
            self.say("interpolated")
        lengths = [x.shape[1] for x in series]
        if min(lengths) < self.length:
            self.say("padded")
        if max(lengths) > self.length:
            self.say("cut")
        panel = np.stack([_fitted(x, self.length) for x in series])
        if self.layout == "steps first":
            return panel.transpose(0, 2, 1)
        return panel.reshape(len(panel), -1) if self.layout == "flat" else panel

    def say(self, what: str) -> None:
        if what not in self.helped:
            self.helped.append(what)


def _reads(estimator: Any, baseline: Baseline) -> tuple[str, bool, bool]:
    """Return the layout that a classifier reads, and whether it reads gaps and several channels."""
    ours = type(estimator).__module__.partition(".")[0] == "tsformer"
    if ours and estimator.__sklearn_tags__().input_tags.allow_nan:
        return "any", True, True
    if hasattr(estimator, "get_tag"):  # sktime and aeon
        # Their tags of gaps and lengths are no promise: those of sktime's neighbours say that both
        # are read, and its distances raise.
        # By name: the two libraries have these arguments in different orders.
        several = estimator.get_tag(
            "capability:multivariate", tag_value_default=False, raise_error=False
        )
        return "panel", baseline.gaps, bool(several)
    tags = getattr(estimator, "__sklearn_tags__", None)
    reads = tags().input_tags if tags is not None else None
    gaps = baseline.gaps or (reads is not None and reads.allow_nan)
    layout = "panel" if reads is not None and reads.three_d_array else "flat"
    if _descends(type(estimator), *_STEPS_FIRST):
        layout = "steps first"
    return layout, bool(gaps), True


def _check_dependencies(estimator: Any) -> None:
    """Raise for what sktime only warns of when it constructs a classifier, and raises in `fit`."""
    base = sys.modules.get("sktime.classification.base")
    if base is not None and isinstance(estimator, base.BaseClassifier):
        getattr(base, "_check_estimator_deps", lambda _: None)(estimator)


def _descends(cls: type[Any], package: str, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.startswith(package) for base in cls.__mro__
    )


def _has_probabilities(estimator: Any) -> bool:
    """Return whether a fitted classifier has more than a one for the answer."""
    if not hasattr(estimator, "predict_proba"):
        return False
    # WEASEL and MUSE of sktime and aeon, which raise unless they were asked to estimate any.
    if getattr(estimator, "support_probabilities", True) is False:
        return False
    inner = getattr(type(estimator), "_predict_proba", None)
    if inner is None:
        return True
    if inner.__module__.startswith(_PROBABILITIES_OF_A_PART):
        parts = [getattr(estimator, each, None) for each in _LAST_PARTS]
        for part in parts:
            if part is not None:
                return hasattr(part, "predict_proba")
    return inner.__module__ not in _NO_PROBABILITIES


def _trimmed(X: Any) -> list[npt.NDArray[np.float64]]:
    """Return series (C, L) without steps at the end at which no channel has a value."""
    found = []
    for x in to_arrays(X):
        there = np.flatnonzero(~np.isnan(x).all(axis=0))
        found.append(np.asarray(x[:, : there[-1] + 1] if len(there) else x[:, :1], dtype=float))
    return found


def _interpolated(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Fill gaps linearly, those at the ends with the nearest value, a missing channel with 0."""
    steps = np.arange(x.shape[1])
    filled = np.zeros_like(x)
    for channel, there, out in zip(x, ~np.isnan(x), filled, strict=True):
        if there.any():
            out[:] = np.interp(steps, steps[there], channel[there])
    return filled


def _fitted(x: npt.NDArray[np.float64], length: int) -> npt.NDArray[np.float64]:
    """Pad a series at the end with the mean of each channel, or cut it, to `length` steps."""
    missing = length - x.shape[1]
    if missing <= 0:
        return x[:, :length]
    there = ~np.isnan(x)
    means = np.where(there, x, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return np.concatenate([x, np.repeat(means[:, None], missing, axis=1)], axis=1)


@contextmanager
def _isolated(seed: int | None) -> Iterator[None]:
    """Seed the global generators in the block; then restore them and torch's number of threads."""
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
