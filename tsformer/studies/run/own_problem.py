"""which_encoding(): rank encodings on one's own series, which become a problem by name."""

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets

from tsformer._checks import shortened
from tsformer._warnings import warn_caller
from tsformer.data.containers import common_names, to_arrays, to_items, to_source
from tsformer.data.layout import check_ids
from tsformer.data.series import Floats
from tsformer.data.table import Source
from tsformer.data.tsfile import writable_labels, write_ts
from tsformer.estimators.targets import (
    check_length,
    read_groups,
    read_targets,
    warn_of_labels,
)
from tsformer.studies.design.study import Study
from tsformer.studies.run.compare import Comparison, compare
from tsformer.studies.run.halving import seconds_of
from tsformer.studies.run.lock import StudyBusyError
from tsformer.studies.run.problem import cross_validation_folds, stratified_split, write_split
from tsformer.studies.run.progress import Progress


class OwnProblem(NamedTuple):
    """A problem that was written."""

    name: str
    home: Path
    n_train: int
    n_test: int
    split: str
    new: bool

    @contextmanager
    def kept_if_begun(
        self, listener: Callable[[Progress], None] | None
    ) -> Iterator[Callable[[Progress], None]]:
        """Yield a listener for `compare`; delete a new problem if it hears of no event."""
        begun = False

        def listen(progress: Progress) -> None:
            nonlocal begun
            begun = True
            if listener is not None:
                listener(progress)

        try:
            yield listen
        except StudyBusyError:  # the call that runs the study reads the data
            begun = True
            raise
        finally:
            if self.new and not begun:
                shutil.rmtree(self.home)
                if not any(self.home.parent.iterdir()):
                    self.home.parent.rmdir()


def own_problem(
    title: str,
    train: Source,
    test: Source | None = None,
    *,
    n_folds: int = 0,
) -> OwnProblem:
    """Write series as a problem, named by a hash of them, that `load_dataset` finds."""
    X, labels = to_arrays(train.X), _labels(train)
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise ValueError(
            f"all training series have the label {shortened(str(classes[0]))}; a comparison needs "
            "two labels or more"
        )
    warn_of_labels(classes, counts)
    folds: npt.NDArray[np.int64] | None = None
    order: npt.NDArray[np.intp] | None = None
    if test is not None and n_folds:
        raise ValueError("pass either a test part or n_folds, not both")
    if train.groups is not None and test is None and not n_folds:
        raise ValueError("series with groups are split by cross-validation, or have a test part")
    if test is None:
        if n_folds:
            folds = cross_validation_folds(labels, train.groups, n_folds=n_folds)
            chosen = np.flatnonzero(folds != 0), np.flatnonzero(folds == 0)
        else:
            chosen = stratified_split(labels)
        order = np.concatenate(chosen)
        X_test, n_train = [X[i] for i in chosen[1]], len(chosen[0])
        X, labels = [X[i] for i in chosen[0]], np.concatenate([labels[part] for part in chosen])
    else:
        common_names([*to_items(train.X), *to_items(test.X)])  # raises for other channels
        X_test, n_train = to_arrays(test.X), len(X)
        _refuse_shared_groups(train, test)
        strange = sorted({*_labels(test).tolist()} - {*labels.tolist()})
        if strange:
            raise ValueError(
                f"the test series have labels that no training series has: {strange[:10]}"
            )
        if len(X_test[0]) != len(X[0]):
            raise ValueError(
                f"the training series have {len(X[0])} channels, the test series {len(X_test[0])}"
            )
        labels = np.concatenate([labels, _labels(test)])
    seen = {(x.shape, x.tobytes()) for x in X}
    again = sum((x.shape, x.tobytes()) in seen for x in X_test)
    if again:
        warn_caller(
            f"{again} of the {len(X_test)} series to test on are series to train on, too, so that "
            "accuracies are too high; leave the copies out"
        )
    labels = writable_labels(labels)
    parts = {"TRAIN": (X, labels[:n_train]), "TEST": (X_test, labels[n_train:])}
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", title).strip("-")[:80] or "own"
    columns = _columns(train, test, folds, order)
    name = f"{stem}-{_digest(parts, columns)}"
    folder = Path("data")
    home = folder / name
    split = _split(train, test, n_folds)
    problem = OwnProblem(name, home, n_train, len(X_test), split, not home.is_dir())
    if not problem.new:
        return problem
    folder.mkdir(parents=True, exist_ok=True)
    # In the target folder, so that the move is an atomic rename.
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as temporary:
        unfinished = Path(temporary) / name
        unfinished.mkdir()
        for part, (series, y) in parts.items():
            write_ts(unfinished / f"{name}_{part}.ts", series, y, comment=f"Written from {title}.")
        if columns:
            write_split(unfinished / name, columns)
        try:
            unfinished.rename(home)
        except OSError:
            if not home.is_dir():  # else another process wrote the same
                raise
    return problem


def _columns(
    train: Source,
    test: Source | None,
    folds: npt.NDArray[np.int64] | None,
    order: npt.NDArray[np.intp] | None,
) -> dict[str, npt.NDArray[Any]]:
    """Return fold and group of each series in the order of the files."""
    columns: dict[str, npt.NDArray[Any]] = {}
    if folds is not None:
        columns["fold"] = folds[order]
    if train.groups is not None:
        columns["group"] = train.groups if order is None else train.groups[order]
    if train.groups is not None and test is not None:
        n_test = len(_labels(test))
        apart = np.full(n_test, "") if test.groups is None else test.groups
        columns["group"] = np.concatenate([train.groups, apart])
    return columns


def _split(train: Source, test: Source | None, n_folds: int) -> str:
    """Return in words how series were split."""
    column = train.schema.group if train.schema is not None else None
    group = repr(column) if column else "group"
    if test is not None:
        apart = train.groups is not None and test.groups is not None
        return "its test split is a file of its own" + (
            f", in which no {group} of the train split has series" if apart else ""
        )
    if not n_folds:
        return "its test split is about 30 % of the series of each class, drawn at random"
    text = f"cross-validated in {n_folds} stratified folds, each tested on by a fit to the others"
    if train.groups is None:
        return text
    return f"{text}; all series of one {group}, of {len(set(train.groups))}, are in one fold"


def _refuse_shared_groups(train: Source, test: Source) -> None:
    if train.groups is None or test.groups is None:
        return
    shared = sorted({*train.groups.tolist()} & {*test.groups.tolist()})
    if shared:
        raise ValueError(
            f"{len(shared)} groups have both training and test series, which a model may "
            f"recognise: {shared[:10]}. Remove these groups from one part"
        )


def _labels(source: Source) -> npt.NDArray[np.str_]:
    if source.y is None:
        raise ValueError("a problem needs the label of each of its series")
    return source.y


def _digest(
    parts: dict[str, tuple[list[Floats], npt.NDArray[np.str_]]],
    columns: Mapping[str, npt.NDArray[Any]],
) -> str:
    """Return a hash of all series, labels, folds and groups, eight hex digits."""
    found = hashlib.sha256()
    for column, values in columns.items():
        found.update(f"{column}s {values.tolist()}\n".encode())
    for part, (series, labels) in parts.items():
        for x, label in zip(series, labels, strict=True):
            found.update(f"{part} {x.shape} {label}\n".encode())
            found.update(np.ascontiguousarray(x, dtype="<f8").tobytes())
    return found.hexdigest()[:8]


def which_encoding(
    X: Any,
    y: npt.ArrayLike,
    *,
    budget: float | str,
    groups: npt.ArrayLike | None = None,
    encodings: str | Sequence[str] = "all",
    n_folds: int = 5,
    seed: int = 0,
    parameters: Mapping[str, Any] | None = None,
    name: str = "own",
    **options: Any,
) -> Comparison:
    """Rank encodings on one's own series by successive halving within a time budget.

    All encodings are fitted on the first fold. Round by round the next fold is fitted with the
    better half, at least two encodings, and with any other within two standard errors of the best
    if the budget suffices for all its folds. No fit begins that is expected to end after the
    budget. An encoding that would take more than four equal shares of the budget is not fitted. If
    one fold of the others exceeds the budget, a first round with fewer epochs ranks them.

    The same call resumes after an interruption: fits in the tracking store are not repeated, and
    their seconds count towards the budget. With a larger budget, it continues.

    The leader is the best of several on these folds, so that its accuracy and its lead are
    optimistic. Intervals are of paired differences over the folds, by the corrected resampled
    t-test, and are not corrected for the number of encodings.

    Parameters
    ----------
    X, y : series and labels
        As `TSTransformerClassifier.fit` takes them. Keep the series for the final test out.
    budget : float or str
        Seconds, or a time such as ``"10min"`` or ``"2h"``.
    groups : array-like (n_cases,), optional
        Groups, such as patients, that no fold separates.
    encodings : str or sequence of str, default="all"
        Names, or sums such as ``"tape+erpe"``; ``"all"`` for every registered encoding.
    n_folds : int, default=5
        Number of stratified folds.
    seed : int, default=0
        The seed of all fits.
    parameters : mapping, optional
        Parameters of `TSTransformerClassifier`, as in ``{"stem": "linear"}``.
    name : str, default="own"
        Name of the data: they are written to ``data/NAME-HASH``, where fits find them.
    **options
        Passed to `compare`: `out`, `tracking_uri`, `experiment`, `jobs`, `on_progress`.

    Returns
    -------
    Comparison
        With `ranking` and `answer`.

    References
    ----------
    Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter
    Optimization", AISTATS 2016.
    Nadeau and Bengio, "Inference for the Generalization Error", Machine Learning 2003.

    Examples
    --------
    >>> from tsformer.data import load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", "train")
    >>> found = which_encoding(X, y, budget="2min", parameters={"stem": "linear"})  # doctest: +SKIP
    >>> print(found.answer())  # doctest: +SKIP
    `erpe` leads `rope` by 0.8 ± 0.5 points over 5 folds; `none` was dropped after round 1.
    """
    seconds_of(budget)  # None would mean no budget to `compare`
    check_ids(X, y, "y")
    # The checks of `fit`: the problem would have text for labels, and every fit would fail.
    series, labels = to_arrays(to_source(X)), read_targets(y, "y")
    check_classification_targets(labels)
    labels = labels.astype(str)
    check_length(len(series), labels, "y")
    numbers = read_groups(groups, X, len(series))
    named = None if numbers is None else numbers.astype(str)
    problem = own_problem(name, Source(series, labels, groups=named), n_folds=n_folds)
    with problem.kept_if_begun(options.pop("on_progress", None)) as listener:
        study = Study(
            (problem.name,),
            (encodings,) if isinstance(encodings, str) else tuple(encodings),
            seeds=(seed,),
            parameters=parameters or {},
            resamples=n_folds,
            splits={problem.name: problem.split},
        )
        return compare(study, budget=budget, on_progress=listener, **options)
