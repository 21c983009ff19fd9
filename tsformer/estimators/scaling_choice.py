"""Which scaling suits a data set, by its training series.

It is that which a ridge classifier on random convolutions prefers, unless standardised channels
would hide the shape of most series from a network.
"""

from __future__ import annotations

import numpy as np
import torch

from tsformer._threads import threads
from tsformer.data.panel import Panel
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import SeriesSource
from tsformer.estimators.targets import Groups, Targets
from tsformer.features.classifier import ConvolutionClassifier
from tsformer.features.regular import regular
from tsformer.training.inference import forward

__all__ = ["TRIAL", "better_scaling", "fitted_convolutions", "suited_scaling"]

#: Values that differ by less than this are the same, in standard deviations.
_ALIKE = 0.1
#: Fewest series that say anything about a transformer's scaling, most that are looked at, and the
#: features that are computed of each.
_FEWEST_SERIES, _MOST_SERIES = 10, 512
_N_FEATURES, _N_GROUPS = 1250, 8
#: A channel of a series that varies by less than this share of the channel's deviation is flat for
#: a network; and the share of them from which on each series is standardised by itself.
_FLAT, _MOST = 0.1, 0.5
#: Series, features and groups of each of the two trials.
TRIAL = (_MOST_SERIES, _N_FEATURES, _N_GROUPS)
_SEED = 0
#: A decomposition is worth as many threads as an operation of this many multiply-adds an entry.
_PASSES = 32
_CPU = torch.device("cpu")


def suited_scaling(
    series: SeriesSource,
    targets: Targets,
    weights: Targets | None,
    groups: Groups | None = None,
) -> str:
    """Return the scaling for a transformer, by at most 512 training series drawn at random.

    It is that of `better_scaling`, but "series+size" where the sizes of series differ so much that,
    with each channel standardised over all of them, more than half vary by less than a tenth.
    Random convolutions read such series all the same, since what they count are steps above a
    quantile, however small the values; to a network they are flat.

    Nothing here depends on `random_state`, so that members of an ensemble decide alike.

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
        n_classes=len(classes),
        seed=_SEED,
        device=_CPU,
        scalings=("channel", "series"),
    )
    scaling = scaler.scaling
    assert scaling is not None
    return scaling


def _share_of_flat(series: SeriesSource) -> float:
    """Return the share that is flat, with channels standardised, of the channels of all series.

    Constants, whose deviation is infinite, do not count: standardised by themselves they stay so.
    """
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
    n_classes: int,
    seed: int,
    device: torch.device,
    groups: Groups | None = None,
    scalings: tuple[str, str] = ("series", "channel"),
) -> Scaler:
    """Return the fitted scaling with which random convolutions have the less cross-entropy.

    It is that of a ridge classifier, by leave-one-out, with each series standardised by itself and
    with each channel standardised over all series. Where the amplitudes of series differ by more
    than their classes do, the first is far better; where a channel is nearly constant in some
    series, it blows up noise, and the second is. Of series that are standardised already
    none is looked at.

    Parameters
    ----------
    series : SeriesSource
        Training series, `n` of them.
    targets : ndarray [n] of int
        Class of each, of `n_classes`.
    weights : ndarray [n] or None
        Weight of each.
    n_features, n_groups, seed, device, groups
        As of `fitted_convolutions`.
    scalings : pair of str
        Those to choose from. The first is the answer where the series are standardised already, so
        that both are the same.
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
                n_classes=n_classes,
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
    n_classes: int,
    seed: int,
    device: torch.device,
    groups: Groups | None = None,
) -> ConvolutionClassifier:
    """Draw kernels on the CPU, the same for every device, and fit a ridge to their features.

    Parameters
    ----------
    panel : Panel
        Scaled training series, regular in time.
    targets : ndarray [n] of int
        Class of each, of `n_classes`.
    weights : ndarray [n] or None
        Weight of each.
    n_features, n_groups : int
        Features of MiniRocket, and groups of Hydra.
    n_classes : int
        Number of classes.
    seed : int
        The only source of randomness.
    device : torch.device
        Where features are computed.
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
    for part in features.split(256):  # in place, as there are many
        part.copy_(model.convolutions.scale(part))
    # The decomposition of a matrix of this size consists of products of it with vectors.
    with threads(work=_PASSES * min(features.shape) ** 2):
        model.ridge.fit(
            features,
            torch.from_numpy(targets),
            n_classes=n_classes,
            weights=None if weights is None else torch.from_numpy(weights),
            groups=None if groups is None else torch.from_numpy(groups),
        )
    return model
