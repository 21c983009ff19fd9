"""TSTransformerEncoder: the transformer pretrained on series without labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tsformer import objectives
from tsformer._checks import options, read_fields, with_parameters
from tsformer._precision import in_plain_torch
from tsformer.augmentation import AugmentationSpec
from tsformer.data.preprocessor import Scaler, views_in
from tsformer.estimators.base import HeadNorm, Scaling, TrainingJob, TransformerEstimator
from tsformer.estimators.series import autocasts
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

    @property
    def n_outputs(self) -> int:
        return self.objective.n_outputs(self.n_channels)

    @property
    def purpose(self) -> str:
        return "Computes an embedding"

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
        A name from ``tsformer.encodings.names()``, a sum of names such as ``"tape+erpe"``, or an
        encoding of your own.
    objective : str, Objective, class or factory, default="masked"
        The pretraining objective: a name from ``tsformer.objectives.names()``, or your own.

        - "masked": reconstruct hidden spans of each channel [1]_; see
          `tsformer.objectives.Masked`.
        - "contrastive": attract the embeddings of two random views of a series, and repel other
          series in the batch [2]_; see `tsformer.objectives.Contrastive`. Only "contrastive" trains
          a pooling with weights and uses `head_norm`.
    objective_params : dict, optional
        Options of the objective, such as ``{"ratio": 0.3}``.
    encoding_params, stem, stem_params, d_model, n_heads, n_layers, d_ff, dropout, norm_first, \
    pooling, head_norm, scaling, views, view_params, timestamps, augmentation, \
    augmentation_params, init_from, freeze, pretrained_lr_scale, \
    max_epochs, batch_size, learning_rate, weight_decay, early_stopping, \
    validation_fraction, n_iter_no_change, n_estimators, n_jobs, n_threads, callbacks, \
    warm_start, device, precision, compile, checkpoint_dir, checkpoint_minutes, resume, \
    random_state, verbose
        As in `TSTransformerClassifier`, except for these defaults: `augmentation` and `head_norm`
        are None, and `scaling` is "channel", which "auto" means too. From 1000 series on, the
        automatic number of epochs makes 160000 series, and the automatic learning rate stays 0.002.

    Attributes
    ----------
    objective_ : Objective
        The objective of the training.
    n_features_in_, n_channels_, n_iter_, history_, preprocessor_, model_, models_, histories_, \
    estimators_, device_
        As in `TSTransformerClassifier`; the validation score is minus the validation loss. The
        embeddings of several members are concatenated.

    References
    ----------
    .. [1] Zerveas et al., "A Transformer-based Framework for Multivariate Time Series
       Representation Learning", KDD 2021. https://arxiv.org/abs/2010.02803
    .. [2] Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations",
       ICML 2020. https://arxiv.org/abs/2002.05709

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from tsformer import TSTransformerEncoder
    >>> X = np.random.default_rng(0).normal(size=(24, 1, 30))
    >>> encoder = TSTransformerEncoder(d_model=8, n_heads=2, max_epochs=2, random_state=0)
    >>> encoder.fit(X).transform(X).shape
    (24, 8)
    >>> make_pipeline(encoder, LogisticRegression()).fit(X, X[:, 0, 0] > 0).predict(X).shape
    (24,)
    """

    head_norm: HeadNorm = None
    scaling: Scaling = "channel"
    augmentation: AugmentationSpec | None = None
    objective: objectives.ObjectiveSpec = "masked"
    objective_params: Annotated[Mapping[str, Any] | None, options] = None

    target_: PretextTarget = field(init=False)
    conv_params = CONV_PARAMS

    def check_parameters(self) -> None:
        super().check_parameters()
        self._make_objective().check(symbolic=self.stem == "embedding")

    def _make_objective(self) -> objectives.Objective:
        return objectives.resolve(self.objective, **(self.objective_params or {}))

    def fit(  # type: ignore[override]  # there are no labels to validate with
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: npt.ArrayLike | None = None,
        groups: Any = None,
        X_val: Any = None,
        times: Any = None,
        times_val: Any = None,
    ) -> Self:
        """Fit as `TSTransformerClassifier.fit` does, without labels.

        Parameters
        ----------
        X, sample_weight, groups, times, times_val : as in `TSTransformerClassifier.fit`
        y : ignored
            For pipelines, which pass labels to all steps.
        X_val : like `X`, optional
            Validation series, on which the objective is scored after each epoch.

        Returns
        -------
        self
        """
        weights: dict[str, Any] = {"sample_weight": sample_weight, "groups": groups}
        return super().fit(X, None, **weights, X_val=X_val, times=times, times_val=times_val)

    @in_plain_torch
    def score(self, X: Any, y: Any = None, *, times: Any = None) -> float:
        """Compute minus the loss of the objective, as a mean over members.

        For "masked" it is minus the mean squared error of hidden values after scaling, the same
        values in every call: predicting the mean of each channel scores about -1. For "contrastive"
        it is minus the NT-Xent loss of batches of 16 series.

        Parameters
        ----------
        X, times : as in `transform`
            Unseen series.
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

    @property
    def objective_(self) -> objectives.Objective:
        """The objective of the training."""
        return self.target_.objective

    def _prepare(self, *args: Any, **kwargs: Any) -> TrainingJob:
        return replace(super()._prepare(*args, **kwargs), loss=self._pretext(self.model_))

    def _pretext(self, model: TSTransformer) -> objectives.Pretext:
        """Return the objective for the inputs of a model."""
        preprocessor, flagged, differenced = self.preprocessor_, (), False
        if isinstance(preprocessor, Scaler):
            flagged = tuple(preprocessor.gap_channels.tolist())
            differenced = len(views_in(preprocessor.views)) == 2
        layout = objectives.InputLayout(
            preprocessor.n_channels, differenced, flagged, model.stem.stride
        )
        return objectives.Pretext(self.objective_, layout)

    def restored_target(self, described: dict[str, Any]) -> PretextTarget:
        saved = read_fields(
            described.get("objective"), "objective", name=str, params=dict[str, Any]
        )
        objective = objectives.resolve(saved["name"], **saved["params"])
        return PretextTarget(objective, self.schema_.n_channels)
