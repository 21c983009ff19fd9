"""The text of docs/encodings.md: a guide with its evidence, and every encoding by its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
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
    "rotate": "Turns or widens queries and keys",
    "bias": "Added to the scores, before the softmax",
    "mix": "Added to the attention weights, after the softmax",
    "none": "Nothing at all",
}

INTRO = """\
# Positional encodings

`python experiments/write_docs.py` writes this page, from the docstrings of the classes and from the
results of experiments. Edit those, not the page.

An encoding tells attention where a step is. It is chosen by name, and its options go beside it:

```python
TSTransformerClassifier(encoding="lspe", encoding_params={"d_hidden": 32})
```

Names join into sums, `"tape+erpe"`; their hooks apply in order, and what is added to scores or
weights adds up. The README shows how to add one's own. `tsformer plot-encoding NAME` draws one;
`python experiments/encoding_gallery.py` draws all of them, as they are before training:

![All encodings side by side](../experiments/results/encoding_gallery.png)

The same command draws what papers of this field open with, at the sizes that are customary:

![Similarity of positions, and the sinusoid](../experiments/results/encoding_habit.png)

What each says of itself:

- **Past the trained length**, in a series longer than all it was trained on, an encoding *extends*
  (its formula goes on), *clamps* (the last trained value is repeated) or *interpolates* (trained
  values are stretched over the series).
- A **symmetric** encoding sees distances only: behind a pointwise stem it cannot tell a series from
  its reverse.
- It is **owned** by the stack (one instance serves all blocks) or by each block (its own weights).

In formulas `t` is the time of a token, `i` the query's token and `j` the key's, `N` the number of
tokens, `D` the width of the model, `H` the number of heads, `E` = `D / H` the width of a head, and
`L` or `M` the number of tokens of the longest training series, called `max_len`.
"""

# --- the guide: words by hand, numbers from the results ------------------------------------------
# A part from one ### to the next is left out while the file of a table in it, {name}, is missing.
# The words may claim what the tables show and nothing else.
GUIDE = """\
## Which to try first

- **Start with the default**, `lspe` behind the convolutional stem: the best mean of three in the
  last table. That stem orders neighbouring steps by itself, and behind it all encodings that were
  tried, `none` among them, solve the generated problems: there the choice matters less.
- **Behind the linear stem, where it matters how far steps are apart** (a lag between channels at
  random places): `rope`, `xpos`, `shaw`, `t5`, `fire`, `erpe`, or `conv` for lags within its
  kernel. From few series the codes added to the tokens, `tupe` and the stochastic ones learn such
  a lag poorly or not at all; `alibi` with `{"signed": True}` does not always.
- **Where it matters when in the series something is** (a trend, before or after): nearly all of
  them tell, and codes added to the tokens do so at no cost that could be measured. `conv` and
  `wavelet` do not tell what came first when it is far away.
- **Never a symmetric one alone behind the linear stem**: `none`, `alibi`, `kerple` and `gaussian`
  cannot tell a series from its reverse there, and are at chance on all three.
- **Long series**: those added to the tokens, `rope`, `xpos` and `erpe` keep memory linear in the
  length; a bias holds a matrix of all pairs, and `shaw` one for each series and head.
- **Irregular times**: `none`, `conv`, `wavelet`, `conv_spe` and `erpe` count tokens; all others
  see real times.

### Which orders it can tell

Accuracy on the generated problems of `tsformer.data.make_order_task`, mean ± standard deviation
over three seeds: 128 training series of 96 steps, a small model of one block behind the linear
stem, which sees single steps, so that order is left to the encoding; the last rows are behind the
convolutional stem. *order*: which of two bumps came first. *lag*: which of two channels leads, at
random places. *direction*: rising or falling. Chance is 0.5.
`python experiments/order_tasks.py` makes it.

{order_tasks}
### What it costs

Time and peak memory of a training step in parts of those of `none`, with about 8,192 tokens at
every length, two blocks of width 64 with 4 heads behind the linear stem; medians of rounds in
which all took turns, on one thread of the machine that `experiments/results/encoding_cost.csv`
names. `python experiments/encoding_cost.py` makes it.

{cost}
### Real data

The default recipe and variants of it, cross-validated on train splits: mean ± standard deviation
over folds. Where a number is missing the folds were not run. On OSULeaf `lspe` is ahead of
`fixed` and `tape` by more than the spread, on SelfRegulationSCP1 behind them by about as much as
the spread; elsewhere the three are within it. `python experiments/choose_recipe.py` makes it.

{choose_recipe}
"""
# --- end of the guide ----------------------------------------------------------------------------


def page() -> str:
    """Return the whole page, for the encodings that the package brings."""
    rows = packaged()
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
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
    """Return the rows of `available()` that are the package's own, by kind."""
    own = [row for row in available() if find(row["name"]).__module__.startswith("tsformer.")]
    return sorted(own, key=lambda row: list(KINDS).index(row["kind"]))


def link(name: object, page: str = "") -> str:
    """Return a link to an encoding's place on the page."""
    return f"[`{name}`]({page}#{name})"


def entry(row: dict[str, object]) -> str:
    """Return what an encoding's docstring and attributes say."""
    cls = find(row["name"])
    text = md.sections(inspect.getdoc(cls))
    summary, _, description = text[""].partition("\n")
    facts = (
        f"Class `{cls.__module__}.{cls.__name__}`; past the trained length: {row['beyond']}; "
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
        "{cost}\n": (cost, cost_table),
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
    """One row an encoding, a column a task: mean accuracy and its spread over seeds."""
    fits = pd.read_csv(path)
    by_cell = fits.groupby(["encoding", "task"], sort=False)["accuracy"]
    return _pivot(by_cell.mean(), by_cell.std(), fits["encoding"], fits["task"], "encoding")


def choose_recipe_table(path: Path) -> str:
    """One row a variant, a column a data set: mean accuracy over the folds that were run."""
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


def cost_table(path: Path) -> str:
    """One row an encoding; time and memory in parts of `none`, at every length and device."""
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
    return md.table(header, rows)
