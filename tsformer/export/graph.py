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
    """Computes an estimator's predictions from raw series."""

    def __init__(self, estimator: Any):
        super().__init__()
        if not isinstance(estimator, TransformerEstimator):
            raise TypeError(
                "a fitted TSTransformerClassifier or TSTransformerRegressor can be exported; got "
                f"{type(estimator).__name__}. Of a pipeline or search, pass the estimator inside it"
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
                    f"an exported model reads codes as float32, exact up to {2**24}, but one code "
                    f"is {largest}: renumber the codes, then fit and export again"
                )
        self.classifies = isinstance(estimator, TSTransformerClassifier)
        self.target_mean = getattr(estimator, "target_mean_", 0.0)
        self.target_std = getattr(estimator, "target_std_", 1.0)
        # Example inputs for tracing, of sizes that do not occur in the model.
        X = torch.zeros(3, estimator.n_channels_, estimator.model_.config.max_len + 5)
        self.inputs = {"X": X}
        if self.preprocessor.time_step is not None:
            self.inputs["times"] = torch.zeros(len(X), X.shape[2])

    def traced(self) -> ExportedProgram:
        """Export the module for any number and length of series."""
        sizes = {name: {0: Dim.DYNAMIC, x.ndim - 1: Dim.DYNAMIC} for name, x in self.inputs.items()}
        return torch.export.export(
            self.eval(),
            tuple(self.inputs.values()),
            dynamic_shapes=sizes,
            # Sizes that cannot be proven are checked at run time instead of refused now.
            prefer_deferred_runtime_asserts_over_guards=True,
        )

    def forward(self, X: Tensor, times: Tensor | None = None) -> Tensor:
        """Compute class probabilities ``[n, K]``, or a prediction ``[n]``."""
        if times is not None:
            times = times.expand(X.shape[0], X.shape[2]).double()  # its sizes equal those of X
        values, mask, times = self.preprocessor(X.transpose(1, 2).double(), times)
        outputs = [model(values, mask, times).double() for model in self.models]
        if self.classifies:
            outputs = [out.softmax(dim=1) for out in outputs]
        mean = outputs[0] if len(outputs) == 1 else torch.stack(outputs).mean(dim=0)
        mean = mean.where(mask.any(dim=1, keepdim=True), torch.nan)
        if self.classifies:
            return mean.float()
        return mean[:, 0] * self.target_std + self.target_mean
