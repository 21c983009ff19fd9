"""Write the generated tables of README.md: the encodings, and how good the default is.

    python experiments/readme_tables.py

A table stands between two comments, ``<!-- table: name -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from tsformer.encodings import available

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "experiments/results/default_accuracy.csv"
PUBLISHED = ROOT / "experiments/results/published.csv"


def encodings_table() -> str:
    """One row an encoding, from the classes' own attributes."""
    rows = (
        (
            f"`{row['name']}`",
            row["kind"],
            "each block" if row["per_block"] else "the stack",
            row["beyond"],
            "yes" if row["symmetric"] else "no",
            row["summary"],
            row["reference"],
        )
        for row in available()
    )
    header = ("name", "hook", "owned by", "past trained length", "symmetric", "what", "source")
    return _markdown(header, rows)


def results_table(results: Path = RESULTS, published: Path = PUBLISHED) -> str:
    """One row a data set: mean and spread over seeds, beside what others published."""
    by_dataset = pd.read_csv(results).groupby("dataset", sort=False)
    fits = by_dataset.agg(
        accuracy=("accuracy", "mean"),
        spread=("accuracy", "std"),
        seconds=("fit_seconds", "mean"),
        seeds=("seed", "nunique"),
    )
    names = {"rocket": "ROCKET", "convtran": "ConvTran"}
    others = pd.read_csv(published, index_col="dataset")[list(names)].reindex(fits.index)
    rows = (
        (
            fit.Index,
            f"{fit.accuracy:.3f} ± {fit.spread:.3f}" if fit.seeds > 1 else f"{fit.accuracy:.3f}",
            f"{fit.seconds:.0f}",
            *("–" if pd.isna(value) else f"{value:.3f}" for value in others.loc[fit.Index]),
        )
        for fit in fits.itertuples()
    )
    header = ("data set", "tsformer", " seconds a fit", *(f" {name}" for name in names.values()))
    return _markdown(header, rows)


def filled(text: str, name: str, table: str) -> str:
    """Return `text` with the table called `name` replaced."""
    place = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end of table -->)", re.DOTALL)
    new, n_places = place.subn(lambda match: f"{match[1]}{table}{match[2]}", text)
    if n_places != 1:
        raise ValueError(f"README.md must have one place for the table {name!r}; it has {n_places}")
    return new


def _markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; a column whose name starts with a blank is set to the right."""
    rule = ["---:" if name.startswith(" ") else "---" for name in header]
    lines = [[name.strip() for name in header], rule, *rows]
    return "".join(f"| {' | '.join(_cell(value) for value in line)} |\n" for line in lines)


def _cell(value: object) -> str:
    # A bar ends a cell. Docstrings mark code by two backticks, Markdown by one or two.
    return str(value).replace("|", "\\|")


def main() -> None:
    text = README.read_text(encoding="utf-8")
    text = filled(text, "encodings", encodings_table())
    text = filled(text, "results", results_table())
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
