"""A fitted estimator as one torch module: its preprocessor and its models."""

from __future__ import annotations

import copy
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from tsformer.data.preprocessor import Vocabulary
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
        self.preprocessor = copy.deepcopy(estimator.preprocessor_)
        if isinstance(self.preprocessor, Vocabulary):
            largest = int(self.preprocessor.known.abs().max())
            if largest > 2**24:
                raise ValueError(
                    f"an exported model takes codes as float32, exact up to {2**24}; one code is "
                    f"{largest}: number the codes anew, then fit and export"
                )
        self.classifies = isinstance(estimator, TSTransformerClassifier)
        self.target_mean = getattr(estimator, "target_mean_", 0.0)
        self.target_std = getattr(estimator, "target_std_", 1.0)
        # To trace with, of sizes that are none of the model's.
        X = torch.zeros(3, estimator.n_channels_, estimator.model_.config.max_len + 5)
        self.inputs = {"X": X}
        if self.preprocessor.time_step is not None:
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
        if times is not None:
            times = times.expand(X.shape[0], X.shape[2]).double()  # its sizes are those of X
        values, mask, times = self.preprocessor(X.transpose(1, 2).double(), times)
        outputs = [model(values, mask, times).double() for model in self.models]
        if self.classifies:
            outputs = [out.softmax(dim=1) for out in outputs]
        mean = outputs[0] if len(outputs) == 1 else torch.stack(outputs).mean(dim=0)
        mean = mean.where(mask.any(dim=1, keepdim=True), torch.nan)
        if self.classifies:
            return mean.float()
        return mean[:, 0] * self.target_std + self.target_mean
