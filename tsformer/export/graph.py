"""An estimator as one module: from X, as it is given to it, to what it predicts."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from tsformer.data.codes import CodeBook
from tsformer.data.scaling import GAP
from tsformer.estimators import TSTransformerClassifier
from tsformer.estimators.base import TransformerEstimator

__all__ = ["Graph"]


class Graph(nn.Module):
    """From X, as it is given to an estimator, to what the estimator predicts."""

    def __init__(self, estimator: Any):
        super().__init__()
        if not isinstance(estimator, TransformerEstimator):
            raise TypeError(
                "a fitted TSTransformerClassifier or TSTransformerRegressor can be exported; got "
                f"{type(estimator).__name__}. Of a pipeline or a search, give the estimator inside"
            )
        check_is_fitted(estimator)
        self.models = nn.ModuleList(
            copy.deepcopy(model).cpu().requires_grad_(False) for model in estimator.models_
        )
        scaler = estimator.scaler_
        self.how = getattr(scaler, "how", "codes")
        if isinstance(scaler, CodeBook):
            if (largest := np.abs(scaler.known).max()) > 2**24:
                raise ValueError(
                    f"an exported model takes codes as float32, exact up to {2**24}; one code is "
                    f"{largest}: number the codes anew, then fit and export"
                )
            self.known = nn.Buffer(torch.from_numpy(scaler.known).float())
        else:
            self.flagged = nn.Buffer(torch.from_numpy(np.flatnonzero(scaler.flagged)))
            if scaler.mean is not None and scaler.std is not None:
                self.mean = nn.Buffer(torch.from_numpy(scaler.mean))
                self.std = nn.Buffer(torch.from_numpy(scaler.std))
        self.classifies = isinstance(estimator, TSTransformerClassifier)
        self.target_mean = getattr(estimator, "target_mean_", 0.0)
        self.target_std = getattr(estimator, "target_std_", 1.0)
        self.step = scaler.step
        # To trace with, of sizes that are none of the model's.
        X = torch.zeros(3, estimator.n_channels_, estimator.model_.config.max_len + 5)
        self.inputs = {"X": X}
        if self.step is not None:
            self.inputs["times"] = torch.zeros(len(X), X.shape[2])

    def traced(self) -> ExportedProgram:
        """Export it as it is, for series of any number and length."""
        sizes = {name: {0: Dim.DYNAMIC, x.ndim - 1: Dim.DYNAMIC} for name, x in self.inputs.items()}
        return torch.export.export(
            self.eval(),
            tuple(self.inputs.values()),
            dynamic_shapes=sizes,
            # What it cannot prove of sizes is checked when it runs, not refused now.
            prefer_deferred_runtime_asserts_over_guards=True,
        )

    def forward(self, X: Tensor, times: Tensor | None = None) -> Tensor:
        """Compute class probabilities ``[n, K]``, or a prediction ``[n]``."""
        x = X.transpose(1, 2)
        observed = ~x.isnan()
        seen = observed.any(dim=-1)
        t = torch.arange(x.shape[1], dtype=torch.float64)[None].expand(x.shape[:2])
        if times is not None and self.step is not None:
            times = times.expand(x.shape[:2]).double()  # its sizes are those of X
            t = times - times[:, :1]
            times = (t / self.step).float()
        if self.how == "codes":
            keep, x = seen, self._numbered(x)
        else:
            # From the first value to the last, gaps and all.
            keep = _from_first_to_last(seen)
            x = self._scaled(x.double(), observed, keep[..., None], t[..., None])
        outputs = [model(x, keep, times).double() for model in self.models]
        if self.classifies:
            outputs = [out.softmax(dim=1) for out in outputs]
        mean = outputs[0] if len(outputs) == 1 else torch.stack(outputs).mean(dim=0)
        mean = mean.where(keep.any(dim=1, keepdim=True), torch.nan)
        if self.classifies:
            return mean.float()
        return mean[:, 0] * self.target_std + self.target_mean

    def _numbered(self, codes: Tensor) -> Tensor:
        """Do what `CodeBook.transform` does."""
        place = torch.searchsorted(self.known, codes.contiguous()).clamp(max=len(self.known) - 1)
        return ((place + 1) * (self.known[place] == codes)).float()

    def _scaled(self, x: Tensor, observed: Tensor, keep: Tensor, t: Tensor) -> Tensor:
        """Do what `Scaler.transform` does."""
        if self.how == "channel":
            x = (x - self.mean) / self.std
        elif self.how == "series":
            count = observed.sum(dim=1, keepdim=True).clamp(min=1)
            mean = x.where(observed, 0.0).sum(dim=1, keepdim=True) / count
            std = ((x - mean).square().where(observed, 0.0).sum(dim=1, keepdim=True) / count).sqrt()
            x = (x - mean) / std.where(std > 1e-12 * mean.abs().clamp(min=1.0), 1.0)
        x = _interpolated(x, observed, t).where(keep, 0.0).float()
        gaps = (keep & ~observed).index_select(-1, self.flagged)
        return torch.cat([x, GAP * gaps.float()], dim=-1)


def _from_first_to_last(seen: Tensor) -> Tensor:
    """Return ``[n, L]``: which steps lie between the first that was seen and the last."""
    count = seen.long().cumsum(dim=1)
    return (count > 0) & ((count < count[:, -1:]) | seen)


def _interpolated(x: Tensor, observed: Tensor, t: Tensor) -> Tensor:
    """Do what the `Scaler` does with gaps, for values ``[n, L, C]`` and times ``[n, L, 1]``."""
    n_steps = x.shape[1]
    step = torch.arange(n_steps)[:, None].expand(x.shape)
    count = observed.long().cumsum(dim=1)
    # At place k the step of the k-th value; there is no running maximum in ONNX.
    place = count.where(observed, n_steps + 1)
    table = torch.zeros_like(x[:, :1], dtype=torch.long).expand(-1, n_steps + 2, -1)
    table = table.scatter(1, place, step)
    first, last = count == 0, (count == count[:, -1:]) & ~observed
    before = table.gather(1, count)
    after = table.gather(1, count + (~observed & ~last).long())
    left, right = after.where(first, before), before.where(last, after)
    t = t.expand(x.shape)
    start = t.gather(1, left)
    span = t.gather(1, right) - start
    part = (t - start).where(span > 0, 0.0) / span.where(span > 0, 1.0)
    filled = x.gather(1, left) * (1 - part) + x.gather(1, right) * part
    return x.where(observed, filled).where(count[:, -1:] > 0, 0.0)
