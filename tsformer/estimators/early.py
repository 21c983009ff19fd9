"""EarlyClassifier: answers about series that are still arriving."""

import os
from dataclasses import field, replace
from functools import partial
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags, check_array
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_is_fitted

from tsformer import persistence
from tsformer._checks import (
    Finite,
    check_fields_of,
    read_fields,
    real,
    shortened,
    whole,
    with_parameters,
)
from tsformer._precision import in_plain_torch
from tsformer.data.containers import as_channels, to_items, to_padded
from tsformer.data.layout import check_ids, layout_is_checked, refuse_recording
from tsformer.data.native import native_item, to_numpy
from tsformer.data.recordings import read_recordings
from tsformer.data.series import Padded
from tsformer.estimators import classification
from tsformer.estimators.copies import copies_are_grouped, first_equal, merge_copies
from tsformer.estimators.labels import Classes
from tsformer.estimators.random_convolution import RandomConvolutionClassifier
from tsformer.estimators.saving import fitted_state, restored
from tsformer.estimators.schema import Schema
from tsformer.estimators.series import SeriesEstimator, drawn_seed, unobserved
from tsformer.estimators.summary import card
from tsformer.estimators.targets import check_length, group_folds, read_groups, read_targets

#: Rules tried: quantiles of the confidence as thresholds, and numbers of agreeing answers.
_QUANTILES, _AGREEING = np.linspace(0, 1, 101), (1, 2, 3)
#: Rounding error of a mean share.
_ROUNDING = 1e-9
_Floats = npt.NDArray[np.floating[Any]]
_Ints = npt.NDArray[np.int64]
_check_earliness = real(0, 1, also=("harmonic",))


def _check_points(name: str, value: Any) -> None:
    """Allow a number of points, or increasing shares."""
    if np.ndim(value) == 0:
        whole(1)(name, value)
        return
    shares = np.asarray(value)
    numbers = shares.dtype.kind in "if" and shares.ndim == 1 and len(shares) > 0
    if not numbers or not (np.diff(shares, prepend=0) > 0).all() or shares[-1] > 1:
        raise ValueError(
            f"{name} must be an int >= 1, or increasing shares of the longest series in (0, 1]; "
            f"got {shortened(value)}"
        )


#: Columns of `trade_offs`.
_RULES = ("threshold", "n_agreeing", "accuracy", "earliness", "harmonic_mean")


class _Prefixes(NamedTuple):
    """Series cut at the points, with the index of series and point of each ``[m]``."""

    series: Padded
    case: _Ints
    point: _Ints

    def by_point(self, values: npt.NDArray[Any], n_points: int, n_series: int) -> _Floats:
        """Arrange one value per prefix as ``[points, n, ...]``, NaN without a prefix."""
        table = np.full((n_points, n_series, *values.shape[1:]), np.nan)
        table[self.point, self.case] = values
        return table


@with_parameters
class EarlyClassifier(ClassifierMixin, BaseEstimator):
    """Classifier of series that are still arriving, with a rule that decides when to answer.

    One classifier is trained on prefixes of the training series, cut at every point, so that it
    answers at every length. Prefixes are cut from the raw series, before any scaling: in training
    as in prediction, scaling sees the prefix alone.

    The rule answers at the first point where `n_agreeing_` successive predictions agree, each with
    a probability of at least `threshold_`, and at the last point in any case. It is chosen on
    held-out predictions: leave-one-out of whole series, with all their prefixes, for random
    convolutions, and cross-validation for other classifiers.

    Points are numbers of steps, the same for all series, because the final length of an arriving
    series is unknown. A point is skipped if no channel has a value there.

    `fit` trains on about `points` times as many series. The time of random convolutions is cubic in
    this number: 15 seconds for 100 series and 10 points on one core.

    Parameters
    ----------
    classifier : classifier, optional
        The classifier to train, by default `RandomConvolutionClassifier`. Classifiers of other
        libraries must read lists of arrays (channels, length) of unequal lengths.
    points : int or sequence of float, default=10
        Number of equally spaced points, or their increasing shares of the longest training series.
        The full length is always a point.
    earliness : "harmonic" or float, default="harmonic"
        "harmonic" maximises the harmonic mean of accuracy and 1 - earliness; earliness is the mean
        share of a series that is seen. A number in (0, 1) maximises the accuracy with an earliness
        of at most this number.
    cv : int, default=5
        Number of folds for held-out answers, if there is no leave-one-out.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of the default classifier.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        The class labels, sorted.
    classifier_ : classifier
        The classifier, fitted to prefixes of all series.
    n_channels_ : int
        Number of channels.
    steps_ : ndarray (n_points,) of int
        The points.
    threshold_ : float
        Least probability of an answer.
    n_agreeing_ : int
        Number of successive answers that must agree.
    trade_offs_ : DataFrame
        `trade_offs` of the held-out answers.

    See Also
    --------
    tsformer.estimators.StreamingClassifier : Answers after each chunk of one series.

    References
    ----------
    .. [1] Schafer and Leser, "TEASER: early and accurate time series classification", DMKD 34,
       2020. https://arxiv.org/abs/1908.03405

    Examples
    --------
    >>> from tsformer import EarlyClassifier, RandomConvolutionClassifier, load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> small = RandomConvolutionClassifier(1000, n_groups=2, random_state=0)
    >>> early = EarlyClassifier(small, points=4, earliness=0.8).fit(X, y)
    >>> early.steps_
    array([ 6, 12, 18, 24])
    >>> labels, n_steps = early.predict_early(X)
    >>> bool(n_steps.mean() < 24)
    True
    """

    classifier: Any = field(default=None, kw_only=False)
    points: Annotated[Any, _check_points] = 10
    earliness: Annotated[float | str, _check_earliness] = "harmonic"
    cv: Annotated[int, whole(2)] = 5
    random_state: int | np.random.RandomState | None = None

    target_: Classes = field(init=False)

    classes_ = property(classification.classes)
    score = classification.score

    @in_plain_torch
    def fit(self, X: Any, y: Any, *, groups: Any = None, times: Any = None) -> Self:
        """Train the classifier on prefixes, and choose the rule with held-out answers.

        Parameters
        ----------
        X, y, times : as in `TSTransformerClassifier.fit`
            Complete series of any lengths, read into memory, and one label for each.
        groups : array-like (n,), optional
            Group of each series, such as a person. Whole groups are held out.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For invalid arguments, or if the first point is later than `earliness`. The estimator
            stays unchanged.
        """
        check_fields_of(self)
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        seed, made = drawn_seed(self.random_state), self.classifier
        made = RandomConvolutionClassifier(random_state=seed) if made is None else clone(made)
        if not hasattr(made, "predict_proba"):
            raise TypeError(f"classifier must have predict_proba; got {type(made).__name__}")
        check_ids(X, y, "y")
        refuse_recording(X, y)
        series, labels = _read(made, X, times, first=True), read_targets(y, "y")
        check_length(len(series), labels, "y")
        classes, targets = np.unique(labels, return_inverse=True)
        groups = None if groups is None else read_groups(groups, X, len(series))
        groups = merge_copies(groups, first_equal(series))
        groups = np.arange(len(series)) if groups is None else groups
        if len(np.unique(groups)) < 2:
            raise ValueError(f"a rule needs 2 series of different groups; got {len(series)} in 1")
        steps = self._steps(series.n_steps)
        prefixes = _cut(series, steps, complete=True)
        share = prefixes.series.lengths / series.lengths[prefixes.case]
        earliest = pd.Series(share).groupby(prefixes.case).min().mean()
        _check_reachable(self.earliness, earliest)

        def fitted(part: npt.NDArray[np.bool_]) -> Any:
            case, known = prefixes.case[part], isinstance(made, SeriesEstimator)
            with layout_is_checked(), copies_are_grouped():
                return clone(made).fit(
                    _input(made, prefixes.series.part(part)),
                    labels[case],
                    **({"groups": groups[case]} if known else {}),
                )

        final = fitted(np.ones(len(share), dtype=bool))
        if not np.array_equal(final.classes_, classes):
            raise ValueError(
                f"every series needs a label; {type(final).__name__} has the classes "
                f"{final.classes_.tolist()[:10]} of the labels {classes.tolist()[:10]}"
            )
        left_out = None
        if isinstance(final, RandomConvolutionClassifier):
            left_out = final.model_.ridge.left_out
        if left_out is not None and len(left_out[0]) == len(share):  # not a sample of very many
            proba = left_out[0].numpy()
        else:
            proba = np.zeros((len(share), len(classes)))
            for fold in group_folds(targets, groups, self.cv, seed):
                test = fold[prefixes.case]
                with unobserved():
                    other = fitted(~test)
                columns = np.searchsorted(classes, other.classes_)
                proba[np.ix_(test, columns)] = other.predict_proba(
                    _input(other, prefixes.series.part(test))
                )
        self.target_, self.classifier_, self.steps_ = Classes(classes), final, steps
        self.n_channels_ = series.n_channels
        sizes = len(steps), len(series)
        answers, shares = prefixes.by_point(proba, *sizes), prefixes.by_point(share, *sizes)
        self.trade_offs_ = _trade_offs(answers, shares, targets)
        return self.choose_rule(self.earliness)

    def choose_rule(self, earliness: float | str) -> Self:
        """Choose another rule from the held-out answers of `fit`, without training again.

        Parameters
        ----------
        earliness : as in the constructor

        Returns
        -------
        self
        """
        check_is_fitted(self)
        _check_earliness("earliness", earliness)
        rules, order = self.trade_offs_, ["harmonic_mean", "accuracy"]
        if not isinstance(earliness, str):
            _check_reachable(earliness, rules.earliness.min())
            reachable = rules.earliness <= earliness + _ROUNDING
            rules, order = rules[reachable], ["accuracy", "harmonic_mean"]
        best = rules.sort_values(order, ascending=False, kind="stable").iloc[0]
        self.threshold_, self.n_agreeing_ = float(best.threshold), int(best.n_agreeing)
        return self

    def _steps(self, longest: int) -> _Ints:
        """Return the points for series of at most this length."""
        shares = self.points
        if np.ndim(shares) == 0:
            shares = np.arange(1, shares + 1) / shares
        exact = np.array([*shares, 1.0]) * longest
        return np.unique(np.ceil(exact.round(6)).astype(np.int64).clip(1))  # 10 * 0.7 is above 7

    @in_plain_torch
    def predict_proba(self, X: Any, times: Any = None) -> _Floats:
        """Compute the probability of each class from prefixes of any length.

        Parameters
        ----------
        X, times : as in `fit`
            Series as far as they have arrived.

        Returns
        -------
        ndarray (n, n_classes)
        """
        check_is_fitted(self)
        return self.classifier_.predict_proba(
            _input(self.classifier_, _read(self.classifier_, X, times))
        )

    def predict(self, X: Any, times: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each series from all that has arrived, as `predict_proba` does.

        Returns
        -------
        ndarray (n,) of labels
        """
        return self.target_.decide(self.predict_proba(X, times))

    def predict_early(self, X: Any, times: Any = None) -> tuple[npt.NDArray[Any], _Ints]:
        """Replay complete series: predict the class, and the number of steps until the answer.

        At its end a series is answered in any case. Returns labels ``(n,)`` and numbers of steps
        ``(n,)``; `X` and `times` are as in `fit`.
        """
        _, answers, steps = self._ask(X, times, complete=True)
        final = _stop(answers, self.threshold_, self.n_agreeing_), np.arange(answers.shape[1])
        return self.classes_[answers[final].argmax(axis=1)], steps[final].astype(np.int64)

    def decide(self, X: Any, times: Any = None) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Apply the rule to series that are still arriving.

        A final answer is the answer of `predict_early`, and stays whatever arrives later. No state
        is kept between calls: the classifier predicts at every point that was reached.

        Parameters
        ----------
        X, times : as in `predict_proba`

        Returns
        -------
        labels : ndarray (n,)
            Final answers; where the rule waits, the predictions of `predict`.
        decided : ndarray (n,) of bool
            Whether an answer is final. False means to wait for more steps, if there are any.
        """
        series, answers, _ = self._ask(X, times, complete=False)
        stop = _stop(answers, self.threshold_, self.n_agreeing_)
        decided = stop >= 0
        proba = self.predict_proba(series)
        proba[decided] = answers[stop[decided], np.flatnonzero(decided)]
        return self.classes_[proba.argmax(axis=1)], decided

    def trade_offs(self, X: Any, y: Any, times: Any = None) -> pd.DataFrame:
        """Compute accuracy and earliness of many rules on complete series.

        Parameters
        ----------
        X, times : as in `fit`
            Complete series.
        y : array-like (n,)
            True labels.

        Returns
        -------
        DataFrame
            One row per rule, the fitted one among them, with the columns threshold, n_agreeing,
            accuracy, earliness (the mean share of a series that is seen) and harmonic_mean (of
            accuracy and 1 - earliness).
        """
        check_ids(X, y, "y")
        labels = read_targets(y, "y")
        series, answers, steps = self._ask(X, times, complete=True)
        check_length(len(series), labels, "y")
        unique_labels(self.classes_, labels)  # raises for strings among numbers
        known = {label: i for i, label in enumerate(self.classes_.tolist())}
        targets = np.array([known.get(label, -1) for label in labels.tolist()])
        rule = self.threshold_, self.n_agreeing_
        return _trade_offs(answers, steps / series.lengths, targets, rule)

    def _ask(self, X: Any, times: Any, *, complete: bool) -> tuple[Padded, _Floats, _Floats]:
        """Return series, and probabilities and numbers of steps at all points reached."""
        check_is_fitted(self)
        series = _read(self.classifier_, X, times)
        prefixes = _cut(series, self.steps_, complete=complete)
        n, sizes = len(prefixes.case), (len(self.steps_), len(series))
        proba = self.predict_proba(prefixes.series) if n else np.empty((0, len(self.classes_)))
        return (
            series,
            prefixes.by_point(proba, *sizes),
            prefixes.by_point(prefixes.series.lengths, *sizes),
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write classifier and rule to a folder, to be read with `tsformer.load`.

        Parameters
        ----------
        path : str or path
            As in `TSTransformerClassifier.save`.

        Raises
        ------
        TypeError
            If the classifier is of another library: writing it would need pickle.
        """
        check_is_fitted(self)
        if not isinstance(self.classifier_, SeriesEstimator):
            kind = type(self.classifier_).__name__
            raise TypeError(f"save writes classifiers of tsformer; got {kind}, which needs pickle")
        described, tensors = fitted_state(self.classifier_)
        parameters = self.get_params(deep=False) | {"points": np.array(self.points).tolist()}
        del parameters["classifier"]
        if not isinstance(self.random_state, (int, np.integer)):
            parameters["random_state"] = None
        rule = {
            "parameters": parameters,
            "steps": self.steps_.tolist(),
            "threshold": self.threshold_,
            "n_agreeing": self.n_agreeing_,
            "trade_offs": self.trade_offs_.to_dict("list"),
        }
        state = {"class": type(self).__name__, "rule": rule, "classifier": described}
        text = (
            f"# {type(self).__name__}\n\nAsked after {rule['steps']} steps, it answers if "
            f"{self.n_agreeing_} successive answers agree with a probability of "
            f"{self.threshold_:.3g} or more. The classifier below was trained on prefixes.\n\n"
        )
        persistence.write_folder(path, state, tensors, text + card(self.classifier_))

    @classmethod
    def from_fitted_state(
        cls, state: dict[str, Any], tensors: dict[str, torch.Tensor], device: str | torch.device
    ) -> Self:
        """Restore the result of `save`."""
        steps, table = list[Annotated[int, whole(1)]], dict[str, list[Finite]]
        rule = read_fields(
            state.get("rule"),
            "rule",
            parameters=dict[str, Any],
            steps=steps,
            threshold=Finite,
            n_agreeing=Annotated[int, whole(1)],
            trade_offs=table,
        )
        early = cls(None, **rule["parameters"])
        early.classifier_ = restored(state.get("classifier"), tensors, device, ClassifierMixin)
        early.classifier = clone(early.classifier_)
        check_fields_of(early)
        early.target_, early.n_channels_ = early.classifier_.target_, early.classifier_.n_channels_
        early.steps_, early.trade_offs_ = np.array(rule["steps"]), pd.DataFrame(rule["trade_offs"])
        early.threshold_, early.n_agreeing_ = rule["threshold"], rule["n_agreeing"]
        if (np.diff(early.steps_) <= 0).any() or {*early.trade_offs_} != {*_RULES}:
            raise ValueError(f"rule must have increasing steps, and trade_offs of {_RULES}")
        return early


class EarlyAnswer(NamedTuple):
    """Answer of a `StreamingClassifier` at the last point, or to the last window."""

    #: The class; None before the first point.
    label: Any
    #: Whether the answer is final.
    decided: bool
    #: Number of steps that the answer has seen.
    n_steps: int
    #: Probability of each class, None before the first point.
    proba: _Floats | None


class StreamingClassifier:
    """Answers about a series, or about the windows of a recording, that arrives in chunks.

    With `length`, it predicts every window that `tsformer.data.windows` would cut, once it is
    complete; probabilities are equal to those of ``classifier.predict_proba(windows(...).X)``.
    Otherwise it needs an `EarlyClassifier`, and answers about one series.

    It keeps the values and the answers at earlier points. The classifier is asked once at each
    point, however small the chunks, and never after a final answer. `EarlyClassifier.decide` gives
    the same answers, but waits after the full length if its last values are missing: they may be
    steps to come.

    Each point computes the whole prefix: with 500 steps 70 ms for random convolutions and 15 ms for
    a transformer, on one core. No computation of a shorter prefix can be continued with the same
    result: a later step changes the scaling, gaps and attention of earlier ones.

    Parameters
    ----------
    classifier : EarlyClassifier, or any classifier with `length`
        Fitted.
    length, stride, pause : int or duration, optional
        Windows, as in `tsformer.data.windows`; steps if the sampling is irregular. By default,
        those of ``tsformer fit --window``; `stride` is by default `length`.

    Attributes
    ----------
    answers : list of EarlyAnswer
        An answer to each window that the last chunk has completed.

    Examples
    --------
    >>> from tsformer import EarlyClassifier, RandomConvolutionClassifier, load_dataset
    >>> from tsformer.estimators import StreamingClassifier
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> small = RandomConvolutionClassifier(1000, n_groups=2, random_state=0)
    >>> stream = StreamingClassifier(EarlyClassifier(small, points=4).fit(X, y))
    >>> for chunk in np.split(X[0], 6, axis=1):
    ...     answer = stream.update(chunk)
    >>> answer.decided, 6 <= answer.n_steps <= 24
    (True, True)
    """

    def __init__(
        self, classifier: Any, length: Any = None, stride: Any = None, *, pause: Any = None
    ):
        schema = getattr(classifier, "table_schema_", None)
        if length is None and schema is not None:
            length, stride = schema.cut
        if length is None and not isinstance(classifier, EarlyClassifier):
            raise TypeError(
                f"classifier must be an EarlyClassifier; got {shortened(classifier)}: pass length "
                "and stride of its windows"
            )
        check_is_fitted(classifier)
        self.classifier, self.pause = classifier, pause
        self.length, self.stride = length, length if stride is None else stride
        self.reset()

    def reset(self) -> None:
        """Forget the series: the next chunk begins another."""
        early = self.classifier
        self._answer = EarlyAnswer(None, decided=False, n_steps=0, proba=None)
        self.answers: list[EarlyAnswer] = []
        self._rest: pd.DataFrame | None = None
        self._n_dropped = self._n_answered = 0
        if self.length is None:
            self._answers = np.full((len(early.steps_), 1, len(early.classes_)), np.nan)
            self._point = -1

    @in_plain_torch
    def update(self, chunk: Any, times: npt.ArrayLike | None = None) -> EarlyAnswer:
        """Append the next steps of the series, and answer.

        Parameters
        ----------
        chunk : ndarray (length,) or (channels, length), or DataFrame (length, channels)
            The next steps. NaN marks a missing value.
        times : ndarray (length,), optional
            Times of these steps, if `fit` had times. For windows, or with ``timestamps="index"``,
            by default the index of the DataFrame.

        Returns
        -------
        EarlyAnswer
            It stays the same until the next point or complete window.
        """
        if self.length is None and self._answer.decided:
            return self._answer
        item = native_item(chunk, "chunk")
        named = isinstance(item, (pd.DataFrame, pd.Series))
        frame = pd.DataFrame(item if named else as_channels(item, "chunk").T)
        if times is not None:
            frame = frame.set_axis(pd.Index(to_numpy(times)))
        elif isinstance(frame.index, pd.RangeIndex):
            begin = self._n_dropped + (0 if self._rest is None else len(self._rest))
            frame = frame.set_axis(pd.RangeIndex(begin, begin + len(frame)))
        if self._rest is not None and len(frame.columns.symmetric_difference(self._rest.columns)):
            raise ValueError(
                f"chunk has the channels {shortened([*frame])}, and earlier chunks "
                f"{shortened([*self._rest])}; pass the same"
            )
        known, self.answers = pd.concat([self._rest, frame]), []
        if self.length is not None:
            self._update_windows(known)
        else:
            self._update_series(known, named, times is not None)
        return self._answer

    def _update_series(self, known: pd.DataFrame, named: bool, timed: bool) -> None:
        """Answer at the points that the series has reached."""
        early = self.classifier
        if known.shape[1] != early.n_channels_:
            raise ValueError(
                f"chunk must be (channels, length) with {early.n_channels_} channels, or "
                f"(length,) with one; got {known.shape[1]} channels"
            )
        if not known.isna().all(axis=None):
            times = [known.index.to_numpy()] if timed else None
            series = _read(early.classifier_, [known if named else known.to_numpy().T], times)
            prefixes = _cut(series, early.steps_, complete=len(known) >= early.steps_[-1])
            new = prefixes.point > self._point
            if new.any():
                proba = early.predict_proba(prefixes.series.part(new))
                self._answers[prefixes.point[new], 0] = proba
                stop = int(_stop(self._answers, early.threshold_, early.n_agreeing_)[0])
                self._point = int(prefixes.point[-1])
                point = stop if stop >= 0 else self._point
                proba = self._answers[point, 0]
                n_steps = min(int(early.steps_[point]), int(series.lengths[0]))
                label = early.classes_[proba.argmax()]
                self._answer = EarlyAnswer(label, stop >= 0, n_steps, proba)
        self._rest = known

    def _update_windows(self, known: pd.DataFrame) -> None:
        """Answer to the windows that the chunk completes."""
        if known.empty:
            return
        (recording,) = read_recordings(known, None, None, self.pause, "drop")
        length = recording.n_steps(self.length, "length")
        starts = recording.starts(length, recording.n_steps(self.stride, "stride"))
        new = starts[self._n_answered :]
        if len(new):
            for start, proba in zip(
                new, self.classifier.predict_proba(recording.views(new, length)), strict=True
            ):
                label, stop = self.classifier.classes_[proba.argmax()], start + length
                self.answers.append(EarlyAnswer(label, True, int(self._n_dropped + stop), proba))
            self._answer = self.answers[-1]
        begin = ([0, *recording.ends])[-2]  # after the last pause
        starts = starts[starts >= begin]
        kept = int([begin, *starts][-1])  # from the last window on, which sets the next
        self._rest, self._n_answered = known.iloc[kept:], min(len(starts), 1)
        self._n_dropped += kept


def _check_reachable(earliness: float | str, earliest: float) -> None:
    """Raise ValueError if the first point is later than the wanted earliness."""
    if not isinstance(earliness, str) and earliness + _ROUNDING < earliest:
        raise ValueError(
            f"earliness={earliness:g} is before the first point, at a mean share of "
            f"{earliest:.3g}; pass earlier points"
        )


def _read(classifier: Any, X: Any, times: Any, *, first: bool = False) -> Padded:
    """Read series into memory, and check them as the classifier does."""
    if isinstance(classifier, SeriesEstimator):
        if first:
            return Schema.learn(classifier, X, times)[0].padded()
        return classifier.read_series(X, times)
    check = partial(check_array, dtype="numeric", allow_nd=True, ensure_all_finite=False)
    return to_padded(X, times, check=check)


def _input(classifier: Any, series: Padded) -> Any:
    """Return series in the container that the classifier reads."""
    if isinstance(classifier, SeriesEstimator):
        return series
    if series.times is not None:
        raise ValueError(f"{type(classifier).__name__} reads no times; pass series without times")
    return list(to_items(series))


def _cut(series: Padded, steps: _Ints, *, complete: bool) -> _Prefixes:
    """Cut series at the points that they have reached; complete series also at their end."""
    lengths = series.lengths
    with_value = np.asarray(~np.isnan(series.values).all(axis=2))
    if (empty := ~with_value[:, : steps[-1]].any(axis=1)).any():
        raise ValueError(
            f"series {empty.argmax()} has no value in its first {steps[-1]} steps, at which "
            "the rule must decide; drop it"
        )
    reached = lengths > steps[:, None] if complete else lengths >= steps[:, None]
    reached &= with_value[:, np.minimum(steps, series.n_steps) - 1].T
    reached[-1] = (lengths >= steps[-1]) | complete
    point, case = np.nonzero(reached)
    ends = np.minimum(lengths[case], steps[point])
    whole = series.read(case)
    mask = np.arange(series.n_steps) < ends[:, None]
    values = np.where(mask[..., None], whole.values, np.nan)
    times = None if whole.times is None else np.where(mask, whole.times, 0.0)
    return _Prefixes(replace(whole, values=values, lengths=ends, times=times), case, point)


def _stop(answers: _Floats, threshold: float, n_agreeing: int) -> _Ints:
    """Return the point of the final answer ``[n]`` to answers ``[points, n, K]``, or -1."""
    asked = ~np.isnan(answers[..., 0])
    proba = np.where(asked[..., None], answers, 0.0)
    sure, named = proba.max(axis=2) >= threshold, proba.argmax(axis=2)
    stop = np.full(answers.shape[1], -1)
    run, before = np.zeros_like(stop), np.full_like(stop, -1)
    for point, now in enumerate(asked):
        agreeing = np.where(named[point] == before, run + 1, 1) * sure[point]
        run, before = np.where(now, agreeing, run), np.where(now, named[point], before)
        stop = np.where((stop < 0) & now & (run >= n_agreeing), point, stop)
    return np.where((stop < 0) & asked[-1], len(answers) - 1, stop)


def _trade_offs(
    answers: _Floats, share: _Floats, targets: _Ints, rule: tuple[float, int] | None = None
) -> pd.DataFrame:
    """Score every rule on complete series, and a given one."""
    confidence = answers[~np.isnan(answers[..., 0])].max(axis=1)
    rows, case = [], np.arange(len(targets))
    for n_agreeing in _AGREEING:
        tried = np.quantile(confidence, _QUANTILES).tolist()
        tried += [rule[0]] if rule is not None and rule[1] == n_agreeing else []
        for threshold in np.unique(tried).tolist():
            stop = _stop(answers, threshold, n_agreeing)
            right = answers[stop, case].argmax(axis=1) == targets
            rows.append((threshold, n_agreeing, right.mean(), share[stop, case].mean()))
    table = pd.DataFrame(rows, columns=[*_RULES[:-1]])
    saved = 1 - table.earliness
    mean = 2 * table.accuracy * saved / (table.accuracy + saved)
    return table.assign(harmonic_mean=mean.fillna(0.0))
