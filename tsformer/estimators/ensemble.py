"""TSEnsembleClassifier: random convolutions and transformers, their probabilities averaged."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from importlib import import_module
from math import inf
from statistics import median
from time import perf_counter
from typing import Annotated, Any, ClassVar, Self
from warnings import catch_warnings, filterwarnings

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from torch import Tensor

from tsformer import _checks as checks
from tsformer._checks import one_of, options, real, whole, with_parameters
from tsformer._precision import in_plain_torch
from tsformer._warnings import warn_caller
from tsformer.data.layout import check_ids, layout_is_checked
from tsformer.estimators import classification
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.members import probe_model
from tsformer.estimators.novelty import Novelty
from tsformer.estimators.random_convolution import RandomConvolutionClassifier
from tsformer.estimators.saving import fitted_parts
from tsformer.estimators.series_estimator import Fit, SeriesEstimator, TrainingData, drawn_seed
from tsformer.estimators.settings import MANY_SERIES, described_threads
from tsformer.estimators.summary import Summary, table_of
from tsformer.estimators.targets import LabelTarget
from tsformer.training import Callback, TrainingState
from tsformer.training.progress import note

#: Members of the transformer.
QUALITIES = {"fast": 1, "good": 2, "best": 4}
#: Share of a `time_limit` from which on a warning names the parts that exceeded it.
_TOLERANCE = 1.2
#: Smallest share of its epochs for which a model is trained; a tenth worsened the mean's log loss.
_LEAST_SHARE = 0.2
#: Parameters that both parts share, and parameters of the parts that cannot be overridden.
_SHARED = ("timestamps", "class_weight", "device", "n_threads")
_RESERVED = {*_SHARED, "random_state", "n_jobs", "verbose", "n_estimators", "warm_start"}


@with_parameters
class TSEnsembleClassifier(ClassifierMixin, SeriesEstimator):
    """Time-series classifier: an average of random convolutions and transformers.

    ``p = (p_convolutions + p_transformer) / 2``: the mean of the probabilities of a
    `RandomConvolutionClassifier` and a `TSTransformerClassifier`, whose members differ in their
    seeds only. The weights are fixed, as small data sets leave too few series to learn weights. For
    codes use ``TSTransformerClassifier(stem="embedding")``.

    Parameters
    ----------
    quality : {"fast", "good", "best"}, default="fast"
        1, 2 or 4 members of the transformer. The random convolutions are the same.
    time_limit : float, optional
        Seconds for `fit`. The random convolutions are always fitted in full. After its first epoch,
        the transformer is planned as many epochs as fit into the remaining time, and then further
        members that fit in full, up to `quality`. Without time for a fifth of the epochs there is
        no transformer. A warning reports a limit that was exceeded by a fifth. The result depends
        on the machine and its load; for repeatable results use `quality` alone.
    gate : float, default=0.02
        No transformer is trained if the leave-one-out predictions of the random convolutions leave
        less than this share of the classes' entropy unexplained. 0 always trains a transformer.
        From 1,000 training series on, it is always trained, since it makes fewer errors there.
    transformer_params, convolution_params : dict, optional
        Parameters of the `TSTransformerClassifier`, such as ``{"encoding": "tape"}``, and of the
        `RandomConvolutionClassifier`, such as ``{"n_features": 5000}``.
    timestamps, class_weight : default=None, None
        As in `TSTransformerClassifier`.
    n_jobs : int or None, default=1
        On a CPU, number of processes that train members of the transformer in parallel and share
        the threads; -1 uses all cores. Values other than 1 do not allow `verbose`, and the seconds
        that processes take to start may exceed a `time_limit`.
    n_threads, device : default="auto", "auto"
        As in `TSTransformerClassifier`.
    random_state : int, RandomState or None, default=None
        Seed, passed to both parts as `random_state`. Without a `time_limit`, the same int gives the
        same predictions on the same machine, bit for bit. Fits in several threads take turns.
    verbose : int or bool, default=0
        1 shows progress over all parts on standard error.

    Attributes
    ----------
    random_convolutions_ : RandomConvolutionClassifier
        The fitted random convolutions.
    transformer_ : TSTransformerClassifier or None
        The fitted transformer; None if `gate`, a `time_limit` or Ctrl-C left it out.
    unexplained_ : float
        Share of the classes' entropy that the leave-one-out predictions of the random convolutions
        leave unexplained: 0 for the least possible log loss, 1 for that of the class frequencies.
    weights_, seconds_ : dict
        Weight and seconds of `fit` of each part, "random_convolutions" and "transformer".
    classes_, n_features_in_, n_channels_, device_
        As in `TSTransformerClassifier`.

    Examples
    --------
    >>> from tsformer import TSEnsembleClassifier, load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> small = {"max_epochs": 5, "d_model": 16}
    >>> clf = TSEnsembleClassifier("fast", transformer_params=small, random_state=0).fit(X, y)
    >>> clf.predict_proba(X[:3]).shape
    (3, 2)
    >>> sorted(clf.score_parts(X, y))
    ['ensemble', 'random_convolutions', 'transformer']
    """

    parts: ClassVar = {
        "random_convolutions": RandomConvolutionClassifier,
        "transformer": TSTransformerClassifier,
    }
    params_of_parts = ("convolution_params", "transformer_params")

    quality: Annotated[str, one_of(*QUALITIES)] = field(default="fast", kw_only=False)
    time_limit: Annotated[float | None, real(0, also=(None, inf))] = None
    gate: Annotated[float, real(0, 1, also=(0,))] = 0.02
    transformer_params: Annotated[Mapping[str, Any] | None, options] = None
    convolution_params: Annotated[Mapping[str, Any] | None, options] = None
    timestamps: Annotated[str | None, one_of(None, "index")] = None
    class_weight: Mapping[Any, float] | str | None = None
    n_jobs: Annotated[int | None, whole(1, -1, None)] = 1
    n_threads: Annotated[int | str, whole(1, "auto")] = "auto"
    device: str | torch.device = "auto"
    random_state: int | np.random.RandomState | None = None
    verbose: Annotated[int, whole(0, False, True)] = 0

    random_convolutions_: RandomConvolutionClassifier = field(init=False)
    transformer_: TSTransformerClassifier | None = field(init=False)
    weights_: dict[str, float] = field(init=False)
    unexplained_: float = field(init=False)
    seconds_: dict[str, float] = field(init=False)
    target_: LabelTarget = field(init=False)

    masks_unknown = False
    default_method = "occlusion"

    classes_ = property(classification.classes)
    decision_function = classification.decision_function
    predict = classification.predict
    score = classification.score
    explain = classification.explain
    calibrate_sets = classification.calibrate_sets
    predict_set = classification.predict_set
    restored_target = classification.restored_target
    _learn_target = classification.learn_target

    @in_plain_torch
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: npt.ArrayLike | None = None,
        groups: Any = None,
        times: Any = None,
    ) -> Self:
        """Fit the random convolutions, then the transformer; from then on Ctrl-C keeps the parts.

        Parameters
        ----------
        X, y, sample_weight, times : as in `TSTransformerClassifier.fit`
        groups : array-like (n,), optional
            Group of each series, such as a person or machine. The parts hold out whole groups.

        Returns
        -------
        self

        Raises
        ------
        tsformer.training.NonFiniteLossError
            If the loss of the transformer is not finite. The epochs before are kept.
        """
        begun, limit = perf_counter(), self.time_limit or inf
        with self._fitting(X, y, times=times) as (copied, observation):
            fitted: Self = copied
            convolutions, transformer = fitted._unfitted()
            data = fitted._read_training(X, y, sample_weight, groups, times)
            data.series = series = data.series.padded()
            probe_model(transformer, series)
            if self.verbose:
                note("random convolutions")
            start = perf_counter()
            fitted._fit_part(convolutions, data)
            fitted.seconds_ = {"random_convolutions": perf_counter() - start}
            fitted.weights_ = {"random_convolutions": 1.0}
            fitted.random_convolutions_, fitted.transformer_ = convolutions, None
            fitted.unexplained_ = convolutions.model_.ridge.unexplained
            fitted._record(data)
            # Before training, so that callbacks find a fitted estimator.
            self.__dict__ = fitted.__dict__
            # Of many series the transformer errs less often even then: see PenDigits in
            # ``experiments/results/many_series.csv``.
            if self.unexplained_ >= self.gate or len(series) >= MANY_SERIES:
                self._add_transformer(transformer, data, observation, begun + limit)
            elif self.verbose:
                note(f"{self.unexplained_:.2%} are left unexplained: no transformer is needed")
        taken = perf_counter() - begun
        if taken > _TOLERANCE * limit:
            seconds = ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds_.items())
            warn_caller(f"time_limit={limit:g} s was exceeded: fit took {taken:.1f} s ({seconds})")
        return self

    def _fit_part(
        self, estimator: RandomConvolutionClassifier | TSTransformerClassifier, data: TrainingData
    ) -> None:
        """Fit a part to the series of the ensemble."""
        labels = self.target_.decode(data.targets)
        with layout_is_checked():
            estimator.fit(data.series, labels, sample_weight=data.weights, groups=data.groups)
        estimator.schema_ = self.schema_  # to read the same series as the ensemble

    def _add_transformer(
        self, transformer: TSTransformerClassifier, data: TrainingData, observation: Fit, end: float
    ) -> None:
        """Train the transformer until `end`, by `perf_counter`; keep it after one epoch."""
        start, callbacks, interrupted = perf_counter(), transformer.callbacks, False
        transformer.callbacks = [*(callbacks or ()), *observation.callbacks]
        with catch_warnings():
            if end < inf:
                transformer.callbacks.append(Deadline(end))
                filterwarnings("ignore", "only .* members were trained")
                import_module("torch._dynamo")  # seconds, at the first optimizer of a process
            try:
                if perf_counter() < end:
                    self._fit_part(transformer, data)
            except KeyboardInterrupt:
                interrupted = True
            finally:
                transformer.callbacks = callbacks
                self.seconds_["transformer"] = perf_counter() - start
                histories = getattr(transformer, "histories_", [])
                if any(histories):
                    self.transformer_ = transformer
                    self.weights_ = {"random_convolutions": 0.5, "transformer": 0.5}
                observation.interrupted = interrupted or any(h.interrupted for h in histories)
        if interrupted:
            warn_caller(f"training was interrupted; the parts are {', '.join(self.weights_)}")

    def _unfitted(self) -> tuple[RandomConvolutionClassifier, TSTransformerClassifier]:
        """Make both parts; raise ValueError or TypeError for an invalid parameter."""
        for name, cls in zip(self.params_of_parts, self.parts.values(), strict=True):
            known = cls().get_params(deep=False).keys()
            for option in getattr(self, name) or {}:
                kind = f"entry of {name}"
                checks.check_known(kind, option, sorted(known - _RESERVED))
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = int(np.random.SeedSequence(drawn_seed(seed)).generate_state(1)[0])
        shared: Any = {name: getattr(self, name) for name in _SHARED}
        shared["random_state"] = int(seed)
        convolutions = RandomConvolutionClassifier(**shared, **(self.convolution_params or {}))
        shared |= {"n_jobs": self.n_jobs, "verbose": self.verbose}
        shared |= self.transformer_params or {}
        transformer = TSTransformerClassifier(n_estimators=QUALITIES[self.quality], **shared)
        convolutions.check_parameters()
        transformer.check_parameters()
        if transformer.stem == "embedding":
            raise ValueError("for codes use TSTransformerClassifier(stem='embedding')")
        if self.n_jobs not in (1, None) and (self.verbose or transformer.callbacks):
            raise ValueError(f"n_jobs={self.n_jobs} excludes callbacks and verbose; use n_jobs=1")
        return convolutions, transformer

    @property
    def device_(self) -> torch.device:  # type: ignore[override]
        """The device of the parts."""
        return self.random_convolutions_.device_

    @property
    def novelty_(self) -> Novelty:
        """The novelty scores of the random convolutions, which equal the transformer's."""
        return self.random_convolutions_.novelty_

    @in_plain_torch
    def predict_proba(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Compute the mean of the probabilities of the parts, with the weights `weights_`.

        Parameters
        ----------
        X, times : as in `RandomConvolutionClassifier.predict_proba`

        Returns
        -------
        ndarray (n, n_classes) of float64
            Rows sum to 1, unless there are several labels per series.
        """
        parts = self.predict_proba_parts(X, times)
        return sum((self.weights_[name] * proba for name, proba in parts.items()), np.zeros(()))

    @in_plain_torch
    def predict_proba_parts(self, X: Any, times: Any = None) -> dict[str, npt.NDArray[np.float64]]:
        """Compute the probability of each class according to each part.

        Parameters
        ----------
        X, times : as in `predict_proba`

        Returns
        -------
        dict
            An ndarray ``(n, n_classes)`` for each part.
        """
        series = self.read_series(X, times)
        return {name: clf.predict_proba(series) for name, clf in fitted_parts(self).items()}

    @in_plain_torch
    def score_parts(
        self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None, *, times: Any = None
    ) -> dict[str, float]:
        """Compute the accuracy of the ensemble and of each part alone.

        Parameters
        ----------
        X, y, sample_weight, times : as in `score`

        Returns
        -------
        dict
            The accuracy of "ensemble", "random_convolutions" and, if there is one, "transformer".
        """
        check_ids(X, y, "y")
        check_ids(X, sample_weight, "sample_weight")
        series, parts = self.read_series(X, times), {"ensemble": self, **fitted_parts(self)}
        return {name: clf.score(series, y, sample_weight) for name, clf in parts.items()}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        assert tags.classifier_tags is not None
        tags.classifier_tags.multi_label = True
        return tags

    def logits(self, X: Any, times: Any = None) -> npt.NDArray[np.floating[Any]]:
        """Return the logits of all classes, ndarray ``(n, n_classes)``."""
        series, parts = self.read_series(X, times), fitted_parts(self)
        logits = [torch.from_numpy(clf.logits(series, None)).double() for clf in parts.values()]
        weights = [self.weights_[name] for name in parts]
        return self.target_.mean_logits(torch.stack(logits), weights).numpy()

    def used_values(self) -> dict[str, Any]:
        return {"device": str(self.device_), "n_threads": described_threads(self.n_threads)}

    def _layout(self) -> tuple[pd.DataFrame, dict[str, int], dict[str, Summary]]:
        summaries = {name: clf.summary() for name, clf in fitted_parts(self).items()}
        sizes = {name: summary.sizes["parameters"] for name, summary in summaries.items()}
        rows = [
            (name, f"weight {self.weights_[name]:g}", f"{len(self.classes_)}", size)
            for name, size in sizes.items()
        ]
        return table_of(rows), {"parameters": sum(sizes.values())}, summaries

    def held_out_scores(self) -> dict[str, Any]:
        return {
            f"{name.replace('_', ' ')}: {score}": value
            for name, clf in fitted_parts(self).items()
            for score, value in clf.held_out_scores().items()
        }

    def describe_models(self) -> dict[str, Any]:
        return {name: getattr(self, f"{name}_") for name in ("weights", "seconds", "unexplained")}

    def restore_models(
        self, described: dict[str, Any], saved: Sequence[Mapping[str, Tensor]]
    ) -> None:
        finite: Any = checks.Finite
        kinds: Any = {"weights": dict[str, checks.Positive], "seconds": dict[str, finite]}
        fields = checks.read_fields(described, **kinds, unexplained=finite)
        self.weights_, self.seconds_, self.unexplained_ = fields.values()
        parts = sorted(described["parts"])
        if "random_convolutions" not in parts or parts != sorted(self.weights_):
            raise ValueError(
                "parts must be random_convolutions and optionally transformer, with a weight each; "
                f"got {parts} and {self.weights_}"
            )


class Deadline(Callback):
    """Shortens the training runs of members so that they end before a point in time.

    The learning rate of the first member falls to zero in as many epochs as fit. Further members
    are trained in full or not at all; one without time for a fifth of its epochs is untrained.
    """

    stateless = True  # in other processes each member measures its own epochs
    _epoch_seconds: float | None = None

    def __init__(self, end: float):
        self.end = end  # by `perf_counter`

    def on_train_begin(self, state: TrainingState) -> None:
        self._n_epochs, self._useful = state.plan.n_epochs, True
        state.stop = self._fitting() < self._n_epochs

    def on_epoch_end(self, state: TrainingState) -> None:
        self._epoch_seconds = median(row["seconds"] for row in state.history)
        n_epochs = min(state.epoch + self._fitting(), self._n_epochs)
        self._useful = n_epochs >= _LEAST_SHARE * self._n_epochs
        state.stop = state.stop or not self._useful
        state.plan = replace(state.plan, n_epochs=n_epochs)

    def on_train_end(self, state: TrainingState) -> None:
        if not self._useful:
            state.history.clear()

    def _fitting(self) -> int:
        """Return the number of epochs that still fit; all, before any is timed."""
        left = self.end - perf_counter()
        if self._epoch_seconds is None:
            return self._n_epochs if left >= 0 else 0
        # The forward pass for batch norms takes half an epoch.
        return max(int(left / self._epoch_seconds - 0.5), 0)
