"""Load a saved estimator of any class."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tsformer._names import unknown
from tsformer._torch_state import in_plain_torch
from tsformer.estimators.series import SeriesEstimator
from tsformer.persistence import read_folder
from tsformer.training.plan import resolve_device


@in_plain_torch
def load(path: str | os.PathLike[str], *, device: str | torch.device = "auto") -> SeriesEstimator:
    """Load an estimator written by its `save`.

    Parameters
    ----------
    path : str or path
        The folder.
    device : str or torch.device, default="auto"
        The device of the model, independent of the training.

    Returns
    -------
    fitted estimator

    Raises
    ------
    FileNotFoundError
        If there is no saved estimator at `path`.
    ValueError
        If a file is corrupted or was written by another version, or if its encoding is not
        registered (import its module first). Loading an untrusted file runs no code and allocates
        no more memory than the size of the file.

    Examples
    --------
    >>> import tempfile
    >>> from tsformer import TSTransformerClassifier, load, load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> classifier = TSTransformerClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     classifier.save(folder)
    ...     (load(folder).predict(X) == classifier.predict(X)).all()
    np.True_
    """
    resolve_device(device)  # a bad device is not a corrupt file
    state, tensors = read_folder(path)
    name = state.get("class")
    estimators: Any = import_module("tsformer.estimators")  # by name, as estimators load others
    try:
        if not isinstance(name, str) or name not in estimators.__all__:
            raise ValueError(unknown("class", name, estimators.__all__))
        fitted: SeriesEstimator = getattr(estimators, name)._from_fitted_state(
            state, tensors, device
        )
        return fitted
    except Exception as error:
        # Invalid options of an encoding or a stem may raise any error.
        raise ValueError(f"{Path(path)} is corrupted: {error}") from error
