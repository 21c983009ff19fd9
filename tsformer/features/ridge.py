"""Ridge regression on labels, its penalty chosen by leave-one-out, its scores made probabilities.

Shape letters: `n` training series, `F` features, `K` classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Annotated, Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer.features.random_convolutions import Learned, RandomConvolutions

#: Penalties tried, in units of the mean eigenvalue of the kernel matrix.
_GRID = torch.logspace(-5, 2, 22, dtype=torch.float64)
#: Features converted to float64 at a time, and rows of a Gram matrix computed at a time.
_CHUNK, _ROWS = 2048, 1024
#: Range of the inverse temperature, and the most steps to find it: a handful is usual.
_SCALES, _STEPS = (1e-3, 1e4), 40
#: Most leave-one-out scores (series times classes) to choose the penalty by, and at once.
_SCORES = _AT_ONCE = 2**19
#: Largest matrix that is decomposed. For larger ones, a sample of series chooses the penalty, as
#: a Cholesky factor takes a small part of the time of eigenvectors.
_DECOMPOSED, _SAMPLE = 4096, 2048
#: Factor by which a loss may exceed the least by rounding.
_ROUNDED = 1 + 1e-9


class RidgeClassifier(Learned):
    r"""Linear classifier by ridge regression on targets 1, for the class of a series, and -1.

    It minimises ``sum_i w_i |y_i - f_i B - b|^2 + alpha |B|^2`` with an unpenalised `b`, and
    probabilities are ``softmax(s z)`` of the scores ``z = f B + b``; of several labels, fitted at
    once, they are ``1 / (1 + exp(-s z))`` with an `s` each. The penalty `alpha`, one of 22 from
    1e-5 to 100 times the mean eigenvalue of the kernel matrix, and the inverse temperature `s`
    minimise the cross-entropy of leave-one-out scores ``z_i = y_i - e_i / (1 - h_i)``, with the
    residuals `e` and the diagonal `h` of the hat matrix `H` [1]_; with groups, of
    ``z_g = y_g - (I - H_gg)^-1 e_g``. Its targets are ``1 - 1 / (n + 2)`` and not 1, as in Platt's
    scaling [2]_, so that `s` stays finite. At most 524,288 scores, of random series, are used.

    Time ``O(n m F + m^3)`` and memory ``O(m^2)`` in float64 besides the features, with `m` the
    smaller of `n` and `F`. If `m` is above 4096, 2048 random series choose the penalty, and the
    system of all series is solved for this penalty alone.

    References
    ----------
    .. [1] Rifkin and Lippert, "Notes on regularized least squares", MIT-CSAIL-TR-2007-025.
    .. [2] Platt, "Probabilistic outputs for support vector machines", Advances in Large Margin
       Classifiers, 1999.
    """

    coef: Annotated[Tensor, torch.float, "F K"]
    intercept: Annotated[Tensor, torch.float, "K"]
    alpha: Annotated[Tensor, torch.float, ""]
    scale: Annotated[Tensor, torch.float, None]  # `s`, [K] for several labels
    loss: Annotated[Tensor, torch.float, ""]  # the leave-one-out cross-entropy
    #: Share of the classes' entropy that the leave-one-out predictions do not explain; not saved.
    unexplained: float = nan
    #: Leave-one-out probabilities ``[m, K]`` and classes ``[m]`` of training series; not saved.
    left_out: tuple[Tensor, Tensor] | None = None
    #: Indices of these series among all.
    sampled: slice | Tensor = slice(None)

    @torch.no_grad()
    def fit(
        self,
        features: Tensor,
        targets: Tensor,
        *,
        kind: Any,
        weights: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Self:
        """Fit to features ``[n, F]`` and targets of a `kind`, with weights ``[n]`` above 0.

        `kind` is such as `tsformer.estimators.targets.Classes`. `groups` ``[n]`` are left out as a
        whole; a single group counts as none.
        """
        system = system_of(features, targets, kind, weights, groups)
        problem = system.problem
        alpha, scale, loss, scores, unexplained = _choice_of(system, kind)
        self.alpha, self.scale, self.loss = alpha.float(), scale.float(), loss.float()
        self.unexplained, self.sampled = unexplained, problem.rows
        self.left_out = kind.probabilities(scores), targets[problem.rows]
        dual = system.residuals(alpha) / alpha * problem.root
        coef_chunks = [(chunk.double() - mean).mT @ dual for chunk, mean in problem.chunks]
        self.coef = torch.cat(coef_chunks).float()
        self.intercept = (problem.centre - problem.mean @ self.coef.double()).float()
        return self

    def check(self, n_features: int, kind: Any) -> None:
        """Raise ValueError if loaded tensors are not for these features and labels."""
        self.check_sizes(F=n_features, K=len(kind.classes))
        if self.scale.shape != kind.shape:
            raise ValueError(f"scale must be {kind.shape}; it is {tuple(self.scale.shape)}")

    def forward(self, features: Tensor) -> Tensor:
        """Return logits ``[B, K]``: the logarithms of the probabilities up to a constant."""
        return (features @ self.coef + self.intercept) * self.scale


def system_of(
    features: Tensor, targets: Tensor, kind: Any, weights: Tensor | None, groups: Tensor | None
) -> _Decomposed | _Solved:
    """Return the ridge of features and targets; a large one for the penalty of a sample."""
    y = kind.signs(targets.to(features.device))
    w = torch.ones_like(y[:, 0]) if weights is None else weights
    folds = None if groups is None else group_indices(groups)
    solves = min(features.shape) > _DECOMPOSED
    n_sampled = _SAMPLE if solves else max(_SCORES // y.shape[1], 1)
    rows: slice | Tensor = slice(None)
    if solves or len(y) > n_sampled:
        rows, folds = _sampled_rows(len(y), n_sampled, folds)
    problem = _Problem(features, y, w, rows, folds)
    if not solves:
        return _Decomposed(problem)
    sample = _Decomposed(_Problem(features[rows], y[rows], w[rows], slice(None), folds))
    return _Solved(problem, _choice_of(sample, kind)[0])


class ConvolutionClassifier(nn.Module):
    """Features of random convolutions and the ridge classifier that reads them."""

    def __init__(self, n_features: int, n_groups: int):
        super().__init__()
        self.convolutions = RandomConvolutions(n_features, n_groups)
        self.ridge = RidgeClassifier()

    def check(self, n_channels: int, kind: Any) -> None:
        """Raise ValueError if loaded tensors do not belong together, or to these sizes."""
        self.ridge.check(self.convolutions.check(n_channels), kind)

    def embed(self, *inputs: Tensor | None) -> Tensor:
        """Return the scaled features ``[B, F]`` of values ``[B, L, C]`` with their mask."""
        return self.convolutions(*inputs)

    def forward(self, *inputs: Tensor | None) -> Tensor:
        """Return logits ``[B, K]``."""
        return self.ridge(self.convolutions(*inputs))


@dataclass(eq=False)
class _Problem:
    """Features ``[n, F]`` and targets ``[n, K]``, weighted. `folds` of `rows` are left out."""

    features: Tensor
    y: Tensor
    weights: Tensor
    rows: slice | Tensor
    folds: list[Tensor] | None

    def __post_init__(self) -> None:
        features, y = self.features, self.y
        self.w = (self.weights / self.weights.mean()).to(y)
        self.root = self.w.sqrt()[:, None]
        self.intercept = self.w[self.rows] / len(y)
        self.centre = self.w @ y / len(y)
        self.y_root = (y - self.centre) * self.root
        chunks = features.split(_CHUNK, dim=1)
        self.mean = torch.cat([self.w @ chunk.double() / len(y) for chunk in chunks])
        #: Some of the features at a time, and their means.
        self.chunks = list(zip(chunks, self.mean.split(_CHUNK), strict=True))
        self.dual = len(features) <= features.shape[1]

    @cached_property
    def centred(self) -> Tensor:
        """The weighted, centred features ``[n, F]``."""
        return (self.features.double() - self.mean) * self.root

    def gram(self) -> Tensor:
        """Return the lower triangle of the kernel matrix ``[n, n]`` or covariance ``[F, F]``."""
        size = min(self.features.shape)
        gram = self.y.new_zeros(size, size)
        chunks = ((chunk.double() - mean) * self.root for chunk, mean in self.chunks)
        for a in chunks if self.dual else [self.centred.mT]:
            for start in range(0, size, _ROWS):
                stop = start + _ROWS
                gram[start:stop, :stop].addmm_(a[start:stop], a[:stop].mT)
        return gram


class _Decomposed:
    """The ridge for any penalty: ``Q diag(v) Q^T`` is the weighted, centred kernel matrix."""

    def __init__(self, problem: _Problem):
        self.problem = problem
        values, axes = torch.linalg.eigh(problem.gram())
        self.values, self.vectors = values.clamp(min=0.0), axes
        if not problem.dual:
            kept = values > values[-1] * 1e-12
            self.values = values[kept]
            self.vectors = problem.centred @ (axes[:, kept] / self.values.sqrt())
        self.projected = self.vectors.mT @ problem.y_root
        unit = self.values.sum() / len(problem.y)
        self.alphas = _GRID.to(unit) * unit.where(unit > 0, 1.0)

    def residuals(self, alpha: Tensor) -> Tensor:
        kept = self.values / (self.values + alpha)
        return self.problem.y_root - self.vectors @ (kept[:, None] * self.projected)

    def left_out(self, alpha: Tensor) -> Tensor:
        rows, intercept, folds = self.problem.rows, self.problem.intercept, self.problem.folds
        if folds is not None and alpha.ndim:
            return torch.stack([self.left_out(penalty[0]) for penalty in alpha])
        kept, vectors = self.values / (self.values + alpha), self.vectors[rows]
        residuals = self.problem.y_root[rows] - vectors @ (kept[..., None] * self.projected)
        if folds is not None:
            return _groups_left_out(residuals, vectors * kept.sqrt(), intercept, folds)
        # A series that only its own weight fits has no leave-one-out error: 0 / 0.
        squares = vectors.square()
        freedom = 1 - (squares @ kept.mT).mT if alpha.ndim else 1 - squares @ kept
        return residuals / (freedom - intercept).clamp(min=1e-10)[..., None]


class _Solved:
    """The ridge for one penalty, by a Cholesky factor."""

    def __init__(self, problem: _Problem, alpha: Tensor):
        self.problem, self.alphas = problem, alpha[None]
        matrix = problem.gram()
        matrix.diagonal().add_(alpha)
        self.factor = torch.linalg.cholesky(matrix)
        if problem.dual:
            self.errors = alpha * torch.cholesky_solve(problem.y_root, self.factor)
        else:
            coef = torch.cholesky_solve(problem.centred.mT @ problem.y_root, self.factor)
            self.errors = problem.y_root - problem.centred @ coef

    def residuals(self, alpha: Tensor) -> Tensor:
        return self.errors

    def left_out(self, alpha: Tensor) -> Tensor:
        return self.errors_left_out

    @cached_property
    def errors_left_out(self) -> Tensor:
        """The leave-one-out errors of the sampled rows."""
        rows, intercept, folds = self.problem.rows, self.problem.intercept, self.problem.folds
        errors = self.errors[rows]
        if not self.problem.dual:
            centred = self.problem.centred[rows]
            half = torch.linalg.solve_triangular(self.factor, centred.mT, upper=False)
            if folds is not None:
                return _groups_left_out(errors, half.mT, intercept, folds)
            freedom = 1 - half.mT.square() @ torch.ones_like(half[:, 0]) - intercept
            return errors / freedom.clamp(min=1e-10)[:, None]
        unit = errors.new_zeros(len(self.errors), len(errors))
        unit[rows, torch.arange(len(errors), device=errors.device)] = 1.0
        half = torch.linalg.solve_triangular(self.factor, unit, upper=False)
        freedom = self.alphas * (half.mT @ half)  # I - H is alpha times the inverse
        freedom -= intercept.sqrt().outer(intercept.sqrt())
        if folds is None:
            return errors / freedom.diagonal().clamp(min=1e-10)[:, None]
        freedom.diagonal().add_(1e-10)
        left_out = torch.empty_like(errors)
        for fold in folds:
            left_out[fold] = torch.linalg.solve(freedom[fold][:, fold], errors[fold])
        return left_out


def _choice_of(
    system: _Decomposed | _Solved, kind: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """Return the best penalty, its scale, loss and scaled scores, and `unexplained`."""
    problem, shape = system.problem, kind.shape
    y, w, root = (column[problem.rows] for column in (problem.y, problem.w, problem.root))
    wanted, (losses,) = losses_of([system], kind)
    least = y.new_tensor(torch.inf)
    # One by one, for the same sums whatever else is computed.
    for alpha in system.alphas[losses <= losses.min() * _ROUNDED]:
        scores = y - system.left_out(alpha) / root
        pairs = zip(_softmaxed(scores, shape), wanted, strict=True)
        scales, of_each = zip(*(_calibrated(*pair, w) for pair in pairs), strict=True)
        scale, loss = torch.stack(scales).reshape(shape), torch.stack(of_each).mean()
        if loss < least:
            least, best = loss, (alpha, scale, loss, scores * scale)
    # 0 for the least cross-entropy possible, 1 for that of the class frequencies.
    entropy, total = torch.special.entr, w.sum()
    lowest = torch.stack([w @ entropy(target).sum(dim=1) / total for target in wanted]).mean()
    highest = torch.stack([entropy(w @ target / total).sum() for target in wanted]).mean()
    span = highest - lowest
    return *best, float((least - lowest) / span) if span > 1e-12 else 0.0


def losses_of(
    systems: Sequence[_Decomposed | _Solved], kind: Any, tolerance: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Return softmax targets of the sampled rows, and losses ``[S, A]`` of each system's penalties.

    The losses are leave-one-out. The systems have the same targets, and features of one shape.
    `tolerance` is the relative error of the temperatures.
    """
    problem, shape, losses = systems[0].problem, kind.shape, []
    y, w, root = (column[problem.rows] for column in (problem.y, problem.w, problem.root))
    signs = _softmaxed(problem.y, shape)
    n_series, n_classes = signs.shape[1:]
    smooth = 1 / (n_series + 2) if n_classes > 1 else 0.0
    wanted = torch.full(signs.shape, smooth / max(n_classes - 1, 1))
    wanted.scatter_(-1, signs.argmax(dim=-1, keepdim=True).cpu(), 1 - smooth)
    wanted = wanted.to(y)[:, problem.rows]  # nearly 1 for the class of each series
    alphas = torch.stack([system.alphas for system in systems])
    for few in alphas.split(max(_AT_ONCE // (len(systems) * y.numel()), 1), dim=1):
        residuals = [
            (system.left_out(alpha[:, None]) / root).expand(len(alpha), *y.shape)
            for system, alpha in zip(systems, few, strict=True)
        ]
        scores = y - torch.stack(residuals)
        losses.append(_calibrated(_softmaxed(scores, shape), wanted, w, tolerance)[1].mean(dim=-1))
    return wanted, torch.cat(losses, dim=1)


def _softmaxed(scores: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return ``[..., 1, n, K]`` for one softmax, or ``[..., K, n, 2]``: 0 and the score of each."""
    return F.pad(scores.mT[..., None], (1, 0)) if shape else scores.unsqueeze(-3)


def group_indices(groups: Tensor) -> list[Tensor] | None:
    """Return the indices of each group; None if leaving out groups is leave-one-out."""
    counts = groups.unique(return_counts=True)[1]
    if len(counts) in (1, len(groups)):
        return None
    return list(groups.argsort().split(counts.tolist()))


def _groups_left_out(
    residuals: Tensor, root: Tensor, intercept: Tensor, folds: list[Tensor]
) -> Tensor:
    """Return leave-one-group-out residuals; ``H = root root^T`` but for the intercept."""
    root = torch.cat([root, intercept.sqrt()[:, None]], dim=1)
    left_out = torch.empty_like(residuals)
    for fold in folds:
        block, error = root[fold], residuals[fold]
        few = len(fold) <= block.shape[1]
        gram = block @ block.mT if few else block.mT @ block
        freedom = (1 + 1e-10) * torch.eye(len(gram), dtype=gram.dtype, device=gram.device) - gram
        # Both sides are the same (Woodbury); the smaller system is solved.
        solved = torch.linalg.solve(freedom, error if few else block.mT @ error)
        left_out[fold] = solved if few else error + block @ solved
    return left_out


def _sampled_rows(
    n_series: int, n_sampled: int, folds: list[Tensor] | None
) -> tuple[Tensor, list[Tensor] | None]:
    """Sample about `n_sampled` series, or whole groups, and return their groups."""
    generator = torch.Generator().manual_seed(0)
    if folds is None:
        return torch.randperm(n_series, generator=generator)[:n_sampled].sort().values, None
    order = torch.randperm(len(folds), generator=generator).tolist()
    sizes = [len(folds[fold]) for fold in order]
    n_folds = max(int((torch.tensor(sizes).cumsum(0) < n_sampled).sum()) + 1, 2)  # one is left out
    chosen = torch.cat([folds[fold] for fold in order[:n_folds]])
    return chosen, list(torch.arange(len(chosen)).split(sizes[:n_folds]))


def _calibrated(
    scores: Tensor, wanted: Tensor, weights: Tensor, tolerance: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Return the scales of scores ``[..., n, K]`` with the least cross-entropies, and these."""
    dot, squares = torch.linalg.vecdot, scores.square()
    aims = (wanted * scores).sum(dim=-1)
    low, high = (torch.full_like(aims[..., 0], bound) for bound in _SCALES)
    scale, done = torch.ones_like(low), torch.zeros_like(low, dtype=torch.bool)
    for _ in range(_STEPS):
        # Newton's method on the slope, which is increasing as cross-entropy is convex;
        # a step out of the bracket is replaced by bisection.
        p = (scores * scale[..., None, None]).softmax(dim=-1)
        means = (p * scores).sum(dim=-1)
        slope = dot(weights, means - aims)
        curvature = dot(weights, (p * squares).sum(dim=-1) - means.square())
        low, high = low.where(slope > 0, scale), scale.where(slope > 0, high)
        step = scale - slope / curvature
        step = step.where((curvature > 0) & (low < step) & (step < high), (low * high).sqrt())
        close = (step - scale).abs() <= tolerance * scale
        scale = scale.where(done, step)
        done |= close
        if done.all():
            break
    logs = (scores * scale[..., None, None]).log_softmax(dim=-1)
    return scale, -dot(weights, (wanted * logs).sum(dim=-1)) / weights.sum()
