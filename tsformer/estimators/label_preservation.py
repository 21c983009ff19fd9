"""Measure whether an augmentation preserves the classes of the training series."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from tsformer.augmentation import Augmentation, Batch
from tsformer.data.panel import Panel
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import Floats, SeriesSource
from tsformer.estimators.holdout import group_folds
from tsformer.estimators.targets import Groups, Targets
from tsformer.features.random_convolutions import RandomConvolutions
from tsformer.features.regular import regular
from tsformer.training.inference import forward
from tsformer.training.seeds import seeded

__all__ = ["LEAST_KEPT", "TRIAL", "agreement_kept"]

#: Smallest remaining agreement on augmented series for ``augmentation="auto"``. One development
#: problem is below, ACSF1, where warping lowers accuracy; see
#: ``experiments/results/warping_rule.csv``.
LEAST_KEPT = 0.25

#: Smallest number of series for an estimate, and largest sample.
_SERIES = (40, 256)
_N_FEATURES, _N_GROUPS = 1000, 8
#: Series, features and groups of each of the two feature computations.
TRIAL = (_SERIES[1], _N_FEATURES, _N_GROUPS)
_N_FOLDS = 5
#: Smallest agreement on unaugmented series for a meaningful ratio.
_LEAST_AGREEMENT = 0.2
_PENALTIES = np.logspace(0, 5, 6)
_SEED = 0
_CPU = torch.device("cpu")


def agreement_kept(
    augmentation: Augmentation,
    series: SeriesSource,
    targets: Targets,
    *,
    scaling: str | None,
    groups: Groups | None = None,
) -> float:
    r"""Return the share of a classifier's agreement with the labels on augmented series.

    A ridge classifier on random convolutions is fitted in five folds, and classifies the held-out
    series before and after augmentation. With Cohen's kappa [1]_ of predictions and labels, `kappa`
    and `kappa_a`, the result is ``kappa_a / kappa``, clipped to [0, 1]: 1 if the augmentation does
    not affect the classifier, 0 if its predictions are chance.

    The result does not depend on `random_state`, so that all members of an ensemble agree. At most
    256 series are sampled.

    Parameters
    ----------
    augmentation : Augmentation
        The augmentation, with probability 1.
    series : SeriesSource
        Training series, `n` of them.
    targets : ndarray [n] of int
        Class of each.
    scaling : {"channel", "series", "series+size", None}
        Scaling of the estimator.
    groups : ndarray [n] of int, optional
        Group of each; folds are of whole groups.

    References
    ----------
    .. [1] Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological
       Measurement 20, 1960.
    """
    # Imported here, since they load rich.
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.metrics import cohen_kappa_score

    generator = np.random.default_rng(_SEED)
    fewest, most = _SERIES
    if len(targets) > most:
        drawn = generator.permutation(len(targets)) < most
        series, targets = series.take(drawn), targets[drawn]
        groups = None if groups is None else groups[drawn]
    classes, targets = np.unique(targets, return_inverse=True)
    if len(targets) < fewest or len(classes) == 1:
        return 1.0
    panel = Scaler(scaling, gap_flag=None).fit(series).transform(series)
    plain, changed = _features(panel, augmentation)
    answers = np.empty((2, len(targets)), dtype=np.int64)
    if groups is None or len(np.unique(groups)) == 1:
        folds = _folds(targets, generator)
        left_out = [folds == fold for fold in range(_N_FOLDS)]
    else:
        left_out = group_folds(targets, groups, _N_FOLDS, _SEED)
    for out in left_out:
        if len(np.unique(targets[~out])) == 1:
            answers[:, out] = targets[~out][0]
            continue
        ridge = RidgeClassifierCV(alphas=_PENALTIES).fit(plain[~out], targets[~out])
        for row, features in zip(answers, (plain, changed), strict=True):
            row[out] = ridge.predict(features[out])
    before, after = (float(cohen_kappa_score(targets, row)) for row in answers)
    return 1.0 if before < _LEAST_AGREEMENT else min(max(after / before, 0.0), 1.0)


def _features(panel: Panel, augmentation: Augmentation) -> tuple[Floats, Floats]:
    """Return the features ``[n, F]`` of plain and augmented series."""
    whole = panel.with_mask()
    with seeded(_SEED, _CPU):
        values = augmentation(Batch(whole.values, whole.mask, whole.times)).values
    plain, changed = regular(panel), regular(replace(panel, values=values))
    convolutions = RandomConvolutions(_N_FEATURES, _N_GROUPS)
    masked = plain.with_mask()
    convolutions.draw(masked.values, masked.mask, torch.Generator().manual_seed(_SEED))
    features = forward(convolutions, plain, function=convolutions.unscaled)
    convolutions.fit_scales(features)
    return convolutions.scale(features).numpy(), forward(convolutions, changed).numpy()


def _folds(targets: Targets, generator: np.random.Generator) -> Targets:
    """Return the fold of each series, stratified by class."""
    shuffled = generator.permutation(len(targets))
    by_class = shuffled[np.argsort(targets[shuffled], kind="stable")]
    folds = np.empty(len(targets), dtype=np.int64)
    folds[by_class] = np.arange(len(targets)) % _N_FOLDS
    return folds
