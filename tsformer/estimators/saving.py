"""SavedEstimator: what all estimators save and restore, as folders and as pickles."""

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from tsformer import persistence
from tsformer._checks import check_fields_of
from tsformer._devices import resolve_device
from tsformer._precision import in_plain_torch, trainable
from tsformer._warnings import warn_caller
from tsformer.data.preprocessor import Preprocessor, Vocabulary
from tsformer.data.table import TableSchema
from tsformer.estimators.novelty import Novelty
from tsformer.estimators.saved import (
    ESTIMATOR,
    MEMBERS,
    PREPROCESSOR,
    SCALER,
    TARGET_NAMES,
    TRACKED_RUN,
    TRAINING,
    check_fields,
    described_weights,
    load_checked,
    restored_parameters,
    restored_weights,
)
from tsformer.estimators.schema import Schema
from tsformer.estimators.summary import card, front_matter
from tsformer.estimators.targets import Target

#: Prefix of the tensor names of `novelty_`.
_NOVELTY = "novelty."


class SavedEstimator(BaseEstimator):
    """Base class of saved estimators: parameters, targets, preprocessor, modules and facts."""

    preprocessor_: Preprocessor
    models_: list[Any]
    device_: torch.device
    schema_: Schema
    #: Distances from the training series; absent from a model saved without them.
    novelty_: Novelty
    #: Columns of the training table, saved so that other tables are read alike; set by the reader.
    table_schema_: TableSchema
    #: MLflow run of the fit, saved so that later scores can be added; set by the tracker.
    tracked_run_: dict[str, str]
    target_: Target
    #: Facts of the fit for `summary` and the card; empty for a model saved without them.
    facts_: Mapping[str, Any] = MappingProxyType({})

    #: A constructor parameter, which the subclasses assign.
    device: str | torch.device

    #: Parameters that are not saved, with the saved values.
    not_saved: ClassVar[dict[str, Any]] = {"device": "auto", "n_threads": "auto"}

    @abstractmethod
    def _describe_targets(self) -> dict[str, Any]:
        """Describe the fitted encoding of the targets for JSON."""

    @abstractmethod
    def _restore_targets(self, described: dict[str, Any]) -> None:
        """Restore the result of `_describe_targets`."""

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
        text = front_matter(self) + card(self)
        persistence.write_folder(path, *self.fitted_state(), text)

    def _describe(self) -> dict[str, Any]:
        """Describe the estimator without its models for JSON."""
        schema = getattr(self, "table_schema_", None)
        return {
            "class": type(self).__name__,
            "parameters": self.saved_parameters(),
            **self._describe_targets(),
            "schema": {**vars(self.schema_), "names": list(self.schema_.names)},
            **({"target_names": list(self.target_.columns)} if self.target_.columns else {}),
            **({"training": dict(self.facts_)} if self.facts_ else {}),
            **({} if schema is None else {"table": schema.as_dict()}),
            **({"tracked_run": self.tracked_run_} if hasattr(self, "tracked_run_") else {}),
        }

    def saved_parameters(self) -> dict[str, Any]:
        """Return the parameters of the constructor for JSON."""
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
        parameters = cls.restored_parameters(state["parameters"])
        estimator = cls(**parameters | {"device": device})
        estimator.schema_ = Schema.restored(state["schema"])
        estimator._restore_targets(state)
        if isinstance(parameters.get("class_weight"), dict):
            weights = restored_weights(parameters["class_weight"], estimator._labels_dtype())
            estimator.set_params(class_weight=weights)
        check_fields_of(estimator)
        if "target_names" in state:
            check_fields(state, TARGET_NAMES)
            estimator.target_ = replace(estimator.target_, columns=tuple(state["target_names"]))
        if "training" in state:
            check_fields(state, TRAINING)
            estimator.facts_ = state["training"]
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
    def restored_parameters(
        cls, described: Mapping[str, Any], of: str = "parameters"
    ) -> dict[str, Any]:
        """Return the constructor's arguments from `saved_parameters`; `of` names them in errors."""
        return restored_parameters(described, cls._get_param_names(), cls._fixed(described), of)

    @classmethod
    def _fixed(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that are replaced in a saved estimator."""
        return cls.not_saved

    @abstractmethod
    def _describe_models(self) -> dict[str, Any]:
        """Describe the modules for JSON."""

    @abstractmethod
    def _restored_models(
        self, described: dict[str, Any], saved: Sequence[Mapping[str, Tensor]]
    ) -> list[Any]:
        """Make the described modules, with one mapping of tensors per member."""

    def fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return what `save` writes: a description for JSON, and tensors by name."""
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
    def from_fitted_state(
        cls, state: dict[str, Any], tensors: dict[str, Tensor], device: str | torch.device
    ) -> Self:
        """Make an estimator from a `fitted_state`."""
        estimator: Self = cls._restored(state, device)
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
            made = Novelty(estimator.schema_.n_channels, estimator.preprocessor_.time_step)
            load_checked(made, novelty)
            made.check()
            estimator.novelty_ = made
        estimator.models_ = estimator._restored_models(state, saved)
        estimator._place(resolve_device(device))
        return estimator

    def _check_preprocessor(self) -> None:
        """Raise ValueError if a restored preprocessor has other channels or times."""
        fitted, n_channels = self.preprocessor_, self.schema_.n_channels
        if fitted.n_channels != n_channels:
            raise ValueError(
                f"n_channels is {n_channels}, but {fitted.n_channels} in the preprocessor"
            )
        if (fitted.time_step is None) != (self.schema_.clock is None):
            raise ValueError(
                f"clock is {self.schema_.clock!r}, but time_step {fitted.time_step!r}: series with "
                "times have both, and others neither"
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


def _prefixes(n_members: int) -> list[str]:
    """Return the prefix of each member's tensor names."""
    return ["model.", *(f"members.{i}." for i in range(1, n_members))]
