"""The text of docs/encodings.md: a guide with its evidence, and the docstring of every encoding."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import markdown_text as md
import pandas as pd

from tsformer.encodings import available
from tsformer.encodings.registry import find

ROOT = Path(__file__).parents[1]
ORDER_TASKS = ROOT / "experiments/results/order_tasks.csv"
COST = ROOT / "tsformer/encodings/cost.csv"
CHOOSE_RECIPE = ROOT / "experiments/results/choose_recipe.csv"
SIZES = ("d_model", "n_heads", "max_len")

KINDS = {
    "embed": "Added to the tokens",
    "rotate": "Rotates or widens queries and keys",
    "bias": "Added to the scores, before the softmax",
    "mix": "Added to the attention weights, after the softmax",
    "none": "No encoding",
}

INTRO = """\
# Positional encodings

`python experiments/write_docs.py` writes this page from the docstrings of the classes and from the
results of experiments. Edit those, not the page.

An encoding tells attention where a step is in time. It is chosen by name, with options beside it:

```python
TSTransformerClassifier(encoding="lspe", encoding_params={"d_hidden": 32})
```

Names can be joined into sums such as `"tape+erpe"`; their hooks apply in order, and what they add
to scores or weights is summed. The README shows how to add your own. `tsformer plot-encoding NAME`
draws one; `python experiments/encoding_gallery.py` draws all, as they are before training:

![All encodings side by side](../experiments/results/encoding_gallery.png)

The same command draws the two pictures that are customary in papers of this field:

![Similarity of positions, and the sinusoid](../experiments/results/encoding_habit.png)

The entry of each encoding states its properties:

- **Past the trained length**, in a series longer than any it was trained on, an encoding *extends*
  (its formula goes on), *clamps* (the last trained value is repeated) or *interpolates* (the
  trained values are stretched over the series).
- A **symmetric** encoding sees only distances: behind a pointwise stem it cannot tell a series from
  its reverse.
- It is **owned** by the stack (one instance serves all blocks) or by each block (each has weights
  of its own).

In formulas `t` is the time of a token, `i` the token of the query and `j` that of the key, `N` the
number of tokens, `D` the width of the model, `H` the number of heads, `E` = `D / H` the width of a
head, and `L` or `M` the number of tokens of the longest training series, `max_len`.
"""

# --- the guide: text by hand, numbers from the results -------------------------------------------
# A section under a ### is left out if the file of a table in it, {name}, is missing.
# The text may claim nothing but what the tables show.
GUIDE = """\
## Which to try first

- **Start with the default**, `lspe` behind the convolutional stem: its mean accuracy is the best of
  three in the last table. That stem orders neighbouring steps by itself; behind it, all encodings
  that were tried, even `none`, solve the generated problems, so the choice matters less.
- **If the distance between steps matters, behind the linear stem** (a lag between channels at
  random places): `rope`, `xpos`, `shaw`, `t5`, `fire`, `erpe`, or `conv` for lags within its
  kernel. Given few series, the codes added to the tokens, `tupe` and the stochastic encodings learn
  such a lag poorly or not at all; `alibi` with `{"signed": True}` does not always learn it.
- **If the position within the series matters** (a trend, before or after): nearly all encodings can
  tell it, and those added to the tokens do so at no measurable cost. `conv` and `wavelet` cannot
  tell which of two distant events came first.
- **Never use a symmetric encoding alone behind the linear stem**: `none`, `alibi`, `kerple` and
  `gaussian` cannot tell a series from its reverse there, and are at chance on all three problems.
- **Long series**: with encodings added to the tokens, `rope`, `xpos` and `erpe`, memory is linear
  in the length; a bias stores a matrix of all pairs, and `shaw` one for each series and head.
- **Irregular times**: `none`, `conv`, `wavelet`, `conv_spe` and `erpe` count tokens; all others see
  real-valued times.

### Which orders it can tell

Accuracy on the generated problems of `tsformer.data.make_order_task`, mean ± standard deviation
over three seeds: 128 training series of 96 steps and a small model of one block behind the linear
stem, which sees single steps, so that order is left to the encoding; the last rows are behind the
convolutional stem. *order*: which of two bumps came first. *lag*: which of two channels leads, at
random places. *direction*: rising or falling. Chance is 0.5.
`python experiments/order_tasks.py` reproduces the table.

{order_tasks}
### What it costs

Time and peak memory of a training step relative to those with `none`, with about 8,192 tokens per
batch at every length and two blocks of width 64 with 4 heads behind the linear stem; medians over
rounds in which the encodings took turns, on one thread of the machine named in
`experiments/results/encoding_cost.csv`. `python experiments/encoding_cost.py` reproduces the table.

{cost}
### Real data

The default recipe and variants of it, cross-validated on the training splits: mean ± standard
deviation over folds. Missing numbers are folds that were not run. On OSULeaf `lspe` is ahead of
`fixed` and `tape` by more than the spread, on SelfRegulationSCP1 behind them by about the spread;
elsewhere the three are within it. `python experiments/choose_recipe.py` reproduces the table.

{choose_recipe}
"""
# --- end of the guide ----------------------------------------------------------------------------


def page() -> str:
    """Return the whole page, for the encodings that the package brings."""
    rows = packaged()
    kinds = {kind: [row for row in rows if hook(row) == kind] for kind in KINDS}
    contents = "".join(
        f"- {title} (*{kind}*): {', '.join(link(row['name']) for row in kinds[kind])}\n"
        for kind, title in KINDS.items()
    )
    parts = [INTRO, contents, guide()]
    for kind, title in KINDS.items():
        parts += [f"## {title}: {kind}\n" if kind != "none" else f"## {title}\n"]
        parts += [entry(row) for row in kinds[kind]]
    return "\n".join(part for part in parts if part)


def packaged() -> list[dict[str, object]]:
    """Return the rows of `available()` that are the package's own, by the hook that acts first."""
    own = [row for row in available() if find(row["name"]).__module__.startswith("tsformer.")]
    return sorted(own, key=lambda row: list(KINDS).index(hook(row)))


def hook(row: dict[str, object]) -> str:
    """Return the hook under which an encoding is listed: of several, the first."""
    return str(row["kind"]).partition("+")[0]


def link(name: object, page: str = "") -> str:
    """Return a link to an encoding's place on the page."""
    return f"[`{name}`]({page}#{name})"


def entry(row: dict[str, object]) -> str:
    """Return what an encoding's docstring and attributes say."""
    cls = find(row["name"])
    text = md.sections(inspect.getdoc(cls))
    summary, _, description = text[""].partition("\n")
    facts = (
        f"Class `tsformer.encodings.{cls.__name__}`; "
        f"past the trained length: {row['extrapolation']}; "
        f"symmetric: {'yes' if row['symmetric'] else 'no'}; "
        f"owned by: {'each block' if row['per_block'] else 'the stack'}."
    )
    options = md.options(text["Parameters"], leave_out=SIZES)
    blocks = [
        f"### {row['name']}",
        f"**{summary}**",
        description.strip(),
        facts,
        f"Options:\n\n{options}".rstrip() if options else "No options.",
        f"Source: {text['References']}",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def guide(
    order_tasks: Path = ORDER_TASKS, cost: Path = COST, choose_recipe: Path = CHOOSE_RECIPE
) -> str:
    """Return those parts of the guide whose results exist; nothing without any."""
    tables: dict[str, tuple[Path, Callable[[Path], str]]] = {
        "{order_tasks}\n": (order_tasks, order_tasks_table),
        "{cost}\n": (cost, partial(cost_table, encodings=[row["name"] for row in packaged()])),
        "{choose_recipe}\n": (choose_recipe, choose_recipe_table),
    }
    opening, *parts = re.split(r"^(?=### )", GUIDE, flags=re.MULTILINE)
    kept = []
    for part in parts:
        places = [place for place in tables if place in part]
        if all(tables[place][0].exists() for place in places):
            for place in places:
                path, make = tables[place]
                part = part.replace(place, make(path))
            kept.append(part)
    return "\n".join([opening.rstrip() + "\n", *kept]) if kept else ""


def order_tasks_table(path: Path) -> str:
    """One row per encoding, one column per task: mean accuracy and its spread over seeds."""
    fits = pd.read_csv(path)
    by_cell = fits.groupby(["encoding", "task"], sort=False)["accuracy"]
    return _pivot(by_cell.mean(), by_cell.std(), fits["encoding"], fits["task"], "encoding")


def choose_recipe_table(path: Path) -> str:
    """One row per variant, one column per data set: mean accuracy over the folds that were run."""
    fits = pd.read_csv(path)
    by_cell = fits.groupby(["variant", "dataset"], sort=False)["accuracy"]
    return _pivot(by_cell.mean(), by_cell.std(), fits["variant"], fits["dataset"], "variant")


def _pivot(
    mean: pd.Series, spread: pd.Series, rows: pd.Series, columns: pd.Series, corner: str
) -> str:
    rows, columns = rows.unique(), columns.unique()
    mean, spread = (cells.unstack().reindex(rows, columns=columns) for cells in (mean, spread))
    body = (
        [row, *(md.mean_and_spread(mean.at[row, c], spread.at[row, c]) for c in columns)]
        for row in rows
    )
    return md.table([corner, *(f" {column}" for column in columns)], body)


def cost_table(path: Path, encodings: Sequence[str] = ()) -> str:
    """One row per encoding; time and memory relative to `none`, at every length and device.

    Those of `encodings` without a row in the file come last, as not measured.
    """
    cost = pd.read_csv(path)
    places = cost[["device", "length", "batch"]].drop_duplicates()
    header, columns = ["encoding"], []
    for place in places.itertuples(index=False):
        at = cost[(cost[["device", "length", "batch"]] == list(place)).all(axis=1)]
        where = f"{place.device}, {place.length} steps, batch {place.batch}"
        if not at["encoding"].is_unique:
            raise ValueError(f"{path} has an encoding twice for {where}")
        for quantity in ("time", "memory"):
            values = at.set_index("encoding")[f"{quantity}_ratio"]
            if values.notna().any():
                header.append(f" {quantity}: {where}")
                columns.append(values)
    rows = (
        [f"`{name}`", *("–" if pd.isna(v := c.get(name)) else f"{v:.2f}" for c in columns)]
        for name in cost["encoding"].unique()
    )
    unmeasured = (
        [f"`{name}`", *["not measured"] * len(columns)]
        for name in encodings
        if name not in set(cost["encoding"])
    )
    return md.table(header, [*rows, *unmeasured])
