"""Which encoding helps behind which stem: the page's tables and picture, from the study's rows.

    python tools/stems.py [--commit]

Prints the tables, and writes encodings_by_stem.png and encoding_ranks.csv, which the package ships
and `tsformer encodings` shows. A stem counts the data sets that have a score
of every encoding.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import friedmanchisquare, spearmanr, wilcoxon

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from experiments.encodings.by_stem import ENCODINGS, STEMS
from experiments.output import COMMITTED, add_output_options
from tools.pictures import write_figure
from tsformer._markdown import markdown_table
from tsformer.data import list_datasets
from tsformer.studies.analysis.plots import plot_mean_gains
from tsformer.studies.analysis.statistics import mean_gains, mean_ranks, mean_scores, p_text

__all__ = ["gain_table", "picture", "rank_table", "test_table"]

ROWS = COMMITTED / "encodings_by_stem.csv"


def scores() -> dict[str, pd.DataFrame]:
    """Return the mean accuracy over seeds behind each stem [data sets x encodings]."""
    rows = pd.read_csv(ROWS).rename(columns={"encoding": "method", "accuracy": "score"})
    complete = rows.groupby(["stem", "dataset", "seed"])["method"].transform("nunique")
    rows = rows[complete == len(ENCODINGS)]
    return {stem: mean_scores(rows[rows["stem"] == stem])[ENCODINGS] for stem in STEMS}


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """Return the gain of each encoding over `none` [data sets x encodings]."""
    return table.drop(columns="none").sub(table["none"], axis=0)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean gain of each encoding, with its interval over data sets."""
    return mean_gains(gains(table))


def rank_table() -> pd.DataFrame:
    """Return the mean rank of each encoding [encodings x stems]."""
    ranks = {stem: mean_ranks(table).round(1) for stem, table in scores().items()}
    return pd.DataFrame(ranks).reindex(ENCODINGS).rename_axis("encoding")


def gain_table() -> str:
    """Return mean rank, mean accuracy and gain over `none` behind each stem."""
    header, columns = ["encoding"], []
    for stem, table in scores().items():
        cells = {
            row.method: f"{row.gain:+.3f} [{row.low:+.3f}, {row.high:+.3f}]".replace(
                " [+nan, +nan]", ""
            )
            for row in summary(table).itertuples()
        }
        header += [f" {stem} ({len(table)}): rank", " accuracy", " gain"]
        columns.append((mean_ranks(table), table.mean(), cells))
    rows = [
        [f"`{name}`"]
        + [
            cell
            for ranks, means, cells in columns
            for cell in (f"{ranks[name]:.2f}", f"{means[name]:.3f}", cells.get(name, "–"))
        ]
        for name in columns[0][0].sort_values(kind="stable").index
    ]
    return markdown_table(header, rows)


def test_table() -> str:
    """Return the tests that encodings differ, and that the stem or the tokens matter to them."""
    tables = scores()
    rows = [
        (f"encodings differ, {stem} stem", "Friedman", len(table), _friedman(table))
        for stem, table in tables.items()
    ]
    for first, second in itertools.combinations(STEMS, 2):
        change = (gains(tables[first]) - gains(tables[second])).dropna()
        of, p = f"{first} or {second} stem", float(wilcoxon(change.mean(axis=1)).pvalue)
        rows.append((f"mean gain depends on the stem, {of}", "Wilcoxon", len(change), p))
        question = f"some gains depend on it more than others, {of}"
        rows.append((question, "Friedman", len(change), _friedman(change)))
    tokens = pd.read_csv(ROWS).groupby(["stem", "dataset"])["n_tokens"].first()
    size = list_datasets().set_index("name")["train_size"]
    for stem, table in tables.items():
        for covariate, number in (("tokens", tokens[stem]), ("training series", size)):
            r, p = spearmanr(number[table.index], gains(table).mean(axis=1))
            test = f"Spearman, r = {r:+.2f}"
            rows.append((f"mean gain and {covariate}, {stem} stem", test, len(table), p))
    for stem, table in tables.items():
        change = table["lspe"] - table["fixed"]
        row = f"`lspe` differs from `fixed`, {stem} stem", f"Wilcoxon, {change.mean():+.3f}"
        rows.append((*row, len(change), float(wilcoxon(change).pvalue)))
    return markdown_table(
        ("question", "test", " data sets", " p"), [(*row, p_text(p)) for *row, p in rows]
    )


def _friedman(table: pd.DataFrame) -> float:
    return float(friedmanchisquare(*table.T.to_numpy()).pvalue)


def picture() -> Figure:
    """Draw the gains over `none`, one column per stem."""
    tables = {f"{stem} stem": summary(table) for stem, table in scores().items()}
    figure = plot_mean_gains(tables, "none")
    figure.set(size_inches=(6, 5), dpi=160)  # for a phone
    for ax in figure.axes:
        ax.set_title(ax.get_title().replace(", ", "\n"))
    return figure


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_output_options(parser, "stems")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    print(gain_table(), test_table(), sep="\n")
    write_figure(picture(), options.out / "encodings_by_stem.png")
    rank_table().to_csv(options.out / "encoding_ranks.csv")


if __name__ == "__main__":
    main()
