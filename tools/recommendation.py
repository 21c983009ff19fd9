"""Which encoding to try first: one sentence for every page, from the rows of the study.

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
from tsformer.studies.analysis.scores import read_study, variant_scores
from tsformer.studies.analysis.statistics import mean_ranks, mean_scores

__all__ = ["recommendation", "with_the_default_of_today"]

STUDY = COMMITTED / "which_encoding/results.csv"
TODAY = COMMITTED / "encodings_of_today/results.csv"
# Scores no further apart than this count as practically equal, as in the report of the study.
_SAME = 0.01


def recommendation(link: str, results: Path = STUDY) -> str:
    """Return the recommendation as one paragraph of Markdown.

    Parameters
    ----------
    link : str
        Where the page finds the report of the study.
    results : path
        The rows of a study of the linear and of the default stem.

    Raises
    ------
    ValueError
        If behind the default stem the encodings are not practically equal: another sentence is
        then needed.
    """
    study = read_study(results)
    parts = {part.label: part for part in variant_scores(study)}
    linear, conv = (mean_scores(parts[f"stem={stem}"].used) for stem in ("linear", "conv"))
    default = inspect.signature(TSTransformerClassifier).parameters["encoding"].default
    apart = conv.mean().max() - conv.mean().min()
    if apart > _SAME:
        raise ValueError(
            f"behind the default stem the encodings of {results} are {apart:.3f} apart, more than "
            f"{_SAME}: recommend one, in tools/recommendation.py"
        )
    ranks = mean_ranks(linear)
    best, means = str(ranks.idxmin()), linear.mean()
    versions = ", ".join(sorted(set(study.rows["version"].map(str))))
    text = (
        f"**Which encoding to try first:** the default, `{default}` behind the convolutional stem; "
        f"there all {conv.shape[1]} encodings of [the study]({link}), `none` included, are "
        f"practically equal, at mean accuracies from {conv.mean().min():.3f} to "
        f'{conv.mean().max():.3f}. Behind `stem="linear"`, `{best}`: of the {len(ranks)} it has '
        f"the best mean rank on the {len(linear)} problems, {ranks[best]:.2f}, and a mean accuracy "
        f"of {means[best]:.3f}, where `{default}` has {means[default]:.3f} and `none` "
        f"{means['none']:.3f}. The fits are those of version {versions} with the stems of its "
        "default recipe, of which the convolutional one had two layers and has three now."
    )
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def with_the_default_of_today(link: str, results: Path = TODAY) -> str:
    """Return what the study of the default of today says, as one paragraph of Markdown.

    Parameters
    ----------
    link : str
        Where the page finds its report.
    results : path
        The rows of a study of the default and of the linear stem.
    """
    study = read_study(results)
    parts = {part.label: part for part in variant_scores(study)}
    conv, linear = (mean_scores(parts[f"stem={stem}"].used) for stem in ("conv", "linear"))
    default = inspect.signature(TSTransformerClassifier).parameters["encoding"].default
    n_seeds = study.rows["seed"].nunique()

    def means(scores: pd.DataFrame) -> str:
        ordered = scores.mean().sort_values(ascending=False, kind="stable")
        said = ", ".join(f"`{name}` {mean:.3f}" for name, mean in ordered.items())
        gain = 100 * (scores[default] - scores["none"]).mean()
        return f"{said}; the gain of `{default}` over `none` is {gain:+.1f} points"

    text = (
        f"**With the default of today**, mean accuracies on {len(conv)} of the problems on which "
        f"it was chosen, with {n_seeds} seed{'s' * (n_seeds > 1)} ([report]({link})). Behind the "
        f"default stem: {means(conv)}. Behind the linear stem: {means(linear)}."
    )
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"
