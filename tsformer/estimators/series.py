"""Base of the estimators: read series of any container, predict, save, move to a device."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from tsformer import persistence
from tsformer._checks import listed
from tsformer._torch_state import in_plain_torch, resolve_device, trainable
from tsformer._warnings import warn_caller
from tsformer.data.containers import to_source
from tsformer.data.layout import check_ids, series_ids, swapped_axes, warn_of_layout, warn_of_order
from tsformer.data.panel import AnyPanel
from tsformer.data.preprocessor import Preprocessor, Vocabulary
from tsformer.data.series import Padded, SeriesError, SeriesSource, numbered
from tsformer.data.table import TableSchema
from tsformer.estimators.novelty import Novelty
from tsformer.estimators.observers import Fit, observed
from tsformer.estimators.parameters import check_fields_of, check_new_values
from tsformer.estimators.saved import (
    ESTIMATOR,
    MEMBERS,
    PREPROCESSOR,
    SCALER,
    TRACKED_RUN,
    TRAINING,
    check_fields,
    described_weights,
    load_checked,
    restored_parameters,
    restored_weights,
)
from tsformer.estimators.summary import Summary, card, recipe_of
from tsformer.estimators.targets import Groups, Targets, check_length, read_groups, series_weights
from tsformer.training.inference import forward, place

#: Number of series per chunk of outputs.
_CHUNK = 2**16

#: Prefix of the tensor names of `novelty_`.
_NOVELTY = "novelty."

_Result = TypeVar("_Result")


@dataclass
class TrainingData:
    """Series, and the target, weight and group of each."""

    series: SeriesSource
    targets: Targets
    weights: Any = None
    groups: Groups | None = None

    def __len__(self) -> int:
        return len(self.series)

    def part(self, chosen: npt.NDArray[np.bool_]) -> TrainingData:
        """Return the series that a mask ``[n]`` selects."""
        weights = self.weights
        if np.ndim(weights) == 1:  # `read_weights` rejects other shapes
            check_length(len(chosen), np.asarray(weights), "sample_weight")
            weights = np.asarray(weights)[chosen]
        groups = None if self.groups is None else self.groups[chosen]
        return TrainingData(self.series.take(chosen), self.targets[chosen], weights, groups)


class SeriesEstimator(BaseEstimator):
    """Base class of all estimators: reads series, predicts and saves."""

    preprocessor_: Preprocessor
    models_: list[Any]
    device_: torch.device
    n_channels_: int
    n_features_in_: int
    #: Distances from the training series; absent from a model saved without them.
    novelty_: Novelty
    #: Columns of the training table, saved so that other tables are read alike; set by the reader.
    table_schema_: TableSchema
    #: MLflow run of the fit, saved so that later scores can be added; set by the tracker.
    tracked_run_: dict[str, str]
    _clock: str | None
    _columns_are_steps: bool
    #: Facts of the fit for `summary` and the card; empty for a model saved without them.
    _training: Mapping[str, Any] = MappingProxyType({})

    # Constructor parameters, which the subclasses assign.
    timestamps: str | None
    device: str | torch.device
    n_threads: int | str
    random_state: Any

    #: Parameters that are not saved, with the saved values.
    _not_saved: ClassVar[dict[str, Any]] = {"device": "auto", "n_threads": "auto"}

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
            If a parameter does not exist. Then no parameter is set.
        """
        check_new_values(self, params)
        return super().set_params(**params)

    def _check_parameters(self) -> None:
        """Raise ValueError or TypeError for the first invalid parameter."""
        check_fields_of(self)

    @abstractmethod
    def _targets(self, y: Any, name: str, *, reset: bool) -> Targets:
        """Check and encode `y`; with `reset`, fit the encoding."""

    @property
    def _target_shape(self) -> tuple[int, ...]:
        """The shape of the target of one series; () if it is a single value."""
        return ()

    def _target_facts(self, targets: Targets) -> dict[str, Any]:
        """Describe the training targets for the card."""
        return {}

    @property
    def _purpose(self) -> str:
        """What the model does, for the card."""
        return "Computes an embedding"

    @abstractmethod
    def _describe_targets(self) -> dict[str, Any]:
        """Describe the fitted encoding of the targets for JSON."""

    @abstractmethod
    def _restore_targets(self, described: dict[str, Any]) -> None:
        """Restore the result of `_describe_targets`."""

    # Fitting.

    @contextmanager
    def _fitting(self, X: Any, y: Any, **data: Any) -> Iterator[tuple[Self, Fit]]:
        """Open `fit`: yield a copy to fit, which the block adopts, and the observed fit.

        If the block raises before anything was learned, this estimator and its RandomState stay
        unchanged: a mixture of old and new state would predict wrong results silently.
        """
        with observed(self, X, y, **data) as observation:
            earlier, generator = self.__dict__, self.random_state
            drawn = generator.get_state() if isinstance(generator, np.random.RandomState) else None
            fitted = object.__new__(type(self))
            fitted.__dict__.update(earlier)
            fitted.__dict__.pop("conformal_", None)  # scores of the earlier fit
            try:
                fitted._check_parameters()
                yield fitted, observation
            except BaseException as error:
                if self.__dict__ is earlier or not self._learned_before(error):
                    self.__dict__ = earlier
                    if drawn is not None:
                        generator.set_state(drawn)
                raise

    def _adopt(self, fitted: Self) -> None:
        """Take over the state of a copy from `_fitting`."""
        self.__dict__ = fitted.__dict__

    def _learned_before(self, error: BaseException) -> bool:
        """Whether to keep the state that `fit` learned before an error."""
        return False

    def _record(self, data: TrainingData, **further: Any) -> None:
        """Record facts of the training data for the card."""
        series, lengths, gaps = data.series, data.series.lengths, data.series.gaps
        shortest, longest = int(lengths.min()), int(lengths.max())
        n_missing = 0 if gaps is None else int(gaps.missing.sum(dtype=np.int64))
        share = n_missing / max(int(lengths.sum()) * series.n_channels, 1)
        names = () if self._columns_are_steps else getattr(self, "feature_names_in_", ())
        facts: dict[str, Any] = {"series": len(data), "channels": series.n_channels}
        facts |= {"names of channels": listed(names)} if len(names) else {}
        facts |= {"steps, at least": shortest, "steps, at most": longest}
        facts["missing values"] = f"{share:.2%}"
        facts |= self._target_facts(data.targets)
        further = {name.replace("_", " "): value for name, value in further.items() if value}
        self._training = {"data": facts | further}

    def _learn_novelty(self, data: TrainingData) -> None:
        """Fit `novelty_` to the training series."""
        novelty = Novelty(self.n_channels_, self.preprocessor_.time_step)
        self.novelty_ = novelty.fit(data.series, data.groups)

    # Reading.

    def _read_training(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None,
        groups: Any,
        times: Any,
        *,
        reset: bool = True,
    ) -> TrainingData:
        """Check and read the arguments of `fit`, except for the weights."""
        self._check_given("y", y)
        check_ids(X, y, "y")
        check_ids(X, sample_weight, "sample_weight")
        series = self._source(X, times, reset=reset)
        targets = self._targets_of(series, y, "y", reset=reset)
        return TrainingData(series, targets, sample_weight, read_groups(groups, X, len(series)))

    def _weights(self, sample_weight: npt.ArrayLike | None, targets: Targets) -> Targets | None:
        """Return the weight of each series, or None if all are equal."""
        return series_weights(sample_weight, None, np.zeros(len(targets), np.int64), np.zeros(1))

    def _weighted(self, data: TrainingData, *, reset: bool) -> TrainingData:
        """Compute the weights; leave out series of weight 0."""
        weights = self._weights(data.weights, data.targets)
        data = replace(data, weights=weights)
        return data if weights is None else data.part(weights > 0)

    def _check_given(self, name: str, y: Any) -> None:
        """Raise ValueError if targets are missing."""
        if y is None and name == "y":
            raise ValueError("fit requires y to be passed, but the target y is None")
        if y is None:
            raise ValueError(f"X_val and y_val go together; {name} is missing")

    def _targets_of(
        self, series: SeriesSource, y: Any, name: str, *, of: str = "X", reset: bool
    ) -> Targets:
        """Return the target of each series; arguments as in `_targets`."""
        targets = self._targets(y, name, reset=reset)
        check_length(len(series), targets, name, of=of)
        return targets

    def _read(self, X: Any, times: Any = None, *, reset: bool) -> Padded:
        """Check `X` and read all of it into memory; see `_source`."""
        return self._source(X, times, reset=reset).padded()

    def _source(self, X: Any, times: Any = None, *, reset: bool) -> SeriesSource:
        """Check `X`; with `reset`, learn what later calls must agree with."""
        if not reset:
            check_is_fitted(self)
        columns: list[bool] = []  # whether X is 2-D; stays empty unless X is a single array

        def check(array: Any) -> npt.NDArray[Any]:
            checks = {"dtype": "numeric", "allow_nd": True, "ensure_all_finite": False}
            # Columns of a 2-D X are features of fixed number. With a channel axis, channels are the
            # features, and series may have any length.
            checked: npt.NDArray[Any]
            if not reset:
                self._refuse_single_series(X, array)
            if reset or (self._columns_are_steps and np.asarray(array).ndim <= 2):
                checked = validate_data(self, array, reset=reset, **checks)
            else:
                checked = check_array(array, **checks)
            columns.append(checked.ndim == 2)
            return checked

        if isinstance(times, pd.DataFrame):
            check_ids(X, times, "times")
        series = (
            X
            if isinstance(X, SeriesSource)
            else to_source(X, times, index=self.timestamps == "index", check=check)
        )
        n_channels = series.n_channels
        if columns == [True]:
            warn_of_order(X, series.n_steps)
        if reset:
            self.n_channels_, self._clock = n_channels, series.clock
            self._columns_are_steps = columns == [True]
            for name in ("table_schema_", "tracked_run_"):  # of an earlier fit
                self.__dict__.pop(name, None)
            if not columns:
                self.n_features_in_ = n_channels
            warn_of_layout(X, series, flat=columns == [True])
        elif n_channels != self.n_channels_:
            alone = columns == [True] and self.n_channels_ in (
                len(series),
                series.n_steps if isinstance(X, pd.DataFrame) else None,
            )
            swapped = columns != [True] and series.n_steps == self.n_channels_
            raise ValueError(
                f"X has {n_channels} channels, but {type(self).__name__} was fitted with "
                f"{self.n_channels_}; "
                "X must be (n, channels, length), or a list of (channels, length) arrays"
                + ("; to pass a single series use [X]" if alone else "")
                + (f"; if it is (n, length, channels), pass {swapped_axes(X)}" if swapped else "")
            )
        elif series.clock != self._clock:
            raise ValueError(
                f"{type(self).__name__} was fitted with {_kind(self._clock)}, but X comes with "
                f"{_kind(series.clock)}; give times of the same kind to both"
            )
        # Without `reset`, the ensemble or the original of this copy has already checked a source.
        if (series.channels or not columns) and (reset or not isinstance(X, SeriesSource)):
            self._check_channel_names(series.channels, reset=reset)
        return series

    def _share_input(self, whole: SeriesEstimator) -> None:
        """Expect the same kind of `X` as the ensemble of this part."""
        self._columns_are_steps = whole._columns_are_steps
        self.n_features_in_ = whole.n_features_in_
        names: npt.NDArray[Any] | None = getattr(whole, "feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names

    def _refuse_single_series(self, X: Any, array: Any) -> None:
        """Raise ValueError for a single series, or another number of columns."""
        in_lists = isinstance(X, (list, tuple))
        X_array = "np.asarray(X)" if in_lists else "X.to_numpy()" if hasattr(X, "to_numpy") else "X"
        if np.ndim(array) == 1 and not len(array):
            raise ValueError("X holds no series: Found array with 0 sample(s)")
        if np.ndim(array) == 1:
            one = "[np.asarray(X)]" if in_lists else "[X]"
            if self.n_channels_ > 1:
                one = f"[X] with X of shape ({self.n_channels_}, length)"
            raise ValueError(
                "Reshape your data: X must hold one or more series; got an array of shape "
                f"({len(array)},). To pass a single series use {one}"
            )
        n_steps = self.n_features_in_ if self._columns_are_steps else None
        if n_steps is not None and np.ndim(array) == 2 and array.shape[1] != n_steps:
            raise ValueError(
                f"X has {array.shape[1]} features, but {type(self).__name__} is expecting "
                f"{n_steps} features as input: the time steps of fit. For series of another length "
                f"pass {X_array}[:, None], which is (n, 1, length)"
            )

    def _by_series(self, X: Any, output: npt.NDArray[Any]) -> Any:
        """Index pandas output by series; scikit-learn would use steps."""
        ids = series_ids(X)
        if ids is None or _get_output_config("transform", self)["dense"] != "pandas":
            return output
        return pd.DataFrame(output, index=ids)

    def _in_chunks(
        self, series: SeriesSource, function: Callable[[SeriesSource], _Result]
    ) -> Iterator[tuple[slice, _Result]]:
        """Yield rows and results of a function, chunk by chunk."""
        n = len(series)
        for start in range(0, n, _CHUNK):
            index = np.arange(start, min(start + _CHUNK, n))
            with numbered(index):
                result = function(series if len(index) == n else series.part(index))
            yield slice(start, start + len(index)), result

    def _check_channel_names(self, channels: tuple[str, ...] | None, *, reset: bool) -> None:
        """Compare channel names by scikit-learn, to detect another order."""
        named = pd.DataFrame(columns=channels) if channels else np.empty((0, self.n_channels_))
        if channels or (not reset and hasattr(self, "feature_names_in_")):
            validate_data(self, named, reset=reset, skip_check_array=True, ensure_2d=False)
        elif reset and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    # Predicting.

    def _outputs(
        self, X: Any, times: Any = None, function: str = "forward"
    ) -> npt.NDArray[np.float32]:
        """Return the outputs of all models, ``[members, n, ...]``."""
        series = self._source(X, times, reset=False)
        panel = place(self._panel(self.preprocessor_, series), self.device_)
        outputs = np.stack(
            [
                forward(
                    model,
                    panel,
                    bfloat16=self._autocast(),
                    function=getattr(model, function),
                    device=self.device_,
                ).numpy()
                for model in self.models_
            ]
        )
        finite = np.isfinite(outputs).all(axis=(0, 2))
        if not finite.all():
            case = int(np.flatnonzero(~finite)[0])
            read = panel.part(torch.tensor([case])).values
            raise SeriesError(
                case,
                "the model's outputs for series {case} are not finite: after scaling, its values "
                f"reach {float(read.abs().max()):.3g}, far beyond the training data; "
                "check X for wrong units and for numbers that mark missing values",
            )
        return outputs

    @in_plain_torch
    def novelty_score(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Compute how unlike the training series each series is.

        The score is the larger of two distances from the training series. The distance of the shape
        is between 168 features of random convolutions, which see each channel standardised within
        the series. The distance of the statistics sees the raw values of each channel: level,
        deviation, missing values, unchanged steps, size of the steps, largest value, and
        correlation with the next two channels. Either is a Mahalanobis distance, with a tenth of
        the mean eigenvalue added. Labels and model have no influence.

        A score of 1 is the 0.99 quantile of the training series, each scored by the others, or by
        the other groups: about one in a hundred series like them has a higher score. With fewer
        than 200 training series it is about one in ``n / 2``. `fit` learns from at most 1000
        series, drawn at random, which have lower scores than new series.

        Parameters
        ----------
        X : as in `fit`
            Series of any length, with the same channels as in `fit`.
        times : as in `fit`, optional
            Times of the steps, if `fit` had times.

        Returns
        -------
        ndarray (n,) of float64
            At least 0; the higher, the less like the training series.

        Raises
        ------
        ValueError
            If `fit` had fewer than two series, or the model was saved without the distances.

        Examples
        --------
        >>> from tsformer import RandomConvolutionClassifier, load_dataset
        >>> X, y = load_dataset("ItalyPowerDemand", split="train")
        >>> clf = RandomConvolutionClassifier(1000, random_state=0).fit(X[:60], y[:60])
        >>> clf.novelty_score(X[60:]).max() < 1 < clf.novelty_score(1000 * X[60:]).min()
        np.True_
        """
        series = self._source(X, times, reset=False)
        novelty: Novelty | None = getattr(self, "novelty_", None)
        if novelty is None:
            raise ValueError(
                f"this {type(self).__name__} was saved without novelty scores; fit it again"
            )
        if novelty.n_series < 2:
            raise ValueError(
                "novelty_score compares distances between training series, but fit had 1 series; "
                "fit with 2 or more"
            )
        return novelty.score(series)

    def _panel(self, preprocessor: Preprocessor, series: SeriesSource) -> AnyPanel:
        """Return the input of the modules, on the CPU."""
        return preprocessor.panel(series)

    def _autocast(self) -> bool:
        """Whether the modules run in bf16 autocast."""
        return False

    # Describing.

    def summary(self) -> Summary:
        """Summarise layers, sizes, and the values that `fit` used for every "auto".

        Returns
        -------
        tsformer.estimators.Summary
            Its `str` is plain text; a notebook shows tables.
        """
        check_is_fitted(self)
        layers, sizes, parts = self._layout()
        return Summary(type(self).__name__, layers, sizes, recipe_of(self), parts)

    @abstractmethod
    def _layout(self) -> tuple[pd.DataFrame, dict[str, int], dict[str, Summary]]:
        """Return the layers, sizes and parts of the summary."""

    def _used(self) -> dict[str, Any]:
        """Return the values that `fit` used in place of "auto", by parameter."""
        return dict(self._training.get("used", {}))

    def _held_out_scores(self) -> dict[str, Any]:
        """Return scores on series that the model was not trained on."""
        return dict(self._training.get("scores", {}))

    # Saving.

    @in_plain_torch
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a folder, to be read with `tsformer.load`.

        A ``README.md`` beside the weights describes data, recipe, scores and use. The write is
        atomic: if the process is killed, the folder holds the old model or the new.

        Parameters
        ----------
        path : str or path
            A new folder, or a folder written by an earlier `save`, to replace its model. The
            parameters `device`, `n_threads`, `callbacks`, `checkpoint_dir` and `resume` are not
            saved.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            If `path` is anything else, its ``README.md`` was edited, or a parameter cannot be
            written as JSON. An encoding class is saved under its registered name; a factory cannot
            be saved.
        OSError
            If the files cannot be written. An earlier model stays in the folder.
        """
        check_is_fitted(self)
        persistence.write_folder(path, *self._fitted_state(), card(self))

    def _describe(self) -> dict[str, Any]:
        """Describe the estimator without its models for JSON."""
        schema = getattr(self, "table_schema_", None)
        return {
            "class": type(self).__name__,
            "parameters": self._saved_parameters(),
            **self._describe_targets(),
            "columns_are_steps": self._columns_are_steps,
            "n_features_in": self.n_features_in_,
            "n_channels": self.n_channels_,
            "clock": self._clock,
            "feature_names_in": getattr(self, "feature_names_in_", np.empty(0)).tolist(),
            **({"training": dict(self._training)} if self._training else {}),
            **({} if schema is None else {"table": schema.as_dict()}),
            **({"tracked_run": self.tracked_run_} if hasattr(self, "tracked_run_") else {}),
        }

    def _saved_parameters(self) -> dict[str, Any]:
        parameters = self.get_params(deep=False)
        parameters |= self._fixed(parameters)
        weights = parameters.get("class_weight")
        if isinstance(weights, Mapping):
            parameters["class_weight"] = described_weights(weights, self._labels_dtype())
        return parameters

    def _labels_dtype(self) -> np.dtype[Any]:
        """Return the dtype of the class labels, or of floats without labels."""
        return getattr(self, "classes_", np.empty(0)).dtype

    @classmethod
    def _restored(cls, state: dict[str, Any], device: str | torch.device) -> Self:
        """Make an estimator without its models from the result of `_describe`."""
        check_fields(state, ESTIMATOR)
        parameters = cls._restored_parameters(state["parameters"])
        estimator = cls(**parameters | {"device": device})
        estimator._restore_targets(state)
        if isinstance(parameters.get("class_weight"), dict):
            weights = restored_weights(parameters["class_weight"], estimator._labels_dtype())
            estimator.set_params(class_weight=weights)
        estimator._columns_are_steps = state["columns_are_steps"]
        estimator.n_features_in_ = state["n_features_in"]
        estimator.n_channels_ = state["n_channels"]
        names = state["feature_names_in"]
        if not estimator._columns_are_steps and estimator.n_features_in_ != estimator.n_channels_:
            raise ValueError(
                f"n_features_in must be n_channels, {estimator.n_channels_}; got "
                f"{estimator.n_features_in_}"
            )
        if names:
            if len(names) != estimator.n_features_in_:
                raise ValueError(
                    f"feature_names_in must be {estimator.n_features_in_} names; got {len(names)}"
                )
            estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator._clock = state["clock"]
        if "training" in state:
            check_fields(state, TRAINING)
            estimator._training = state["training"]
        if "table" in state:
            try:
                estimator.table_schema_ = TableSchema.from_dict(state["table"])
            except ValueError as error:
                raise ValueError(f"table: {error}") from error
        if "tracked_run" in state:
            check_fields(state["tracked_run"], TRACKED_RUN, of="tracked_run")
            estimator.tracked_run_ = {name: state["tracked_run"][name] for name in TRACKED_RUN}
        return estimator

    @classmethod
    def _restored_parameters(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return the constructor's arguments from `_saved_parameters`."""
        known = cls._get_param_names()
        return restored_parameters(described, known, cls._fixed(described), "parameters")

    @classmethod
    def _fixed(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that are replaced in a saved estimator."""
        return cls._not_saved

    @abstractmethod
    def _describe_models(self) -> dict[str, Any]:
        """Describe the modules for JSON."""

    @abstractmethod
    def _restored_models(
        self, described: dict[str, Any], saved: Sequence[Mapping[str, Tensor]]
    ) -> list[Any]:
        """Make the described modules, with one mapping of tensors per member."""

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        description = {
            **self._describe(),
            **self.preprocessor_.describe(),
            **self._describe_models(),
        }
        prefix = self.preprocessor_.prefix
        tensors = {prefix + k: v for k, v in self.preprocessor_.state_dict().items()}
        for prefix, fitted in zip(_prefixes(len(self.models_)), self.models_, strict=True):
            tensors |= {prefix + k: v for k, v in fitted.state_dict().items()}
        if hasattr(self, "novelty_"):
            tensors |= {_NOVELTY + k: v for k, v in self.novelty_.state_dict().items()}
        return description, tensors

    @classmethod
    def _from_fitted_state(
        cls, state: dict[str, Any], tensors: dict[str, Tensor], device: str | torch.device
    ) -> Self:
        estimator = cls._restored(state, device)
        check_fields(state, PREPROCESSOR)
        if not any(name.startswith(Vocabulary.prefix) for name in tensors):
            check_fields(state, SCALER)
        members = state.get("members", [])  # random convolutions have none
        check_fields({"members": members}, MEMBERS)
        left = dict(tensors)
        novelty, *saved = (
            {name.removeprefix(p): left.pop(name) for name in tensors if name.startswith(p)}
            for p in (_NOVELTY, *_prefixes(1 + len(members)))
        )
        estimator.preprocessor_ = Preprocessor.restore(state, left)
        estimator._check_preprocessor()
        if novelty:
            made = Novelty(estimator.n_channels_, estimator.preprocessor_.time_step)
            load_checked(made, novelty)
            made.check()
            estimator.novelty_ = made
        estimator.models_ = estimator._restored_models(state, saved)
        estimator._place(resolve_device(device))
        return estimator

    def _check_preprocessor(self) -> None:
        """Raise ValueError if a restored preprocessor has other channels or times."""
        fitted, n_channels = self.preprocessor_, self.n_channels_
        if fitted.n_channels != n_channels:
            raise ValueError(
                f"n_channels is {n_channels}, but {fitted.n_channels} in the preprocessor"
            )
        if (fitted.time_step is None) != (self._clock is None):
            raise ValueError(
                f"clock is {self._clock!r}, but time_step {fitted.time_step!r}: series with times "
                "have both, and others neither"
            )

    @in_plain_torch
    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the weights on the CPU, for machines without this GPU."""
        state: dict[str, Any] = super().__getstate__()
        if "models_" in state and self.device_.type != "cpu":
            state = {**state, "models_": [deepcopy(model).cpu() for model in self.models_]}
        return state

    @in_plain_torch
    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "models_"):
            self._place(self.device)

    def _place(self, device: str | torch.device) -> None:
        """Move the models to `device`, or to the CPU with a warning."""
        try:
            self.device_ = resolve_device(device)
        except ValueError as error:
            warn_caller(f"{error}; the model was moved to the CPU")
            self.device_ = torch.device("cpu")
        trainable(self.preprocessor_)
        for model in self.models_:
            trainable(model).to(self.device_)


def drawn_seed(random_state: Any) -> int:
    """Return the seed from which all seeds of a model are derived."""
    if random_state is None:  # NumPy's global generator stays unchanged
        entropy: Any = np.random.SeedSequence().entropy
        return int(entropy)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _kind(clock: str | None) -> str:
    return {None: "no times", "numbers": "times in numbers", "dates": "dates"}[clock]


def _prefixes(n_members: int) -> list[str]:
    """Return the prefix of each member's tensor names."""
    return ["model.", *(f"members.{i}." for i in range(1, n_members))]
