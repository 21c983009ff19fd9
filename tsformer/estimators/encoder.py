"""TSTransformerEncoder: the transformer pretrained on series without labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tsformer import objectives
from tsformer._checks import options, read_fields, with_parameters
from tsformer._precision import in_plain_torch
from tsformer.augmentation import AugmentationSpec
from tsformer.data.preprocessor import Scaler, views_in
from tsformer.estimators.base import HeadNorm, Scaling, TransformerEstimator
from tsformer.estimators.series_estimator import autocasts
from tsformer.estimators.settings import CONV_PARAMS
from tsformer.estimators.targets import Target, Targets
from tsformer.model import ModelConfig, TSTransformer
from tsformer.training.inference import pretext_losses


@dataclass(frozen=True, eq=False)
class PretextTarget(Target):
    """The objective of pretraining, which needs no targets."""

    objective: objectives.Objective
    n_channels: int
    pretext: ClassVar = True
    purpose: ClassVar = "Computes an embedding"

    @property
    def n_outputs(self) -> int:
        return self.objective.n_outputs(self.n_channels)

    def describe(self) -> dict[str, Any]:
        name, params = self.objective.saved()
        return {"objective": {"name": name, "params": params}}

    def encode(self, y: Any, name: str, n_series: int, *, of: str = "X") -> Targets:
        return np.zeros(n_series, dtype=np.float32)

    def make_model(self, config: ModelConfig) -> TSTransformer:
        return objectives.PretrainingTransformer(config, self.objective)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs

    def score(self, outputs: Tensor, targets: Tensor) -> float:
        return -outputs.mean().item()


@with_parameters
class TSTransformerEncoder(TransformerEstimator):
    """Embeddings of time series, learned without labels.

    The model of `TSTransformerClassifier` with the head of a pretraining objective. `transform`
    returns the pooled embeddings; ``TSTransformerClassifier(init_from=encoder)`` starts from the
    weights.

    Parameters
    ----------
    encoding : str, PositionalEncoding subclass or factory, default="lspe"
        A name from ``tsformer.encodings.names()``, a sum such as ``"tape+erpe"``, or your own.
    objective : str, Objective, class or factory, default="masked"
        "masked" reconstructs hidden spans of each channel [1]_; "contrastive" attracts two random
        views of a series and repels other series of the batch [2]_, and alone trains a pooling with
        weights and uses `head_norm`; or your own. See `tsformer.objectives`.
    objective_params : dict, optional
        Options of the objective, such as ``{"ratio": 0.3}``.
    **parameters
        As in `TSTransformerClassifier`, except that `augmentation` and `head_norm` are None, and
        `scaling` is "channel", which "auto" means too. From 1000 series on, the automatic number of
        epochs makes 160000 series, and the automatic learning rate stays 0.002.

    Attributes
    ----------
    objective_ : Objective
        The objective of the training.
    n_iter_, history_, preprocessor_, model_, models_, histories_, estimators_, device_
        As in `TSTransformerClassifier`; the validation score is minus the validation loss.

    References
    ----------
    .. [1] Zerveas et al., KDD 2021. https://arxiv.org/abs/2010.02803
    .. [2] Chen et al., "SimCLR", ICML 2020. https://arxiv.org/abs/2002.05709

    Examples
    --------
    >>> from tsformer import TSTransformerEncoder
    >>> X = np.random.default_rng(0).normal(size=(24, 1, 30))
    >>> encoder = TSTransformerEncoder(d_model=8, n_heads=2, max_epochs=2, random_state=0)
    >>> encoder.fit(X).transform(X).shape
    (24, 8)
    """

    head_norm: HeadNorm = None
    scaling: Scaling = "channel"
    augmentation: AugmentationSpec | None = None
    objective: objectives.ObjectiveSpec = "masked"
    objective_params: Annotated[Mapping[str, Any] | None, options] = None

    target_: PretextTarget = field(init=False)
    ignores_targets = True
    conv_params = CONV_PARAMS

    def check_parameters(self) -> None:
        super().check_parameters()
        self._make_objective().check(symbolic=self.stem == "embedding")

    def _make_objective(self) -> objectives.Objective:
        return objectives.resolve(self.objective, **(self.objective_params or {}))

    @in_plain_torch
    def score(self, X: Any, y: Any = None, *, times: Any = None) -> float:
        """Compute minus the loss of the objective, as a mean over members.

        For "masked" it is minus the mean squared error of hidden values after scaling, the same in
        every call; for "contrastive" minus the NT-Xent loss of batches of 16 series.

        Parameters
        ----------
        X, times : as in `transform`
        y : ignored

        Returns
        -------
        float
        """
        series = self._source(X, times)
        panel = self.preprocessor_.panel(series).to(self.device_)
        losses = [
            pretext_losses(model, panel, self._pretext(model), bfloat16=autocasts(self)).mean()
            for model in self.models_
        ]
        return -float(torch.stack(losses).mean())

    def _learn_target(self, y: Any, sample_weight: Any) -> PretextTarget:
        return PretextTarget(self._make_objective(), self.n_channels_)

    objective_ = property(attrgetter("target_.objective"), doc="The objective of the training.")

    def _training_job(self, *args: Any) -> dict[str, Any]:
        return super()._training_job(*args) | {"loss": self._pretext(self.model_)}

    def _pretext(self, model: TSTransformer) -> objectives.Pretext:
        """Return the objective for the inputs of a model."""
        flagged, differenced = (), False
        if isinstance(scaler := self.preprocessor_, Scaler):
            flagged = tuple(scaler.gap_channels.tolist())
            differenced = len(views_in(scaler.views)) == 2
        n_channels, stride = self.n_channels_, model.stem.stride
        layout = objectives.InputLayout(n_channels, differenced, flagged, stride)
        return objectives.Pretext(self.objective_, layout)

    def restored_target(self, described: dict[str, Any]) -> PretextTarget:
        saved = read_fields(
            described.get("objective"), "objective", name=str, params=dict[str, Any]
        )
        objective = objectives.resolve(saved["name"], **saved["params"])
        return PretextTarget(objective, self.schema_.n_channels)
