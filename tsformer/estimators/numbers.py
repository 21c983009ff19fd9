"""Target of the regressor: one or several numbers for each series."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import assert_all_finite
from torch import Tensor

from tsformer._checks import Finite, Positive, read_fields
from tsformer.data.preprocessor import ROUNDING, summarise
from tsformer.estimators.targets import (
    Target,
    Targets,
    check_length,
    columns_of,
    read_as_fitted,
    read_columns,
    read_weights,
)


@dataclass(frozen=True, eq=False)
class Numbers(Target):
    """One or several numbers, scaled to mean 0 and deviation 1: the squared error."""

    mean: Any
    std: Any
    score_name: ClassVar = "R²"

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.mean)

    @property
    def n_outputs(self) -> int:
        return int(np.prod(self.shape))

    @property
    def purpose(self) -> str:
        return "Predicts a number" if self.n_outputs == 1 else f"Predicts {self.n_outputs} numbers"

    @classmethod
    def learn(cls, y: Any, sample_weight: Any) -> Self:
        """Learn the weighted mean and deviation of the training series."""
        columns = read_columns(y)
        targets = _read_numbers(y, "y", () if columns is None else columns.shape[1:])
        weights = None if sample_weight is None else read_weights(sample_weight, len(targets))
        moments = [_moments(column, weights) for column in np.atleast_2d(targets.T)]
        mean, std = np.array(moments).T if targets.ndim > 1 else moments[0]
        return cls(mean, std, columns=columns_of(y))

    def describe(self) -> dict[str, Any]:
        moments = {"target_mean": self.mean, "target_std": self.std}
        return {name: np.asarray(moment).tolist() for name, moment in moments.items()}

    @classmethod
    def restored(cls, described: Any) -> Self:
        """Return what `describe` described."""
        moments = read_fields(
            described, target_mean=Finite | list[Finite], target_std=Positive | list[Positive]
        ).values()
        if len(set(map(np.shape, moments))) > 1:
            raise ValueError("target_mean and target_std must have the same length")
        return cls(*(np.array(part) if isinstance(part, list) else part for part in moments))

    def encode(self, y: Any, name: str, n_series: int, *, of: str = "X") -> Targets:
        self.check_columns(y, name)
        targets = _read_numbers(y, name, self.shape)
        check_length(n_series, targets, name, of=of)
        scaled: Targets = (targets - self.mean) / self.std
        for case in np.argwhere(np.abs(scaled) > np.finfo(np.float32).max)[:1, 0]:
            raise ValueError(f"{name} of series {case} is an outlier beyond float32; remove it")
        return scaled.astype(np.float32)

    def decode(self, outputs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the numbers of outputs ``[..., n_outputs]``."""
        outputs = outputs if self.shape else outputs[..., 0]
        numbers: npt.NDArray[np.float64] = outputs * self.std + self.mean
        return numbers

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        errors = (outputs.reshape(targets.shape) - targets).square()
        return errors if errors.ndim == 1 else errors.mean(dim=1)

    def score(self, outputs: Tensor, targets: Tensor) -> float:
        residual = (outputs.reshape(targets.shape) - targets).square().sum(dim=0)
        total = (targets - targets.mean(dim=0)).square().sum(dim=0)
        # As in scikit-learn, 0 or 1 for a constant target.
        total = total.where(total > 0, residual.clamp(min=torch.finfo(total.dtype).tiny))
        return 1.0 - (residual / total).mean().item()


def _read_numbers(y: Any, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Read finite numbers of the shape for each series."""
    targets = read_as_fitted(y, name, shape)
    if targets.dtype.kind not in "biuf":  # the numbers of dates depend on the unit of the dtype
        raise ValueError(
            f"{name} must be numbers, for TSTransformerRegressor; got {targets.dtype}: convert "
            "text with astype(float)"
        )
    if not len(targets):
        raise ValueError(f"{name} has 0 values; pass one for each series")
    targets = targets.astype(np.float64)
    assert_all_finite(targets, input_name=name)
    return targets


def _moments(
    targets: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None
) -> tuple[float, float]:
    """Return mean and standard deviation; for constant targets, the rounding error."""
    if weights is not None:
        targets, weights = targets[weights > 0], weights[weights > 0]
    values = torch.from_numpy(targets)
    summary = summarise(values, torch.ones_like(values, dtype=torch.bool), dim=(0,))
    mean, std = summary.mean.item(), summary.std.item()
    if not np.isfinite(std):
        raise ValueError("the variance of y overflows float64; divide y by a constant")
    if summary.deviation(0.0).item() == 0:
        return mean, ROUNDING * abs(mean) or 1.0
    if weights is None or np.ptp(weights) == 0:
        return mean, std
    scaled = (targets - mean) / std
    shift = np.average(scaled, weights=weights)
    spread = np.sqrt(np.average(np.square(scaled - shift), weights=weights))
    return float(mean + std * shift), float(std * max(spread, ROUNDING))
