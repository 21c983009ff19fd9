"""Load a saved estimator of any class, and start from the weights of another."""

import inspect
import os
from pathlib import Path
from typing import Any

import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

from tsformer._devices import resolve_device
from tsformer._precision import in_plain_torch
from tsformer._warnings import warn_caller
from tsformer.data.preprocessor import Preprocessor
from tsformer.data.series import SeriesSource
from tsformer.estimators.saving import restored
from tsformer.estimators.series import SeriesEstimator, unobserved
from tsformer.model import TSTransformer
from tsformer.model.stems import STEMS, ConvStem
from tsformer.persistence import read_folder
from tsformer.training.run import suppress_interruption_warning


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
    try:
        loaded: SeriesEstimator = restored(state, tensors, device)
        return loaded
    except Exception as error:
        # Invalid options of an encoding or a stem may raise any error.
        raise ValueError(f"{Path(path)} is corrupted: {error}") from error


#: Copied parts of the model, and the hyperparameters that determine the meaning of their weights.
_PARTS = {
    "stem": ("stem",),
    "encoding": ("encoding", "encoding_params", "n_heads"),
    "blocks": ("n_heads", "norm_first"),
    "norm": (),
}
#: Options of stems that do not change the meaning of weights, or are compared separately.
_ELSEWHERE = ("n_residual", "n_codes", "strides", "n_tokens", "downsampling")
#: Most tensors that a message lists.
_MOST_LISTED = 8


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator has models."""
    return hasattr(estimator, "models_")


def source_of(init_from: Any, kind: type[Any]) -> Any:
    """Return the estimator of `init_from`, fitted or not."""
    if isinstance(init_from, (str, os.PathLike)):
        found: Any = load(init_from, device="cpu")
        if not isinstance(found, kind):
            raise ValueError(
                f"init_from={os.fspath(init_from)!r} is a saved {type(found).__name__}, which has "
                "no transformer to start from; save a TSTransformerEncoder or "
                "TSTransformerClassifier there"
            )
        return found
    given = init_from.estimator if isinstance(init_from, FrozenEstimator) else init_from
    if isinstance(given, kind):
        if not is_fitted(given) and get_tags(given).target_tags.required:
            raise ValueError(
                f"init_from is an unfitted {type(given).__name__}, which needs targets; fit it "
                "first, or pass a TSTransformerEncoder"
            )
        return given
    raise TypeError(
        "init_from must be a TSTransformerEncoder or another transformer of this package, the "
        f"folder of a saved one, or None; got {init_from!r}"
    )


def fitted_source(source: Any, series: SeriesSource, random_state: int, groups: Any = None) -> Any:
    """Return the source; if unfitted, return a copy fitted to `series`."""
    if is_fitted(source):
        return source
    copied = clone(source)
    if copied.random_state is None:
        copied.set_params(random_state=random_state)
    with unobserved(), suppress_interruption_warning():
        copied.fit(series, groups=groups)
    if any(history.interrupted for history in copied.histories_):
        folder = copied.checkpoint_dir
        advice = f"; resume=True continues from a checkpoint in {folder}, if any" if folder else ""
        warn_caller(f"pretraining was interrupted, and its weights are lost{advice}")
        raise KeyboardInterrupt
    return copied


def take_over(
    model: TSTransformer,
    preprocessor: Preprocessor,
    source: TSTransformer,
    source_preprocessor: Preprocessor,
) -> tuple[frozenset[str], list[str]]:
    """Copy the matching weights of stem, encoding and blocks into a model."""
    ours, theirs = model.state_dict(), source.state_dict()
    differences = {
        part: [n for n in names if getattr(model.config, n) != getattr(source.config, n)]
        for part, names in _PARTS.items()
    }
    if not differences["stem"]:
        differences["stem"] += _other_options(model, source)
        differences["stem"] += _other_inputs(preprocessor, source_preprocessor)
    reasons = [
        f"{part} (another {', '.join(names)})" for part, names in differences.items() if names
    ]
    fitting = {}
    for name, tensor in ours.items():
        part = name.partition(".")[0]
        if part not in _PARTS or differences[part]:
            continue
        own, other = tuple(tensor.shape), theirs.get(name)
        if other is None:
            reasons.append(f"{name} (missing)")
        elif tuple(other.shape) != own:
            reasons.append(f"{name} ({tuple(other.shape)} in place of {own})")
        else:
            fitting[name] = other
    if model.config.n_layers and not any(name.startswith("blocks.") for name in fitting):
        shape = ("d_model", "n_heads", "d_ff", "norm_first")
        sizes = [
            ", ".join(f"{name}={getattr(config, name)}" for name in shape)
            for config in (source.config, model.config)
        ]
        raise ValueError(
            f"no block of init_from fits: it has {sizes[0]}, and this estimator {sizes[1]}; set "
            "the same values in both"
        )
    model.load_state_dict(fitting, strict=False)
    unused = {name.split(".")[1] for name in theirs if name.startswith("blocks.")} - {
        name.split(".")[1] for name in ours if name.startswith("blocks.")
    }
    if unused:
        reasons.append(f"{len(unused)} blocks more than this model has")
    reasons += [
        f"{name} (of init_from alone)"
        for name in theirs
        if name.partition(".")[0] in ("stem", "encoding", "norm")
        and name not in ours
        and not differences[name.partition(".")[0]]
    ]
    messages = []
    if reasons:
        messages.append(
            f"not all weights of init_from fit; initialised at random: {_listed(reasons)}"
        )
    strides, source_strides = _strides(model), _strides(source)
    if not differences["stem"] and strides != source_strides:
        messages.append(
            f"the stem of init_from has strides {source_strides}, and this stem {strides}: the "
            "copied weights of its second layer see other steps than in training; set "
            f"stem_params={{'strides': {source_strides}}} for the same strides"
        )
    names = frozenset(name for name, _ in model.named_parameters() if name in fitting)
    return names, messages


def _listed(reasons: list[str]) -> str:
    more = len(reasons) - _MOST_LISTED
    return ", ".join(reasons[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _other_options(model: TSTransformer, source: TSTransformer) -> list[str]:
    """Return the stem options that change the meaning of weights."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(STEMS[model.config.stem]).parameters.items()
        if parameter.default is not parameter.empty and name not in _ELSEWHERE
    }
    ours, theirs = (defaults | dict(each.config.stem_params) for each in (model, source))
    others = [name for name in defaults if _plain(ours[name]) != _plain(theirs[name])]
    if _strides(model) == _strides(source) and _pools(model) != _pools(source):
        others.append("downsampling")
    return others


def _strides(model: TSTransformer) -> tuple[int, ...] | None:
    """Return the strides of the layers of a conv stem."""
    return tuple(model.stem.strides) if isinstance(model.stem, ConvStem) else None


def _pools(model: TSTransformer) -> bool:
    """Return whether the stem pools steps."""
    return isinstance(model.stem, ConvStem) and model.stem.first.pools


def _plain(value: Any) -> Any:
    """Convert a tuple to a list, as JSON does."""
    return list(value) if isinstance(value, (tuple, list)) else value


def _other_inputs(ours: Preprocessor, theirs: Preprocessor) -> list[str]:
    """Return the differences between inputs of the same shape."""
    if ours.n_inputs != theirs.n_inputs or ours.symbolic != theirs.symbolic:
        return []
    if ours.symbolic:
        known = [dict(each.named_buffers())["known"] for each in (ours, theirs)]
        return [] if torch.equal(*known) else ["meaning of the codes"]
    described = [each.describe() for each in (ours, theirs)]
    compared = {name: name for name in ("scaling", "views", "view_params")}
    compared["flagged"] = "set of channels with gaps"
    return [
        description
        for name, description in compared.items()
        if described[0].get(name) != described[1].get(name)
    ]
