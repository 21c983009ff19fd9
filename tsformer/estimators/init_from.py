"""Start from the weights of another estimator."""

import inspect
import os
from typing import Any

from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

from tsformer._warnings import warn_caller
from tsformer.data.preprocessor import Preprocessor
from tsformer.data.series import SeriesSource
from tsformer.estimators.saving import load
from tsformer.estimators.series import unobserved
from tsformer.model import TSTransformer
from tsformer.model.stems import STEMS, ConvStem
from tsformer.training.training_run import suppress_interruption_warning

#: Copied parts of the model, and the hyperparameters that determine the meaning of their weights.
_PARTS = {
    "stem": ("stem",),
    "encoding": ("encoding", "encoding_params", "n_heads"),
    "blocks": ("n_heads", "norm_first"),
    "norm": (),
}
#: Options of stems that do not change the meaning of weights, or are compared separately.
_ELSEWHERE = ("n_residual", "n_codes", "strides", "n_tokens", "downsampling")


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator has models."""
    return hasattr(estimator, "models_")


def source_of(init_from: Any, kind: type[Any]) -> Any:
    """Return the estimator of `init_from`, fitted or not."""
    source = init_from.estimator if isinstance(init_from, FrozenEstimator) else init_from
    if isinstance(init_from, (str, os.PathLike)):
        source = load(init_from, device="cpu")
    if not isinstance(source, kind):
        raise TypeError(
            "init_from must be a TSTransformerEncoder or another transformer of this package, the "
            f"folder of a saved one, or None; got {source!r}"
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
        warn_caller(
            "pretraining was interrupted, and its weights are lost, but for checkpoints in "
            f"checkpoint_dir={copied.checkpoint_dir!r} of init_from, which resume=True continues"
        )
        raise KeyboardInterrupt
    return copied


def take_over(estimator: Any, source: Any) -> frozenset[str]:
    """Copy the weights of a fitted source into each member; return their names."""
    for i, model in enumerate(estimator.models_):
        other = source.models_[i % len(source.models_)]
        names, messages = _copy(model, estimator.preprocessor_, other, source.preprocessor_)
    for message in messages:  # the same for all members
        warn_caller(message)
    ours, theirs = (list(each.schema_.names) for each in (estimator, source))
    if ours != theirs and sorted(ours) == sorted(theirs):
        warn_caller(
            f"init_from was fitted to {theirs[:10]}, and X has the order {ours[:10]}: its "
            "weights read other channels than in training; pass X in the same order"
        )
    return names


def _copy(
    model: TSTransformer,
    preprocessor: Preprocessor,
    source: TSTransformer,
    source_preprocessor: Preprocessor,
) -> tuple[frozenset[str], list[str]]:
    """Copy the matching weights of stem, encoding and blocks; return their names and warnings."""
    ours, theirs = vars(model.config), vars(source.config)
    differences = {
        part: [name for name in names if ours[name] != theirs[name]]
        for part, names in _PARTS.items()
    }
    strides, other_strides = (tuple(getattr(each.stem, "strides", ())) for each in (model, source))
    if not differences["stem"]:
        meaning, other = _meaning(model), _meaning(source)
        if strides != other_strides:
            del meaning["downsampling"]
        if preprocessor.n_inputs == source_preprocessor.n_inputs:
            meaning |= _inputs(preprocessor)
            other |= _inputs(source_preprocessor)
        differences["stem"] = [name for name, value in meaning.items() if value != other[name]]
    reasons = [f"{part} (another {', '.join(n)})" for part, n in differences.items() if n]
    fitting, tensors, other_tensors = {}, model.state_dict(), source.state_dict()
    for name in {**tensors, **other_tensors}:
        if differences.get(name.partition(".")[0], ["not copied"]):
            continue
        given, shape = (
            tuple(state[name].shape) if name in state else "none"
            for state in (other_tensors, tensors)
        )
        if given == shape:
            fitting[name] = other_tensors[name]
        else:
            reasons.append(f"{name} ({given} in place of {shape})")
    if ours["n_layers"] and not any(name.startswith("blocks.") for name in fitting):
        own, its = (
            ", ".join(f"{name}={c[name]}" for name in ("d_model", "n_heads", "d_ff", "norm_first"))
            for c in (ours, theirs)
        )
        raise ValueError(
            f"no block of init_from fits: it has {its}, and this estimator {own}; set the same "
            "values in both"
        )
    model.load_state_dict(fitting, strict=False)
    messages = []
    if reasons:
        messages = [f"weights of init_from do not fit; initialised at random: {reasons[:8]}"]
    if not differences["stem"] and strides != other_strides:
        messages.append(
            f"init_from has strides {other_strides}, and this stem {strides}: its copied weights "
            f"see other steps than in training; set stem_params={{'strides': {other_strides}}}"
        )
    return frozenset(name for name, _ in model.named_parameters() if name in fitting), messages


def _meaning(model: TSTransformer) -> dict[str, Any]:
    """Return the stem options that change the meaning of weights."""
    parameters = inspect.signature(STEMS[model.config.stem]).parameters.values()
    options = {each.name: each.default for each in parameters} | dict(model.config.stem_params)
    meaning = {
        name: list(value) if isinstance(value, tuple) else value  # a list in JSON
        for name, value in options.items()
        if name not in _ELSEWHERE
    }
    return meaning | {"downsampling": isinstance(model.stem, ConvStem) and model.stem.first.pools}


def _inputs(preprocessor: Preprocessor) -> dict[str, Any]:
    """Return what inputs of the same shape differ in."""
    described, known = preprocessor.describe(), preprocessor.state_dict().get("known")
    return {
        **{name: described.get(name) for name in ("scaling", "views", "view_params")},
        "set of channels with gaps": described["flagged"],
        "meaning of the codes": None if known is None else known.tolist(),
    }
