"""TSTransformerRegressor: the transformer as a scikit-learn regressor."""

from dataclasses import field
from operator import attrgetter
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin

from tsformer._checks import one_of, with_parameters
from tsformer._precision import in_plain_torch
from tsformer.augmentation import AugmentationSpec
from tsformer.estimators import classification
from tsformer.estimators.base import TransformerEstimator
from tsformer.estimators.targets import Numbers
from tsformer.model.layers import HEAD_NORMS


@with_parameters
class TSTransformerRegressor(MultiOutputMixin, RegressorMixin, TransformerEstimator):
    """Time-series extrinsic regression: predict one or several numbers from each series.

    The model of `TSTransformerClassifier`, with an output for each target. It minimises the squared
    error of the targets, each scaled to mean 0 and standard deviation 1.

    Parameters
    ----------
    encoding : str, PositionalEncoding subclass or factory, default="lspe"
        A name from ``tsformer.encodings.names()``, a sum such as ``"tape+erpe"``, or your own.
    **parameters
        As in `TSTransformerClassifier`, except that `views` is "values", `augmentation` is None,
        and the stem has no residual layer. ``scaling="auto"`` is "channel" unless ridge regression
        on random convolutions predicts left-out series from "series" or "series+size" with a tenth
        less squared error. ``head_norm="auto"``, the default, is "batch" if this regression
        explains a third of the variance, and None otherwise.

    Attributes
    ----------
    target_mean_, target_std_ : float or ndarray (n_targets,)
        Mean and standard deviation of the training targets.
    n_iter_, history_, preprocessor_, model_, models_, histories_, estimators_, device_
        As in `TSTransformerClassifier`; the validation score is R².

    Examples
    --------
    >>> from tsformer import TSTransformerRegressor, load_dataset
    >>> X, _ = load_dataset("ItalyPowerDemand", split="train")
    >>> evening = X[:, 0, 18:].max(axis=1)
    >>> reg = TSTransformerRegressor(encoding="rope", max_epochs=5, random_state=0)
    >>> reg.fit(X[..., :18], evening).predict(X[:3, :, :18]).shape
    (3,)
    """

    head_norm: Annotated[str | None, one_of("auto", *HEAD_NORMS, None)] = "auto"
    views: str = "values"
    augmentation: AugmentationSpec | None = None

    target_: Numbers = field(init=False)

    @in_plain_torch
    def predict(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Predict the target of each series; for several members, the mean of their predictions.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n,) or (n, n_targets) of float64
        """
        outputs = self._outputs(X, times).astype(np.float64)
        return self.target_.decode(outputs).mean(axis=0)

    score = classification.score
    _learn_target = staticmethod(Numbers.learn)
    restored_target = staticmethod(Numbers.restored)

    target_mean_ = property(attrgetter("target_.mean"), doc="Mean of the training targets.")
    target_std_ = property(attrgetter("target_.std"), doc="Deviation of the training targets.")
