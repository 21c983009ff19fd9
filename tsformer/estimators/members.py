"""Members of a transformer estimator: their seeds, configuration, models, plans and histories."""

import inspect
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from torch import Tensor

from tsformer._checks import read_dataclass
from tsformer._devices import resolve_device
from tsformer._random import seeded
from tsformer._warnings import warn_caller
from tsformer.data.preprocessor import Preprocessor, Scaler, Vocabulary
from tsformer.data.series import SeriesSource
from tsformer.estimators.saving import compare_tensors, load, load_checked
from tsformer.estimators.series_estimator import drawn_seed, unobserved
from tsformer.estimators.targets import Target
from tsformer.model import ModelConfig, TSTransformer
from tsformer.model.stems import STEMS, ConvStem
from tsformer.training import History, TrainingPlan
from tsformer.training.plan import Pretrained, check_graphs
from tsformer.training.training_run import suppress_interruption_warning

CPU = torch.device("cpu")

#: Distinguishes the seed of a source fitted in `fit` from the seeds of members.
_PRETRAINING = 2**20
#: Largest size in bytes of buffers that are not saved, such as the noise of an encoding.
_MOST_UNSAVED = 2**26
#: Parameters that the model's configuration has under the same names.
_CONFIG = ("encoding", "stem", "d_model", "n_heads", "n_layers", "d_ff", "dropout", "pooling")


class Seeds(NamedTuple):
    """Seeds of the weights, the training run and the validation split of a member."""

    weights: int
    training: int
    split: int


def seeds_of(random_state: Any, n_members: int) -> list[Seeds]:
    """Derive the seeds of all members from `random_state`."""
    drawn = drawn_seed(random_state)
    further = [drawn_seed(_derived(drawn, member)) for member in range(1, n_members)]
    generated = [np.random.SeedSequence(seed).generate_state(3) for seed in (drawn, *further)]
    return [Seeds(*map(int, three)) for three in generated]


def member_state(random_state: Any, member: int) -> Any:
    """Return the `random_state` that reproduces a member, if any."""
    if not isinstance(random_state, (int, np.integer)):
        return None
    return random_state if member == 0 else _derived(drawn_seed(random_state), member)


def _derived(drawn: int, member: int) -> int:
    return int(np.random.SeedSequence([drawn, member]).generate_state(1)[0])


def config_for(estimator: Any, max_len: int, *, probed: SeriesSource | None = None) -> ModelConfig:
    """Return the configuration for the preprocessor's outputs, or for a probe of raw series."""
    if probed is None:
        inputs, n_outputs = estimator.preprocessor_, estimator.target_.n_outputs
        n_channels, head_norm = inputs.n_inputs, estimator.settings_.head_norm
    else:
        inputs, n_channels, n_outputs, head_norm = None, probed.n_channels, 1, None
    codes = {}
    if estimator.stem == "embedding":
        codes = {"n_codes": 1 if inputs is None else len(inputs.known)}
    default = estimator.conv_params if estimator.stem == "conv" else {}
    return ModelConfig(
        n_channels=n_channels,
        n_outputs=n_outputs,
        head_norm=head_norm,
        max_len=max_len,
        encoding_params=dict(estimator.encoding_params or {}),
        norm_first=bool(estimator.norm_first),
        stem_params={**default, **(estimator.stem_params or {}), **codes},
        **{name: getattr(estimator, name) for name in _CONFIG},
    )


def probe_model(estimator: Any, series: SeriesSource) -> TSTransformer:
    """Make an unused model of the width, of one block: wrong options fail before any fit."""
    device = resolve_device(estimator.device)
    if estimator.compile == "cuda-graphs":
        check_graphs(device)
    with warnings.catch_warnings(), seeded(0, CPU):
        warnings.simplefilter("ignore")  # the trained model issues them again
        config = config_for(estimator, int(series.lengths.max()), probed=series)
        return TSTransformer(replace(config, n_layers=min(config.n_layers, 1)))


def plan_for(estimator: Any, pretrained: frozenset[str], seed: int) -> TrainingPlan:
    """Return the plan of a member; `pretrained` are the names of weights from a source."""
    encoding: Any = estimator.encoding
    if not isinstance(encoding, str):  # without its address in memory
        encoding = getattr(encoding, "__qualname__", type(encoding).__qualname__)
    design = replace(estimator.models_[0].config, encoding=encoding)
    settings, folder = estimator.settings_, estimator.checkpoint_dir
    scale, frozen = float(estimator.pretrained_lr_scale), estimator.freeze == "backbone"
    same = ("batch_size", "learning_rate", "augmentation", "n_iter_no_change", "device", "compile")
    return TrainingPlan(
        **{name: getattr(settings, name) for name in same},
        n_epochs=settings.max_epochs,
        weight_decay=estimator.weight_decay,
        pretrained=Pretrained(pretrained, scale, frozen=frozen) if pretrained else None,
        bfloat16=settings.precision == "bfloat16",
        seed=seed,
        design=f"{design}, label_smoothing={estimator.label_smoothing}",
        checkpoint_dir=None if folder is None else Path(folder),
        checkpoint_minutes=float(estimator.checkpoint_minutes),
        resume=bool(estimator.resume),
    )


def check_continues(estimator: Any, pretrained: frozenset[str]) -> None:
    """Raise ValueError if a warm start cannot continue from the fitted models."""
    if estimator.freeze is not None and not pretrained:
        raise ValueError(
            f"freeze={estimator.freeze!r} would freeze nothing: warm_start=True continues a fit "
            "without pretrained weights, or a loaded model; set freeze=None"
        )
    fitted = {"n_estimators": len(estimator.models_), **vars(estimator.models_[0].config)}
    wanted = vars(config_for(estimator, fitted["max_len"])) | {
        "n_estimators": estimator.n_estimators
    }
    if isinstance(scaler := estimator.preprocessor_, Scaler):
        for name in ("scaling", "views"):
            fitted[name], wanted[name] = getattr(scaler, name), getattr(estimator.settings_, name)
    changed = {n: (fitted[n], value) for n, value in wanted.items() if fitted[n] != value}
    if changed:
        raise ValueError(
            "warm_start=True continues from the fitted model, whose parameters cannot change; got "
            f"other values of {changed}: set them back, or pass warm_start=False"
        )


def mean_history(histories: list[History]) -> History:
    """Average each epoch over its members, and sum the seconds."""
    if len(histories) == 1:
        return histories[0]
    mean = History()
    for rows in zip_longest(*histories):
        present = [row for row in rows if row is not None]
        row = {
            key: fmean(r[key] for r in present)
            for key in present[0]
            if all(key in r for r in present)
        }
        mean.append(
            row | {"epoch": present[0]["epoch"], "seconds": sum(r["seconds"] for r in present)}
        )
    mean.interrupted = any(history.interrupted for history in histories)
    return mean


def restored_model(
    described: Any, saved: Mapping[str, Tensor], preprocessor: Preprocessor, target: Target
) -> TSTransformer:
    """Make the described model with the saved tensors; raise ValueError unless they fit."""
    config = read_dataclass(ModelConfig, described, "model")
    codes = len(preprocessor.known) if isinstance(preprocessor, Vocabulary) else None
    for name, value, expected in (
        ("n_channels", config.n_channels, preprocessor.n_inputs),
        ("n_outputs", config.n_outputs, target.n_outputs),
        ("stem == 'embedding'", config.stem == "embedding", preprocessor.symbolic),
        ("stem_params.n_codes", config.stem_params.get("n_codes"), codes),
    ):
        if value != expected:
            raise ValueError(f"model.{name} must be {expected}, by its data; got {value}")
    for n_layers in (config.n_layers, config.stem_params.get("n_residual", 0)):
        if isinstance(n_layers, int) and n_layers > len(saved):
            raise ValueError(f"{n_layers} layers, but {len(saved)} tensors in the file")
    compared = dict(saved)
    try:
        with torch.device("meta"):  # a few bytes must not allocate gigabytes
            try:
                planned = target.make_model(config)
            except RuntimeError:
                # A user's encoding may read values, which do not exist on the meta device.
                compared = {n: t for n, t in saved.items() if not n.startswith("encoding.")}
                planned = target.make_model(replace(config, encoding="none", encoding_params={}))
        compare_tensors(planned.state_dict(), compared)
    except ValueError as error:
        hint = f"If the encoding {config.encoding!r} is your own, import its module first"
        raise ValueError(f"{error}. {hint}") from error
    stored = set(map(id, planned.state_dict(keep_vars=True).values()))
    n_bytes = sum(buffer.nbytes for buffer in planned.buffers() if id(buffer) not in stored)
    if n_bytes > _MOST_UNSAVED:
        raise ValueError(f"{n_bytes:,} bytes of tables that are not in the file are too many")
    with seeded(0, CPU):
        model = target.make_model(config)
    load_checked(model, saved)
    return model.eval()


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


def fitted_source(source: Any, series: SeriesSource, seed: int, groups: Any = None) -> Any:
    """Return the source; if unfitted, return a copy fitted to `series`."""
    if is_fitted(source):
        return source
    copied = clone(source)
    if copied.random_state is None:
        copied.set_params(random_state=_derived(seed, _PRETRAINING))
    with unobserved(), suppress_interruption_warning():
        copied.fit(series, groups=groups)
    if any(history.interrupted for history in copied.histories_):
        warn_caller(
            "pretraining was interrupted, and its weights are lost except checkpoints in "
            f"checkpoint_dir={copied.checkpoint_dir!r} of init_from, which resume=True continues"
        )
        raise KeyboardInterrupt
    return copied


def take_over(estimator: Any, source: Any) -> frozenset[str]:
    """Copy the weights of a fitted source into each member; return their names."""
    for i, model in enumerate(estimator.models_):
        source_model = source.models_[i % len(source.models_)]
        names, messages = _copy(model, estimator.preprocessor_, source_model, source.preprocessor_)
    ours, theirs = list(estimator.schema_.names), list(source.schema_.names)
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
    ours, theirs = vars(model.config), vars(source.config)
    strides, source_strides = (tuple(getattr(m.stem, "strides", ())) for m in (model, source))
    meanings = _meaning(model, preprocessor)
    source_meanings = _meaning(source, source_preprocessor)
    ignored = ["downsampling"] if strides != source_strides else []
    # Other numbers of inputs show in the shapes.
    ignored += [] if preprocessor.n_inputs == source_preprocessor.n_inputs else _OF_INPUTS
    differences = {
        layer: [n for n in names if n not in ignored and names[n] != source_meanings[layer].get(n)]
        for layer, names in meanings.items()
    }
    reasons = [f"{layer} (another {', '.join(n)})" for layer, n in differences.items() if n]
    fitting, tensors, source_tensors = {}, model.state_dict(), source.state_dict()
    for name in {**tensors, **source_tensors}:
        if differences.get(name.partition(".")[0], ["not copied"]):
            continue
        source_shape, shape = (
            tuple(state[name].shape) if name in state else "none"
            for state in (source_tensors, tensors)
        )
        if source_shape == shape:
            fitting[name] = source_tensors[name]
        else:
            reasons.append(f"{name} ({source_shape} in place of {shape})")
    if ours["n_layers"] and not any(name.startswith("blocks.") for name in fitting):
        sizes, source_sizes = (
            ", ".join(f"{name}={c[name]}" for name in ("d_model", "n_heads", "d_ff", "norm_first"))
            for c in (ours, theirs)
        )
        raise ValueError(
            f"no block of init_from fits: it has {source_sizes}, and this estimator {sizes}; set "
            "the same values in both"
        )
    model.load_state_dict(fitting, strict=False)
    messages = []
    if reasons:
        messages = [f"weights of init_from do not fit; initialised at random: {reasons[:8]}"]
    if not differences["stem"] and strides != source_strides:
        messages.append(
            f"init_from has strides {source_strides}, and this stem {strides}: its copied weights "
            f"see other steps than in training; set stem_params={{'strides': {source_strides}}}"
        )
    return frozenset(name for name, _ in model.named_parameters() if name in fitting), messages


def _meaning(model: TSTransformer, preprocessor: Preprocessor) -> dict[str, dict[str, Any]]:
    """Return the options that give the weights of each layer their meaning, beside shapes."""
    config, described = vars(model.config), preprocessor.describe()
    parameters = inspect.signature(STEMS[config["stem"]]).parameters.values()
    options = {option.name: option.default for option in parameters} | dict(config["stem_params"])
    known = preprocessor.state_dict().get("known")
    stem = {
        "stem": config["stem"],
        **{n: list(v) if isinstance(v, tuple) else v for n, v in options.items()},  # as in JSON
        "downsampling": isinstance(model.stem, ConvStem) and model.stem.first.pools,
        **{name: described.get(name) for name in ("scaling", "views", "view_params")},
        "channels with gaps": described["flagged"],
        "meaning of the codes": None if known is None else known.tolist(),
    }
    layers = {"encoding": ("encoding", "encoding_params", "n_heads"), "norm": ()}
    layers["blocks"] = ("n_heads", "norm_first")
    meanings = {layer: {name: config[name] for name in names} for layer, names in layers.items()}
    return meanings | {"stem": {n: value for n, value in stem.items() if n not in _ELSEWHERE}}
