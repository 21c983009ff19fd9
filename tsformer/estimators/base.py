"""Base of the estimators: read series, train models, predict, save and load."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import Tags
from torch import Tensor

from tsformer._torch_state import in_plain_torch
from tsformer._warnings import warn_caller
from tsformer.augmentation import Augmentation, AugmentationSpec, Sum
from tsformer.augmentation import find as find_augmentation
from tsformer.augmentation import names as augmentation_names
from tsformer.data.ids import check_ids
from tsformer.data.preprocessor import Preprocessor, Scaler, Vocabulary
from tsformer.data.series import SeriesSource
from tsformer.data.stored_panel import AnyPanel
from tsformer.encodings import EncodingSpec, PositionalEncoding, names
from tsformer.encodings.registry import find
from tsformer.estimators.holdout import hold_out
from tsformer.estimators.observers import observed
from tsformer.estimators.parameters import (
    check_parameters,
    make_augmentation,
    resolve_recipe,
)
from tsformer.estimators.pretrained import (
    fitted_source,
    is_fitted,
    source_of,
    take_over,
    warn_of,
)
from tsformer.estimators.saved import (
    HISTORY,
    MEMBERS,
    MODEL,
    check_fields,
    load_checked,
    made_as_saved,
)
from tsformer.estimators.series import SeriesEstimator, Targets, drawn_seed
from tsformer.estimators.targets import Groups, check_length, read_groups
from tsformer.model import ModelConfig, TSTransformer
from tsformer.training import (
    Callback,
    History,
    NonFiniteLossError,
    ProgressBar,
    TrainingPlan,
    Validation,
)
from tsformer.training.ensemble import train_ensemble
from tsformer.training.memory import MANY_SERIES, batch_for
from tsformer.training.plan import epochs_for, resolve_device, resolve_precision
from tsformer.training.pretrained import Pretrained
from tsformer.training.seeds import seeded

__all__ = ["CONV_PARAMS", "TrainingJob", "TransformerEstimator", "automatic_epochs"]

#: Seeds of the weights, the training run and the validation split.
MemberSeeds = tuple[int, int, int]

#: Tells the seed of what is pretrained in a fit from those of further members.
_PRETRAINING = 2**20
#: ``max_epochs="auto"``: this many passes over the data...
AUTO_EPOCHS = 60
#: ...but no fewer optimizer steps and no more than these...
AUTO_STEPS = (1000, 2500)
#: ...except that the data are passed over at least this often.
AUTO_MIN_EPOCHS = 20
#: From `MANY_SERIES` on: this many passes, but no more series, with repetition, and no fewer passes
#: than these.
AUTO_EPOCHS_OF_MANY, AUTO_SERIES, AUTO_MIN_EPOCHS_OF_MANY = 80, 160_000, 4
#: Options of the conv stem, of classifier and encoder alike, so that weights of one fit the other.
CONV_PARAMS: dict[str, Any] = {"n_residual": 1, "downsampling": "pool"}
#: ``early_stopping="auto"``: from this many series on, holding out a part of them pays off.
AUTO_EARLY_STOPPING_CASES = 5000


def automatic_epochs(n_cases: int, batch_size: int) -> int:
    """Return the number of epochs that ``max_epochs="auto"`` stands for."""
    if n_cases >= MANY_SERIES:
        most = min(AUTO_EPOCHS_OF_MANY, ceil(AUTO_SERIES / n_cases))
        return max(most, AUTO_MIN_EPOCHS_OF_MANY)
    fewest, most = (epochs_for(steps, n_cases, batch_size) for steps in AUTO_STEPS)
    return max(min(max(AUTO_EPOCHS, fewest), most), AUTO_MIN_EPOCHS)


@dataclass
class TrainingJob:
    """The arguments of `train_ensemble` that depend on the data."""

    models: list[TSTransformer]
    panel: AnyPanel
    targets: Tensor
    plans: list[TrainingPlan]
    weights: Tensor | None
    validation: Validation | None
    callbacks: list[list[Callback]]
    histories: list[History]


class TransformerEstimator(SeriesEstimator):
    """Base class of the estimators; subclasses define what targets are."""

    models_: list[TSTransformer]
    histories_: list[History]
    augmentation_: Augmentation | None

    #: Options of the conv stem in which the default of an estimator differs from that of the stem.
    _conv_params: ClassVar[dict[str, Any]] = {}

    _not_saved: ClassVar[dict[str, Any]] = {
        "callbacks": None,
        "init_from": None,
        "device": "auto",
        "n_threads": "auto",
        "checkpoint_dir": None,
        "resume": False,
    }

    # The constructor parameters, which the subclasses assign.
    encoding: EncodingSpec
    encoding_params: Any
    stem: str
    stem_params: Any
    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int | None
    dropout: float
    norm_first: bool
    pooling: str
    head_norm: str | None
    scaling: str | None
    views: str
    view_params: Any
    timestamps: str | None
    augmentation: AugmentationSpec | None
    augmentation_params: Any
    init_from: Any
    freeze: str | None
    n_epochs_frozen: int
    pretrained_lr_scale: float
    max_epochs: int | str
    batch_size: int | str
    learning_rate: float
    weight_decay: float
    early_stopping: bool | str
    validation_fraction: float
    n_iter_no_change: int
    n_estimators: int
    n_jobs: int | None
    n_threads: int | str
    callbacks: Sequence[Callback] | None
    warm_start: bool
    device: str | torch.device
    precision: str
    compile: bool | str
    checkpoint_dir: str | Path | None
    checkpoint_minutes: float
    resume: bool
    random_state: Any
    verbose: int

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy with the same `init_from`: a fitted one stays fitted."""
        twin = super().__sklearn_clone__()
        if is_fitted(self.init_from):
            twin.init_from = self.init_from
        return twin

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor.

        Parameters
        ----------
        **params
            New values by name.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no such parameter, or it is one of an `init_from` that is fitted. Nothing
            is set then.
        """
        source = params.get("init_from", self.init_from)
        nested = [name for name in params if name.startswith("init_from__")]
        if nested and is_fitted(source):
            raise ValueError(
                f"{nested[0]} would change an estimator that is fitted, and not its weights; pass "
                "one that is not fitted, as in init_from=sklearn.base.clone(encoder), which is "
                "fitted within each fit"
            )
        return super().set_params(**params)

    # What a subclass defines: its targets and outputs.

    @abstractmethod
    def _targets(self, y: Any, name: str, *, reset: bool) -> Targets:
        """Check and encode `y`, called `name` in errors; with `reset`, learn the encoding."""

    @abstractmethod
    def _weights(self, sample_weight: npt.ArrayLike | None, targets: Targets) -> Targets | None:
        """Return the weight of each series, or None if all are equal."""

    @abstractmethod
    def _n_outputs(self) -> int:
        """Return the number of outputs of the model."""

    @abstractmethod
    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each series."""

    @abstractmethod
    def _val_score(self, outputs: Tensor, targets: Tensor) -> float:
        """Return the validation score; higher is better."""

    def _strata(self, targets: Targets) -> npt.NDArray[np.int64]:
        """Return the stratum of each series; the same share of each is held out."""
        return np.zeros(len(targets), dtype=np.int64)

    # Fitting.

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
            Series; those of a list may differ in length. Tensors, lists of (length, channels)
            DataFrames, DataFrames with two index levels (series, step) and DataFrames whose cells
            are series are accepted as well. Series need not be in memory: a `numpy.memmap`, the
            path of a ``.npy`` file or of a folder that ``tsformer convert`` made, an array that is
            read by slices and a data set of items are read where they are, and the path of Parquet
            with a list of values in each row is unpacked; see ``docs/guide/large_data.md``. NaN
            marks a missing value: gaps are interpolated linearly and, if `fit` saw any, flagged in
            an additional channel; steps before the first value and after the last are masked. What
            looks like ``(n, length, channels)``, or like a long
            table, gives a `tsformer.data.LayoutWarning`.
        y : array-like (n,)
            For a classifier, labels of any type that scikit-learn allows; for a regressor, finite
            numbers.
        sample_weight : array-like (n,), optional
            Weight of each series, multiplied by its class weight; only ratios matter.
        groups : array-like (n,), optional
            Group of each series, such as a person or machine. Where `early_stopping` holds out
            series, it holds out whole groups. What is chosen by the training series, as the scaling
            of a classifier, is chosen by leaving out whole groups if there are several.
        X_val, y_val : optional
            Validation data like `X` and `y`, scored after each epoch. Unless
            ``early_stopping=False``, they decide when to stop. Models are never trained on them.
        times : ndarray (length,) or (n, length), or list of (length,) arrays, optional
            Times of the steps, non-decreasing numbers or dates; regular steps by default. If
            `fit` gets times, the methods that predict need them too. See also `timestamps`.
        times_val : like `times`, optional
            The times of `X_val`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For invalid arguments. The estimator is as it was before, fitted or not.
        tsformer.training.NonFiniteLossError
            If the loss is no longer finite. The estimator is fitted nevertheless, with the
            weights of the last good epoch.
        """
        validation = {"X_val": X_val, "y_val": y_val, "times_val": times_val}
        with (
            observed(self, X, y, times=times, **validation) as observation,
            self._refit() as fitted,
        ):
            job = fitted._prepare(X, y, sample_weight, times, X_val, y_val, times_val, groups)
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
        times: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        times_val: Any = None,
        groups: Any = None,
    ) -> TrainingJob:
        """Do all of `fit` except training: check, read, encode, hold out, make the models."""
        check_parameters(self.get_params(deep=False))
        self._check_given("y", y)
        check_ids(X, y, "y")
        check_ids(X, sample_weight, "sample_weight")
        reset = not (self.warm_start and hasattr(self, "models_"))
        source = source_of(self.init_from, TransformerEstimator) if reset else None

        series = self._source(X, times, reset=reset)
        targets = self._targets_of(series, y, "y", reset=reset)
        groups = read_groups(groups, X, len(series))
        labelled = self._labelled(targets)
        unlabelled: SeriesSource | None = None
        unlabelled_groups: Any = None
        if not labelled.all():
            unlabelled, series = series.take(~labelled), series.take(labelled)
            targets, sample_weight = targets[labelled], _of(sample_weight, labelled)
            unlabelled_groups, groups = _of(groups, ~labelled), _of(groups, labelled)
        weights = self._weights(sample_weight, targets)
        seeds = self._seeds()

        held_out = self._given_validation(X_val, y_val, times_val)
        val_weights = None if held_out is None else self._weights(None, held_out[1])
        if held_out is None and self._stops_early(len(targets), given=False):
            # The same series for all members, so that their scores are comparable and an
            # ensemble can be judged by data that none of its members was trained on.
            strata = self._strata(targets)
            chosen = hold_out(strata, self.validation_fraction, seeds[0][2], groups)
            held_out = series.take(chosen), targets[chosen]
            series, targets = series.take(~chosen), targets[~chosen]
            if weights is not None:
                weights, val_weights = weights[~chosen], weights[chosen]
            if groups is not None and unlabelled is not None:
                apart = ~np.isin(unlabelled_groups, groups[chosen])
                unlabelled, unlabelled_groups = unlabelled.take(apart), unlabelled_groups[apart]
            groups = _of(groups, ~chosen)

        if reset:
            seen = series if unlabelled is None else series.joined(unlabelled)
            scaling = self._suited_scaling(source, series, targets, weights, groups)
            if unlabelled is not None and source is None:
                source = self._pretraining(scaling)
            self._warn_if_nothing_is_pretrained(source)
            self.preprocessor_ = self._make_preprocessor(scaling).fit(seen)
            max_len = int(seen.lengths.max())
            config = self._model_config(max_len)
            models = [self._drawn_model(config, weights_seed) for weights_seed, _, _ in seeds]
            histories = [History() for _ in models]
            both = [each for each in (groups, unlabelled_groups) if each is not None]
            seen_groups = np.concatenate(both) if both else None
            pretrained = self._initialise(models, source, seen, seeds[0][0], seen_groups)
            self._warn_if_blind(models[0])
        else:
            self._check_same_shape()
            models = list(self.models_)
            histories = [History(earlier) for earlier in self.histories_]
            pretrained = [frozenset()] * len(models)

        plan = self._training_plan(
            n_cases=len(series),
            n_tokens=models[0].max_tokens,
            validated=held_out is not None and self._stops_early(len(series), given=True),
            seed=seeds[0][1],
        )
        if any(pretrained) and self.n_epochs_frozen >= plan.n_epochs:
            warn_caller(
                f"n_epochs_frozen={self.n_epochs_frozen} are all of the {plan.n_epochs} epochs, so "
                'that what was pretrained is never trained; use fewer, or say freeze="backbone"'
            )
        counted = np.ones(len(series), dtype=bool) if weights is None else weights > 0
        augmentation = self._make_augmentation(
            series.take(counted), targets[counted], _of(groups, counted)
        )
        plans = [
            replace(
                plan,
                seed=training_seed,
                augmentation=augmentation,
                pretrained=self._pretrained(names, plan.n_epochs),
            )
            for names, (_, training_seed, _) in zip(pretrained, seeds, strict=True)
        ]
        validation = None
        if held_out is not None:
            validation = self._validation(*held_out, val_weights, plan.device)
        self.models_, self.device_, self.histories_ = models, plan.device, histories
        self.augmentation_ = augmentation
        self._set_temperatures()
        return TrainingJob(
            models=models,
            panel=self.preprocessor_.panel(series),
            targets=torch.from_numpy(targets),
            plans=plans,
            weights=_normalised(weights),
            validation=validation,
            callbacks=self._member_callbacks(),
            histories=histories,
        )

    def _set_temperatures(self) -> None:
        """Set what outputs are divided by, of which a classifier alone has any."""

    def _labelled(self, targets: Targets) -> npt.NDArray[np.bool_]:
        """Return which series have a target to train on; the others are pretrained on."""
        return np.ones(len(targets), dtype=bool)

    def _pretraining(self, scaling: str | None) -> Any:
        """Return what is fitted first if series without targets are there and no source is."""
        raise NotImplementedError  # only a classifier has series without targets

    def _initialise(
        self,
        models: list[TSTransformer],
        source: Any,
        series: SeriesSource,
        seed: int,
        groups: Groups | None,
    ) -> list[frozenset[str]]:
        """Take over the weights of a source, if there is one; return the names of those taken."""
        if source is None:
            return [frozenset()] * len(models)
        fitted = fitted_source(source, series, _derived(seed, _PRETRAINING), groups)
        taken = [
            take_over(
                model,
                self.preprocessor_,
                fitted.models_[member % len(fitted.models_)],
                fitted.preprocessor_,
            )
            for member, model in enumerate(models)
        ]
        warn_of((message for _, messages in taken for message in messages))
        return [names for names, _ in taken]

    def _pretrained(self, names: frozenset[str], n_epochs: int) -> Pretrained | None:
        """Return how the parameters of these names are trained."""
        if not names:
            return None
        frozen = n_epochs if self.freeze == "backbone" else int(self.n_epochs_frozen)
        return Pretrained(names, float(self.pretrained_lr_scale), frozen)

    def _train(self, job: TrainingJob) -> None:
        """Do the rest of `fit`: train what `_prepare` returned."""
        try:
            train_ensemble(**vars(job), loss=self._loss, n_jobs=self.n_jobs)
        finally:
            self._drop_untrained()

    def _warn_of_untrained(self, job: TrainingJob) -> None:
        """Warn of members that were dropped."""
        if len(self.models_) < len(job.models):
            warn_caller(
                f"only {len(self.models_)} of {len(job.models)} members were trained; the others "
                "are dropped"
            )

    def _learned_before(self, error: BaseException) -> bool:
        return isinstance(error, NonFiniteLossError) or any(self.histories_)

    def _given_validation(
        self, X_val: Any, y_val: Any, times_val: Any
    ) -> tuple[SeriesSource, Targets] | None:
        if X_val is None:
            if y_val is not None:
                raise ValueError("X_val and y_val go together; X_val is missing")
            if times_val is not None:
                raise ValueError("times_val are the times of X_val, which is missing")
            return None
        self._check_given("y_val", y_val)
        check_ids(X_val, y_val, "y_val", of="X_val")
        series = self._source(X_val, times_val, reset=False)
        return series, self._targets_of(series, y_val, "y_val", of="X_val", reset=False)

    def _check_given(self, name: str, y: Any) -> None:
        """Raise ValueError if targets are missing."""
        if y is None and name == "y":
            raise ValueError("fit requires y to be passed, but the target y is None")
        if y is None:
            raise ValueError(f"X_val and y_val go together; {name} is missing")

    def _targets_of(
        self, series: SeriesSource, y: Any, name: str, *, of: str = "X", reset: bool
    ) -> Targets:
        """Return the target of each series; arguments as those of `_targets`."""
        targets = self._targets(y, name, reset=reset)
        check_length(len(series), targets, name, of=of)
        return targets

    def _validation(
        self, series: SeriesSource, targets: Targets, weights: Targets | None, device: torch.device
    ) -> Validation:
        panel = self.preprocessor_.panel(series).to(device)
        # The validation loss is weighted like the training loss.
        loss_weights = _normalised(weights)
        if loss_weights is not None:
            loss_weights = loss_weights.to(device)
        return Validation(
            panel, torch.from_numpy(targets).to(device), self._val_score, loss_weights
        )

    def _stops_early(self, n_cases: int, *, given: bool) -> bool:
        """Whether validation data, given by the caller or held out, decide when to stop."""
        if self.early_stopping == "auto":
            return given or n_cases >= AUTO_EARLY_STOPPING_CASES
        return bool(self.early_stopping)

    def _suited_scaling(
        self,
        source: Any,
        series: SeriesSource,
        targets: Targets,
        weights: Targets | None,
        groups: Groups | None,
    ) -> str | None:
        """Return the scaling, "auto" replaced by its choice for the training series.

        `source` is the estimator that weights are taken from, fitted or not, or None.
        """
        if self.scaling != "auto":
            return self.scaling
        if source is None:
            return "channel"
        # Its weights mean what they mean for series that are scaled as it scales them.
        if is_fitted(source):
            found: str | None = source.preprocessor_.describe()["scaling"]
            return found
        return "channel" if source.scaling == "auto" else source.scaling

    def _make_preprocessor(self, scaling: str | None) -> Preprocessor:
        if self.stem == "embedding":
            return Vocabulary()
        views = resolve_recipe(self.get_params(deep=False))["views"]
        return Scaler(scaling, views=views, view_params=self.view_params)

    def _make_augmentation(
        self, series: SeriesSource, targets: Targets, groups: Groups | None
    ) -> Augmentation | None:
        """Return what members are trained with; "auto" is fitted to the data."""
        asked, params = self.augmentation, self.augmentation_params
        recipe = resolve_recipe(self.get_params(deep=False))
        made = make_augmentation(recipe["augmentation"], params)
        if made is None:
            return None
        made.check(symbolic=self.stem == "embedding")
        if isinstance(asked, str) and asked == "auto":
            return self._suited(made, params or {}, series, targets, groups)
        return made

    def _suited(
        self,
        augmentation: Augmentation,
        params: Mapping[str, Any],
        series: SeriesSource,
        targets: Targets,
        groups: Groups | None,
    ) -> Augmentation | None:
        """Return what is left of an augmentation that was not asked for by name, for these data.

        `params` are the options that were asked for.
        """
        return augmentation

    def _model_config(self, max_len: int) -> ModelConfig:
        """Return the configuration of models for the output of `preprocessor_`."""
        return ModelConfig(
            n_channels=self.preprocessor_.n_inputs,
            n_outputs=self._n_outputs(),
            max_len=max_len,
            encoding=self.encoding,
            encoding_params=dict(self.encoding_params or {}),
            stem=self.stem,
            stem_params={
                **(self._conv_params if self.stem == "conv" else {}),
                **(self.stem_params or {}),
                **self.preprocessor_.stem_params(),
            },
            d_model=self.d_model,
            n_heads=self.n_heads,
            n_layers=self.n_layers,
            d_ff=self.d_ff,
            dropout=self.dropout,
            norm_first=bool(self.norm_first),
            pooling=self.pooling,
            head_norm=self.head_norm,
        )

    def _make_model(self, config: ModelConfig) -> TSTransformer:
        return TSTransformer(config)

    def _drawn_model(self, config: ModelConfig, seed: int) -> TSTransformer:
        """Return a model with initial weights drawn from `seed`."""
        with seeded(seed, torch.device("cpu")):
            return self._make_model(config)

    def _training_plan(
        self, *, n_cases: int, n_tokens: int, validated: bool, seed: int
    ) -> TrainingPlan:
        device = resolve_device(self.device)
        chosen = self.batch_size
        batch_size = batch_for(n_tokens, n_cases) if chosen == "auto" else int(chosen)
        epochs = self.max_epochs
        return TrainingPlan(
            n_epochs=automatic_epochs(n_cases, batch_size) if epochs == "auto" else int(epochs),
            batch_size=batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            n_iter_no_change=self.n_iter_no_change if validated else None,
            device=device,
            bfloat16=resolve_precision(self.precision, device),
            compile=self.compile,
            seed=seed,
            checkpoint_dir=None if self.checkpoint_dir is None else Path(self.checkpoint_dir),
            checkpoint_minutes=float(self.checkpoint_minutes),
            resume=bool(self.resume),
        )

    def _member_callbacks(self) -> list[list[Callback]]:
        """Return the callbacks of each member; the user's own follow all members in turn."""
        callbacks = [list(self.callbacks or ()) for _ in range(self.n_estimators)]
        if self.verbose:
            for own in callbacks:
                own.append(ProgressBar())
        return callbacks

    def _drop_untrained(self) -> None:
        """Drop members that never finished an epoch, except the first."""
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
        fitted = self.model_.config
        asked = self._model_config(fitted.max_len)
        for name, value in vars(asked).items():
            if getattr(fitted, name) != value:
                raise ValueError(
                    f"warm_start=True continues from the fitted model, but {name} changed from "
                    f"{getattr(fitted, name)!r} to {value!r}; set it back, or start from "
                    "scratch with warm_start=False"
                )

    def _warn_if_nothing_is_pretrained(self, source: Any) -> None:
        """Warn if series without targets were to be pretrained on, and all have one."""

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

    # Predicting.

    @in_plain_torch
    def transform(self, X: Any, times: Any = None) -> npt.NDArray[np.float32]:
        """Compute embeddings of series: the pooled tokens that the head reads.

        Parameters
        ----------
        X : as in `fit`
            Series of any length, with the same channels as in `fit`.
        times : as in `fit`, optional
            Times of the steps, if `fit` had times.

        Returns
        -------
        ndarray (n, n_estimators * d_model) of float32
            Embeddings of several members are concatenated: each has its own space.
        """
        embedded = np.concatenate(list(self._outputs(X, times, "embed")), axis=1)
        return self._by_series(X, embedded)

    @property
    def _n_features_out(self) -> int:
        return len(self.models_) * self.model_.config.d_model

    def _autocast(self) -> bool:
        return resolve_precision(self.precision, self.device_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = self.stem == "embedding"
        return tags

    # Ensemble members: models that differ in their seed.

    @property
    def model_(self) -> TSTransformer:
        """The torch module; for several members the first, that of ``n_estimators=1``."""
        return self.models_[0]

    @property
    def history_(self) -> History:
        """The training history; for several members, their mean and total seconds."""
        return self.histories_[0] if len(self.histories_) == 1 else _mean(self.histories_)

    @property
    def n_iter_(self) -> int:
        """Number of epochs trained; the maximum over members."""
        return max(1, *map(len, self.histories_))

    @property
    def estimators_(self) -> list[Self]:
        """Each member as a fitted estimator of its own, with ``n_estimators=1``.

        They share their models with this estimator. If its `random_state` is an int, that of each
        member is the int with which it can be trained alone.
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
        """Return the `random_state` that trains a member alone, or None if there is none."""
        if not isinstance(self.random_state, (int, np.integer)):
            return None
        return self.random_state if member == 0 else _derived(drawn_seed(self.random_state), member)

    def _seeds(self) -> list[MemberSeeds]:
        """Derive the seeds of all members from `random_state`.

        The first member has the seeds of a single model. Each further member has the seeds of a
        single model whose `random_state` is an int derived from this estimator's.
        """
        drawn = drawn_seed(self.random_state)
        further = [drawn_seed(_derived(drawn, member)) for member in range(1, self.n_estimators)]
        return [_three(seed) for seed in (drawn, *further)]

    # Saving.

    def _saved_parameters(self) -> dict[str, Any]:
        parameters = super()._saved_parameters()
        parameters["encoding"] = _by_name(parameters["encoding"])
        if isinstance(self.augmentation, Augmentation):
            parameters |= _described_augmentation(self.augmentation)
        return parameters

    @classmethod
    def _fixed(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        fixed = super()._fixed(parameters)
        if parameters.get("unlabelled") is not None:
            return fixed  # unlabelled series pretrain what is frozen, after loading too
        # Without init_from there is nothing to freeze, and a loaded estimator can be fitted again.
        return {**fixed, "freeze": None, "n_epochs_frozen": 0}

    def _describe_models(self) -> dict[str, Any]:
        # From the models, not from the parameters, which may have been changed since the fit.
        first, *further = (
            {"model": _describe_config(model.config), **_describe_history(history)}
            for model, history in zip(self.models_, self.histories_, strict=True)
        )
        return {**first, "members": further}

    def _restored_models(
        self, described: dict[str, Any], saved: Sequence[Mapping[str, Tensor]]
    ) -> list[TSTransformer]:
        check_fields(described, MEMBERS)
        members = [described, *described["members"]]
        for member in members:
            check_fields(member, HISTORY)
        self.histories_ = [_restore_history(member) for member in members]
        models: list[TSTransformer] = []
        for member, own in zip(members, saved, strict=True):
            fields = member.get("model")
            check_fields(fields, MODEL, of="model")
            config = ModelConfig(**fields)
            self._check_config(config)
            models.append(_restored_model(config, own, self._drawn_model))
        return [model.eval() for model in models]

    def _check_config(self, config: ModelConfig) -> None:
        """Raise ValueError if a restored model is not for this estimator's inputs and outputs."""
        preprocessor = self.preprocessor_
        asked = {"n_channels": preprocessor.n_inputs, "n_outputs": self._n_outputs()}
        for name, value in asked.items():
            if getattr(config, name) != value:
                raise ValueError(
                    f"model.{name} must be {value}, by its inputs and outputs; got "
                    f"{getattr(config, name)}"
                )
        if (config.stem == "embedding") != preprocessor.symbolic:
            raise ValueError(f"model.stem {config.stem!r} does not read what is preprocessed")
        for name, value in preprocessor.stem_params().items():
            if config.stem_params.get(name) != value:
                raise ValueError(f"model.stem_params.{name} must be {value}, by its codes")


def _of(given: npt.ArrayLike | None, chosen: npt.NDArray[np.bool_]) -> Any:
    """Return the weights or groups of the chosen series."""
    if given is None:
        return None
    weights = np.asarray(given)
    if weights.ndim == 1:  # what is none is refused where weights are read
        check_length(len(chosen), weights, "sample_weight")
        weights = weights[chosen]
    return weights


def _normalised(weights: Targets | None) -> Tensor | None:
    """Scale weights to mean 1 over the data set; equal weights are none."""
    # Per batch, scaling would undo class weights. Weighted sums differ from plain ones in rounding.
    if weights is None or np.ptp(weights) == 0:
        return None
    return torch.from_numpy(weights / weights.mean()).float()


def _restored_model(
    config: ModelConfig,
    saved: Mapping[str, Tensor],
    draw: Callable[[ModelConfig, int], TSTransformer],
) -> TSTransformer:
    """Return a model with saved weights; raise ValueError if they are not those of `config`."""
    known = all(part.strip() in names() for part in str(config.encoding).split("+"))
    try:
        model = made_as_saved(partial(draw, config, 0), saved)
    except ValueError as error:
        if known:
            raise
        raise ValueError(
            f"{error}. If the encoding {config.encoding!r} is your own, import the module "
            "that defines it before loading"
        ) from error
    except RuntimeError:
        # An encoding of one's own may compute with values, which are not there on the meta device.
        plain = replace(config, encoding="none", encoding_params={})
        rest = {name: each for name, each in saved.items() if not name.startswith("encoding.")}
        made_as_saved(partial(draw, plain, 0), rest)
        model = draw(config, 0)
    load_checked(model, saved)
    return model


def _derived(drawn: int, member: int) -> int:
    """Return the `random_state` of a further member."""
    return int(np.random.SeedSequence([drawn, member]).generate_state(1)[0])


def _three(drawn: int) -> MemberSeeds:
    weights, training, split = np.random.SeedSequence(drawn).generate_state(3)
    return int(weights), int(training), int(split)


def _mean(histories: list[History]) -> History:
    """Average each epoch over the members that reached it, and sum their seconds."""
    mean = History()
    for epoch in range(max(map(len, histories))):
        rows = [history[epoch] for history in histories if len(history) > epoch]
        keys = [key for key in rows[0] if all(key in row for row in rows)]
        row = {key: fmean(row[key] for row in rows) for key in keys}
        row |= {"epoch": rows[0]["epoch"], "seconds": sum(row["seconds"] for row in rows)}
        mean.append(row)
    mean.interrupted = any(history.interrupted for history in histories)
    return mean


def _describe_config(config: ModelConfig) -> dict[str, Any]:
    described = dict(vars(config))
    return described | {"encoding": _by_name(described["encoding"])}


def _describe_history(history: History) -> dict[str, Any]:
    return {
        "history": list(history),
        "best_epoch": history.best_epoch,
        "interrupted": history.interrupted,
    }


def _restore_history(described: dict[str, Any]) -> History:
    history = History(described["history"])
    history.best_epoch = described["best_epoch"]
    history.interrupted = described["interrupted"]
    return history


def _described_augmentation(augmentation: Augmentation) -> dict[str, Any]:
    """Return the parameters that make this augmentation from its registered name."""
    parts = augmentation.parts if isinstance(augmentation, Sum) else (augmentation,)
    for part in parts:
        if part.name not in augmentation_names() or find_augmentation(part.name) is not type(part):
            raise ValueError(
                f"augmentation={part!r} cannot be saved, as its class is not registered: define it "
                f"as class {type(part).__name__}(Augmentation, name=...)"
            )
    params = {part.name: vars(part) for part in parts}
    return {
        "augmentation": "+".join(params),
        "augmentation_params": params if len(params) > 1 else dict(vars(parts[0])),
    }


def _by_name(encoding: Any) -> Any:
    """Return the registered name of an encoding class; anything else as it is."""
    named = isinstance(encoding, type) and issubclass(encoding, PositionalEncoding)
    if named and encoding.name in names() and find(encoding.name) is encoding:
        return encoding.name
    return encoding
