"""From the outputs of a classifier's models to probabilities and labels."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tsformer.estimators.outputs import Outputs

__all__ = ["Probabilities"]


class Probabilities(Outputs):
    """Mixin: what a classifier predicts, of one model or of several averaged."""

    classes_: npt.NDArray[Any]

    def decision_function(self, X: Any, times: Any = None) -> npt.NDArray[np.floating[Any]]:
        """Compute logits; of several members, the logarithms of their mean probabilities.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n, n_classes), or (n,) for two classes: the second logit less the first
        """
        logits = self._logits(X, times)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Compute the probability of each class, in the order of `classes_`.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n, n_classes) of float64, rows sum to 1
        """
        return self.predict_proba_members(X, times).mean(axis=0)

    def predict_proba_members(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Compute the probability of each class by each member.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n_estimators, n, n_classes) of float64
            In the order of `estimators_`; their mean is `predict_proba`.
        """
        return torch.from_numpy(self._outputs(X, times)).double().softmax(dim=-1).numpy()

    def predict(self, X: Any, times: Any = None) -> npt.NDArray[Any]:
        """Predict the class of each series.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n,) of labels
        """
        best = self._logits(X, times).argmax(axis=1)
        return self.classes_[best]

    def _logits(self, X: Any, times: Any) -> npt.NDArray[np.floating[Any]]:
        outputs = self._outputs(X, times)
        if len(outputs) == 1:
            return outputs[0]
        # By logarithms throughout: a probability too small for a float has one.
        logs = torch.from_numpy(outputs).double().log_softmax(dim=-1)
        return (logs.logsumexp(dim=0) - log(len(outputs))).numpy()
