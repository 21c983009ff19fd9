"""Permutation importance of channels and of windows of time."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch, check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from tsformer._checks import check_known, check_number
from tsformer._precision import in_plain_torch
from tsformer.data.layout import check_ids
from tsformer.estimators.series_estimator import SeriesEstimator
from tsformer.estimators.targets import check_length, read_as_fitted

GROUPS = ("channel", "window")


@in_plain_torch
def permutation_importance(
    estimator: Any,
    X: Any,
    y: npt.ArrayLike | None,
    *,
    by: str = "channel",
    n_windows: int = 10,
    n_repeats: int = 5,
    scoring: Any = None,
    times: Any = None,
    random_state: Any = None,
) -> Bunch:
    """Compute by how much a score falls when a channel or window is exchanged between series.

    Of two redundant channels, each alone has no importance. Pass held-out series: on training
    series, memorised details look important.

    Parameters
    ----------
    estimator : fitted estimator of this package
    X, times : as in `fit`
        Held-out series. Between series of different lengths, values at the same fraction of the
        length are exchanged; times and lengths stay.
    y : array-like (n,) or (n, columns)
        Targets; None for an encoder.
    by : {"channel", "window"}, default="channel"
        Exchange one channel over the whole series, or all channels within a window.
    n_windows, n_repeats : int, default=10, 5
        Parts of equal length that "window" cuts a series into, and permutations of each group.
    scoring : str or callable, optional
        As in scikit-learn; by default the `score` of the estimator.
    random_state : int, RandomState or None, default=None
        Seed of the permutations.

    Returns
    -------
    Bunch
        As `sklearn.inspection.permutation_importance` returns it: ``importances`` (n_groups,
        n_repeats), ``importances_mean`` and ``importances_std`` (n_groups,). With "window" also
        ``edges`` (n_windows + 1,), as fractions of the length.

    References
    ----------
    Breiman, "Random Forests", Machine Learning 45, 2001.

    Examples
    --------
    >>> from tsformer import RandomConvolutionClassifier
    >>> X = np.random.default_rng(0).normal(size=(60, 2, 30))
    >>> y = (X[:, 1, :15].mean(axis=1) > 0).astype(int)
    >>> X[:, 1, :15] += 3 * y[:, None]
    >>> clf = RandomConvolutionClassifier(random_state=0).fit(X[:30], y[:30])
    >>> result = permutation_importance(clf, X[30:], y[30:], random_state=0)
    >>> int(result.importances_mean.argmax())
    1
    """
    check_known("group to permute", by, GROUPS)
    for name, number in (("n_windows", n_windows), ("n_repeats", n_repeats)):
        check_number(name, number, 1, whole=True)
    if not isinstance(estimator, SeriesEstimator):
        kind = type(estimator).__name__
        raise TypeError(f"estimator must belong to this package; got {kind}")
    check_is_fitted(estimator)
    if y is None and get_tags(estimator).target_tags.required:
        raise ValueError("y must be the target of each series in X; got None")
    check_ids(X, y, "y")
    estimator.target_.check_columns(y)
    series = estimator.read_series(X, times)
    targets = None if y is None else read_as_fitted(y, "y", estimator.target_.shape)
    if targets is not None:
        check_length(len(series), targets, "y")
    scorer = check_scoring(estimator, scoring=scoring)
    rng = check_random_state(random_state)
    before = float(scorer(estimator, series, targets))
    edges = np.linspace(0.0, 1.0, n_windows + 1)
    steps = np.arange(series.values.shape[1])
    n_groups = series.values.shape[2] if by == "channel" else n_windows
    falls = np.empty((n_groups, n_repeats))
    for repeat in range(n_repeats):
        donors = rng.permutation(len(series))  # the same for all groups, which are compared
        ends, donor_ends = series.lengths - 1, series.lengths[donors] - 1
        fraction = (steps / np.maximum(ends, 1)[:, None]).clip(max=1.0)
        index = np.rint(fraction * donor_ends[:, None]).astype(np.int64)
        exchanged = series.values[donors[:, None], index]  # stretched to the length of each series
        exchanged[steps >= series.lengths[:, None]] = np.nan
        for group in range(n_groups):
            chosen = np.arange(n_groups) == group
            if by == "window":
                middle = ((steps + 0.5) / series.lengths[:, None])[..., None]
                chosen = (middle >= edges[group]) & (middle < edges[group + 1])
            changed = replace(series, values=np.where(chosen, exchanged, series.values))
            falls[group, repeat] = before - scorer(estimator, changed, targets)
    mean, std = falls.mean(axis=1), falls.std(axis=1)
    result = {"importances": falls, "importances_mean": mean, "importances_std": std}
    return Bunch(**result, **({"edges": edges} if by == "window" else {}))
