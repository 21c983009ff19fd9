"""Ridge regression on labels, its penalty chosen by leave-one-out, its scores made probabilities.

Shape letters: `n` training series, `F` features, `K` classes.
"""

from __future__ import annotations

from math import nan, sqrt

import torch
from torch import Tensor

from tsformer._labels import LabelKind
from tsformer.features.kernels import Learned

#: Penalties tried, in units of the mean eigenvalue of the kernel matrix.
_GRID = torch.logspace(-5, 2, 22, dtype=torch.float64)
#: Features converted to float64 at a time.
_CHUNK = 2048
#: Range of the inverse temperature, and the most steps to find it: a handful is usual.
_SCALES = (1e-3, 1e4)
_STEPS = 40
#: Most leave-one-out scores (series times classes) used to choose the penalty.
_SCORES = 2**19


class RidgeClassifier(Learned):
    r"""Linear classifier fitted by ridge regression on targets 1, for a series' class, and -1.

    Several labels of 0 and 1 are fitted at once, with one penalty. Each has an inverse temperature
    `s` of its own, and the probability ``1 / (1 + exp(-s z))``.

    It minimises ``sum_i w_i |y_i - f_i B - b|^2 + alpha |B|^2`` with an unpenalised `b`, and
    probabilities are ``softmax(s z)`` of the scores ``z = f B + b``. The penalty `alpha`, one of 22
    from 1e-5 to 100 times the mean eigenvalue of the kernel matrix, and the inverse temperature `s`
    minimise the cross-entropy of the leave-one-out scores. These scores come without refits, from
    one eigendecomposition: ``z_i = y_i - e_i / (1 - h_i)``, with the residuals `e` and the diagonal
    `h` of the hat matrix `H` [1]_. Of series in groups, whole groups are left out:
    ``z_g = y_g - (I - H_gg)^-1 e_g``. The targets of the cross-entropy are ``1 - 1 / (n + 2)`` and
    not 1, as in Platt's scaling [2]_, so that `s` stays finite where all classes are separated.
    Above 524,288 scores (series times classes) a random subset of the series is used.

    Time ``O(n m F + m^3)`` and memory ``O(m^2)`` in float64 besides the features, with `m` the
    smaller of `n` and `F`: of few series the kernel matrix is decomposed, of many the covariance.

    References
    ----------
    .. [1] Rifkin and Lippert, "Notes on regularized least squares", MIT-CSAIL-TR-2007-025.
    .. [2] Platt, "Probabilistic outputs for support vector machines", Advances in Large Margin
       Classifiers, 1999.
    """

    #: ``[F, K]`` and ``[K]``.
    coef: Tensor
    intercept: Tensor
    #: The penalty, the inverse temperature `s` (``[K]`` for several labels), and their
    #: leave-one-out cross-entropy.
    alpha: Tensor
    scale: Tensor
    loss: Tensor
    #: Share of the classes' entropy that the leave-one-out predictions do not explain; not saved.
    unexplained: float = nan
    #: Leave-one-out probabilities ``[m, K]`` and classes ``[m]`` of training series; not saved.
    left_out: tuple[Tensor, Tensor] | None = None

    def __init__(self) -> None:
        super().__init__()
        self._empty(
            coef=torch.float,
            intercept=torch.float,
            alpha=torch.float,
            scale=torch.float,
            loss=torch.float,
        )

    @torch.no_grad()
    def fit(
        self,
        features: Tensor,
        targets: Tensor,
        *,
        kind: LabelKind,
        weights: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> RidgeClassifier:
        """Fit to features ``[n, F]`` and targets of a kind, with weights ``[n]`` above 0.

        `groups` ``[n]`` are left out as a whole; a single group counts as none.
        """
        n_series = len(features)
        y = kind.signs(targets.to(features.device))
        w = torch.ones_like(y[:, 0]) if weights is None else (weights / weights.mean()).to(y)
        root = w.sqrt()[:, None]
        centre = w @ y / n_series
        y_root = (y - centre) * root
        mean = torch.cat([w @ part.double() / n_series for part in features.split(_CHUNK, dim=1)])
        vectors, values = _decompose(features, mean, root)
        projected = vectors.mT @ y_root

        # The penalty is chosen by a subset of the series if there are many.
        some, parts = _some(n_series, y.shape[1], group_parts(groups))
        wanted = [_smoothed(signs).to(y)[some] for signs in kind.questions(y)]
        best = y.new_tensor(torch.inf)
        unit = values.sum() / n_series
        for alpha in _GRID.to(y.device) * unit.where(unit > 0, 1.0):
            kept = values / (values + alpha)
            residuals = y_root[some] - vectors[some] @ (kept[:, None] * projected)
            intercept = w[some] / n_series
            left_out = _left_out(residuals, vectors[some], kept, intercept, parts)
            scores = y[some] - left_out / root[some]
            pairs = zip(kind.questions(scores), wanted, strict=True)
            found = [_calibrated(own, aims, w[some]) for own, aims in pairs]
            scale = torch.stack([each for each, _ in found]).reshape(kind.shape)
            loss = torch.stack([each for _, each in found]).mean()
            if loss < best:
                best, chosen, of_best = loss, alpha, scores * scale
                self.alpha, self.scale, self.loss = alpha.float(), scale.float(), loss.float()
        self.unexplained = _unexplained(best, wanted, w[some])
        self.left_out = kind.probabilities(of_best), targets[some]
        kept = values / (values + chosen)
        dual = (y_root - vectors @ (kept[:, None] * projected)) / chosen * root
        self.coef = torch.cat(
            [
                (part.double() - mean_part).mT @ dual
                for part, mean_part in zip(
                    features.split(_CHUNK, dim=1), mean.split(_CHUNK), strict=True
                )
            ]
        ).float()
        self.intercept = (centre - mean @ self.coef.double()).float()
        return self

    def check(self, n_features: int, kind: LabelKind) -> None:
        """Raise ValueError if loaded tensors are not for these features and labels."""
        n, scalars = len(kind.classes), {"alpha": (), "scale": kind.shape, "loss": ()}
        self._check_shapes(coef=(n_features, n), intercept=(n,), **scalars)

    def forward(self, features: Tensor) -> Tensor:
        """Return logits ``[B, K]``: the logarithms of the probabilities up to a constant."""
        return (features @ self.coef + self.intercept) * self.scale


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


def group_parts(groups: Tensor | None) -> list[Tensor] | None:
    """Return the indices of each group; None if leaving out groups is leave-one-out."""
    if groups is None:
        return None
    counts = groups.unique(return_counts=True)[1]
    if len(counts) in (1, len(groups)):
        return None
    return list(groups.argsort().split(counts.tolist()))


def _left_out(
    residuals: Tensor, vectors: Tensor, kept: Tensor, intercept: Tensor, parts: list[Tensor] | None
) -> Tensor:
    """Return leave-one-out residuals, or leave-one-group-out residuals."""
    if parts is None:
        # A series that only its own weight fits has no leave-one-out error: 0 / 0.
        freedom = 1 - vectors.square() @ kept - intercept
        return residuals / freedom.clamp(min=1e-10)[:, None]
    root = torch.cat([vectors * kept.sqrt(), intercept.sqrt()[:, None]], dim=1)  # H = root root^T
    found = torch.empty_like(residuals)
    for part in parts:
        own, error = root[part], residuals[part]
        few = len(part) <= own.shape[1]
        gram = own @ own.mT if few else own.mT @ own
        freedom = (1 + 1e-10) * torch.eye(len(gram), dtype=gram.dtype, device=gram.device) - gram
        # Both sides are the same (Woodbury); the smaller system is solved.
        solved = torch.linalg.solve(freedom, error if few else own.mT @ error)
        found[part] = solved if few else error + own @ solved
    return found


def _some(
    n_series: int, n_classes: int, parts: list[Tensor] | None
) -> tuple[slice | Tensor, list[Tensor] | None]:
    """Sample series with about `_SCORES` scores, and their groups."""
    n_some = max(_SCORES // n_classes, 1)
    if n_series <= n_some:
        return slice(None), parts
    generator = torch.Generator().manual_seed(0)
    if parts is None:
        return torch.randperm(n_series, generator=generator)[:n_some].sort().values, None
    order = torch.randperm(len(parts), generator=generator).tolist()
    sizes = torch.tensor([len(parts[part]) for part in order])
    chosen = [parts[part] for part in order[: int((sizes.cumsum(0) < n_some).sum()) + 1]]
    numbers = torch.arange(sum(map(len, chosen)))
    return torch.cat(chosen), list(numbers.split([len(part) for part in chosen]))


def _smoothed(signs: Tensor) -> Tensor:
    """Return target probabilities ``[n, K]``: nearly 1 for the class of each series."""
    n_series, n_classes = signs.shape
    smooth = 1 / (n_series + 2) if n_classes > 1 else 0.0
    wanted = torch.full((n_series, n_classes), smooth / max(n_classes - 1, 1))
    return wanted.scatter_(1, signs.argmax(dim=1, keepdim=True).cpu(), 1 - smooth)


def _unexplained(loss: Tensor, wanted: list[Tensor], weights: Tensor) -> float:
    """Return 0 for the least cross-entropy possible, 1 for that of the class frequencies."""
    entropy, total = torch.special.entr, weights.sum()
    least = torch.stack([weights @ entropy(each).sum(dim=1) / total for each in wanted]).mean()
    most = torch.stack([entropy(weights @ each / total).sum() for each in wanted]).mean()
    return float((loss - least) / (most - least)) if most - least > 1e-12 else 0.0


def _calibrated(scores: Tensor, wanted: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scale of `scores` with the least cross-entropy, and its cross-entropy."""
    aims = (wanted * scores).sum(dim=1)
    (low, high), scale = _SCALES, 1.0
    for _ in range(_STEPS):
        # Newton's method on the slope, which is increasing as cross-entropy is convex;
        # a step out of the bracket is replaced by bisection.
        p = (scores * scale).softmax(dim=1)
        means = (p * scores).sum(dim=1)
        slope = float(weights @ (means - aims))
        curvature = float(weights @ ((p * scores.square()).sum(dim=1) - means.square()))
        low, high = (low, scale) if slope > 0 else (scale, high)
        step = scale - slope / curvature if curvature > 0 else low
        step = step if low < step < high else sqrt(low * high)
        done, scale = abs(step - scale) <= 1e-6 * scale, step
        if done:
            break
    logs = (scores * scale).log_softmax(dim=1)
    return scores.new_tensor(scale), -(weights @ (wanted * logs).sum(dim=1)) / weights.sum()
