"""Choose the scaling of a data set by a ridge classifier on random convolutions."""

from __future__ import annotations

import numpy as np
import torch

from tsformer._labels import LabelKind, OneLabel
from tsformer._threads import threads
from tsformer.data.panel import Panel
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import SeriesSource
from tsformer.estimators.targets import Groups, Targets
from tsformer.features.random_convolutions import ConvolutionClassifier
from tsformer.features.regular import regular
from tsformer.training.inference import forward

__all__ = ["TRIAL", "better_scaling", "fitted_convolutions", "suited_scaling"]

#: Largest difference of equal values, in standard deviations.
_ALIKE = 0.1
#: Smallest number of series for a choice, largest sample, and features of each series.
_FEWEST_SERIES, _MOST_SERIES = 10, 512
_N_FEATURES, _N_GROUPS = 1250, 8
#: A channel of a series is flat if its deviation is less than this share of the deviation over all
#: series; and the share of flat channels above which each series is standardised.
_FLAT, _MOST = 0.1, 0.5
#: Series, features and groups of each of the two trials.
TRIAL = (_MOST_SERIES, _N_FEATURES, _N_GROUPS)
_SEED = 0
#: Multiply-adds per matrix entry in the decomposition, for the number of threads.
_PASSES = 32
_CPU = torch.device("cpu")


def suited_scaling(
    series: SeriesSource,
    targets: Targets,
    weights: Targets | None,
    groups: Groups | None = None,
) -> str:
    """Choose the scaling for a transformer by a sample of at most 512 training series.

    The choice is "series+size" if most series would be flat with "channel": their deviation would
    be below a tenth. Otherwise it is the choice of `better_scaling`; random convolutions are
    invariant to the amplitude, but a network is not.

    The result does not depend on `random_state`, so that all members of an ensemble agree.

    Parameters
    ----------
    series : SeriesSource
        Training series, `n` of them.
    targets : ndarray [n] of int
        Class of each.
    weights : ndarray [n] or None
        Weight of each.
    groups : ndarray [n] of int, optional
        Group of each; the ridge leaves out whole groups.
    """
    places = np.arange(len(targets))
    if len(places) > _MOST_SERIES:
        generator = np.random.default_rng(_SEED)
        places = np.sort(generator.choice(places, _MOST_SERIES, replace=False))
    drawn = np.isin(np.arange(len(targets)), places)
    classes, of_class = np.unique(targets[drawn], return_inverse=True)
    if len(of_class) < _FEWEST_SERIES or len(classes) == 1:
        return "channel"
    some = series.take(drawn)
    if _share_of_flat(some) > _MOST:
        return "series+size"
    scaler = better_scaling(
        some,
        of_class,
        None if weights is None else weights[drawn],
        groups=None if groups is None else groups[drawn],
        n_features=_N_FEATURES,
        n_groups=_N_GROUPS,
        kind=OneLabel(classes),
        seed=_SEED,
        device=_CPU,
        scalings=("channel", "series"),
    )
    scaling = scaler.scaling
    assert scaling is not None
    return scaling


def _share_of_flat(series: SeriesSource) -> float:
    """Return the share of flat channels among varying channels."""
    over_all, by_itself = (Scaler(name).fit(series) for name in ("channel", "series"))
    n_flat = n_varying = 0
    for index in series.parts():
        x = torch.from_numpy(series.read(index).values)
        observed = ~x.isnan()
        whole, own = (scaler.moments(x, observed)[1] for scaler in (over_all, by_itself))
        n_flat += int((own < _FLAT * whole).sum())
        n_varying += int(own.isfinite().sum())
    return n_flat / max(n_varying, 1)


def better_scaling(
    series: SeriesSource,
    targets: Targets,
    weights: Targets | None,
    *,
    n_features: int,
    n_groups: int,
    kind: LabelKind,
    seed: int,
    device: torch.device,
    groups: Groups | None = None,
    scalings: tuple[str, str] = ("series", "channel"),
) -> Scaler:
    """Return the fitted scaling with the lower leave-one-out cross-entropy.

    Standardising each series is better if amplitudes vary independently of the class.
    Standardising each channel over all series is better if a channel is nearly constant in some
    series, where standardisation would amplify noise.

    Parameters
    ----------
    series : SeriesSource
        Training series, `n` of them.
    targets : ndarray [n, ...]
        Target of each, of `kind`.
    weights : ndarray [n] or None
        Weight of each.
    n_features, n_groups, seed, device, groups
        As in `fitted_convolutions`.
    scalings : pair of str
        The candidates. The first is chosen if both give the same values.
    """
    scalers = [Scaler(name, gap_flag=None).fit(series) for name in scalings]
    panels = [scaler.transform(series) for scaler in scalers]
    if float((panels[0].values - panels[1].values).abs().max()) <= _ALIKE:
        return scalers[0]
    losses = [
        float(
            fitted_convolutions(
                regular(panel),
                targets,
                weights,
                n_features=n_features,
                n_groups=n_groups,
                kind=kind,
                seed=seed,
                device=device,
                groups=groups,
            ).ridge.loss
        )
        for panel in panels
    ]
    return scalers[int(np.argmin(losses))]


def fitted_convolutions(
    panel: Panel,
    targets: Targets,
    weights: Targets | None,
    *,
    n_features: int,
    n_groups: int,
    kind: LabelKind,
    seed: int,
    device: torch.device,
    groups: Groups | None = None,
) -> ConvolutionClassifier:
    """Sample kernels on the CPU, the same for every device, and fit a ridge classifier.

    Parameters
    ----------
    panel : Panel
        Scaled training series, regular in time.
    targets : ndarray [n, ...]
        Target of each, of `kind`.
    weights : ndarray [n] or None
        Weight of each.
    n_features, n_groups : int
        Features of MiniRocket, and groups of Hydra.
    kind : OneLabel or SeveralLabels
        The labels.
    seed : int
        The only source of randomness.
    device : torch.device
        Device of the features.
    groups : ndarray [n] of int, optional
        Group of each; the ridge leaves out whole groups.
    """
    model = ConvolutionClassifier(n_features, n_groups)
    masked = panel.with_mask()
    generator = torch.Generator().manual_seed(seed % 2**63)
    model.convolutions.draw(masked.values, masked.mask, generator)
    model.to(device)
    features = forward(model, panel.to(device), function=model.convolutions.unscaled)
    model.cpu()  # the ridge needs float64, which not every device has
    model.convolutions.fit_scales(features)
    for part in features.split(256):  # in place, to save memory
        part.copy_(model.convolutions.scale(part))
    # The decomposition consists of matrix-vector products.
    with threads(work=_PASSES * min(features.shape) ** 2):
        model.ridge.fit(
            features,
            torch.from_numpy(targets),
            kind=kind,
            weights=None if weights is None else torch.from_numpy(weights),
            groups=None if groups is None else torch.from_numpy(groups),
        )
    return model
