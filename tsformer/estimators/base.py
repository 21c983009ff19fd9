"""Base of the transformers: parameters, the steps of `fit`, predicting and saving."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from torch import Tensor

from tsformer._checks import one_of, options, read_fields, real, whole, with_parameters
from tsformer._precision import PRECISIONS, in_plain_torch
from tsformer._random import seeded
from tsformer._warnings import warn_caller
from tsformer.augmentation import Augmentation, AugmentationSpec
from tsformer.data.layout import check_ids
from tsformer.data.preprocessor import SCALINGS, Scaler, Vocabulary, make_difference, views_in
from tsformer.encodings import EncodingSpec
from tsformer.estimators import members
from tsformer.estimators.groups import hold_out
from tsformer.estimators.members import fitted_source, is_fitted, source_of, take_over
from tsformer.estimators.saving import by_name
from tsformer.estimators.series_estimator import (
    SeriesEstimator,
    TrainingData,
    fit_transform,
    get_feature_names_out,
)
from tsformer.estimators.settings import Settings, resolve, specified_augmentation
from tsformer.estimators.summary import Summary, layers_of
from tsformer.estimators.targets import Targets
from tsformer.model import TSTransformer
from tsformer.model.layers import HEAD_NORMS
from tsformer.model.stems import STEMS
from tsformer.model.transformer import POOLINGS
from tsformer.training import Callback, History, ProgressBar, Validation
from tsformer.training.loop import train_ensemble
from tsformer.training.progress import ProgressHint

HeadNorm = Annotated[str | None, one_of(*HEAD_NORMS, None)]
Scaling = Annotated[str | None, one_of("auto", *SCALINGS)]
_Flag = one_of(True, False)
_EPOCHS, _BEST_EPOCH = list[dict[str, float]], Annotated[int | None, whole(0, None)]


@with_parameters
class TransformerEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SeriesEstimator):
    """Base class of the transformers; subclasses define what targets are."""

    encoding: EncodingSpec = field(default="lspe", kw_only=False)
    encoding_params: Annotated[Mapping[str, Any] | None, options] = None
    stem: Annotated[str, one_of(*STEMS)] = "conv"
    stem_params: Annotated[Mapping[str, Any] | None, options] = None
    d_model: Annotated[int, whole(1)] = 64
    n_heads: Annotated[int, whole(1)] = 4
    n_layers: Annotated[int, whole(0)] = 2
    d_ff: Annotated[int | None, whole(1, None)] = None
    dropout: Annotated[float, real(0, 1, also=(0,))] = 0.1
    norm_first: Annotated[bool, _Flag] = True
    pooling: Annotated[str, one_of(*POOLINGS)] = "mean"
    head_norm: HeadNorm = "batch"
    scaling: Scaling = "auto"
    views: str = "auto"
    view_params: Annotated[Mapping[str, Any] | None, options] = None
    timestamps: Annotated[str | None, one_of(None, "index")] = None
    augmentation: AugmentationSpec | None = "auto"
    augmentation_params: Annotated[Mapping[str, Any] | None, options] = None
    init_from: Any = None
    freeze: Annotated[str | None, one_of(None, "backbone")] = None
    pretrained_lr_scale: Annotated[float, real(0)] = 1.0
    max_epochs: Annotated[int | str, whole(1, "auto")] = "auto"
    batch_size: Annotated[int | str, whole(1, "auto")] = "auto"
    learning_rate: Annotated[float | str, real(0, also=("auto",))] = "auto"
    weight_decay: Annotated[float, real(0, also=(0,))] = 0.05
    early_stopping: Annotated[bool | str, one_of("auto", True, False)] = "auto"
    validation_fraction: Annotated[float, real(0, 1)] = 0.1
    n_iter_no_change: Annotated[int | str, whole(1, "auto")] = "auto"
    n_estimators: Annotated[int, whole(1)] = 1
    n_jobs: Annotated[int | None, whole(1, -1, None)] = 1
    n_threads: Annotated[int | str, whole(1, "auto")] = "auto"
    callbacks: Sequence[Callback] | None = None
    warm_start: Annotated[bool, _Flag] = False
    device: str | torch.device = "auto"
    precision: Annotated[str, one_of(*PRECISIONS)] = "auto"
    compile: Annotated[bool | str, one_of("auto", True, False, "cuda-graphs")] = "auto"
    checkpoint_dir: str | Path | None = None
    checkpoint_minutes: Annotated[float, real(0, also=(0, np.inf))] = 10.0
    resume: Annotated[bool, _Flag] = False
    random_state: int | np.random.RandomState | None = None
    verbose: Annotated[int, whole(0, False, True)] = 0

    models_: list[TSTransformer] = field(init=False)
    histories_: list[History] = field(init=False)
    augmentation_: Augmentation | None = field(init=False)
    temperatures_: list[float] = field(init=False)
    #: The value of every parameter that may be "auto", in the last fit; not saved.
    settings_: Settings = field(init=False)

    ignores_targets: ClassVar = False
    #: Names of the weights that the last fit from scratch took from a source.
    _pretrained = frozenset[str]()
    # Parameters of the classifier.
    class_weight, label_smoothing, temperature = cast(Any, (None, 0.0, 1.0))
    #: Options of the conv stem with another default than the stem's own.
    conv_params: ClassVar[dict[str, Any]] = {}

    not_saved: ClassVar[dict[str, Any]] = {
        **SeriesEstimator.not_saved,
        **dict.fromkeys(("callbacks", "init_from", "checkpoint_dir")),
        "resume": False,
        "freeze": None,  # a refit without init_from cannot freeze
    }

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy with the same `init_from`: a fitted one stays fitted."""
        twin = super().__sklearn_clone__()
        if is_fitted(self.init_from):
            twin.init_from = self.init_from
        return twin

    def check_parameters(self) -> None:
        super().check_parameters()
        if not (isinstance(self.views, str) and self.views == "auto"):
            views_in(self.views)
        make_difference(self.view_params)
        augmentation = specified_augmentation(self)
        if augmentation is not None:
            augmentation.check(symbolic=self.stem == "embedding")
        folder, codes = self.checkpoint_dir, "n_codes" in (self.stem_params or {})
        for wrong, sentence in (
            (self.stem == "embedding" and codes, "stem_params must not contain n_codes of X"),
            (
                self.freeze is not None and self.init_from is None,
                f"freeze={self.freeze!r} needs init_from",
            ),
            (
                self.resume and (folder is None or self.random_state is None),
                "resume=True needs the checkpoint_dir and the random_state, an int, of the training"
                f" run that it continues; got {folder!r} and {self.random_state!r}",
            ),
        ):
            if wrong:
                raise ValueError(sentence)
        for name, values, kind in (
            ("checkpoint_dir must be a path or None", [folder or ""], (str, Path)),
            ("callbacks must be tsformer.training.Callback instances", self.callbacks, Callback),
        ):
            for value in values or ():
                if not isinstance(value, kind):
                    raise TypeError(f"{name}; got {value!r}")

    @in_plain_torch
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: npt.ArrayLike | None = None,
        groups: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        times: Any = None,
        times_val: Any = None,
    ) -> Self:
        """Fit on all of `X`, or on all but the part that `early_stopping` holds out.

        Parameters
        ----------
        X : ndarray (n, length) or (n, channels, length), or list of (channels, length) arrays
            Series; a list may hold series of different lengths. Also tensors, DataFrames, data sets
            and files; larger than memory, a `numpy.memmap`, the path of a ``.npy`` file or of a
            folder made by ``tsformer convert``, or an array read by slices: see
            ``docs/guide/large_data.md``. NaN marks a missing value: gaps are interpolated linearly
            and, if training has gaps, flagged in an additional channel; steps before the first
            value and after the last are masked.
        y : array-like (n,) or (n, columns)
            For a classifier, labels of any type that scikit-learn allows, or several labels of 0
            and 1 per series, NaN if unknown; for a regressor, finite numbers; ignored by an
            encoder.
        sample_weight : array-like (n,), optional
            Weight of each series, multiplied by its class weight; only ratios matter, and a series
            of weight 0 is left out.
        groups : array-like (n,), optional
            Group of each series, such as a person or machine. `early_stopping` and the choices of
            a classifier's "auto" hold out whole groups. Equal series are always one group.
        X_val, y_val : optional
            Validation data like `X` and `y`, scored after each epoch but never trained on. Unless
            ``early_stopping=False``, they decide when to stop.
        times, times_val : ndarray (length,) or (n, length), or list of (length,) arrays, optional
            Times of the steps, non-decreasing numbers or dates; regular steps by default. If `fit`
            gets times, predictions need times too. See also `timestamps`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For invalid arguments. The estimator stays unchanged.
        tsformer.training.NonFiniteLossError
            If the loss is not finite. The estimator has the weights of the last good epoch.
        """
        validation = {"X_val": X_val, "y_val": y_val, "times_val": times_val}
        y = None if self.ignores_targets else y  # pipelines pass labels to all steps
        continues = self.warm_start and hasattr(self, "models_")
        starts = self.init_from is not None and not continues
        with self._fitting(X, y, times=times, **validation) as (copied, observation):
            fitted: Self = copied
            source = source_of(self.init_from, TransformerEstimator) if starts else None
            seeds = members.seeds_of(self.random_state, self.n_estimators)
            arguments, weights = (X, y, sample_weight, groups, times), self.class_weight
            data = fitted._read_training(*arguments, class_weight=weights, reset=not continues)
            probe = members.probe_model(fitted, data.series)
            data, held_out = fitted._held_out(data, seeds[0].split, **validation)
            fitted.settings_ = resolve(
                fitted,
                data,
                fitted.target_,
                probe,
                validated=held_out is not None,
                source=source,
                earlier=fitted if continues else None,
            )
            fitted._make_models(data, source, seeds, continues=continues)
            job = fitted._training_job(data, held_out, seeds, observation.callbacks)
            # Before training, so that callbacks find a fitted estimator.
            self.__dict__ = fitted.__dict__
            try:
                train_ensemble(**job, n_jobs=self.n_jobs)
            finally:
                self._drop_untrained()
            if len(self.models_) < len(seeds):
                warn_caller(f"only {len(self.models_)} of {len(seeds)} members were trained")
            observation.interrupted = any(history.interrupted for history in self.histories_)
        return self

    def _training_job(
        self,
        data: TrainingData,
        held_out: TrainingData | None,
        seeds: list[members.Seeds],
        callbacks: Sequence[Callback],
    ) -> dict[str, Any]:
        """Record the facts of the fit; return the arguments of `train_ensemble`."""
        used = {**vars(self.settings_), "device": str(self.device_)}
        used["augmentation"] = self.augmentation_ and repr(self.augmentation_)
        del used["temperature"]  # members have their own
        self._record(
            data,
            used,
            validation_series=0 if held_out is None else len(held_out.series),
            initial_weights="pretrained" if self._pretrained else "",
        )
        validation = None
        if held_out is not None:  # its loss is weighted like the training loss
            panel, targets = (
                self.preprocessor_.panel(held_out.series),
                held_out.tensors()["targets"],
            )
            placed = panel.to(self.device_), targets.to(self.device_)
            weights = _normalised(held_out.weights, self.device_)
            validation = Validation(*placed, self.target_.score, weights)
        loss: Any = self.target_.loss
        if self.label_smoothing:
            loss = partial(loss, label_smoothing=self.label_smoothing)
        n, hint = self.n_estimators, self.n_jobs in (1, None) and not self.verbose
        labels = [f"member {i + 1} of {n}" if n > 1 else "" for i in range(n)]
        called = [*(self.callbacks or ([ProgressHint()] if hint else []))]
        bars = [[ProgressBar(label)] if self.verbose else [] for label in labels]
        return {
            "models": self.models_,
            "panel": self.preprocessor_.panel(data.series),
            "targets": torch.from_numpy(data.targets),
            "loss": loss,
            "plans": [members.plan_for(self, self._pretrained, s.training) for s in seeds],
            "weights": _normalised(data.weights),
            "validation": validation,
            "callbacks": [[*called, *bar, *callbacks] for bar in bars],
            "histories": self.histories_,
        }

    def _drop_untrained(self) -> None:
        """Keep the members with a finished epoch, or the first."""
        kept = [i for i, history in enumerate(self.histories_) if history] or [0]
        self.models_ = [self.models_[i] for i in kept]
        for model in self.models_:  # trained elsewhere, or not at all
            if model.training or next(model.parameters()).device != self.device_:
                model.to(self.device_).eval()
        self.histories_ = [self.histories_[i] for i in kept]
        if hasattr(self, "temperatures_"):
            self.temperatures_ = self.temperatures_[: len(kept)]

    def _held_out(
        self,
        data: TrainingData,
        seed: int,
        X_val: Any = None,
        y_val: Any = None,
        times_val: Any = None,
    ) -> tuple[TrainingData, TrainingData | None]:
        """Return the series to train on, and to validate with."""
        if X_val is not None:
            check_ids(X_val, y_val, "y_val", of="X_val")
            series = self._source(X_val, times_val)
            targets = self.target_.encode(y_val, "y_val", len(series), of="X_val")
            weights = self.target_.weights(None, targets, self.class_weight)
            return data, TrainingData(series, targets, weights)
        if y_val is not None or times_val is not None:
            raise ValueError("y_val and times_val need X_val, which is missing")
        if isinstance(self.early_stopping, str) or not self.early_stopping:
            return data, None
        # The same series for all members, so that they are unseen by the whole ensemble.
        strata = self.target_.strata(data.targets)
        chosen = hold_out(strata, self.validation_fraction, seed, data.groups)
        return data.part(~chosen), data.part(chosen)

    def _make_models(
        self, data: TrainingData, source: Any, seeds: list[members.Seeds], *, continues: bool
    ) -> None:
        """Fit the preprocessor and make the models, or check that those of a warm start fit."""
        settings = self.settings_
        self.device_, self.augmentation_ = settings.device, settings.augmentation
        if hasattr(self.target_, "classes"):
            self.temperatures_ = [settings.temperature] * len(seeds)
        if continues:
            members.check_continues(self, self._pretrained)
            self.histories_ = [History(earlier) for earlier in self.histories_]
            return
        scaler: Any = Scaler(settings.scaling, views=settings.views, view_params=self.view_params)
        made = Vocabulary() if self.stem == "embedding" else scaler
        self.preprocessor_ = made.fit(data.series)
        config = members.config_for(self, int(data.series.lengths.max()))
        self.models_, self.histories_ = [], [History() for _ in seeds]
        for seed in seeds:
            with seeded(seed.weights, members.CPU):
                self.models_.append(self.target_.make_model(config))
        self._pretrained = frozenset[str]()
        if source is not None:
            source = fitted_source(source, data.series, seeds[0].weights, data.groups)
            self._pretrained = take_over(self, source)
        directed = getattr(self.preprocessor_, "difference", None) is not None
        model = self.models_[0]
        blind = model.encoding.symmetric and model.stem.pointwise and not directed
        if blind and self.encoding != "none":  # "none" is chosen as a control
            warn_caller(
                f"encoding {self.encoding!r} sees only distances, and the {self.stem!r} stem "
                "single steps: this model cannot tell a series from its reverse. Use stem='conv', "
                f"or 'tape+{self.encoding}'"
            )

    @in_plain_torch
    def transform(self, X: Any, times: Any = None) -> npt.NDArray[np.float32]:
        """Compute embeddings of series: the pooled tokens that the head reads.

        Parameters
        ----------
        X, times : as in `fit`
            Series of any length, with the same channels; times if `fit` had times.

        Returns
        -------
        ndarray (n, n_estimators * d_model) of float32
            Embeddings of several members are concatenated: each has its own space.
        """
        embedded = np.concatenate(list(self._outputs(X, times, "embed")), axis=1)
        return self._by_series(X, embedded)

    fit_transform = fit_transform
    get_feature_names_out = get_feature_names_out

    @property
    def _n_features_out(self) -> int:
        return len(self.models_) * self.model_.config.d_model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = self.stem == "embedding"
        assert tags.transformer_tags is not None
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    model_ = property(lambda self: self.models_[0], doc="The torch module of the first member.")
    history_ = property(
        lambda self: members.mean_history(self.histories_),
        doc="The training history; for several members, the mean and the total seconds.",
    )
    n_iter_ = property(
        lambda self: max(1, *map(len, self.histories_)), doc="Most epochs trained of a member."
    )

    @property
    def estimators_(self) -> list[Self]:
        """Each member as a fitted estimator of its own, with ``n_estimators=1``, sharing its model.

        If `random_state` is an int, each has an int that reproduces the member in a separate fit.
        """
        fitted = []
        for i, (model, history) in enumerate(zip(self.models_, self.histories_, strict=True)):
            attributes = {"n_estimators": 1, "models_": [model], "histories_": [history]}
            attributes["random_state"] = members.member_state(self.random_state, i)
            if hasattr(self, "temperatures_"):
                attributes["temperatures_"] = [self.temperatures_[i]]
            member = object.__new__(type(self))
            member.__dict__.update(vars(self) | attributes)
            fitted.append(member)
        return fitted

    def _layout(self) -> tuple[pd.DataFrame, dict[str, int], dict[str, Summary]]:
        model, layers = self.model_, layers_of(self.model_)
        differs = getattr(self.preprocessor_, "difference", None) is not None
        sizes = {
            "parameters": int(layers["parameters"].sum()) * len(self.models_),
            "members": len(self.models_),
            "epochs": self.n_iter_,
            "steps": model.config.max_len,
            "tokens": model.max_tokens,
            # A difference reads the step before.
            "receptive field in steps": model.stem.receptive_field + differs,
        }
        return layers, sizes, {}

    def held_out_scores(self) -> dict[str, Any]:
        rows = [history.kept for history in self.histories_ if history]
        scores = super().held_out_scores()
        if rows and all("val_score" in row for row in rows):
            names = {self.target_.score_name: "val_score", "loss": "val_loss"}
            scores |= {f"validation {n}": fmean(row[k] for row in rows) for n, k in names.items()}
        return scores

    def describe_models(self) -> dict[str, Any]:
        # From the models, since parameters may have changed after the fit.
        first, *further = (
            {
                "model": vars(model.config) | {"encoding": by_name(model.config.encoding)},
                "history": list(history),
                **{name: getattr(history, name) for name in ("best_epoch", "interrupted")},
            }
            for model, history in zip(self.models_, self.histories_, strict=True)
        )
        return {**first, "members": further}

    def restore_models(
        self, described: dict[str, Any], saved: Sequence[Mapping[str, Tensor]]
    ) -> None:
        self.models_, self.histories_ = [], []
        for member, tensors in zip([described, *described["members"]], saved, strict=True):
            run = read_fields(member, history=_EPOCHS, best_epoch=_BEST_EPOCH, interrupted=bool)
            history = History(run.pop("history"))
            if any(not {"epoch", "seconds"} <= row.keys() for row in history):
                raise ValueError("history must have epoch and seconds in each row")
            vars(history).update(run)
            self.histories_.append(history)
            model = members.restored_model(
                member.get("model"), tensors, self.preprocessor_, self.target_
            )
            self.models_.append(model)


def _normalised(weights: Targets | None, device: str | torch.device = "cpu") -> Tensor | None:
    """Scale weights to mean 1; return None if all are equal."""
    # Scaling per batch would cancel class weights.
    if weights is None or np.ptp(weights) == 0:
        return None
    return torch.from_numpy(weights / weights.mean()).float().to(device)
