"""EarlyClassifier: answers about series that are still arriving."""

import os
from copy import copy
from dataclasses import field
from itertools import product, repeat
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import assert_all_finite
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
from tsformer.estimators.targets import Classes, read_labels
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
    numbers = shares.ndim == 1 and len(shares) and shares.dtype.kind in "if"
    if not (numbers and shares[-1] <= 1 and (np.diff(shares, prepend=0) > 0).all()):
        raise ValueError(f"{name} must be an int, or increasing shares in (0, 1]; got {value!r}")
    return None


@with_parameters
class EarlyClassifier(ClassifierMixin, BaseEstimator):
    """Classifier of series that are still arriving, with a rule that decides when to answer.

    One classifier is trained on raw prefixes of all series, cut at every point: its scaling sees
    the prefix alone. The rule answers at the first point where `n_agreeing_` successive predictions
    agree, each with a probability of at least `threshold_`, and at the last point in any case. It
    is chosen on held-out series: leave-one-out for random convolutions, whose time is cubic in the
    number of prefixes, else cross-validation. Points where no channel has a value are skipped.

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
        Folds for held-out answers without leave-one-out; seed of folds and default classifier.

    Attributes
    ----------
    classes_, classifier_ : ndarray (n_classes,), classifier
        The labels, sorted, and the classifier of prefixes of series with `n_channels_` channels.
    steps_, threshold_, n_agreeing_, trade_offs_ : ndarray (n_points,), float, int, DataFrame
        The points in steps, the rule, and `trade_offs` of the held-out answers.

    References
    ----------
    .. [1] Schafer and Leser, "TEASER", DMKD 34, 2020. https://arxiv.org/abs/1908.03405

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
        seed, made, fitted = drawn_seed(self.random_state), self.classifier, copy(self)
        made = RandomConvolutionClassifier(random_state=seed) if made is None else clone(made)
        if not hasattr(made, "predict_proba"):
            raise TypeError(f"classifier must have predict_proba; got {type(made).__name__}")
        check_ids(X, y, "y")
        refuse_recording(X, y)
        series, target = _read(made, X, times), Classes(np.unique(read_labels(y, "y")))
        targets = target.encode(y, "y", len(series))
        groups = None if groups is None else grouping.read_groups(groups, X, len(series))
        groups = grouping.merge_copies(groups, grouping.first_equal(series))
        groups = np.arange(len(series)) if groups is None else groups
        if len(np.unique(groups)) < 2:
            raise ValueError(f"a rule needs 2 groups of series; got {len(series)} series in 1")
        shares: Any = self.points
        shares = shares if np.ndim(shares) else np.arange(1, shares + 1) / shares
        exact = (np.array([*shares, 1.0]) * series.n_steps).round(6)  # 10 * 0.7 is above 7
        fitted.steps_ = np.unique(np.ceil(exact).astype(np.int64).clip(1))
        replay = _Replay(series, fitted.steps_, complete=True)
        prefixes, case = replay.prefixes, replay.case

        def trained(fold: npt.NDArray[np.bool_]) -> Any:
            chosen = case[fold]
            options = {"groups": groups[chosen]} if isinstance(made, SeriesEstimator) else {}
            with layout_is_checked(), grouping.copies_are_grouped():
                labels = target.decode(targets[chosen])
                return clone(made).fit(_input(made, prefixes.part(fold)), labels, **options)

        fitted.classifier_ = clf = trained(np.full(len(case), True))
        replay.proba = clf.left_out()[0] if hasattr(clf, "left_out") else np.empty(0)
        if len(replay.proba) < len(case):  # of another classifier, or of a sample of very many
            replay.proba = np.zeros((len(case), target.n_outputs))
            for fold in grouping.group_folds(targets, groups, self.cv, seed):
                test = fold[case]
                with unobserved():
                    clf = trained(~test)
                columns = np.ix_(test, np.searchsorted(target.classes, clf.classes_))
                replay.proba[columns] = clf.predict_proba(_input(clf, prefixes.part(test)))
        assert_all_finite(replay.proba, input_name="predict_proba of classifier")
        fitted.trade_offs_ = replay.trade_offs(targets)
        fitted.target_, fitted.n_channels_ = target, series.n_channels
        self.__dict__ = fitted.choose_rule(self.earliness).__dict__
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
        rules, order = self.trade_offs_, ["harmonic_mean", "accuracy"]
        if not isinstance(earliness, str):  # a mean share has a rounding error
            order, rules = order[::-1], rules[rules.earliness <= earliness + 1e-9]
            if rules.empty:
                raise ValueError(f"earliness={earliness:g} is before the first point")
        best = rules.sort_values(order, ascending=False, kind="stable").iloc[0]
        self.threshold_, self.n_agreeing_ = float(best.threshold), int(best.n_agreeing)
        return self

    def predict_proba(self, X: Any, times: Any = None) -> _Floats:
        """Compute the probability of each class from prefixes of any length.

        Parameters
        ----------
        X, times : as in `fit`, as far as they have arrived

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
        replay = _ask(self, X, times, complete=True)
        labels = self.target_.decide(replay.proba[replay.final])
        return labels, replay.prefixes.lengths[replay.final]

    def decide(self, X: Any, times: Any = None) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Apply the rule to series that are still arriving, without state between calls.

        Parameters
        ----------
        X, times : as in `predict_proba`

        Returns
        -------
        labels, decided : ndarray (n,), ndarray (n,) of bool
            The answers, and whether each is final, whatever arrives later. Where the rule waits,
            the label is that of `predict`.
        """
        replay = _ask(self, X, times)
        labels, decided = self.predict(replay.series), np.full(len(replay.series), False)
        decided[replay.case[replay.final]] = True
        labels[decided] = self.target_.decide(replay.proba[replay.final])
        return labels, decided

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
        replay = _ask(self, X, times, complete=True)
        targets = self.target_.encode(y, "y", len(replay.series))
        return replay.trade_offs(targets, (self.n_agreeing_, self.threshold_))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write classifier and rule to a folder, to be read with `tsformer.load`.

        Parameters
        ----------
        path : as in `TSTransformerClassifier.save`
        """
        check_is_fitted(self)
        if not isinstance(self.classifier_, SeriesEstimator):
            raise TypeError(f"save writes classifiers of tsformer; got {self.classifier_!r:.80}")
        rule = {name: getattr(self, f"{name}_") for name in ("threshold", "n_agreeing")}
        rule |= {"steps": self.steps_.tolist(), "trade_offs": self.trade_offs_.to_dict("list")}
        unsaved = {"classifier": None, "points": np.array(self.points).tolist()}
        rule["parameters"] = self.get_params(deep=False) | unsaved
        state: dict[str, Any] = {"class": "EarlyClassifier", "rule": rule}
        state["classifier"], tensors = fitted_state(self.classifier_)
        text = f"# EarlyClassifier\n\nIt answers after {rule['steps']} steps, by predictions of:\n"
        write_folder(path, state, tensors, f"{text}\n{card(self.classifier_)}")

    @classmethod
    def from_fitted_state(cls, state: dict[str, Any], tensors: Any, device: Any) -> Self:
        """Restore the result of `save`."""
        kinds: dict[str, Any] = {"threshold": Finite, "n_agreeing": _Count, "steps": list[_Count]}
        kinds |= {"trade_offs": dict[str, list[Finite]], "parameters": dict[str, Any]}
        rule = read_fields(state.get("rule"), "rule", **kinds)
        clf = restored(state.get("classifier"), tensors, device, ClassifierMixin)
        early = cls(**rule["parameters"] | {"classifier": clone(clf)})
        check_fields_of(early)
        early.threshold_, early.n_agreeing_ = rule["threshold"], rule["n_agreeing"]
        early.steps_, early.trade_offs_ = np.array(rule["steps"]), pd.DataFrame(rule["trade_offs"])
        early.classifier_, early.target_, early.n_channels_ = clf, clf.target_, clf.n_channels_
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
    length if its last values are missing. Each prefix or window is classified as a whole, because a
    later step changes the scaling, gaps and attention of earlier steps.

    Parameters
    ----------
    classifier : EarlyClassifier, or any classifier with `length`
        Fitted.
    length, stride, pause : int or duration, optional
        As in `tsformer.data.windows`; steps if the sampling is irregular. By default, those of
        ``tsformer fit --window``; `stride` is by default `length`.

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
    >>> answers = [stream.update(chunk) for chunk in np.split(X[0], 6, axis=1)]
    >>> answers[-1].decided, 6 <= answers[-1].n_steps <= 24
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
        self.classifier, self.pause, self.length = classifier, pause, length
        self.stride = length if stride is None else stride
        self.reset()

    def reset(self) -> None:
        """Forget the series: the next chunk begins another."""
        self._answer, self.answers = EarlyAnswer(), list[EarlyAnswer]()
        self._kept = list[pd.DataFrame]()  # the steps since the last window, once there are any
        self._proba: Any = ()  # at the points
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
        steps = pd.DataFrame(item)
        steps = steps if times is None else steps.set_axis(pd.Index(to_numpy(times)))
        tables = [*self._kept, steps]
        if len({frozenset(table) for table in tables}) > 1:
            raise ValueError(f"chunk has channels {[*steps]}; pass the same {[*tables[0]]} again")
        numbered = all(isinstance(table.index, pd.RangeIndex) for table in tables)
        steps = pd.concat(tables, ignore_index=numbered)
        if self.length is not None:
            return self._answer_windows(steps)
        if not steps.isna().all(axis=None):
            at = None if times is None else [steps.index.to_numpy()]
            early, complete = self.classifier, len(steps) >= self.classifier.steps_[-1]
            replay = _ask(early, [steps], at, complete=complete, known=self._proba)
            self._proba = replay.proba
            if len(replay.proba):
                i = [*replay.final, -1][0]
                label, proba = early.classes_[replay.proba[i].argmax()], replay.proba[i]
                n_steps = int(replay.prefixes.lengths[i])
                self._answer = EarlyAnswer(label, len(replay.final) > 0, n_steps, proba)
        self._kept = [steps]
        return self._answer

    def _answer_windows(self, steps: pd.DataFrame) -> EarlyAnswer:
        """Answer the windows that the last chunk has completed; drop the steps before the last."""
        if steps.empty:
            return self._answer
        (recording,) = read_recordings(steps, None, None, self.pause, "drop")
        length = recording.n_steps(self.length, "length")
        starts = recording.starts(length, recording.n_steps(self.stride, "stride"))
        if len(new := starts[self._n_answered :]):
            proba = self.classifier.predict_proba(recording.views(new, length))
            labels = self.classifier.classes_[proba.argmax(axis=1)]
            stops = (self._n_dropped + length + new).tolist()
            self.answers = list(map(EarlyAnswer, labels, repeat(True), stops, proba))
            self._answer = self.answers[-1]
        first = int(max([0, *recording.ends[:-1], *starts[-1:]]))  # its window sets the next
        self._kept, self._n_answered = [steps.iloc[first:]], int(first in starts)
        self._n_dropped += first
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


class _Replay:
    """Prefixes of series at the points that they reach, and the answers to them."""

    proba: _Floats  # of each class, by prefix
    final: _Ints  # prefixes with the final answers, by series

    def __init__(self, series: Padded, steps: _Ints, *, complete: bool):
        lengths, with_value = series.lengths, np.asarray(~np.isnan(series.values).all(axis=2))
        if (empty := ~with_value[:, : steps[-1]].any(axis=1)).any():
            raise ValueError(f"series {empty.argmax()} has no value in its first {steps[-1]} steps")
        reached = lengths > steps[:, None] if complete else lengths >= steps[:, None]
        reached &= with_value[:, np.minimum(steps, series.n_steps) - 1].T
        reached[-1] = (lengths >= steps[-1]) | complete
        point, self.case = np.nonzero(reached)
        self.series, self.last = series, point == len(steps) - 1
        self.prefixes = series.read(self.case).cut(np.minimum(lengths[self.case], steps[point]))

    def stops(self, threshold: float, n_agreeing: int) -> _Ints:
        """Return the prefix with the final answer about each series that has one."""
        order = np.argsort(self.case, kind="stable")
        case, proba, index = self.case[order], self.proba[order], np.arange(len(order))
        label, sure = proba.argmax(axis=1), proba.max(axis=1) >= threshold
        begins = ~sure
        begins[1:] |= ~sure[:-1] | (label[1:] != label[:-1]) | (case[1:] != case[:-1])
        run = index - np.maximum.accumulate(index * begins) + 1
        final = order[(sure & (run >= n_agreeing)) | self.last[order]]
        return final[np.unique(self.case[final], return_index=True)[1]]

    def trade_offs(self, targets: _Ints, *fitted: tuple[int, float]) -> pd.DataFrame:
        """Score the rules of one to three answers and 101 thresholds on complete series."""
        thresholds = np.quantile(self.proba.max(axis=1), np.linspace(0, 1, 101)).tolist()
        right = self.proba.argmax(axis=1) == targets[self.case]
        share, rows = self.prefixes.lengths / self.series.lengths[self.case], []
        for n_agreeing, threshold in sorted({*product((1, 2, 3), thresholds), *fitted}):
            stops = self.stops(threshold, n_agreeing)
            rows.append((threshold, n_agreeing, right[stops].mean(), share[stops].mean()))
        table = pd.DataFrame(rows, columns=_RULES[:-1])
        saved = 1 - table.earliness
        mean = 2 * table.accuracy * saved / (table.accuracy + saved)
        return table.assign(harmonic_mean=mean.fillna(0.0))


def _ask(
    early: EarlyClassifier, X: Any, times: Any, *, complete: bool = False, known: Any = ()
) -> _Replay:
    """Return the answers at all points, of which the first are known."""
    check_is_fitted(early)
    replay = _Replay(_read(early.classifier_, X, times), early.steps_, complete=complete)
    replay.proba = np.reshape(known, (-1, len(early.classes_)))
    if len(new := replay.prefixes.part(np.arange(len(known), len(replay.case)))):
        replay.proba = np.concatenate([replay.proba, early.predict_proba(new)])
    replay.final = replay.stops(early.threshold_, early.n_agreeing_)
    return replay
