"""Ridge regression on labels, its penalty chosen by leave-one-out, its scores made probabilities.

Shape letters: `n` training series, `F` features, `K` classes.
"""

from __future__ import annotations

from math import exp, log

import torch
from torch import Tensor

from tsformer.features.learned import Learned

__all__ = ["RidgeClassifier"]

#: Penalties tried, in units of the mean eigenvalue of the kernel matrix.
_GRID = torch.logspace(-5, 3, 25, dtype=torch.float64)
#: Features converted to float64 at a time.
_CHUNK = 2048
#: Range of the inverse temperature, and the halvings that find it.
_SCALES = (1e-3, 1e4)
_HALVINGS = 60


class RidgeClassifier(Learned):
    r"""Linear classifier fitted by ridge regression on targets 1, for a series' class, and -1.

    It minimises ``sum_i w_i |y_i - f_i B - b|^2 + alpha |B|^2`` with an unpenalised `b`. Of 25
    penalties `alpha`, spaced by factors of 2.15 around the mean eigenvalue of the kernel matrix,
    the one with the least weighted squared leave-one-out error is taken. These errors come without
    refits, from one eigendecomposition: ``e_i / (1 - h_i)``, with the residuals `e` and the
    diagonal `h` of the hat matrix.

    Probabilities are ``softmax(s z)`` of the scores `z`. The inverse temperature `s` minimises the
    cross-entropy of the leave-one-out scores; targets are ``1 - 1 / (n + 2)`` and not 1, as in
    Platt's scaling, so that `s` stays finite where all classes are separated.

    Attributes
    ----------
    coef : Tensor [F, K]
    intercept : Tensor [K]
    alpha, scale : Tensor [] of float64
        The penalty and the inverse temperature `s`.

    Notes
    -----
    Time ``O(n m F + m^3)`` and memory ``O(m^2)`` in float64 besides the features, with `m` the
    smaller of `n` and `F`: of few series the kernel matrix is decomposed, of many the covariance.

    References
    ----------
    .. [1] Rifkin and Lippert, "Notes on regularized least squares", MIT-CSAIL-TR-2007-025.
    .. [2] Platt, "Probabilistic outputs for support vector machines", Advances in Large Margin
       Classifiers, 1999.

    Examples
    --------
    >>> import torch
    >>> y = torch.tensor([0, 0, 1, 1])
    >>> RidgeClassifier().fit(torch.eye(2)[y], y, n_classes=2)(torch.eye(2)).argmax(dim=1)
    tensor([0, 1])
    """

    coef: Tensor
    intercept: Tensor
    alpha: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._empty(
            coef=torch.float, intercept=torch.float, alpha=torch.float64, scale=torch.float64
        )

    @torch.no_grad()
    def fit(
        self, features: Tensor, targets: Tensor, *, n_classes: int, weights: Tensor | None = None
    ) -> RidgeClassifier:
        """Fit to features ``[n, F]`` and class indices ``[n]``, with weights ``[n]`` above 0."""
        n_series = len(features)
        y = torch.full((n_series, n_classes), -1.0, dtype=torch.float64, device=features.device)
        y[torch.arange(n_series, device=y.device), targets] = 1.0
        w = torch.ones_like(y[:, 0]) if weights is None else (weights / weights.mean()).to(y)
        root = w.sqrt()[:, None]
        centre = w @ y / n_series
        y_root = (y - centre) * root
        mean = torch.cat([w @ part.double() / n_series for part in features.split(_CHUNK, dim=1)])
        vectors, values = _decompose(features, mean, root)
        projected = vectors.mT @ y_root

        best = torch.inf
        unit = values.sum() / n_series
        for alpha in _GRID.to(y.device) * unit.where(unit > 0, 1.0):
            kept = values / (values + alpha)
            residuals = y_root - vectors @ (kept[:, None] * projected)
            # A series that its own weight alone fits has no leave-one-out error: 0 / 0.
            freedom = 1 - vectors.square() @ kept - w / n_series
            left_out = residuals / freedom.clamp(min=1e-10)[:, None]
            error = float(left_out.square().sum())
            if error < best:
                best, self.alpha = error, alpha
                scores, dual = y - left_out / root, residuals / alpha * root
        self.coef = torch.cat(
            [
                (part.double() - mean_part).mT @ dual
                for part, mean_part in zip(
                    features.split(_CHUNK, dim=1), mean.split(_CHUNK), strict=True
                )
            ]
        ).float()
        self.intercept = (centre - mean @ self.coef.double()).float()
        self.scale = _inverse_temperature(scores, targets, w)
        return self

    def forward(self, features: Tensor) -> Tensor:
        """Return logits ``[B, K]``: the logarithms of the probabilities up to a constant."""
        return (features @ self.coef + self.intercept) * self.scale.float()


def _decompose(features: Tensor, mean: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
    """Return `Q` ``[n, r]`` and `v` ``[r]``: ``Q diag(v) Q^T`` is the weighted, centred kernel."""
    n_series, n_features = features.shape
    parts = list(zip(features.split(_CHUNK, dim=1), mean.split(_CHUNK), strict=True))
    if n_series <= n_features:
        kernel = torch.zeros(n_series, n_series, dtype=torch.float64, device=features.device)
        for part, mean_part in parts:
            centred = (part.double() - mean_part) * root
            kernel.addmm_(centred, centred.mT)
        values, vectors = torch.linalg.eigh(kernel)
        return vectors, values.clamp(min=0.0)
    centred = (features.double() - mean) * root
    values, axes = torch.linalg.eigh(centred.mT @ centred)
    kept = values > values[-1] * 1e-12
    values = values[kept]
    return centred @ (axes[:, kept] / values.sqrt()), values


def _inverse_temperature(scores: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the factor of `scores` that minimises their cross-entropy, within `_SCALES`."""
    n_series, n_classes = scores.shape
    smooth = 1 / (n_series + 2)
    wanted = torch.full_like(scores, smooth / max(n_classes - 1, 1))
    wanted.scatter_(1, targets[:, None], 1 - smooth)
    low, high = map(log, _SCALES)
    for _ in range(_HALVINGS):
        # The slope of the cross-entropy, a convex function, rises from below 0 to above.
        middle = (low + high) / 2
        excess = (scores * exp(middle)).softmax(dim=1) - wanted
        slope = float(weights @ (excess * scores).sum(dim=1))
        low, high = (low, middle) if slope > 0 else (middle, high)
    return scores.new_tensor(exp(low))
