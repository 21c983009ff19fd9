"""which_encoding(): choose an encoding by cross-validation of one's own series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from tsformer.data.containers import to_arrays
from tsformer.data.ids import check_ids
from tsformer.data.table import Source
from tsformer.estimators.targets import check_length, read_groups, read_targets
from tsformer.studies.design.study import Study
from tsformer.studies.run.compare import Comparison, compare
from tsformer.studies.run.halving import seconds_of
from tsformer.studies.run.own_problem import own_problem


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
    series, labels = to_arrays(X), read_targets(y, "y").astype(str)
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
