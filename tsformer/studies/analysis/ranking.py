"""The ranking of encodings by cross-validation, with intervals, and the answer in one sentence."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tsformer._markdown import code, markdown_table

#: With fewer folds a standard deviation is a guess.
_FEWEST_FOLDS = 3
#: Outcomes of encodings that were not dropped.
REMAINING = LEADS, LEVEL, BEHIND, UNSURE = (
    *("leads", "cannot be told from the leader"),
    *("behind", "too few folds to tell"),
)
_NOTE = """\
*Behind by*: the leader's accuracy minus that of the encoding on the same folds, in percentage \
points, with a 95 % interval (corrected resampled t-test) from three folds on. The leader is the \
best of several on these folds, so that its accuracy and its lead are optimistic: measure it on \
series that took no part.
"""


def rank(scores: pd.DataFrame, dropped: Mapping[str, str], *, n_folds: int) -> pd.DataFrame:
    """Rank encodings ``[folds x encodings]`` by their mean score over shared folds."""
    from scipy.stats import t

    remaining = [name for name in scores.columns if name not in dropped]
    shared = scores[remaining].dropna()
    leader = shared.mean().idxmax()
    rows: list[dict[str, Any]] = []
    for name in scores.columns:
        both = (scores.loc[shared.index] if name in remaining else scores)[[leader, name]].dropna()
        accuracies, n = both.iloc[:, 1], len(both)
        apart = (both.iloc[:, 0] - accuracies).round(9)
        margin = float("nan")
        # Equal differences are chance, with few series per fold.
        if n >= _FEWEST_FOLDS and not (apart.nunique() == 1 and apart.any()):
            # Training sets overlap: the variance grows by the ratio of test to training series.
            widened = np.sqrt(1 / n + 1 / (n_folds - 1))
            margin = float(t.ppf(0.975, n - 1) * apart.std() * widened)
        outcome = UNSURE if np.isnan(margin) else BEHIND if apart.mean() > margin else LEVEL
        outcome = dropped.get(name, LEADS if name == leader else outcome)
        numbers = {"accuracy": accuracies.mean(), "behind": apart.mean(), "margin": margin}
        rows.append({"encoding": name, "folds": n, **numbers, "outcome": outcome})

    def place(row: Any) -> tuple[bool, bool, int, float]:
        behind = float(np.nan_to_num(row["behind"], nan=np.inf))
        return row["encoding"] in dropped, row["encoding"] != leader, -row["folds"], behind

    return pd.DataFrame(sorted(rows, key=place))


def answer(ranking: pd.DataFrame) -> str:
    """Return the ranking in one sentence of Markdown."""
    leader, *rest = ranking[ranking["outcome"].isin(REMAINING)].to_dict("records")
    n_folds = leader["folds"]
    over = f"over {n_folds} fold{'s' * (n_folds != 1)}"
    over += ", too few for an interval" * (n_folds < _FEWEST_FOLDS)
    lead = f" {code(rest[0]['encoding'])} by {_behind(rest[0])} points" if rest else ""
    parts = [f"{code(leader['encoding'])} leads{lead} {over}"]
    for outcome, names in ranking.groupby("outcome", sort=False)["encoding"]:
        if outcome == LEVEL or outcome not in REMAINING:
            verb = "" if outcome == LEVEL else "was " if len(names) == 1 else "were "
            parts.append(f"{', '.join(map(code, names))} {verb}{outcome}")
    return "; ".join(parts) + "."


def ranking_page(ranking: pd.DataFrame) -> str:
    """Return answer, table and note as Markdown."""
    columns = {
        "encoding": ranking["encoding"].map(code),
        " folds": ranking["folds"],
        " accuracy in %": (100 * ranking["accuracy"]).map(_number),
        " behind by": map(_behind, ranking.to_dict("records")),
        " fit seconds": ranking["fit_seconds"].map(_number),
        "outcome": ranking["outcome"],
    }
    table = markdown_table(list(columns), zip(*columns.values(), strict=True))
    return f"{answer(ranking)}\n\n{table}\n{_NOTE}"


def _number(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.1f}"


def _behind(row: Mapping[Any, Any]) -> str:
    """Return the distance to the leader in points, with its interval."""
    interval = f" ± {100 * row['margin']:.1f}" if row["margin"] > 0 else ""
    return _number(100 * row["behind"]) + interval
