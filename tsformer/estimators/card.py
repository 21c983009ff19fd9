"""The card of a saved model: data, recipe, scores and use, in Markdown."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from tsformer._markdown import code, escaped, markdown_table
from tsformer._version import __version__
from tsformer.estimators.summary import Summary

_PACKAGES = ("torch", "numpy", "scikit-learn")
_OF_SCORES = (
    "These series may have chosen the epoch, the temperature or the penalty: expect slightly lower "
    "scores on new series. Calibration series are those passed to `calibrate`."
)


def card(estimator: Any, source: str = '"."') -> str:
    """Return the card of a fitted estimator as Markdown."""
    facts = estimator._training.get("data", {"series": "not recorded"})
    data = ((name, escaped(value)) for name, value in facts.items())
    scores = [
        (escaped(name), f"{value:.4g}" if isinstance(value, float) else escaped(value))
        for name, value in estimator._held_out_scores().items()
    ]
    sections = {
        "Training data": markdown_table(["", ""], data),
        "Recipe": "\n".join(_recipes(estimator.summary())),
        "Scores": f"{markdown_table(['score', ' value'], scores)}\n{_OF_SCORES}\n"
        if scores
        else "No score on held-out series is recorded.\n",
        "Use": f"```python\n{_program(estimator, source)}```\n",
        "Versions": f"{_versions()}\n",
    }
    text = "\n".join(f"## {title}\n\n{section}" for title, section in sections.items())
    return f"# {type(estimator).__name__}\n\n{_purpose(estimator)}\n\n{text}"


def _purpose(estimator: Any) -> str:
    """Describe in one sentence what the model reads and returns."""
    codes = " of integer codes" if _is_symbolic(estimator) else ""
    channels = f"{estimator.n_channels_} channel{'s' if estimator.n_channels_ > 1 else ''}"
    times = {None: "", "numbers": ", with times in numbers", "dates": ", with dates"}
    return (
        f"{estimator._purpose} for each time series{codes} of {channels}{times[estimator._clock]}; "
        "series may differ in length, and NaN is a missing value."
    )


def _recipes(summary: Summary) -> Iterator[str]:
    """Yield the tables of an estimator and its parts."""
    yield f"{'; '.join(f'{name}: {size:,}' for name, size in summary.sizes.items())}.\n"
    for header, table in (
        (["layer", "kind", "output", " parameters"], summary.layers),
        (["parameter", "set", "used"], summary.recipe),
    ):
        rows = ((code(name), *map(escaped, values)) for name, *values in table.to_numpy())
        yield markdown_table(header, rows)
    for name, part in summary.parts.items():
        yield f"### {escaped(name)}: {part.title}\n"
        yield from _recipes(part)


def _program(estimator: Any, source: str) -> str:
    """Return a program that loads the model and applies it to made-up series."""
    stepwise, clock = estimator._columns_are_steps, estimator._clock
    steps = estimator._training.get("data", {}).get("steps, at most")
    steps = estimator.n_features_in_ if stepwise else steps if isinstance(steps, int) else 100
    codes = estimator.preprocessor_.known.tolist() if _is_symbolic(estimator) else []
    value = codes[0] if codes else 0
    shape = (3, estimator.n_features_in_) if stepwise else (3, estimator.n_channels_, steps)
    array = f"np.full({shape}, {value:.1f})"
    index = ["index=times"] if estimator.timestamps == "index" else []
    columns = ["columns=model.feature_names_in_"] if hasattr(estimator, "feature_names_in_") else []
    if stepwise and columns:
        array = f"pd.DataFrame({array}, {columns[0]})"
    elif index or columns:
        array = f"[pd.DataFrame({', '.join(['x.T', *index, *columns])}) for x in {array}]"
    when = {"numbers": f"np.arange({steps}.0)", "dates": f'pd.date_range("2000", periods={steps})'}
    method = "predict" if hasattr(estimator, "predict") else "transform"
    lines = [
        *(["import mlflow"] if "mlflow" in source else []),
        "import numpy as np",
        *(["import pandas as pd"] if "pd." in array or clock == "dates" else []),
        "import tsformer\n",
        f"model = tsformer.load({source})",
        *([f"times = {when[clock]}"] if clock else []),
        f"X = {array}",
        f"print(model.{method}(X{', times' if clock and not index else ''}))",
    ]
    return "".join(f"{line}\n" for line in lines)


def _is_symbolic(estimator: Any) -> bool:
    return getattr(estimator, "stem", None) == "embedding"


def _versions() -> str:
    own = [f"tsformer {__version__}", f"Python {platform.python_version()}"]
    return ", ".join([*own, *(f"{name} {metadata.version(name)}" for name in _PACKAGES)])
