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
points, with a 95 % interval (corrected resampled t-test) from three folds on. Without a fold, it \
is from a first round with fewer epochs. The leader is the \
best of several on these folds, so that its accuracy and its lead are optimistic: measure it on \
series that took no part.
"""


def rank(
    scores: pd.DataFrame,
    dropped: Mapping[str, str],
    *,
    n_folds: int,
    first: pd.Series | None = None,
) -> pd.DataFrame:
    """Rank encodings ``[folds x encodings]`` by their mean score over shared folds.

    `first` has the accuracies of a first round with fewer epochs. Intervals: Nadeau and Bengio,
    "Inference for the Generalization Error", Machine Learning 2003.
    """
    from scipy.stats import t

    remaining = [name for name in scores.columns if name not in dropped]
    shared = scores[remaining].dropna()
    quick = scores.iloc[:0] if first is None else first.to_frame().T
    basis = shared if len(shared) else quick[remaining]
    leader = basis.mean().idxmax()
    rows: list[dict[str, Any]] = []
    for name in scores.columns:
        table = scores.loc[shared.index] if name in remaining else scores
        both = table[[leader, name]].dropna()
        n, both = len(both), both if len(both) else quick[[leader, name]]
        own = both.iloc[:, 1]
        apart = (both.iloc[:, 0] - own).round(9)
        margin = float("nan")
        # Equal differences are chance, with few series per fold.
        if len(apart) >= _FEWEST_FOLDS and not (apart.nunique() == 1 and apart.any()):
            # Training sets overlap: the variance grows by the ratio of test to training series.
            widened = np.sqrt(1 / len(apart) + 1 / (n_folds - 1))
            margin = float(t.ppf(0.975, len(apart) - 1) * apart.std() * widened)
        outcome = UNSURE if np.isnan(margin) else BEHIND if apart.mean() > margin else LEVEL
        outcome = dropped.get(name, LEADS if name == leader else outcome)
        values = (name, n, own.mean(), apart.mean(), margin, outcome)
        columns = ("encoding", "folds", "accuracy", "behind", "margin", "outcome")
        rows.append(dict(zip(columns, values, strict=True)))
    rows.sort(
        key=lambda row: (
            row["encoding"] in dropped,
            row["encoding"] != leader,
            -row["folds"],
            np.nan_to_num(row["behind"], nan=np.inf),
        )
    )
    return pd.DataFrame(rows)


def answer(ranking: pd.DataFrame) -> str:
    """Return the ranking in one sentence of Markdown."""
    behind, margin = (ranking.set_index("encoding")[column] for column in ("behind", "margin"))
    outcomes = ranking.groupby("outcome", sort=False)["encoding"].agg(list).to_dict()
    leader, *others = ranking.loc[ranking["outcome"].isin(REMAINING), "encoding"]
    level = outcomes.get(LEVEL, [])
    n_folds = int(ranking["folds"].iloc[0])
    over = f"over {n_folds} fold{'s' * (n_folds != 1)}" if n_folds else "with fewer epochs"
    few = ", too few for an interval" if 0 < n_folds < _FEWEST_FOLDS else ""
    ties = [name for name in others if behind[name] == 0]
    if not others:
        parts = [f"{code(leader)} is the only encoding that was fitted {over}"]
    elif ties:
        parts = [f"{_listed([leader, *ties])} share the highest accuracy {over}{few}"]
    else:
        second, by = others[0], _points(behind[others[0]])
        by += f" ± {_points(margin[second])}" if margin[second] > 0 else ""
        parts = [f"{code(leader)} leads {code(second)} by {by} points {over}{few}"]
    level = [name for name in level if name not in ties]
    if level:
        parts.append(f"{_listed(level)} cannot be told from {'them' if ties else 'it'}")
    parts += [
        f"{_listed(names)} {'was' if len(names) == 1 else 'were'} {fate}"
        for fate, names in outcomes.items()
        if fate not in REMAINING
    ]
    return "; ".join(parts) + "."


def ranking_page(ranking: pd.DataFrame) -> str:
    """Return answer, table and note as Markdown."""
    rows = [
        (
            code(row["encoding"]),
            row["folds"],
            _points(row["accuracy"]),
            _points(row["behind"]) + (f" ± {_points(row['margin'])}" if row["margin"] > 0 else ""),
            "–" if pd.isna(row["fit_seconds"]) else f"{row['fit_seconds']:.1f}",
            row["outcome"],
        )
        for row in ranking.to_dict("records")
    ]
    header = ["encoding", " folds", " accuracy in %", " behind by", " fit seconds", "outcome"]
    return f"{answer(ranking)}\n\n{markdown_table(header, rows)}\n{_NOTE}"


def _points(share: float) -> str:
    return "–" if pd.isna(share) else f"{100 * share:.1f}"


def _listed(names: list[str]) -> str:
    return ", ".join(map(code, names))
