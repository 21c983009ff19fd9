"""RandomConvolutionClassifier: MiniRocket and Hydra features with a ridge, in scikit-learn."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from torch import Tensor

from tsformer._checks import one_of, read_fields, whole, with_parameters
from tsformer._devices import resolve_device
from tsformer._precision import in_plain_torch
from tsformer.data.preprocessor import Scaler
from tsformer.estimators import classification
from tsformer.estimators.saving import load_checked
from tsformer.estimators.series_estimator import (
    SeriesEstimator,
    TrainingData,
    drawn_seed,
    fit_transform,
    get_feature_names_out,
)
from tsformer.estimators.settings import (
    convolution_scaling,
    described_threads,
    fitted_convolutions,
)
from tsformer.estimators.summary import Summary, table_of
from tsformer.estimators.targets import LabelTarget, Targets
from tsformer.features.random_convolutions import regular
from tsformer.features.ridge import ConvolutionClassifier


@with_parameters
class RandomConvolutionClassifier(
    ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, SeriesEstimator
):
    """Time-series classifier: features of random convolutions, read by a ridge classifier.

    Kernels are sampled and never trained, and applied to the values and to their first differences
    [3]_. MiniRocket [1]_ features are the share of steps at which a kernel's response exceeds a
    bias; Hydra [2]_ features are how often and how strongly a kernel has the largest response of
    its group. Leave-one-out chooses the penalty of the ridge. Series may differ in length, and gaps
    are interpolated; for codes use ``TSTransformerClassifier(stem="embedding")``.

    Parameters
    ----------
    n_features : int, default=10000
        Number of MiniRocket features, rounded down to a multiple of 168, half of them from
        differences. 0 disables MiniRocket.
    n_groups : int, default=64
        Number of groups of Hydra kernels, even, half of them on differences. 0 disables Hydra.
    scaling : {"auto", "series", "channel", None}, default="auto"
        Standardisation of each channel: "series" within each series, "channel" over all training
        series, None not at all. "auto" compares the leave-one-out cross-entropy of "series" and
        "channel" with an eighth of the features, unless the series are already standardised.
    timestamps, class_weight, device, n_threads : default=None, None, "auto", "auto"
        As in `TSTransformerClassifier`.
    random_state : int, RandomState or None, default=None
        Seed of kernels, channels and biases, as in `TSTransformerClassifier`.

    Attributes
    ----------
    classes_, n_features_in_, n_channels_, device_
        As in `TSTransformerClassifier`.
    preprocessor_ : tsformer.data.preprocessor.Scaler
        The fitted scaling; its attribute `scaling` is the choice.
    model_ : tsformer.features.ridge.ConvolutionClassifier
        The fitted torch module.

    References
    ----------
    .. [1] Dempster, Schmidt and Webb, "MiniRocket: a very fast (almost) deterministic transform
       for time series classification", KDD 2021. https://arxiv.org/abs/2012.08791
    .. [2] Dempster, Schmidt and Webb, "Hydra: competing convolutional kernels for fast and
       accurate time series classification", DMKD 37, 2023. https://arxiv.org/abs/2203.13652
    .. [3] Tan, Dempster, Bergmeir and Webb, "MultiRocket: multiple pooling operators and
       transformations for fast and effective time series classification", DMKD 36, 2022.
       https://arxiv.org/abs/2102.00457

    Examples
    --------
    >>> from tsformer import RandomConvolutionClassifier, load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> clf = RandomConvolutionClassifier(random_state=0).fit(X, y)
    >>> clf.predict_proba(X[:3]).shape
    (3, 2)
    """

    n_features: Annotated[int, whole(168, 0)] = field(default=10_000, kw_only=False)
    n_groups: Annotated[int, whole(2, 0)] = 64
    scaling: Annotated[str | None, one_of("auto", "series", "channel", None)] = "auto"
    timestamps: Annotated[str | None, one_of(None, "index")] = None
    class_weight: Mapping[Any, float] | str | None = None
    device: str | torch.device = "auto"
    n_threads: Annotated[int | str, whole(1, "auto")] = "auto"
    random_state: int | np.random.RandomState | None = None

    models_: list[ConvolutionClassifier] = field(init=False)
    target_: LabelTarget = field(init=False)

    masks_unknown = False
    default_method = "occlusion"

    classes_ = property(classification.classes)
    decision_function = classification.decision_function
    predict = classification.predict
    score = classification.score
    explain = classification.explain
    calibrate_sets = classification.calibrate_sets
    predict_set = classification.predict_set
    restored_target = classification.restored_target
    _learn_target = classification.learn_target
    _panel = staticmethod(lambda scaler, series: regular(scaler.transform(series), warn=True))

    @in_plain_torch
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: npt.ArrayLike | None = None,
        groups: Any = None,
        times: Any = None,
    ) -> Self:
        """Draw kernels, compute features and fit the ridge classifier to them.

        Parameters
        ----------
        X, y, sample_weight, times : as in `TSTransformerClassifier.fit`
            Series, read into memory, and labels. Series with times are interpolated linearly at
            regular steps, a median interval of training apart, and wider for long pauses.
        groups : array-like (n,), optional
            Group of each series, such as a person. Penalty, temperature and scaling are chosen by
            leaving out whole groups; if all series are in one group, single series.

        Returns
        -------
        self
        """
        with self._fitting(X, y, times=times) as (copied, _):
            fitted: Self = copied
            arguments = X, y, sample_weight, groups, times
            fitted._learn(fitted._read_training(*arguments, class_weight=fitted.class_weight))
            self.__dict__ = fitted.__dict__
        return self

    def _learn(self, data: TrainingData) -> None:
        """Fit this estimator in place."""
        self.device_ = resolve_device(self.device)
        series, seed = data.series.padded(), drawn_seed(self.random_state)
        options: dict[str, Any] = {"kind": self.target_, "seed": seed, "device": self.device_}
        sizes = {"n_features": self.n_features, "n_groups": self.n_groups}
        scaling = convolution_scaling(self.scaling, data, **options | sizes)
        self.preprocessor_ = Scaler(scaling, gap_flag=None).fit(series)
        panel = self._panel(self.preprocessor_, series)
        model = fitted_convolutions(panel, data, **options | sizes)
        self.models_, self._repeated = [model.to(self.device_).eval()], data.repeated
        grouped = data.groups is not None and len(np.unique(data.groups)) > 1
        by = "leaving out " + ("groups" if grouped else "single series")
        assert model.ridge.left_out is not None
        proba, known = model.ridge.left_out
        accuracy = float(self.target_.correct(proba.logit(), known).double().mean())
        scores = {f"accuracy, {by}": accuracy, f"cross-entropy, {by}": float(model.ridge.loss)}
        used: dict[str, Any] = {"scaling": self.preprocessor_.scaling}
        used["device"] = str(self.device_)
        used["n_threads"] = described_threads(self.n_threads)
        self._record(data, used)
        self.facts_ = {**self.facts_, "scores": scores}

    def check_parameters(self) -> None:
        super().check_parameters()
        if not self.n_features and not self.n_groups:
            raise ValueError("n_features and n_groups must not both be 0")
        if self.n_groups % 2:
            raise ValueError(f"n_groups must be even; got {self.n_groups}")

    @property
    def model_(self) -> ConvolutionClassifier:
        """The fitted torch module."""
        return self.models_[0]

    @in_plain_torch
    def transform(self, X: Any, times: Any = None) -> npt.NDArray[np.float32]:
        """Compute the scaled features of series.

        Parameters
        ----------
        X, times : as in `fit`
            Series of any length, with the same channels; times if `fit` had times.

        Returns
        -------
        ndarray (n, n_features_out) of float32
        """
        return self._by_series(X, self._outputs(X, times, "embed")[0])

    fit_transform = fit_transform
    get_feature_names_out = get_feature_names_out

    @property
    def _n_features_out(self) -> int:
        return len(self.model_.ridge.coef)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        assert tags.transformer_tags is not None
        tags.transformer_tags.preserves_dtype = ["float32"]
        assert tags.classifier_tags is not None
        tags.classifier_tags.multi_label = True
        return tags

    @in_plain_torch
    def predict_proba(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Compute the probability of each class or label, in the order of `classes_`.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n, n_classes) of float64
            Rows sum to 1, unless there are several labels per series.
        """
        logits = torch.from_numpy(self.logits(X, times)).double()
        return self.target_.probabilities(logits).numpy()

    def logits(self, X: Any, times: Any = None) -> npt.NDArray[np.floating[Any]]:
        """Return the logits of all classes, ndarray ``(n, n_classes)``."""
        return self._outputs(X, times)[0]

    def left_out(self) -> tuple[npt.NDArray[Any], Targets]:
        """Return leave-one-out probabilities and classes of the training series."""
        ridge = self.model_.ridge
        if ridge.left_out is None:
            raise ValueError("leave-one-out predictions are not saved; call calibrate_sets(X, y)")
        proba, targets = ridge.left_out
        assert self._repeated is not None
        kept = ~self._repeated[ridge.sampled]  # equal series are one series to calibrate with
        return proba.numpy()[kept], targets.numpy()[kept]

    def _layout(self) -> tuple[pd.DataFrame, dict[str, int], dict[str, Summary]]:
        n_features, n_classes = self.model_.ridge.coef.shape
        size = (n_features + 1) * n_classes
        rows = [("convolutions", "random, not trained", f"{n_features}", 0)]
        rows.append(("ridge", "linear", f"{n_classes}", size))
        return table_of(rows), {"parameters": size}, {}

    def describe_models(self) -> dict[str, Any]:
        made = self.model_.convolutions  # parameters may have changed after the fit
        return {"convolutions": {"n_features": made.n_features, "n_groups": made.n_groups}}

    def restore_models(
        self, described: dict[str, Any], saved: Sequence[Mapping[str, Tensor]]
    ) -> None:
        kinds = dict.fromkeys(("n_features", "n_groups"), Annotated[int, whole(0)])
        sizes = read_fields(described["convolutions"], "convolutions", **kinds)
        model = ConvolutionClassifier(**sizes).eval()
        load_checked(model, saved[0])
        model.check(self.preprocessor_.n_inputs, self.target_)
        self.models_ = [model]
