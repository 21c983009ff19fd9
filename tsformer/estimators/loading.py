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
        source: Any = load(init_from, device="cpu")
        if not isinstance(source, kind):
            raise ValueError(
                f"init_from={os.fspath(init_from)!r} is a saved {type(source).__name__}, which has "
                "no transformer to start from; save a TSTransformerEncoder or "
                "TSTransformerClassifier there"
            )
        return source
    source = init_from.estimator if isinstance(init_from, FrozenEstimator) else init_from
    if not isinstance(source, kind):
        raise TypeError(
            "init_from must be a TSTransformerEncoder or another transformer of this package, the "
            f"folder of a saved one, or None; got {init_from!r}"
        )
    if not is_fitted(source) and get_tags(source).target_tags.required:
        raise ValueError(
            f"init_from is an unfitted {type(source).__name__}, which needs targets; fit it "
            "first, or pass a TSTransformerEncoder"
        )
    return source


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


def take_over(estimator: Any, source: Any) -> list[frozenset[str]]:
    """Copy the weights of a fitted source into each member; return their names."""
    models = source.models_
    taken = [
        _copy(model, estimator.preprocessor_, models[i % len(models)], source.preprocessor_)
        for i, model in enumerate(estimator.models_)
    ]
    for message in sorted({message for _, messages in taken for message in messages}):
        warn_caller(message)
    ours, theirs = (list(each.schema_.names) for each in (estimator, source))
    if ours != theirs and sorted(ours) == sorted(theirs):
        warn_caller(
            f"init_from was fitted to {theirs[:10]}, and X has the order {ours[:10]}: its "
            "weights read other channels than in training; pass X in the same order"
        )
    return [names for names, _ in taken]


def _copy(
    model: TSTransformer,
    preprocessor: Preprocessor,
    source: TSTransformer,
    source_preprocessor: Preprocessor,
) -> tuple[frozenset[str], list[str]]:
    """Copy the matching weights of stem, encoding and blocks; return their names and warnings."""
    ours, theirs = model.state_dict(), source.state_dict()
    strides, source_strides = (
        tuple(each.stem.strides) if isinstance(each.stem, ConvStem) else None
        for each in (model, source)
    )
    differences = {
        part: [n for n in names if getattr(model.config, n) != getattr(source.config, n)]
        for part, names in _PARTS.items()
    }
    if not differences["stem"]:
        differences["stem"] += _other_options(model, source)
        if strides == source_strides and _pools(model) != _pools(source):
            differences["stem"].append("downsampling")
        differences["stem"] += _other_inputs(preprocessor, source_preprocessor)
    same = {part for part, names in differences.items() if not names}
    reasons = [f"{part} (another {', '.join(n)})" for part, n in differences.items() if n]
    fitting = {}
    for name in (name for name in ours if name.partition(".")[0] in same):
        shape, other = tuple(ours[name].shape), theirs.get(name)
        if other is None:
            reasons.append(f"{name} (missing)")
        elif tuple(other.shape) != shape:
            reasons.append(f"{name} ({tuple(other.shape)} in place of {shape})")
        else:
            fitting[name] = other
    if model.config.n_layers and not any(name.startswith("blocks.") for name in fitting):
        sizes = [
            ", ".join(f"{n}={getattr(c, n)}" for n in ("d_model", "n_heads", "d_ff", "norm_first"))
            for c in (source.config, model.config)
        ]
        raise ValueError(
            f"no block of init_from fits: it has {sizes[0]}, and this estimator {sizes[1]}; set "
            "the same values in both"
        )
    model.load_state_dict(fitting, strict=False)
    if (further := len(source.blocks) - len(model.blocks)) > 0:
        reasons.append(f"{further} blocks more than this model has")
    alone = same - {"blocks"}
    reasons += [
        f"{name} (of init_from alone)"
        for name in theirs
        if name.partition(".")[0] in alone and name not in ours
    ]
    messages = []
    if reasons:
        more = len(reasons) - _MOST_LISTED
        listed = ", ".join(reasons[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
        messages.append(f"not all weights of init_from fit; initialised at random: {listed}")
    if "stem" in same and strides != source_strides:
        messages.append(
            f"the stem of init_from has strides {source_strides}, and this stem {strides}: the "
            "copied weights of its second layer see other steps than in training; set "
            f"stem_params={{'strides': {source_strides}}} for the same strides"
        )
    return frozenset(name for name, _ in model.named_parameters() if name in fitting), messages


def _other_options(model: TSTransformer, source: TSTransformer) -> list[str]:
    """Return the stem options that change the meaning of weights."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(STEMS[model.config.stem]).parameters.items()
        if parameter.default is not parameter.empty and name not in _ELSEWHERE
    }
    # A list stands for a tuple, as in JSON.
    ours, theirs = (
        {n: list(v) if isinstance(v, tuple) else v for n, v in (defaults | dict(params)).items()}
        for params in (model.config.stem_params, source.config.stem_params)
    )
    return [name for name in defaults if ours[name] != theirs[name]]


def _pools(model: TSTransformer) -> bool:
    """Return whether the stem pools steps."""
    return isinstance(model.stem, ConvStem) and model.stem.first.pools


def _other_inputs(ours: Preprocessor, theirs: Preprocessor) -> list[str]:
    """Return the differences between inputs of the same shape."""
    if ours.n_inputs != theirs.n_inputs or ours.symbolic != theirs.symbolic:
        return []
    if ours.symbolic:
        known = [dict(each.named_buffers())["known"] for each in (ours, theirs)]
        return [] if torch.equal(*known) else ["meaning of the codes"]
    compared = {name: name for name in ("scaling", "views", "view_params")}
    compared["flagged"] = "set of channels with gaps"
    one, other = ours.describe(), theirs.describe()
    return [text for name, text in compared.items() if one.get(name) != other.get(name)]
