"""PanelClassifier: any classifier behind one interface, with series that it can read."""

import inspect
import random
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.utils import InputTags

from tsformer.baselines.resolve import TRANSFORMER, construct, find
from tsformer.data.containers import to_padded
from tsformer.data.layout import check_ids, refuse_nul, refuse_recording


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
        with _isolated(self.random_state), warnings.catch_warnings(action="ignore"):
            construct(self.estimator, self.parameters, self.random_state)

    def fit(self, X: Any, y: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Self:
        """Fit to series X, in any container, labels y (B,), and groups (B,) if `fit` has them."""
        check_ids(X, y, "y")
        refuse_recording(X, y)
        refuse_nul(y, "y")
        self._length = 0
        self._changes = dict.fromkeys(("interpolated", "padded", "cut", "shuffled"), False)
        with _isolated(self.random_state):
            self.estimator_ = construct(self.estimator, self.parameters, self.random_state)
            self._layout, self._gaps, self._several = _reads(self.estimator_)
            series, labels = self._read(X), np.array(y)  # foreign code may write into it
            # These never shuffle: with series sorted by class, a batch would have one class.
            if "BaseDeepClassifierPytorch" in repr(type(self.estimator_).mro()):
                order = np.random.default_rng(self.random_state).permutation(len(labels))
                series, labels = series[order], labels[order]
                self._changes["shuffled"] = True
            takes_groups = "groups" in inspect.signature(self.estimator_.fit).parameters
            options = {"groups": groups} if takes_groups and groups is not None else {}
            self.estimator_.fit(series, labels, **options)
        self.has_probabilities_ = hasattr(self.estimator_, "predict_proba")
        classes = np.asarray(getattr(self.estimator_, "classes_", np.unique(y)))
        self._columns = np.argsort(classes, kind="stable")
        self.classes_ = classes[self._columns]
        return self

    @property
    def helped_(self) -> str:
        """Changes of the series: "padded", "interpolated", "cut" and "shuffled"."""
        return ", ".join(name for name, changed in self._changes.items() if changed)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the label of each series, (B,); ValueError for an answer of another shape."""
        return self._answer("predict", X)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each class in the order of `classes_`, (B, K).

        AttributeError if the classifier lacks the method, does not implement it, or inherits the
        zeros and ones of sktime's base class.
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
            series = self._read(X)
            answer = np.asarray(getattr(self.estimator_, method)(series))
        if not columns and answer.shape[1:] == (1,):
            answer = answer[:, 0]
        if self._layout != "any" and answer.shape != (expected := (len(series), *columns)):
            raise ValueError(f"{method} of {self.estimator} must be {expected}; got {answer.shape}")
        return answer

    def _read(self, X: Any) -> Any:
        """Interpolate, pad and cut as needed; return one array in the classifier's layout."""
        if self._layout == "any":
            return X
        data, baseline, changes = to_padded(X), find(self.estimator), self._changes
        if data.n_channels > 1 and not self._several:
            raise UnreadableSeries(f"{self.estimator} reads one channel; got {data.n_channels}")
        self._length = self._length or max(baseline.shortest, data.n_steps)
        gaps = data.gaps is not None and not (self._gaps or baseline.gaps)
        changes["interpolated"] |= gaps
        changes["padded"] |= bool(data.lengths.min() < self._length)
        changes["cut"] |= data.n_steps > self._length
        panel = np.empty((len(data), data.n_channels, self._length))
        for row, values, n in zip(panel, data.values, data.lengths, strict=True):
            frame = pd.DataFrame(values[:n].T.copy().T)
            if gaps:
                frame = frame.interpolate(limit_direction="both").fillna(0.0)
            row[:] = frame.mean().fillna(0.0).to_numpy()[:, None]
            row[:, :n] = frame.to_numpy().T[:, : self._length]
        panel = panel.transpose(0, 2, 1) if self._layout == "steps first" else panel
        return panel.reshape(len(panel), -1) if self._layout == "flat" else panel


def _reads(estimator: Any) -> tuple[str, bool, bool]:
    """Return the layout, and whether gaps and several channels are readable."""
    tagged = hasattr(estimator, "__sklearn_tags__")
    inputs = estimator.__sklearn_tags__().input_tags if tagged else InputTags()
    if inputs.allow_nan and type(estimator).__module__.startswith("tsformer."):
        return "any", True, True
    if hasattr(estimator, "get_tag"):
        # Tags of gaps and lengths are unreliable: sktime's neighbours claim both and raise.
        # Keywords, because sktime and aeon order these arguments differently.
        tag = {"tag_value_default": False, "raise_error": False}
        return "panel", False, bool(estimator.get_tag("capability:multivariate", **tag))
    if "'tslearn.bases" in repr(type(estimator).mro()):  # whatever its tags say
        return "steps first", inputs.allow_nan, True
    return "panel" if inputs.three_d_array else "flat", inputs.allow_nan, True


@contextmanager
def _isolated(seed: int | None) -> Iterator[None]:
    """Seed the global generators; restore them and torch's threads afterwards."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices), ExitStack() as stack:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(random.getrandbits(32) if seed is None else seed)
        yield
