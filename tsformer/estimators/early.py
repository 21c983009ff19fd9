"""EarlyClassifier: answers about series that are still arriving."""

import os
from dataclasses import field, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_is_fitted

from tsformer._checks import Finite, check_fields_of, read_fields, real, whole, with_parameters
from tsformer.data.containers import as_channels, to_items, to_padded
from tsformer.data.layout import check_ids, layout_is_checked, refuse_recording
from tsformer.data.native import native_item, to_numpy
from tsformer.data.recordings import read_recordings
from tsformer.data.series import Padded
from tsformer.estimators import classification
from tsformer.estimators import groups as grouping
from tsformer.estimators.random_convolution import RandomConvolutionClassifier
from tsformer.estimators.saving import fitted_state, restored
from tsformer.estimators.schema import Schema
from tsformer.estimators.series_estimator import SeriesEstimator, drawn_seed, unobserved
from tsformer.estimators.summary import card
from tsformer.estimators.targets import Classes, check_length, read_targets
from tsformer.persistence import write_folder

#: Columns of `trade_offs`.
_RULES = ["threshold", "n_agreeing", "accuracy", "earliness", "harmonic_mean"]
_Floats = npt.NDArray[np.floating[Any]]
_Ints = npt.NDArray[np.int64]
_Count = Annotated[int, whole(1)]
_check_earliness = real(0, 1, also=("harmonic",))


def _check_points(name: str, value: Any) -> None:
    """Allow a number of points, or increasing shares."""
    shares = np.asarray(value)
    if shares.ndim == 0:
        return whole(1)(name, value)
    numbers = shares.ndim == 1 and shares.dtype.kind in "if" and len(shares)
    if not numbers or shares[-1] > 1 or not (np.diff(shares, prepend=0) > 0).all():
        raise ValueError(f"{name} must be an int, or increasing shares in (0, 1]; got {value!r}")
    return None


@with_parameters
class EarlyClassifier(ClassifierMixin, BaseEstimator):
    """Classifier of series that are still arriving, with a rule that decides when to answer.

    One classifier is trained on prefixes of the raw series, cut at every point: scaling sees the
    prefix alone. The rule answers at the first point where `n_agreeing_` successive predictions
    agree, each with a probability of at least `threshold_`, and at the last point in any case. It
    is chosen on held-out series with all their prefixes: leave-one-out for random convolutions,
    cross-validation for other classifiers. Points where no channel has a value are skipped. `fit`
    trains on `points` times as many series; random convolutions take a time cubic in this number.

    Parameters
    ----------
    classifier : classifier, optional
        By default `RandomConvolutionClassifier`. Classifiers of other libraries must read lists of
        arrays (channels, length) of unequal lengths.
    points : int or sequence of float, default=10
        Number of equally spaced points, or their increasing shares of the longest training series.
        The full length is always a point.
    earliness : "harmonic" or float, default="harmonic"
        "harmonic" maximises the harmonic mean of accuracy and 1 - earliness; earliness is the mean
        share of a series that is seen. A number maximises the accuracy with at most this earliness.
    cv, random_state : default=5, None
        Number of folds for held-out answers without leave-one-out; seed of the folds and of the
        default classifier.

    Attributes
    ----------
    classes_, classifier_ : ndarray (n_classes,), classifier
        The labels, sorted, and the classifier of prefixes of series with `n_channels_` channels.
    steps_, threshold_, n_agreeing_, trade_offs_ : ndarray (n_points,), float, int, DataFrame
        The points, as numbers of steps, the rule, and `trade_offs` of the held-out answers.

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
        """
        check_fields_of(self)
        seed, made = drawn_seed(self.random_state), self.classifier
        made = RandomConvolutionClassifier(random_state=seed) if made is None else clone(made)
        if not hasattr(made, "predict_proba"):
            raise TypeError(f"classifier must have predict_proba; got {type(made).__name__}")
        check_ids(X, y, "y")
        refuse_recording(X, y)
        series, labels = _read(made, X, times), read_targets(y, "y")
        check_length(len(series), labels, "y")
        classes, targets = np.unique(labels, return_inverse=True)
        groups = None if groups is None else grouping.read_groups(groups, X, len(series))
        groups = grouping.merge_copies(groups, grouping.first_equal(series))
        groups = np.arange(len(series)) if groups is None else groups
        if len(np.unique(groups)) < 2:
            raise ValueError(f"a rule needs 2 groups of series; got {len(series)} series in 1")
        shares = self.points
        shares = np.arange(1, shares + 1) / shares if np.ndim(shares) == 0 else shares
        exact = (np.array([*shares, 1.0]) * series.n_steps).round(6)  # 10 * 0.7 is above 7
        steps = np.unique(np.ceil(exact).astype(np.int64).clip(1))
        ends = _ends(series, steps, complete=True)
        share, prefixes, case = ends / series.lengths, _cut(series, ends), np.nonzero(ends)[1]

        def fitted(part: npt.NDArray[np.bool_]) -> Any:
            chosen = case[part]
            known = {"groups": groups[chosen]} if isinstance(made, SeriesEstimator) else {}
            with layout_is_checked(), grouping.copies_are_grouped():
                return clone(made).fit(_input(made, prefixes.part(part)), labels[chosen], **known)

        final = fitted(np.full(len(case), True))
        proba: Any = final.left_out()[0] if hasattr(final, "left_out") else ()
        if len(proba) < len(case):  # of another classifier, or of a sample of very many
            proba = np.zeros((len(case), len(classes)))
            for fold in grouping.group_folds(targets, groups, self.cv, seed):
                test = fold[case]
                with unobserved():
                    other = fitted(~test)
                columns = np.ix_(test, np.searchsorted(classes, other.classes_))
                proba[columns] = other.predict_proba(_input(other, prefixes.part(test)))
        answers = np.full((*ends.shape, len(classes)), np.nan)
        answers[ends > 0] = proba
        table = _trade_offs(answers, share, targets)
        self.threshold_, self.n_agreeing_ = _best_rule(table, self.earliness)
        self.target_, self.classifier_, self.steps_ = Classes(classes), final, steps
        self.n_channels_, self.trade_offs_ = series.n_channels, table
        return self

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
        self.threshold_, self.n_agreeing_ = _best_rule(self.trade_offs_, earliness)
        return self

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
        series = _read(self.classifier_, X, times)
        return self.classifier_.predict_proba(_input(self.classifier_, series))

    def predict(self, X: Any, times: Any = None) -> npt.NDArray[Any]:
        """Predict the classes ``(n,)`` from all that has arrived, as `predict_proba` does."""
        return self.target_.decide(self.predict_proba(X, times))

    def predict_early(self, X: Any, times: Any = None) -> tuple[npt.NDArray[Any], _Ints]:
        """Replay complete series `X`, as in `fit`, each answered at its end in any case.

        Returns labels ``(n,)``, and numbers of steps until the answers ``(n,)``.
        """
        series, answers, ends = _ask(self, X, times, complete=True)
        final = _stop(answers, self.threshold_, self.n_agreeing_), np.arange(len(series))
        return self.classes_[answers[final].argmax(axis=1)], ends[final]

    def decide(self, X: Any, times: Any = None) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Apply the rule to series that are still arriving, without state between calls.

        Parameters
        ----------
        X, times : as in `predict_proba`

        Returns
        -------
        labels : ndarray (n,)
            Final answers, whatever arrives later; where the rule waits, those of `predict`.
        decided : ndarray (n,) of bool
            Whether an answer is final.
        """
        series, answers, _ = _ask(self, X, times, complete=False)
        stop = _stop(answers, self.threshold_, self.n_agreeing_)
        decided, proba = stop >= 0, self.predict_proba(series)
        proba[decided] = answers[stop[decided], np.flatnonzero(decided)]
        return self.classes_[proba.argmax(axis=1)], decided

    def trade_offs(self, X: Any, y: Any, times: Any = None) -> pd.DataFrame:
        """Compute accuracy and earliness of many rules on complete series.

        Parameters
        ----------
        X, y, times : as in `fit`

        Returns
        -------
        DataFrame
            One row per rule, the fitted one among them: threshold, n_agreeing, accuracy, earliness
            (the mean share that is seen), harmonic_mean (of accuracy and 1 - earliness).
        """
        check_ids(X, y, "y")
        labels = read_targets(y, "y")
        series, answers, ends = _ask(self, X, times, complete=True)
        check_length(len(series), labels, "y")
        unique_labels(self.classes_, labels)  # raises for strings among numbers
        targets = pd.Index(self.classes_).get_indexer(labels)
        rule = self.n_agreeing_, self.threshold_
        return _trade_offs(answers, ends / series.lengths, targets, rule)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write classifier and rule to a folder, to be read with `tsformer.load`.

        Parameters
        ----------
        path : as in `TSTransformerClassifier.save`
        """
        check_is_fitted(self)
        if not isinstance(self.classifier_, SeriesEstimator):
            raise TypeError(f"save writes classifiers of tsformer; got {self.classifier_!r:.80}")
        described, tensors = fitted_state(self.classifier_)
        parameters = self.get_params(deep=False) | {"points": np.array(self.points).tolist()}
        del parameters["classifier"]
        rule = {"steps": self.steps_.tolist(), "trade_offs": self.trade_offs_.to_dict("list")}
        rule |= {"threshold": self.threshold_, "n_agreeing": self.n_agreeing_}
        rule["parameters"] = parameters
        state: dict[str, Any] = {"class": "EarlyClassifier", "rule": rule}
        state["classifier"] = described
        text = f"# EarlyClassifier\n\nIt answers after {rule['steps']} steps, by predictions of:\n"
        write_folder(path, state, tensors, f"{text}\n{card(self.classifier_)}")

    @classmethod
    def from_fitted_state(cls, state: dict[str, Any], tensors: Any, device: Any) -> Self:
        """Restore the result of `save`."""
        kinds: dict[str, Any] = {"threshold": Finite, "n_agreeing": _Count, "steps": list[_Count]}
        kinds |= {"trade_offs": dict[str, list[Finite]], "parameters": dict[str, Any]}
        rule = read_fields(state.get("rule"), "rule", **kinds)
        final = restored(state.get("classifier"), tensors, device, ClassifierMixin)
        early = cls(clone(final), **rule["parameters"])
        check_fields_of(early)
        early.classifier_, early.target_ = final, final.target_
        early.n_channels_, early.steps_ = final.n_channels_, np.array(rule["steps"])
        early.threshold_, early.n_agreeing_ = rule["threshold"], rule["n_agreeing"]
        early.trade_offs_ = pd.DataFrame(rule["trade_offs"])
        if (np.diff(early.steps_) <= 0).any() or [*early.trade_offs_] != _RULES:
            raise ValueError(f"rule must have increasing steps, and trade_offs of {_RULES}")
        return early


class EarlyAnswer(NamedTuple):
    """Answer of a `StreamingClassifier` at the last point, or to the last window."""

    label: Any = None  # None before the first point
    decided: bool = False  # whether the answer is final
    n_steps: int = 0  # that the answer has seen
    proba: _Floats | None = None  # of each class


class StreamingClassifier:
    """Answers about a series, or about the windows of a recording, that arrives in chunks.

    With `length`, it predicts every complete window that `tsformer.data.windows` would cut.
    Otherwise it answers about one series as `EarlyClassifier.decide` does, but also after the full
    length if its last values are missing. The whole prefix is classified once at each point or
    window, because a later step changes the scaling, gaps and attention of earlier ones.

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
        if length is None and hasattr(classifier, "table_schema_"):
            length, stride = classifier.table_schema_.cut
        if length is None and not isinstance(classifier, EarlyClassifier):
            kind = type(classifier).__name__
            raise TypeError(f"pass length and stride of windows, or an EarlyClassifier; got {kind}")
        check_is_fitted(classifier)
        self.classifier, self.pause, self.length = classifier, pause, length
        self.stride = length if stride is None else stride
        self.reset()

    def reset(self) -> None:
        """Forget the series: the next chunk begins another."""
        self._answer, self.answers = EarlyAnswer(), list[EarlyAnswer]()
        self._known: pd.DataFrame | None = None
        self._at_points: _Floats | None = None
        self._n_dropped = self._n_answered = 0

    def update(self, chunk: Any, times: npt.ArrayLike | None = None) -> EarlyAnswer:
        """Append the next steps of the series, and answer.

        Parameters
        ----------
        chunk : ndarray (length,) or (channels, length), or DataFrame (length, channels)
            The next steps. NaN marks a missing value.
        times : ndarray (length,), optional
            Times of these steps, if `fit` had times; by default the index of the DataFrame.

        Returns
        -------
        EarlyAnswer
            It stays the same until the next point or complete window.
        """
        if self.length is None and self._answer.decided:
            return self._answer
        item, self.answers = native_item(chunk, "chunk"), []
        item = as_channels(item, "chunk").T if isinstance(item, np.ndarray) else item
        known, before = pd.DataFrame(item), self._known
        begin = self._n_dropped + (0 if before is None else len(before))
        if times is not None:
            known = known.set_axis(pd.Index(to_numpy(times)))
        elif isinstance(known.index, pd.RangeIndex):
            known = known.set_axis(pd.RangeIndex(begin, begin + len(known)))
        if before is not None and {*known} != {*before}:
            raise ValueError(f"chunk has channels {[*known]}; pass the same {[*before]} again")
        known = pd.concat([before, known])
        if self.length is not None:
            return self._update_windows(known)
        early: EarlyClassifier = self.classifier
        if not known.isna().all(axis=None):
            at = None if times is None else [known.index.to_numpy()]
            complete = len(known) >= early.steps_[-1]
            _, answers, ends = _ask(early, [known], at, complete=complete, known=self._at_points)
            self._at_points = answers
            if ends.any():
                stop = int(_stop(answers, early.threshold_, early.n_agreeing_)[0])
                point = stop if stop >= 0 else ends.argmax()
                proba, n_steps = answers[point, 0], int(ends[point, 0])
                label = early.classes_[proba.argmax()]
                self._answer = EarlyAnswer(label, stop >= 0, n_steps, proba)
        self._known = known
        return self._answer

    def _update_windows(self, known: pd.DataFrame) -> EarlyAnswer:
        """Answer to the windows that the chunk completes."""
        if known.empty:
            return self._answer
        (recording,) = read_recordings(known, None, None, self.pause, "drop")
        length = recording.n_steps(self.length, "length")
        starts = recording.starts(length, recording.n_steps(self.stride, "stride"))
        if len(new := starts[self._n_answered :]):
            probabilities = self.classifier.predict_proba(recording.views(new, length))
            for stop, proba in zip(self._n_dropped + length + new, probabilities, strict=True):
                label = self.classifier.classes_[proba.argmax()]
                self.answers.append(EarlyAnswer(label, True, int(stop), proba))
            self._answer = self.answers[-1]
        begin = ([0, *recording.ends])[-2]  # after the last pause
        starts = starts[starts >= begin]
        kept = int([begin, *starts][-1])  # from the last window on, which sets the next
        self._known, self._n_answered = known.iloc[kept:], min(len(starts), 1)
        self._n_dropped += kept
        return self._answer


def _read(classifier: Any, X: Any, times: Any) -> Padded:
    """Read series into memory, as the classifier does."""
    if hasattr(classifier, "schema_"):  # fitted, and of this package
        return classifier.read_series(X, times)
    if isinstance(classifier, SeriesEstimator):
        return Schema.learn(classifier, X, times)[0].padded()
    if times is not None:
        raise ValueError(f"{type(classifier).__name__} reads no times; pass series without times")
    return to_padded(X)


def _input(classifier: Any, series: Padded) -> Any:
    """Return series in the container that the classifier reads."""
    return series if isinstance(classifier, SeriesEstimator) else to_items(series)


def _best_rule(rules: pd.DataFrame, earliness: float | str) -> tuple[float, int]:
    """Return threshold and number of agreeing answers of the best rule."""
    order = ["harmonic_mean", "accuracy"]
    if not isinstance(earliness, str):  # a mean share has a rounding error
        first, order = rules.earliness.min(), order[::-1]
        rules = rules[rules.earliness <= earliness + 1e-9]
        if rules.empty:
            raise ValueError(f"earliness={earliness:g} is before the first point, {first:.3g}")
    best = rules.sort_values(order, ascending=False, kind="stable").iloc[0]
    return float(best.threshold), int(best.n_agreeing)


def _ends(series: Padded, steps: _Ints, *, complete: bool) -> _Ints:
    """Return the steps of each series at the points ``[points, n]``, 0 where not reached."""
    lengths, with_value = series.lengths, np.asarray(~np.isnan(series.values).all(axis=2))
    if (empty := ~with_value[:, : steps[-1]].any(axis=1)).any():
        raise ValueError(f"series {empty.argmax()} has no value in its first {steps[-1]} steps")
    reached = lengths > steps[:, None] if complete else lengths >= steps[:, None]
    reached &= with_value[:, np.minimum(steps, series.n_steps) - 1].T
    reached[-1] = (lengths >= steps[-1]) | complete
    return np.where(reached, np.minimum(lengths, steps[:, None]), 0)


def _cut(series: Padded, ends: _Ints) -> Padded:
    """Return a prefix of a series for each of its ends but 0, the first point first."""
    whole, ends = series.read(np.nonzero(ends)[1]), ends[ends > 0]
    mask = np.arange(series.n_steps) < ends[:, None]
    values = np.where(mask[..., None], whole.values, np.nan)
    times = None if whole.times is None else np.where(mask, whole.times, 0.0)
    return replace(whole, values=values, lengths=ends, times=times)


def _ask(
    early: EarlyClassifier, X: Any, times: Any, *, complete: bool, known: _Floats | None = None
) -> tuple[Padded, _Floats, _Ints]:
    """Return series, and probabilities ``[points, n, K]`` and steps at all points reached."""
    check_is_fitted(early)
    series = _read(early.classifier_, X, times)
    ends = _ends(series, early.steps_, complete=complete)
    answers = np.full((*ends.shape, len(early.classes_)), np.nan) if known is None else known
    new = (ends > 0) & np.isnan(answers[..., 0])
    if new.any():
        answers[new] = early.predict_proba(_cut(series, np.where(new, ends, 0)))
    return series, answers, ends


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
    answers: _Floats, share: _Floats, targets: _Ints, *fitted: tuple[int, float]
) -> pd.DataFrame:
    """Score the rules of one to three answers and 101 thresholds on complete series."""
    confidence = answers[~np.isnan(answers[..., 0])].max(axis=1)
    thresholds = np.quantile(confidence, np.linspace(0, 1, 101)).tolist()
    rows, case = [], np.arange(len(targets))
    rules = {(n, q) for n in (1, 2, 3) for q in thresholds} | {*fitted}
    for n_agreeing, threshold in sorted(rules):
        stop = _stop(answers, threshold, n_agreeing)
        right = answers[stop, case].argmax(axis=1) == targets
        rows.append((threshold, n_agreeing, right.mean(), share[stop, case].mean()))
    table = pd.DataFrame(rows, columns=_RULES[:-1])
    saved = 1 - table.earliness
    mean = 2 * table.accuracy * saved / (table.accuracy + saved)
    return table.assign(harmonic_mean=mean.fillna(0.0))
