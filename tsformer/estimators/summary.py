"""Summary and card: layers, sizes, recipe, data and scores of a fitted estimator."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from importlib import metadata
from math import ceil
from textwrap import indent
from typing import Any

import pandas as pd
from sklearn.utils import get_tags
from torch import nn

from tsformer._checks import shortened
from tsformer._markdown import escaped, markdown_table
from tsformer._version import __version__
from tsformer.encodings.base import encoding_name
from tsformer.model import TSTransformer
from tsformer.model.stems import DilatedConvolution

__all__ = ["Summary", "layers_of", "recipe_of", "table_of"]

#: Parameters that change nothing, and parameters that the recipes of the parts list.
_SILENT = ("n_jobs", "verbose", "convolution_params", "transformer_params")
#: Longest value of a parameter in a table.
_LONGEST = 80
_PACKAGES = ("torch", "numpy", "scikit-learn")
_OF_SCORES = (
    "These series may have chosen the epoch, the temperature or the penalty: expect slightly lower "
    "scores on new series. Calibration series are those passed to `calibrate`."
)


@dataclass(frozen=True, repr=False)
class Summary:
    """Layers, sizes and recipe of a fitted estimator, from its method `summary`; text, or HTML.

    Attributes
    ----------
    title : str
        Class of the estimator.
    layers : DataFrame
        Columns `layer`, `kind`, `output` (shape for the longest training series) and `parameters`
        (number of trained weights). An ensemble has a row for each part.
    sizes : dict of str to int
        Parameters of all members; of a transformer also members, epochs, steps, tokens and the
        steps that a token depends on before attention.
    recipe : DataFrame
        Columns `parameter`, `set` and `used`: each parameter that is "auto" or not its default, and
        the value that `fit` used.
    parts : dict of str to Summary
        The parts of an ensemble.

    Examples
    --------
    >>> from tsformer import TSTransformerClassifier, load_dataset
    >>> X, y = load_dataset("ItalyPowerDemand", split="train")
    >>> summary = TSTransformerClassifier(stem="linear", max_epochs=1).fit(X, y).summary()
    >>> summary.sizes["tokens"], summary.sizes["receptive field in steps"]
    (24, 1)
    """

    title: str
    layers: pd.DataFrame
    sizes: Mapping[str, int]
    recipe: pd.DataFrame
    parts: Mapping[str, Summary]

    def __str__(self) -> str:
        """Return plain-text tables."""
        tables = (table.set_index(table.columns[0]) for table in self._tables())
        texts = [self.title, *(table.to_string(index_names=False) for table in tables)]
        return "\n\n".join([*texts, *(f"{name}: {s}" for name, s in self.parts.items())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return HTML tables, for notebooks."""
        with pd.option_context("display.max_colwidth", None):
            tables = "".join(table.to_html(index=False, border=0) for table in self._tables())
        parts = (f"<h4>{escape(n)}</h4>{s._repr_html_()}" for n, s in self.parts.items())
        return f"<h4>{escape(self.title)}</h4>{tables}{''.join(parts)}"

    def _tables(self) -> list[pd.DataFrame]:
        sizes = pd.DataFrame(self.sizes.items(), columns=["size", ""])
        return [self.layers, sizes, self.recipe]


def table_of(rows: Iterable[tuple[str, str, str, int]]) -> pd.DataFrame:
    """Return the table of layers."""
    return pd.DataFrame(rows, columns=["layer", "kind", "output", "parameters"])


def layers_of(model: TSTransformer) -> pd.DataFrame:
    """Return the layers of a transformer, for its longest training series."""
    config, length = model.config, model.config.max_len
    tokens, width = f"{model.max_tokens} × {config.d_model}", f"{config.d_model}"
    rows = [("input", "", f"{length} × {config.n_channels}", 0)]
    for name, layer in model.stem.named_modules():
        if isinstance(layer, DilatedConvolution):
            length = ceil(length / layer.stride)
            kind = f"convolution, dilations {', '.join(map(str, layer.dilations))}"
            kind += f", stride {layer.stride}" * (layer.stride > 1)
            rows.append((f"stem.{name}", kind, f"{length} × {layer.n_features}", _count(layer)))
    if len(rows) == 1:
        rows.append(("stem", config.stem, tokens, _count(model.stem)))
    rows.append(("encoding", encoding_name(config.encoding), tokens, _count(model.encoding)))
    heads, hidden = f"{config.n_heads} heads", f"width {config.d_ff or 2 * config.d_model}"
    for i, block in enumerate(model.blocks):
        for name, kind in (("attention", heads), ("feed_forward", hidden)):
            n = _count(getattr(block, name), getattr(block, f"norm_{name}"))
            rows.append((f"blocks.{i}.{name}", kind, tokens, n))
    if config.norm_first:
        rows.append(("norm", "layer", tokens, _count(model.norm)))
    rows.append(("pooling", config.pooling, width, _count(model.pooling)))
    if model.head_norm is not None:
        rows.append(("head_norm", str(config.head_norm), width, _count(model.head_norm)))
    plain = isinstance(model.head, nn.Linear)
    kind, output = ("linear", f"{config.n_outputs}") if plain else ("of the objective", "")
    return table_of([*rows, ("head", kind, output, _count(model.head))])


def recipe_of(estimator: Any) -> pd.DataFrame:
    """Return the parameters that are "auto" or not their default, with the values used."""
    default, used, rows = type(estimator)(), estimator.used_values(), []
    hidden = {*_SILENT, *estimator.not_saved} - {"freeze", *used}
    for name, value in estimator.get_params(deep=False).items():
        automatic = isinstance(value, str) and value == "auto"
        changed = name not in hidden and repr(value) != repr(getattr(default, name))
        if automatic or changed:
            result = used.get(name, "not recorded" if automatic else value)
            rows.append((name, *(shortened(x, _LONGEST).strip("'") for x in (value, result))))
    return pd.DataFrame(rows, columns=["parameter", "set", "used"])


def _count(*modules: nn.Module) -> int:
    """Return the number of weights."""
    return sum(weight.numel() for module in modules for weight in module.parameters())


def card(estimator: Any, source: str = '"."') -> str:
    """Return the card of a fitted estimator as Markdown."""
    facts = estimator.facts_.get("data", {"series": "not recorded"})
    scores = [
        (escaped(name), f"{value:.4g}" if isinstance(value, float) else escaped(value))
        for name, value in estimator.held_out_scores().items()
    ]
    shown = f"{markdown_table(['score', ' value'], scores)}\n{_OF_SCORES}\n"
    versions = "".join(f", {name} {metadata.version(name)}" for name in _PACKAGES)
    sections = {
        "Training data": markdown_table(["", ""], ((n, escaped(v)) for n, v in facts.items())),
        "Recipe": f"{indent(str(estimator.summary()), '    ')}\n",
        "Scores": shown if scores else "No score on held-out series is recorded.\n",
        "Use": f"```python\n{_program(estimator, source)}```\n",
        "Versions": f"tsformer {__version__}, Python {platform.python_version()}{versions}\n",
    }
    text = "\n".join(f"## {title}\n\n{section}" for title, section in sections.items())
    codes = " of integer codes" if getattr(estimator, "stem", None) == "embedding" else ""
    times = {None: "", "numbers": ", with times in numbers", "dates": ", with dates"}
    purpose = estimator.target_.purpose.format(estimator.target_.n_outputs)
    return (
        f"# {type(estimator).__name__}\n\n{purpose} for each time series{codes} of "
        f"{estimator.n_channels_} channel{'s' * (estimator.n_channels_ > 1)}"
        f"{times[estimator.clock_]}; series may differ in length, and NaN is a missing value.\n\n"
        f"{text}"
    )


def front_matter(estimator: Any) -> str:
    """Return what model hubs read at the head of a card, as YAML."""
    tasks = {"classifier": "time-series-classification", "regressor": "time-series-regression"}
    task = tasks.get(get_tags(estimator).estimator_type, "feature-extraction")
    tags = json.dumps(["time-series", task, type(estimator).__name__])
    return f"---\nlicense: unknown\nlibrary_name: tsformer\ntags: {tags}\n---\n"


def _program(estimator: Any, source: str) -> str:
    """Return a program that loads the model and predicts."""
    length = estimator.facts_.get("data", {}).get("steps, at most", 100)
    series, steps = f"np.zeros(({estimator.n_channels_}, {length}))", f"np.arange({length})"
    imports = ["mlflow"] * ("mlflow" in source) + ["numpy as np"]
    if len(estimator.schema_.names) == estimator.n_channels_:
        imports.append("pandas as pd")
        series = f"pd.DataFrame({series}.T, columns=model.feature_names_in_)"
    if estimator.clock_:
        step = estimator.novelty_.scaler.time_step
        times = f"{step:.6g} * {steps}"
        if estimator.clock_ == "dates":
            unit = f'np.timedelta64({round(step * 1e9)}, "ns")'
            times = f'np.datetime64("2024-01-01") + {steps} * {unit}'
    arguments = f"X, times=[{times}]" if estimator.clock_ else "X"
    method = "predict" if hasattr(estimator, "predict") else "transform"
    return (
        "".join(f"import {name}\n" for name in [*imports, "tsformer"])
        + f"\nmodel = tsformer.load({source})\nX = [{series}]  # your series\n"
        f"print(model.{method}({arguments}))\n"
    )
