"""Base of the estimators: read series of any container, predict, and let tracking watch `fit`."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from tsformer._checks import check_fields_of, check_new_values, listed
from tsformer._precision import in_plain_torch, resolve_precision
from tsformer.data.layout import check_ids, refuse_recording, series_ids
from tsformer.data.panel import AnyPanel
from tsformer.data.preprocessor import Preprocessor
from tsformer.data.series import Padded, SeriesError, SeriesSource, parts_of
from tsformer.data.table import TableSchema
from tsformer.estimators import saving
from tsformer.estimators.groups import Groups, first_equal, merge_copies, read_groups
from tsformer.estimators.novelty import LEAST_VALUES, Novelty
from tsformer.estimators.schema import Schema
from tsformer.estimators.summary import Summary, recipe_of
from tsformer.estimators.targets import Target, Targets
from tsformer.training import Callback, NonFiniteLossError
from tsformer.training.inference import forward, place

#: Number of series per chunk of outputs.
_CHUNK = 2**16
#: Most series that `novelty_` learns from, and most of their values that are kept for it, 8 MiB.
_MOST_SAMPLED, _MOST_KEPT = 1000, 2**20

_Result = TypeVar("_Result")


@dataclass
class Fit:
    """One call of `fit`, as passed to observers."""

    estimator: Any
    X: Any
    y: Any
    data: dict[str, Any]
    callbacks: list[Callback] = field(default_factory=list)
    interrupted: bool = False


#: Returns a context manager around a fit.
Observer = Callable[[Fit], AbstractContextManager[object]]

_observers: list[Observer] = []
_inside: ContextVar[bool] = ContextVar("inside an observed fit", default=False)


def add_observer(observer: Observer) -> None:
    """Call `observer` around every fit of this process from now on."""
    if observer not in _observers:
        _observers.append(observer)


def remove_observer(observer: Observer) -> None:
    """Undo `add_observer`; a no-op for an unknown observer."""
    if observer in _observers:
        _observers.remove(observer)


@contextmanager
def unobserved() -> Iterator[None]:
    """Disable observers inside the block, for auxiliary fits."""
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


@dataclass
class TrainingData:
    """Series, and the target, weight and group of each."""

    series: SeriesSource
    targets: Targets
    weights: Targets | None = None
    groups: Groups | None = None
    #: Whether each series equals an earlier one ``[n]``.
    repeated: npt.NDArray[np.bool_] | None = None

    def part(self, chosen: npt.NDArray[Any]) -> TrainingData:
        """Return the series that a mask ``[n]`` or ascending indices select."""
        arrays: dict[str, Any] = {
            name: array if array is None else array[chosen]
            for name, array in vars(self).items()
            if name != "series"
        }
        return replace(self, series=self.series.part(chosen), **arrays)

    def tensors(self) -> dict[str, Any]:
        """Return targets, weights and groups, the arguments of a ridge."""
        named = {"targets": self.targets, "weights": self.weights, "groups": self.groups}
        return {n: None if array is None else torch.from_numpy(array) for n, array in named.items()}


class SeriesEstimator(BaseEstimator):
    """Base class of all estimators: reads series, predicts and saves."""

    # Constructor parameters, which the subclasses assign.
    timestamps: str | None
    n_threads: int | str
    random_state: Any
    device: str | torch.device

    preprocessor_: Preprocessor
    models_: list[Any]
    device_: torch.device
    schema_: Schema
    #: The meaning of the targets, learned by `fit`.
    target_: Target
    #: Columns of the training table, saved so that other tables are read alike; set by the reader.
    table_schema_: TableSchema
    #: MLflow run of the fit, saved so that later scores can be added; set by the tracker.
    tracked_run_: dict[str, str]
    #: Facts of the fit for `summary` and the card; empty for a model saved without them.
    facts_: Mapping[str, Any] = MappingProxyType({})

    #: Parameters that are not saved, with their values in a loaded estimator.
    not_saved: ClassVar[dict[str, Any]] = {"device": "auto", "n_threads": "auto"}
    #: Returns the input of the modules, on the CPU.
    _panel: Callable[[Preprocessor, SeriesSource], AnyPanel] = staticmethod(Preprocessor.panel)
    #: Classes of the parts of an ensemble, and the parameters with their options.
    parts: ClassVar[dict[str, Any]] = {}
    params_of_parts: ClassVar[tuple[str, ...]] = ()

    check_parameters = check_fields_of
    save = saving.save
    from_fitted_state = classmethod(saving.from_fitted_state)
    __getstate__ = saving.getstate
    __setstate__ = saving.setstate

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ValueError for an unknown one, and then none is set.

        Parameters
        ----------
        **params
            New values.

        Returns
        -------
        self
        """
        check_new_values(self, params)
        return super().set_params(**params)

    @property
    def feature_importances_(self) -> NoReturn:
        """Absent: features are values of series, not columns."""
        raise AttributeError(
            f"{type(self).__name__} has no feature_importances_; "
            "tsformer.inspection.permutation_importance(estimator, X, y) computes importances"
        )

    @abstractmethod
    def _learn_target(self, y: Any, sample_weight: Any) -> Target:
        """Learn the meaning of the targets of the training series."""

    @contextmanager
    def _fitting(self, X: Any, y: Any, **data: Any) -> Iterator[tuple[Self, Fit]]:
        """Yield a copy to fit, which the block adopts; an error leaves the estimator unchanged."""
        observation = Fit(self, X, y, data)
        with ExitStack() as stack:
            if not _inside.get() and _observers:
                stack.enter_context(unobserved())
                for observer in list(_observers):
                    stack.enter_context(observer(observation))
            earlier, generator = self.__dict__, self.random_state
            drawn = generator.get_state() if isinstance(generator, np.random.RandomState) else None
            fitted = object.__new__(type(self))
            fitted.__dict__.update(earlier)
            fitted.__dict__.pop("conformal_", None)  # scores of the earlier fit
            try:
                fitted.check_parameters()
                yield fitted, observation
            except BaseException as error:
                learned = isinstance(error, NonFiniteLossError) or any(
                    [*getattr(self, "histories_", ()), getattr(self, "transformer_", None)]
                )
                # A mixture of old and new state would predict wrong results silently.
                if self.__dict__ is earlier or not learned:
                    self.__dict__ = earlier
                    if drawn is not None:
                        generator.set_state(drawn)
                raise

    def _record(
        self, data: TrainingData, used: Mapping[str, Any] | None = None, **further: Any
    ) -> None:
        """Record facts of the fit for the card, and keep series for `novelty_`."""
        if hasattr(self, "preprocessor_"):
            self._keep_sample(data)
        series, lengths, gaps = data.series, data.series.lengths, data.series.gaps
        n_missing = 0 if gaps is None else int(gaps.missing.sum(dtype=np.int64))
        names = () if self.schema_.n_columns else self.schema_.names
        facts = {
            "series": len(series),
            "channels": series.n_channels,
            "names of channels": names and listed(names),
            "steps, at least": int(lengths.min()),
            "steps, at most": int(lengths.max()),
            "missing values": f"{n_missing / max(int(lengths.sum()) * series.n_channels, 1):.2%}",
            **self.target_.facts(data.targets),
            **{name.replace("_", " "): value for name, value in further.items()},
        }
        known = {name: value for name, value in facts.items() if value}
        self.facts_ = {"data": known} if used is None else {"data": known, "used": used}

    def _read_training(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None,
        groups: Any,
        times: Any,
        *,
        class_weight: Any = None,
        reset: bool = True,
    ) -> TrainingData:
        """Read the arguments of `fit`; leave out weights of 0, group equal series."""
        check_ids(X, y, "y")
        check_ids(X, sample_weight, "sample_weight")
        refuse_recording(X, y)
        if not reset:
            series = self._source(X, times)
        else:
            series, self.schema_ = Schema.learn(self, X, times)
            for name in ("table_schema_", "tracked_run_"):  # of an earlier fit
                self.__dict__.pop(name, None)
            self.target_ = self._learn_target(y, sample_weight)
        data = TrainingData(series, self.target_.encode(y, "y", len(series)))
        data.groups = None if groups is None else read_groups(groups, X, len(series))
        data.weights = self.target_.weights(sample_weight, data.targets, class_weight)
        data = data if data.weights is None else data.part(data.weights > 0)
        first = first_equal(data.series)
        data.repeated = first != np.arange(len(first))
        if data.repeated.any():
            data.groups = merge_copies(data.groups, first)
        return data

    def read_series(self, X: Any, times: Any = None) -> Padded:
        """Read series into memory and check them as predictions do."""
        return self._source(X, times).padded()

    def _source(self, X: Any, times: Any = None) -> SeriesSource:
        """Read series like the series of `fit`."""
        if not hasattr(self, "schema_"):
            check_is_fitted(self)
        return self.schema_.read(self, X, times)

    n_channels_ = property(attrgetter("schema_.n_channels"), doc="The number of channels.")
    n_features_in_ = property(
        attrgetter("schema_.n_features"), doc="The number of channels, or of columns of a 2-D `X`."
    )
    clock_ = property(
        attrgetter("schema_.clock"),
        doc='The unit of the times of `fit`: None, "numbers" or "dates".',
    )

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """The names of the channels, or of the columns of a 2-D `X`; absent without names."""
        if not self.schema_.names:
            raise AttributeError(f"this {type(self).__name__} was fitted to series without names")
        return np.array(self.schema_.names, dtype=object)

    def _by_series(self, X: Any, output: npt.NDArray[Any]) -> Any:
        """Index pandas output by series; scikit-learn would use steps."""
        ids = series_ids(X)
        if ids is None or _get_output_config("transform", self)["dense"] != "pandas":
            return output
        return pd.DataFrame(output, index=ids)

    def _in_chunks(
        self, series: SeriesSource, function: Callable[[SeriesSource], _Result], size: int = _CHUNK
    ) -> Iterator[tuple[slice, _Result]]:
        """Yield rows and results of a function, chunk by chunk."""
        n = len(series)
        for start in range(0, n, size):
            index = np.arange(start, min(start + size, n))
            try:
                result = function(series if len(index) == n else series.part(index))
            except SeriesError as error:
                raise error.among(index) from None
            yield slice(start, start + len(index)), result

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    def _outputs(
        self, X: Any, times: Any = None, function: str = "forward"
    ) -> npt.NDArray[np.float32]:
        """Return the outputs of all models, ``[members, n, ...]``."""
        series = self._source(X, times)  # or an error about an unfitted estimator
        panel = place(self._panel(self.preprocessor_, series), self.device_)
        options: dict[str, Any] = {"bfloat16": autocasts(self), "device": self.device_}
        functions = [(model, getattr(model, function)) for model in self.models_]
        outputs = np.stack([forward(m, panel, function=f, **options).numpy() for m, f in functions])
        finite = np.isfinite(outputs).all(axis=(0, 2))
        if not finite.all():
            raise SeriesError(
                int(np.flatnonzero(~finite)[0]),
                "the model's outputs for series {case} are not finite: its values are far beyond "
                "training; check X for wrong units, and for numbers that mark missing values",
            )
        return outputs

    def _keep_sample(self, data: TrainingData) -> None:
        """Keep the series of `novelty_`; learn from stored or large ones now."""
        self.__dict__.pop("novelty_", None)
        chosen = np.random.default_rng(0).permutation(len(data.series))[:_MOST_SAMPLED]
        sample, groups = data.series.part(chosen), data.groups
        self._sample = sample, None if groups is None else groups[chosen]
        if not isinstance(sample, Padded) or sample.values.size > _MOST_KEPT:
            _ = self.novelty_

    @cached_property
    @in_plain_torch
    def novelty_(self) -> Novelty:
        """Distances from the training series, learned at the first use; absent if not saved."""
        # In this order, since another thread stores what it learned before the sample goes.
        sample, novelty = vars(self).get("_sample"), vars(self).get("novelty_")
        if novelty is None:
            if sample is None:
                kind = type(self).__name__
                raise AttributeError(f"this {kind} has no distances for novelty scores")
            novelty = Novelty(self.n_channels_, self.preprocessor_.time_step).fit(*sample)
            self.__dict__["novelty_"] = novelty
            self.__dict__.pop("_sample", None)
        return novelty

    @in_plain_torch
    def novelty_score(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Compute how unlike the training series each series is.

        The score is the larger of two Mahalanobis distances from the training series, without
        labels or model: between features of random convolutions of each channel standardised within
        the series, and between statistics of its raw values (level, deviation, missing values,
        unchanged steps, size of the steps, largest value, correlations). A score of 1 is the 0.99
        quantile of the training series, each scored by the others, or by the other groups; with
        fewer than 200 about one in ``n / 2`` has a higher score. Distances are in units of their
        growth for shorter series.

        Parameters
        ----------
        X, times : as in `fit`
            Series of any length, with the same channels; times if `fit` had times.

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
        series = self._source(X, times)
        novelty: Novelty | None = getattr(self, "novelty_", None)
        if novelty is None or novelty.of_shape.n_series < 2:
            raise ValueError(
                f"this {type(self).__name__} has no novelty scores: it was fitted to 1 series, or "
                "saved without them; fit it again, to 2 series or more"
            )
        size = len(next(parts_of(series, LEAST_VALUES)))
        chunks = self._in_chunks(series, lambda chunk: novelty.score(chunk.padded()), size)
        return np.concatenate([scores for _, scores in chunks])

    def summary(self) -> Summary:
        """Summarise layers, sizes, and the values that `fit` used for every "auto".

        Returns
        -------
        tsformer.estimators.Summary
        """
        check_is_fitted(self)
        layers, sizes, parts = self._layout()
        return Summary(type(self).__name__, layers, sizes, recipe_of(self), parts)

    @abstractmethod
    def _layout(self) -> tuple[pd.DataFrame, dict[str, int], dict[str, Summary]]:
        """Return the layers, sizes and parts of the summary."""

    def used_values(self) -> dict[str, Any]:
        """Return the values that `fit` used in place of "auto", by parameter."""
        return dict(self.facts_.get("used", {}))

    def held_out_scores(self) -> dict[str, Any]:
        """Return the scores of `fit` and `calibrate` on series that were not trained on."""
        return dict(self.facts_.get("scores", {}))


def autocasts(estimator: Any) -> bool:
    """Whether the modules of an estimator run in bf16 autocast."""
    model = estimator.models_[0]
    if not hasattr(model, "config"):
        return False
    n_values = model.max_tokens * model.config.d_model
    return resolve_precision(estimator.precision, estimator.device_, n_values)


def get_feature_names_out(self: Any, input_features: Any = None) -> npt.NDArray[Any]:
    """Return the names of the columns of `transform`; `input_features` are ignored."""
    frame = inspect.currentframe()
    caller = "" if frame is None or frame.f_back is None else frame.f_back.f_globals["__name__"]
    # A diagram would append the features of a final classifier to its pipeline.
    if caller.startswith("sklearn.utils._repr_html") and hasattr(self, "predict"):
        return np.empty(0, dtype=object)
    names: npt.NDArray[Any]
    names = ClassNamePrefixFeaturesOutMixin.get_feature_names_out(self, input_features)
    return names


def fit_transform(self: Any, X: Any, y: Any = None, **fit_params: Any) -> Any:
    """Fit, and transform the same series at the same times.

    Parameters
    ----------
    X, y, **fit_params : as in `fit`

    Returns
    -------
    The result of `transform`.
    """
    return self.fit(X, y, **fit_params).transform(X, fit_params.get("times"))


def drawn_seed(random_state: Any) -> int:
    """Return the seed from which all seeds of a model are derived."""
    if random_state is None:  # NumPy's global generator stays unchanged
        return int(np.random.SeedSequence().generate_state(1)[0])
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
