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

#: Options of stems that do not change the meaning of weights, or are compared separately.
_ELSEWHERE = ("n_residual", "n_codes", "strides", "n_tokens")
#: What inputs of the same shape may differ in.
_OF_INPUTS = ["scaling", "views", "view_params", "channels with gaps", "meaning of the codes"]


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
    ours, theirs = (list(each.schema_.names) for each in (estimator, source))
    if ours != theirs and sorted(ours) == sorted(theirs):
        messages.append(
            f"init_from was fitted to {theirs[:10]}, and X has the order {ours[:10]}: its "
            "weights read other channels than in training; pass X in the same order"
        )
    for message in messages:  # the same for all members
        warn_caller(message)
    return names


def _copy(
    model: TSTransformer,
    preprocessor: Preprocessor,
    source: TSTransformer,
    source_preprocessor: Preprocessor,
) -> tuple[frozenset[str], list[str]]:
    """Copy the matching weights of stem, encoding and blocks; return their names and warnings."""
    (ours, strides), (theirs, other_strides) = (
        (vars(each.config), tuple(getattr(each.stem, "strides", ()))) for each in (model, source)
    )
    meanings, others = _meaning(model, preprocessor), _meaning(source, source_preprocessor)
    ignored = ["downsampling"] if strides != other_strides else []
    # Other numbers of inputs show in the shapes.
    ignored += [] if preprocessor.n_inputs == source_preprocessor.n_inputs else _OF_INPUTS
    differences = {
        part: [n for n in names if n not in ignored and names[n] != others[part].get(n)]
        for part, names in meanings.items()
    }
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


def _meaning(model: TSTransformer, preprocessor: Preprocessor) -> dict[str, dict[str, Any]]:
    """Return what the weights of each part depend on, beside their shapes."""
    config, described = vars(model.config), preprocessor.describe()
    parameters = inspect.signature(STEMS[config["stem"]]).parameters.values()
    options = {each.name: each.default for each in parameters} | dict(config["stem_params"])
    known = preprocessor.state_dict().get("known")
    stem = {
        "stem": config["stem"],
        **{n: list(v) if isinstance(v, tuple) else v for n, v in options.items()},  # as in JSON
        "downsampling": isinstance(model.stem, ConvStem) and model.stem.first.pools,
        **{name: described.get(name) for name in ("scaling", "views", "view_params")},
        "channels with gaps": described["flagged"],
        "meaning of the codes": None if known is None else known.tolist(),
    }
    return {
        "stem": {name: value for name, value in stem.items() if name not in _ELSEWHERE},
        "encoding": {name: config[name] for name in ("encoding", "encoding_params", "n_heads")},
        "blocks": {name: config[name] for name in ("n_heads", "norm_first")},
        "norm": {},
    }
