"""The page on what was measured on a GPU, from the rows that `experiments/gpu/run.py` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from experiments.gpu.run import read_rows
from experiments.output import COMMITTED
from tsformer.studies.report.render import markdown_table

RESULTS = COMMITTED / "gpu"
#: Least speed, in that of the plain loop, on each of these cases.
FASTER, SHORT = 8, ("180x24x51", "256x6x100")
#: Least share of the peak of matrix products, of a model of this width with so many steps.
SHARE, WIDE = 0.25, "a whole step, width 256, 896 steps"
PLAIN = "plain loop"

HEAD = """# Measured on a GPU

`make gpu` runs the checks and the benchmark of the GPU path in less than nine minutes, and writes
this page from `experiments/results/gpu`. It needs torch, NumPy, pandas and scikit-learn.
"""
NOTHING = """
No run on a GPU has been committed: nothing on this path has been measured, and what is said of it
elsewhere rests on rehearsals on a CPU.
"""


def page(folder: Path = RESULTS) -> str:
    """Return the page as Markdown; without results, it says so."""
    state_path = folder / "run.json"
    if not state_path.exists():
        return HEAD + NOTHING
    state = json.loads(state_path.read_text(encoding="utf-8"))
    rows = {part: pd.DataFrame(read_rows(folder / f"{part}.jsonl")) for part in state["parts"]}
    sections = [HEAD, _run(state)]
    sections += [
        make(rows[part])
        for part, make in _SECTIONS.items()
        if part in rows and not rows[part].empty
    ]
    return "\n".join(sections)


def _run(state: dict) -> str:
    text = {
        "done": "The run came to its end.",
        "killed": "The run was killed before its end; this is what it had measured.",
        "no such device": "PyTorch found no such device, so that nothing was measured.",
    }[state["outcome"]]
    if state["tiny"]:
        text = f"A rehearsal with the smallest sizes: the numbers mean nothing. {text}"
    table = markdown_table(
        ("part", "outcome", " seconds"),
        ((part, own["outcome"], f"{own['seconds']:.0f}") for part, own in state["parts"].items()),
    )
    return f"{text}\n\n{table}"


def _machine(rows: pd.DataFrame) -> str:
    cells = ((row.what, str(row.value)) for row in rows.itertuples() if row.value not in (None, ""))
    return f"## The machine\n\n{markdown_table(('', ''), cells)}"


def _checks(rows: pd.DataFrame) -> str:
    last = rows.drop_duplicates("check", keep="last").assign(
        group=lambda table: table["check"].str.partition(": ")[0]
    )
    outcomes = ("passed", "failed", "died", "skipped")
    counts = (
        (group, *(str(int((own["outcome"] == outcome).sum())) for outcome in outcomes))
        for group, own in last.groupby("group", sort=False)
    )
    table = markdown_table(("checks", *(f" {outcome}" for outcome in outcomes)), counts)
    notes = last[last["outcome"] != "passed"]
    listed = markdown_table(
        ("check", "outcome", "why"),
        ((row.check, row.outcome, str(row.note)) for row in notes.itertuples()),
    )
    return f"## Checks\n\n{table}" + (f"\n{listed}" if len(notes) else "")


def _training(rows: pd.DataFrame) -> str:
    plain = rows[rows["method"] == PLAIN].set_index("case").get("seconds")
    cells = []
    for row in rows.to_dict("records"):
        if isinstance(row.get("error"), str):
            cells.append((_sizes(row["case"]), row["method"], *"–––", row["error"]))
            continue
        times = plain.get(row["case"]) if plain is not None else None
        faster = "–" if times is None or pd.isna(times) else f"{times / row['seconds']:.1f}"
        memory = row.get("peak_mib")
        cells.append(
            (
                _sizes(row["case"]),
                row["method"],
                f"{row['series_per_second']:.4g}",
                faster,
                f"{row['ms_per_step']:.3g}",
                "" if memory is None or pd.isna(memory) else f"{memory:.0f} MiB",
            )
        )
    header = ("series × channels × steps", "method", " series/s", " times the plain loop")
    table = markdown_table((*header, " ms a step", "peak memory"), cells)
    return f"## Training\n\n{table}\n{_target_of_training(rows, plain)}"


def _target_of_training(rows: pd.DataFrame, plain: pd.Series | None) -> str:
    reached = []
    for case in SHORT:
        own = rows[(rows["case"] == case) & (rows["method"] != PLAIN)]
        if plain is None or case not in plain or own.get("seconds", pd.Series()).dropna().empty:
            continue
        best = own.loc[own["seconds"].idxmin()]
        times = plain[case] / best["seconds"]
        verdict = _verdict(times >= FASTER)
        reached.append(f"{times:.1f} at {_sizes(case)} by {best['method']} ({verdict})")
    if not reached:
        return ""
    return f"Asked for: {FASTER} times the plain loop. Reached: {'; '.join(reached)}.\n"


def _matmul(rows: pd.DataFrame) -> str:
    cells = ((row.what, f"{row.tflops:.3g}", f"{row.share:.0%}") for row in rows.itertuples())
    table = markdown_table(("bfloat16", " TFLOP/s", " of the peak"), cells)
    wide = rows.loc[rows["what"] == WIDE, "share"]
    text = ""
    if len(wide):
        verdict = _verdict(wide.iloc[0] >= SHARE)
        text = f"\nAsked for: {SHARE:.0%} of the peak in {WIDE} ({verdict}).\n"
    return f"## Share of the peak\n\n{table}{text}"


def _problems(rows: pd.DataFrame) -> str:
    rows = rows.reindex(columns=["dataset", "device", "fit", "accuracy", "fit_seconds", "error"])
    failed = rows[rows["accuracy"].isna()].drop_duplicates(["dataset", "error"])
    text = "## Whole fits of real problems\n"
    done = rows.dropna(subset="accuracy").assign(
        how=lambda table: table["fit"].where(
            table["device"] == "cuda", table["fit"] + ", on the processor"
        )
    )
    if len(done):
        accuracy, seconds = (
            done.pivot(index="dataset", columns="how", values=column).reindex(
                index=done["dataset"].unique(), columns=done["how"].unique()
            )
            for column in ("accuracy", "fit_seconds")
        )
        whole = accuracy.dropna().index
        cells = [(name, *_pairs(accuracy.loc[name], seconds.loc[name])) for name in accuracy.index]
        if len(whole) > 1:
            means = accuracy.loc[whole].mean(), seconds.loc[whole].mean()
            cells.append((f"mean of {len(whole)}", *_pairs(*means)))
        text += (
            "\nThe default, fitted to the official train split with `random_state=0`: its accuracy "
            "on the test\nsplit, and the seconds of the fit. These are problems that recipes were "
            "developed on.\n\n"
        )
        text += markdown_table(("problem", *(f" {how}" for how in accuracy)), cells)
    if len(failed):
        listed = markdown_table(
            ("problem", "error"), ((row.dataset, str(row.error)) for row in failed.itertuples())
        )
        text += f"\n{listed}"
    return text


def _pairs(accuracy: pd.Series, seconds: pd.Series) -> Iterator[str]:
    for share, time in zip(accuracy, seconds, strict=True):
        yield "–" if pd.isna(share) else f"{share:.3f} in {time:.1f} s"


_SECTIONS = {
    "machine": _machine,
    "checks": _checks,
    "training": _training,
    "matmul": _matmul,
    "problems": _problems,
}


def _verdict(reached: bool) -> str:
    return "reached" if reached else "missed"


def _sizes(case: str) -> str:
    return case.replace("x", " × ")
