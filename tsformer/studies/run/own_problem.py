"""which_encoding(): rank encodings on one's own series, which become a problem by name."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets

from tsformer._checks import shortened
from tsformer._warnings import warn_caller
from tsformer.data.containers import to_arrays, to_items, to_source, warn_of_missing_rows
from tsformer.data.layout import check_ids, refuse_recording
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
from tsformer.studies.run.problem import cross_validation_folds, digest_of, write_split


class OwnProblem(NamedTuple):
    """A problem that was written."""

    name: str
    home: Path
    split: str
    new: bool

    @contextmanager
    def deleted_if_refused(self) -> Iterator[None]:
        """Delete a new problem if `compare` refuses the study in the block."""
        try:
            yield
        except (ValueError, TypeError, ImportError, ConnectionError, FileExistsError):
            if self.new:
                shutil.rmtree(self.home)
                if not any(self.home.parent.iterdir()):
                    self.home.parent.rmdir()
            raise


def own_problem(
    title: str, source: Source, *, n_folds: int, timestamps: object = None
) -> OwnProblem:
    """Write series as a problem, named by a hash of them, that `load_dataset` finds.

    Their times are written if the fits read them, by ``timestamps="index"``.
    """
    if source.y is None:
        raise ValueError("a problem needs the label of each of its series")
    X, labels = to_arrays(source.X), source.y
    items: Sequence[Any] = X if timestamps is None else to_items(source.X)
    if timestamps is None and isinstance(source.X, (list, tuple)):
        warn_of_missing_rows(source.X)
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise ValueError(
            f"all series have the label {shortened(str(classes[0]))}; a comparison needs two "
            "labels or more"
        )
    warn_of_labels(classes, counts)
    folds = cross_validation_folds(labels, source.groups, n_folds=n_folds)
    equal = pd.factorize(pd.Series([(x.shape, x.tobytes()) for x in X]))[0]
    if copies := int(pd.Series(folds).groupby(equal).transform("nunique").gt(1).sum()):
        warn_caller(
            f"{copies} of the {len(X)} series have a copy in another fold, so that accuracies are "
            "too high; leave the copies out"
        )
    split = f"cross-validated in {n_folds} stratified folds, each tested on by a fit to the others"
    order = np.argsort(folds == 0, kind="stable")  # the first fold is the test split
    columns: dict[str, npt.NDArray[Any]] = {"fold": folds[order]}
    if source.groups is not None:
        columns["group"] = source.groups[order]
        group = source.schema.group if source.schema is not None else None
        what = f"{group!r}" if group else "group"
        split += f"; all series of one {what}, of {len(set(source.groups))}, are in one fold"
    n_train, labels = int((folds != 0).sum()), writable_labels(labels[order])
    items = [items[i] for i in order]
    parts = {
        "TRAIN": (items[:n_train], labels[:n_train]),
        "TEST": (items[n_train:], labels[n_train:]),
    }
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", title).strip("-")[:80] or "own"
    words = str({column: values.tolist() for column, values in columns.items()})
    name = f"{stem}-{digest_of(parts.values(), words)[:8]}"
    home = Path("data") / name
    problem = OwnProblem(name, home, split, not home.is_dir())
    if not problem.new:
        return problem
    home.parent.mkdir(parents=True, exist_ok=True)
    # In the target folder, so that the move is an atomic rename.
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=home.parent) as temporary:
        unfinished = Path(temporary) / name
        unfinished.mkdir()
        for part, (series, y) in parts.items():
            write_ts(unfinished / f"{name}_{part}.ts", series, y, comment=f"Written from {title}.")
        write_split(unfinished / name, columns)
        try:
            unfinished.rename(home)
        except OSError:
            if not home.is_dir():  # else another process wrote the same
                raise
    return problem


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
    if the budget suffices for all its folds. The budget counts training and predicting, not set-up
    and tracking; no fit begins that is expected to exceed it. An encoding that would take more than
    four equal shares of the budget is not fitted. If one fold of the others exceeds the budget, a
    first round with fewer epochs ranks them.

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
        Passed to `compare`: `out`, `tracking_uri`, `experiment`, `jobs`, `on_progress`,
        `verbose`.

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
    refuse_recording(X, y)
    # The checks of `fit`: the problem would have text for labels, and every fit would fail.
    timestamps = (parameters or {}).get("timestamps")
    source = to_source(X, index=timestamps == "index")
    series = to_arrays(source) if timestamps is None else to_items(X)
    labels = read_targets(y, "y")
    check_classification_targets(labels)
    labels = labels.astype(str)
    check_length(len(series), labels, "y")
    numbers = read_groups(groups, X, len(series))
    own = Source(series, labels, groups=None if numbers is None else numbers.astype(str))
    problem = own_problem(name, own, n_folds=n_folds, timestamps=timestamps)
    with problem.deleted_if_refused():
        study = Study(
            (problem.name,),
            (encodings,) if isinstance(encodings, str) else tuple(encodings),
            seeds=(seed,),
            parameters=parameters or {},
            resamples=n_folds,
            splits={problem.name: problem.split},
        )
        return compare(study, budget=budget, **options)
