"""Load a saved estimator of any class."""

from __future__ import annotations

import os
from pathlib import Path

import torch

import tsformer
from tsformer._names import unknown
from tsformer._torch_state import in_plain_torch
from tsformer.estimators.series import SeriesEstimator
from tsformer.persistence import read_folder
from tsformer.training.plan import resolve_device

__all__ = ["load"]

_LOADABLE = [
    name for name in tsformer.__all__ if name.endswith(("Classifier", "Regressor", "Encoder"))
]


@in_plain_torch
def load(path: str | os.PathLike[str], *, device: str | torch.device = "auto") -> SeriesEstimator:
    """Load an estimator written by its `save`; it predicts the same as before.

    Parameters
    ----------
    path : str or path
        The folder.
    device : str or torch.device, default="auto"
        The device of the model, regardless of the one it was trained on.

    Returns
    -------
    fitted estimator

    Raises
    ------
    FileNotFoundError
        If there is no saved estimator at `path`.
    ValueError
        If a file is corrupted or truncated, describes what no `save` writes, was written by a
        newer version, or names an encoding that is not registered (import the module that defines
        it first). A file from a stranger runs no code, and takes no more memory than it is long.

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
    resolve_device(device)  # what is wrong with it is not wrong with the files
    state, tensors = read_folder(path)
    name = state.get("class")
    try:
        if name in tsformer.__all__:
            getattr(tsformer, name)  # imported on first use, which registers the class
        if not isinstance(name, str) or name not in SeriesEstimator.classes:
            raise ValueError(unknown("class", name, _LOADABLE))
        return SeriesEstimator.classes[name]._from_fitted_state(state, tensors, device)
    except Exception as error:
        # Of any kind: options that an encoding or a stem cannot take may fail there in any way.
        raise ValueError(f"{Path(path)} is corrupted: {error}") from error
