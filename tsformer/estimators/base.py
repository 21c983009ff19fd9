"""Base of the transformers: parameters, the steps of `fit`, predicting and saving."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from torch import Tensor

from tsformer._checks import one_of, options, real, whole, with_parameters
from tsformer._devices import resolve_device
from tsformer._precision import PRECISIONS, in_plain_torch, resolve_precision
from tsformer._random import seeded
from tsformer._warnings import warn_caller
from tsformer.augmentation import Augmentation, AugmentationSpec
from tsformer.data.layout import check_ids
from tsformer.data.panel import AnyPanel
from tsformer.data.preprocessor import SCALINGS, Scaler, Vocabulary, make_difference, views_in
from tsformer.data.series import SeriesSource
from tsformer.encodings import EncodingSpec, names
from tsformer.estimators.loading import fitted_source, is_fitted, source_of, take_over
from tsformer.estimators.saved import Member, check_model, load_checked, read
from tsformer.estimators.saving import by_name
from tsformer.estimators.series import (
    SeriesEstimator,
    TrainingData,
    drawn_seed,
    fit_transform,
    get_feature_names_out,
)
from tsformer.estimators.settings import (
    Settings,
    is_auto,
    resolve,
    specified_augmentation,
    views_for,
)
from tsformer.estimators.summary import Summary, layers_of
from tsformer.estimators.targets import Targets, hold_out
from tsformer.model import ModelConfig, TSTransformer
from tsformer.model.layers import HEAD_NORMS
from tsformer.model.stems import STEMS
from tsformer.model.transformer import POOLINGS
from tsformer.objectives import Pretext
from tsformer.training import (
    Callback,
    History,
    NonFiniteLossError,
    ProgressBar,
    TrainingPlan,
    Validation,
)
from tsformer.training.loop import train_ensemble
from tsformer.training.plan import Pretrained, check_graphs
from tsformer.training.progress import ProgressHint
from tsformer.training.step import Loss

#: Seeds of the weights, the training run and the validation split.
MemberSeeds = tuple[int, int, int]

#: Distinguishes the seed of a source fitted in `fit` from the seeds of members.
_PRETRAINING = 2**20

HeadNorm = Annotated[str | None, one_of(*HEAD_NORMS, None)]
Scaling = Annotated[str | None, one_of("auto", *SCALINGS)]
_Flag = one_of(True, False)

#: Parameters that the model's configuration has under the same names.
_CONFIG = ("encoding", "stem", "d_model", "n_heads", "n_layers", "d_ff", "dropout", "pooling")


@dataclass
class TrainingJob:
    """The arguments of `train_ensemble` that depend on the data."""

    models: list[TSTransformer]
    panel: AnyPanel
    targets: Tensor
    loss: Loss | Pretext
    plans: list[TrainingPlan]
    weights: Tensor | None
    validation: Validation | None
    callbacks: list[list[Callback]]
    histories: list[History]


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
    #: The value of every parameter that may be "auto", in the last fit; not saved.
    settings_: Settings = field(init=False)

    #: Names of the weights that the last fit from scratch took from a source.
    _pretrained = frozenset[str]()
    #: Options of the conv stem with another default than the stem's own.
    _conv_params: ClassVar[dict[str, Any]] = {}

    not_saved: ClassVar[dict[str, Any]] = {
        "callbacks": None,
        "init_from": None,
        "device": "auto",
        "n_threads": "auto",
        "checkpoint_dir": None,
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
        views_in(views_for(self.views, self.stem))
        make_difference(self.view_params)
        augmentation = specified_augmentation(self)
        if augmentation is not None:
            augmentation.check(symbolic=self.stem == "embedding")
        if self.stem == "embedding" and "n_codes" in (self.stem_params or {}):
            raise ValueError("stem_params must not contain n_codes: fit counts the codes in X")
        if self.freeze is not None and self.init_from is None:
            raise ValueError(
                f"freeze={self.freeze!r} freezes weights from init_from, but init_from is None; "
                "set init_from"
            )
        if self.checkpoint_dir is not None and not isinstance(self.checkpoint_dir, (str, Path)):
            raise TypeError(f"checkpoint_dir must be a path or None; got {self.checkpoint_dir!r}")
        if self.resume and (self.checkpoint_dir is None or self.random_state is None):
            missing = "checkpoint_dir" if self.checkpoint_dir is None else "random_state, an int"
            raise ValueError(
                f"resume=True continues from the checkpoint of the same training run; set {missing}"
            )
        for callback in self.callbacks or ():
            if not isinstance(callback, Callback):
                raise TypeError(
                    f"callbacks must be tsformer.training.Callback instances; got {callback!r}"
                )

    @property
    def _class_weight(self) -> Any:
        """The class weights, of a classifier."""
        return getattr(self, "class_weight", None)

    def _loss(self) -> Loss | Pretext:
        """Return the loss of training."""
        return self.target_.loss

    @in_plain_torch
    def fit(
        self,
        X: Any,
        y: Any,
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
            Series; a list may hold series of different lengths. Also tensors, lists of (length,
            channels) DataFrames, DataFrames with two index levels (series, step) and DataFrames
            with a series in each cell. Larger than memory: a `numpy.memmap`, the path of a ``.npy``
            file, of Parquet or of a folder made by ``tsformer convert``, an array that is read by
            slices, or a data set of items; see ``docs/guide/large_data.md``. NaN marks a missing
            value: gaps are interpolated linearly and, if the training series have gaps, flagged in
            an additional channel; steps before the first value and after the last are masked. A
            `tsformer.data.LayoutWarning` reports arrays that look like ``(n, length, channels)``
            and long tables.
        y : array-like (n,) or (n, columns)
            For a classifier, labels of any type that scikit-learn allows, or several labels of 0
            and 1 per series, NaN if unknown; for a regressor, finite numbers.
        sample_weight : array-like (n,), optional
            Weight of each series, multiplied by its class weight; only ratios matter, and a series
            of weight 0 is left out.
        groups : array-like (n,), optional
            Group of each series, such as a person or machine. `early_stopping` holds out whole
            groups, and so do ``scaling="auto"`` and ``augmentation="auto"`` of a classifier. Equal
            series are always one group.
        X_val, y_val : optional
            Validation data like `X` and `y`, scored after each epoch. Unless
            ``early_stopping=False``, they decide when to stop. Models are never trained on them.
        times : ndarray (length,) or (n, length), or list of (length,) arrays, optional
            Times of the steps, non-decreasing numbers or dates; regular steps by default. If
            `fit` gets times, predictions need times too. See also `timestamps`.
        times_val : like `times`, optional
            The times of `X_val`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For invalid arguments. The estimator stays unchanged.
        tsformer.training.NonFiniteLossError
            If the loss is not finite. The estimator is fitted, with the weights of the last good
            epoch.
        """
        validation = {"X_val": X_val, "y_val": y_val, "times_val": times_val}
        with self._fitting(X, y, times=times, **validation) as (copied, observation):
            fitted: Self = copied
            job = fitted._prepare(X, y, sample_weight, groups, times, **validation)
            self._adopt(fitted)  # before training, so that callbacks find a fitted estimator
            for own in job.callbacks:
                own += observation.callbacks
            self._train(job)
            self._warn_of_untrained(job)
            observation.interrupted = any(each.interrupted for each in self.histories_)
        return self

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        groups: Any = None,
        times: Any = None,
        **validation: Any,
    ) -> TrainingJob:
        """Do all of `fit` except training."""
        reset = not (self.warm_start and hasattr(self, "models_"))
        source = None
        if reset and self.init_from is not None:
            source = source_of(self.init_from, TransformerEstimator)
        seeds = self._seeds()

        data = self._read_training(
            X, y, sample_weight, groups, times, class_weight=self._class_weight, reset=reset
        )
        probe = self.check_model(data.series)
        given = self._read_validation(**validation)
        data, held_out = self._hold_out(data, given, seeds[0][2])
        self.settings_ = resolve(
            self,
            data,
            self.target_,
            probe,
            validated=held_out is not None,
            source=source,
            fitted=None if reset else self,
        )
        self.device_, self.augmentation_ = self.settings_.device, self.settings_.augmentation
        if reset:
            names = self._make_models(data, source, seeds)
            self._pretrained = names[0]  # all members have the same
        else:
            self._check_same_shape()
            names = [self._pretrained] * len(self.models_)
            self.models_ = list(self.models_)
            self.histories_ = [History(earlier) for earlier in self.histories_]
        self._set_temperatures()
        plans = [
            self._plan(own, training_seed)
            for own, (_, training_seed, _) in zip(names, seeds, strict=True)
        ]
        self._learn_novelty(data)
        self._record(
            data,
            validation_series=0 if held_out is None else len(held_out),
            initial_weights="pretrained" if any(names) else "",
        )
        progress = [ProgressHint()] if self.n_jobs in (1, None) and not self.verbose else []
        return TrainingJob(
            models=self.models_,
            panel=self.preprocessor_.panel(data.series),
            targets=torch.from_numpy(data.targets),
            loss=self._loss(),
            plans=plans,
            weights=_normalised(data.weights),
            validation=None if held_out is None else self._validation(held_out),
            callbacks=[
                [*(self.callbacks or progress), *([ProgressBar(name)] if self.verbose else ())]
                for name in (
                    f"member {i + 1} of {self.n_estimators}" if self.n_estimators > 1 else ""
                    for i in range(self.n_estimators)
                )
            ],
            histories=self.histories_,
        )

    def check_model(self, series: SeriesSource) -> TSTransformer:
        """Make an unused model of the size: wrong options fail before any fit."""
        check_graphs(self.compile, resolve_device(self.device))
        codes = {"n_codes": 1} if self.stem == "embedding" else {}
        config = self._model_config(
            int(series.lengths.max()),
            n_channels=series.n_channels,
            n_outputs=1,
            stem_params=codes,
            head_norm=None,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the trained model issues them again
            return self._drawn_model(config, 0)

    def _hold_out(
        self, data: TrainingData, given: TrainingData | None, seed: int
    ) -> tuple[TrainingData, TrainingData | None]:
        """Hold out series for validation."""
        if given is not None or is_auto(self.early_stopping) or not self.early_stopping:
            return data, given
        # The same series for all members, so that they are unseen by the whole ensemble.
        strata = self.target_.strata(data.targets)
        chosen = hold_out(strata, self.validation_fraction, seed, data.groups)
        return data.part(~chosen), data.part(chosen)

    def _make_models(
        self, data: TrainingData, source: Any, seeds: list[MemberSeeds]
    ) -> list[frozenset[str]]:
        """Fit the preprocessor, make the models, return names of pretrained weights."""
        settings = self.settings_
        made = (
            Vocabulary()
            if self.stem == "embedding"
            else Scaler(settings.scaling, views=settings.views, view_params=self.view_params)
        )
        self.preprocessor_ = made.fit(data.series)
        config = self._model_config(int(data.series.lengths.max()))
        self.models_ = [self._drawn_model(config, weights_seed) for weights_seed, _, _ in seeds]
        self.histories_ = [History() for _ in self.models_]
        pretrained: list[frozenset[str]] = [frozenset()] * len(seeds)
        if source is not None:
            seed = _derived(seeds[0][0], _PRETRAINING)
            pretrained = self._take_over(fitted_source(source, data.series, seed, data.groups))
        self._warn_if_blind(self.models_[0])
        return pretrained

    def _take_over(self, source: Any) -> list[frozenset[str]]:
        """Copy the weights of a fitted source; return their names."""
        taken = [
            take_over(
                model,
                self.preprocessor_,
                source.models_[member % len(source.models_)],
                source.preprocessor_,
            )
            for member, model in enumerate(self.models_)
        ]
        for message in sorted({message for _, messages in taken for message in messages}):
            warn_caller(message)
        ours, theirs = (list(getattr(each, "feature_names_in_", ())) for each in (self, source))
        if ours != theirs and sorted(ours) == sorted(theirs):
            warn_caller(
                f"init_from was fitted to {theirs[:10]}, and X has the order {ours[:10]}: its "
                "weights read other channels than in training; pass X in the same order"
            )
        return [names for names, _ in taken]

    def _plan(self, pretrained: frozenset[str], seed: int) -> TrainingPlan:
        """Return the plan of a member."""
        settings, names = self.settings_, pretrained
        scale, frozen = float(self.pretrained_lr_scale), self.freeze == "backbone"
        return TrainingPlan(
            n_epochs=settings.max_epochs,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            weight_decay=self.weight_decay,
            augmentation=settings.augmentation,
            pretrained=Pretrained(names, scale, frozen=frozen) if names else None,
            n_iter_no_change=settings.n_iter_no_change,
            device=settings.device,
            bfloat16=settings.precision == "bfloat16",
            compile=settings.compile,
            seed=seed,
            design=self._design(),
            checkpoint_dir=None if self.checkpoint_dir is None else Path(self.checkpoint_dir),
            checkpoint_minutes=float(self.checkpoint_minutes),
            resume=bool(self.resume),
        )

    def _design(self) -> str:
        """Return the parameters of model and loss, without addresses in memory."""
        encoding: Any = self.encoding
        if not isinstance(encoding, str):
            encoding = getattr(encoding, "__qualname__", type(encoding).__qualname__)
        return repr(replace(self.model_.config, encoding=encoding))

    def _set_temperatures(self) -> None:
        """Set the temperatures of a classifier."""

    def _train(self, job: TrainingJob) -> None:
        """Train the models of a job; drop untrained members."""
        self.facts_ = {**self.facts_, "used": self.settings_.as_used()}
        try:
            train_ensemble(**vars(job), n_jobs=self.n_jobs)
        finally:
            self._drop_untrained()

    def _warn_of_untrained(self, job: TrainingJob) -> None:
        """Warn of dropped members."""
        if len(self.models_) < len(job.models):
            warn_caller(
                f"only {len(self.models_)} of {len(job.models)} members were trained; the others "
                "were dropped"
            )

    def _learned_before(self, error: BaseException) -> bool:
        return isinstance(error, NonFiniteLossError) or any(self.histories_)

    def _read_validation(
        self, X_val: Any = None, y_val: Any = None, times_val: Any = None
    ) -> TrainingData | None:
        if X_val is None:
            if y_val is not None:
                raise ValueError("X_val and y_val go together; X_val is missing")
            if times_val is not None:
                raise ValueError("times_val are the times of X_val, which is missing")
            return None
        check_ids(X_val, y_val, "y_val", of="X_val")
        series = self._source(X_val, times_val)
        targets = self.target_.encode(y_val, "y_val", len(series), of="X_val")
        weights = self.target_.weights(None, targets, self._class_weight)
        return TrainingData(series, targets, weights)

    def _validation(self, data: TrainingData) -> Validation:
        panel = self.preprocessor_.panel(data.series).to(self.device_)
        # The validation loss is weighted like the training loss.
        weights = _normalised(data.weights)
        return Validation(
            panel,
            torch.from_numpy(data.targets).to(self.device_),
            self.target_.score,
            None if weights is None else weights.to(self.device_),
        )

    def _model_config(self, max_len: int, **sizes: Any) -> ModelConfig:
        """Return the configuration for the outputs of `preprocessor_`, or for `sizes`."""
        if not sizes:
            sizes = {
                "n_channels": self.preprocessor_.n_inputs,
                "n_outputs": self.target_.n_outputs,
                "stem_params": self.preprocessor_.stem_params(),
                "head_norm": self.settings_.head_norm,
            }
        default = self._conv_params if self.stem == "conv" else {}
        sizes["stem_params"] = {**default, **(self.stem_params or {}), **sizes["stem_params"]}
        return ModelConfig(
            max_len=max_len,
            encoding_params=dict(self.encoding_params or {}),
            norm_first=bool(self.norm_first),
            **{name: getattr(self, name) for name in _CONFIG},
            **sizes,
        )

    def _make_model(self, config: ModelConfig) -> TSTransformer:
        return TSTransformer(config)

    def _drawn_model(self, config: ModelConfig, seed: int) -> TSTransformer:
        """Return a model with initial weights drawn from `seed`."""
        with seeded(seed, torch.device("cpu")):
            return self._make_model(config)

    def _drop_untrained(self) -> None:
        """Drop members without a finished epoch, except the first."""
        kept = [i for i, history in enumerate(self.histories_) if history] or [0]
        self.models_ = [self.models_[i].to(self.device_).eval() for i in kept]
        self.histories_ = [self.histories_[i] for i in kept]

    def _check_same_shape(self) -> None:
        """Raise ValueError if a warm start cannot continue from the fitted models."""
        if len(self.models_) != self.n_estimators:
            raise ValueError(
                f"warm_start=True continues from the {len(self.models_)} fitted members, but "
                f"n_estimators is {self.n_estimators}; set it to their number, or start from "
                "scratch with warm_start=False"
            )
        if self.freeze is not None and not self._pretrained:
            raise ValueError(
                f"warm_start=True continues a fit without pretrained weights, or a loaded model, "
                f"and freeze={self.freeze!r} would freeze nothing; set freeze=None"
            )
        fitted = dict(vars(self.model_.config))
        wanted = dict(vars(self._model_config(fitted["max_len"])))
        scaler = self.preprocessor_
        if isinstance(scaler, Scaler):
            fitted |= {"scaling": scaler.scaling, "views": scaler.views}
            wanted |= {"scaling": self.settings_.scaling, "views": self.settings_.views}
        for name, value in wanted.items():
            if fitted[name] != value:
                raise ValueError(
                    f"warm_start=True continues from the fitted model, but {name} changed from "
                    f"{fitted[name]!r} to {value!r}; set it back, or start from "
                    "scratch with warm_start=False"
                )

    def _warn_if_blind(self, model: TSTransformer) -> None:
        directed = getattr(self.preprocessor_, "difference", None) is not None
        blind = model.encoding.symmetric and model.stem.pointwise and not directed
        if blind and self.encoding != "none":  # "none" is chosen as a control
            signed = (
                "; or give it a direction: encoding_params={'signed': True}"
                if self.encoding == "alibi"
                else ""
            )
            warn_caller(
                f"encoding {self.encoding!r} sees only distances, and the {self.stem!r} stem only "
                "single steps: this model cannot tell a series from its reverse. Use stem='conv', "
                f"or add an encoding with a direction, as in 'tape+{self.encoding}'{signed}"
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

    def _autocast(self) -> bool:
        n_values = self.model_.max_tokens * self.model_.config.d_model
        return resolve_precision(self.precision, self.device_, n_values)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = self.stem == "embedding"
        assert tags.transformer_tags is not None
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    @property
    def model_(self) -> TSTransformer:
        """The torch module; for several members, the first."""
        return self.models_[0]

    @property
    def history_(self) -> History:
        """The training history; for several members, the mean and the total seconds."""
        return self.histories_[0] if len(self.histories_) == 1 else _mean(self.histories_)

    @property
    def n_iter_(self) -> int:
        """Number of epochs trained; the maximum over members."""
        return max(1, *map(len, self.histories_))

    @property
    def estimators_(self) -> list[Self]:
        """Each member as a fitted estimator of its own, with ``n_estimators=1``.

        Members share their models with this estimator. If its `random_state` is an int, each member
        has an int as `random_state` that reproduces the member in a separate fit.
        """
        parameters = self.get_params(deep=False) | {"n_estimators": 1}
        learned = {key: value for key, value in vars(self).items() if key not in parameters}
        members = []
        for i, (model, history) in enumerate(zip(self.models_, self.histories_, strict=True)):
            member = type(self)(**parameters | {"random_state": self._member_state(i)})
            member.__dict__.update(learned)
            member.models_, member.histories_ = [model], [history]
            members.append(member)
        return members

    def _member_state(self, member: int) -> Any:
        """Return the `random_state` that reproduces a member, if any."""
        if not isinstance(self.random_state, (int, np.integer)):
            return None
        return self.random_state if member == 0 else _derived(drawn_seed(self.random_state), member)

    def _seeds(self) -> list[MemberSeeds]:
        """Derive the seeds of all members from `random_state`."""
        drawn = drawn_seed(self.random_state)
        further = [drawn_seed(_derived(drawn, member)) for member in range(1, self.n_estimators)]
        return [_three(seed) for seed in (drawn, *further)]

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
        rows = [_kept_epoch(history) for history in self.histories_ if history]
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
                "best_epoch": history.best_epoch,
                "interrupted": history.interrupted,
            }
            for model, history in zip(self.models_, self.histories_, strict=True)
        )
        return {**first, "members": further}

    def restore_models(
        self, described: dict[str, Any], saved: Sequence[Mapping[str, Tensor]]
    ) -> None:
        self.models_, self.histories_ = [], []
        for part, own in zip([described, *described["members"]], saved, strict=True):
            member = read(Member, part)
            history = History(member.history)
            history.best_epoch, history.interrupted = member.best_epoch, member.interrupted
            self.histories_.append(history)
            config = read(ModelConfig, member.model, "model")
            self._check_config(config)
            _check_weights(config, own, self._make_model)
            model = self._drawn_model(config, 0)
            load_checked(model, own)
            self.models_.append(model.eval())

    def _check_config(self, config: ModelConfig) -> None:
        """Raise ValueError if a restored model has other inputs or outputs."""
        preprocessor = self.preprocessor_
        expected = {"n_channels": preprocessor.n_inputs, "n_outputs": self.target_.n_outputs}
        for name, value in expected.items():
            if getattr(config, name) != value:
                raise ValueError(
                    f"model.{name} must be {value}, as in its inputs and outputs; got "
                    f"{getattr(config, name)}"
                )
        if (config.stem == "embedding") != preprocessor.symbolic:
            raise ValueError(
                f"model.stem {config.stem!r} does not fit the saved preprocessor: only 'embedding' "
                "reads codes"
            )
        for name, value in preprocessor.stem_params().items():
            if config.stem_params.get(name) != value:
                raise ValueError(f"model.stem_params.{name} must be {value}, the number of codes")


def _normalised(weights: Targets | None) -> Tensor | None:
    """Scale weights to mean 1; return None if all are equal."""
    # Scaling per batch would cancel class weights.
    if weights is None or np.ptp(weights) == 0:
        return None
    return torch.from_numpy(weights / weights.mean()).float()


def _check_weights(
    config: ModelConfig,
    saved: Mapping[str, Tensor],
    make: Callable[[ModelConfig], TSTransformer],
) -> None:
    """Raise ValueError unless the described model has the saved tensors."""
    known = all(part.strip() in names() for part in str(config.encoding).split("+"))
    try:
        check_model(partial(make, config), saved)
    except ValueError as error:
        if known:
            raise
        raise ValueError(
            f"{error}. If the encoding {config.encoding!r} is your own, import its module before "
            "loading"
        ) from error
    except RuntimeError:
        # A user's encoding may read values, which do not exist on the meta device.
        plain = replace(config, encoding="none", encoding_params={})
        rest = {name: each for name, each in saved.items() if not name.startswith("encoding.")}
        check_model(partial(make, plain), rest)


def _derived(drawn: int, member: int) -> int:
    """Return the `random_state` of a further member."""
    return int(np.random.SeedSequence([drawn, member]).generate_state(1)[0])


def _three(drawn: int) -> MemberSeeds:
    weights, training, split = np.random.SeedSequence(drawn).generate_state(3)
    return int(weights), int(training), int(split)


def _mean(histories: list[History]) -> History:
    """Average each epoch over its members, and sum the seconds."""
    mean = History()
    for epoch in range(max(map(len, histories))):
        rows = [history[epoch] for history in histories if len(history) > epoch]
        keys = [key for key in rows[0] if all(key in row for row in rows)]
        row = {key: fmean(row[key] for row in rows) for key in keys}
        row |= {"epoch": rows[0]["epoch"], "seconds": sum(row["seconds"] for row in rows)}
        mean.append(row)
    mean.interrupted = any(history.interrupted for history in histories)
    return mean


def _kept_epoch(history: History) -> dict[str, float]:
    """Return the epoch whose weights were kept."""
    return next((row for row in history if row["epoch"] == history.best_epoch), history[-1])
