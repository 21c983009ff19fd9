"""Which encoding to try first: one paragraph for every page, from the rows of two studies.

docs/guide/choosing.md, docs/encodings.md and experiments/results/README.md have it;
`tools/write_docs.py` writes it there.
"""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path

import pandas as pd

from experiments.output import COMMITTED
from tsformer import TSTransformerClassifier
from tsformer.studies.analysis.effects import mean_gains
from tsformer.studies.analysis.scores import read_study, variant_scores
from tsformer.studies.analysis.statistics import mean_ranks, mean_scores

__all__ = ["recommendation"]

STUDY = COMMITTED / "which_encoding/results.csv"
TODAY = COMMITTED / "encodings_of_today/results.csv"


def recommendation(folder: str, today: Path = TODAY, earlier: Path = STUDY) -> str:
    """Return the recommendation as one paragraph of Markdown.

    Parameters
    ----------
    folder : str
        Where the page finds experiments/results: empty, or a path that ends with a slash.
    today, earlier : path
        The rows of two studies of the linear and of the default stem: with the default of today,
        and with that of version 0.1.0.

    Raises
    ------
    ValueError
        If the study of today shows that behind the default stem the default encoding is worse
        than none: another sentence is then needed.
    """
    conv, linear = _scores(today)
    old_conv, old_linear = _scores(earlier)
    default = inspect.signature(TSTransformerClassifier).parameters["encoding"].default
    gain = _gain(conv, default)
    if gain["high"] < 0:
        raise ValueError(
            f"in {today}, {default!r} is {-gain['gain']:.1f} points worse than 'none' behind the "
            "default stem, and not by chance: recommend another, in tools/recommendation.py"
        )
    n_seeds = read_study(today).rows["seed"].nunique()
    means, old_means = conv.mean(), old_conv.mean()
    text = (
        f"**Which encoding to try first:** the default, `{default}` behind the convolutional stem; "
        f"in a search, `{means.drop(default).idxmax()}` beside it. The choice makes little "
        f"difference there. With [the recipe of today]({folder}encodings_of_today/report/"
        f"report.md), on {len(conv)} of the problems on which it was chosen and with "
        f"{n_seeds} seed{'s' * (n_seeds > 1)}, the mean accuracies of {len(means)} encodings lie "
        f"between {means.min():.3f} (`{means.idxmin()}`) and {means.max():.3f} "
        f"(`{means.idxmax()}`); the mean gain of `{default}` over `none` is {gain['gain']:+.1f} "
        f"points, with a 95 % interval of {gain['low']:+.1f} to {gain['high']:+.1f}. With [that of "
        f"0.1.0]({folder}which_encoding/report/report.md), on {len(old_conv)} problems, they lay "
        f"between {old_means.min():.3f} and {old_means.max():.3f}. Behind "
        f'`stem="linear"`, where only the encoding knows the order of steps, it matters: '
        f"{_first(linear, default)}; with the recipe of 0.1.0, {_first(old_linear, default)}."
    )
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def _scores(results: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the mean scores [data sets x encodings] behind the conv stem and the linear one."""
    parts = {part.label: part for part in variant_scores(read_study(results))}
    conv, linear = (mean_scores(parts[f"stem={stem}"].used) for stem in ("conv", "linear"))
    return conv, linear


def _gain(scores: pd.DataFrame, encoding: str) -> pd.Series:
    """Return the mean gain of an encoding over none, and its interval, in points."""
    paired = (scores[encoding] - scores["none"]).rename("gain").reset_index()
    found = mean_gains(paired.assign(method=encoding))
    return 100 * found.loc[0, ["gain", "low", "high"]]


def _first(scores: pd.DataFrame, default: str) -> str:
    """Return the encoding of the best mean rank, and the means of it, the default and none."""
    means, best = scores.mean(), str(mean_ranks(scores).idxmin())
    return (
        f"`{best}` has the best mean rank, and a mean accuracy of {means[best]:.3f} where "
        f"`{default}` has {means[default]:.3f} and `none` {means['none']:.3f}"
    )
