"""The results of `experiments/gpu/run.py` as Markdown."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from tsformer._markdown import markdown_table

#: Targets: the least speed-up over the plain loop on short series, the least share of the peak.
FASTER, SHORT = 8, ("180x24x51", "256x6x100")
SHARE, WIDE = 0.25, "a whole step, width 256, 896 steps, 256 series, CUDA graphs"
PLAIN = "plain loop"
HEAD = """# On a GPU

For readers who train on a GPU: checks, and speed beside a plain training loop.

"""
OUTCOMES = {
    "done": "The run completed.",
    "killed": "The run was interrupted; these are its results until then.",
    "no such device": "PyTorch found no such device. Nothing was measured.",
}


def page(folder: Path, rows: dict[str, list[dict]]) -> str:
    """Return the page of a run, from the rows of each part."""
    state = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    tables = {name: pd.DataFrame(entries) for name, entries in rows.items() if entries}
    note = (
        "A rehearsal with the smallest sizes; its numbers mean nothing. " if state["tiny"] else ""
    )
    sections = [HEAD + _findings(tables), f"## The run\n\n{note}{OUTCOMES[state['outcome']]}\n"]
    parts = (
        (name, end["outcome"], f"{end['seconds']:.0f}") for name, end in state["parts"].items()
    )
    sections.append(markdown_table(("part", "outcome", " seconds"), parts))
    for title, name, make in (
        ("Training", "training", _training),
        ("Share of the peak", "matmul", _matmul),
        ("Seconds behind the defaults", "choices", lambda table: table),
        ("Fits of real problems", "problems", _problems),
        ("Checks", "checks", _checks),
        ("Checks that did not pass", "checks", _not_passed),
        ("The machine", "machine", lambda table: table.dropna()),
    ):
        shown = make(tables[name]) if name in tables else ()
        if len(shown):
            sections.append(f"## {title}\n\n{_table(shown)}")
    return "\n".join([*sections, COMMAND])


COMMAND = """## Reproduce

`make gpu` runs the checks and the benchmark in less than nine minutes. It needs torch, NumPy,
pandas and scikit-learn.
`python experiments/gpu/run.py --device cpu --tiny --out FOLDER` rehearses it without a GPU.
"""


def _table(rows: pd.DataFrame) -> str:
    numeric = rows.select_dtypes("number").columns
    header = [f" {name}" if name in numeric else name for name in rows]
    cells = rows.astype(object).where(rows.notna(), "–")
    return markdown_table(
        header, (tuple(_short(value) for value in row) for row in cells.itertuples(index=False))
    )


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return str(value)


def _findings(tables: dict[str, pd.DataFrame]) -> str:
    lines = []
    if "checks" in tables:
        counts = _checks(tables["checks"]).iloc[:, 1:].sum()
        lines.append(
            f"- Checks: {counts['passed']} passed, {counts['failed'] + counts['died']} failed."
        )
    if "training" in tables:
        best = _training(tables["training"]).groupby("series × channels × steps")["speed-up"].max()
        for case in SHORT:
            speed_up = best.get(_sizes(case))
            if pd.notna(speed_up):
                lines.append(
                    f"- Training on {_sizes(case)}: {speed_up:.1f} times as fast as a plain loop "
                    f"(target {FASTER}: {_verdict(speed_up >= FASTER)})."
                )
    if "matmul" in tables:
        for share in tables["matmul"].query("what == @WIDE")["share"]:
            lines.append(
                f"- {WIDE[0].upper()}{WIDE[1:]}: {share:.0%} of the measured peak "
                f"(target {SHARE:.0%}: {_verdict(share >= SHARE)})."
            )
    return "\n".join(lines or ["Nothing was measured."]) + "\n"


def _verdict(reached: bool) -> str:
    return "reached" if reached else "missed"


def _checks(rows: pd.DataFrame) -> pd.DataFrame:
    last = rows.drop_duplicates("check", keep="last")
    counts = pd.crosstab(last["check"].str.partition(": ")[0].rename("checks"), last["outcome"])
    counts = counts.reindex(columns=["passed", "failed", "died", "skipped"], fill_value=0)
    return counts.reset_index()


def _not_passed(rows: pd.DataFrame) -> pd.DataFrame:
    last = rows.drop_duplicates("check", keep="last")
    return last.loc[last["outcome"] != "passed", ["check", "outcome", "note"]]


def _training(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.reindex(columns=[*rows.columns, *{"peak_mib", "error"} - set(rows.columns)])
    plain = rows[rows["method"] == PLAIN].set_index("case")["seconds"]
    return pd.DataFrame(
        {
            "series × channels × steps": rows["case"].map(_sizes),
            "method": rows["method"],
            "series/s": rows["series_per_second"],
            "speed-up": rows["case"].map(plain) / rows["seconds"],
            "ms a step": rows["ms_per_step"],
            "peak MiB": rows["peak_mib"],
        }
    ).join(rows["error"] if rows["error"].notna().any() else rows[[]])


def _matmul(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.rename(columns={"what": "bfloat16", "tflops": "TFLOP/s", "share": "of the peak"})


def _problems(rows: pd.DataFrame) -> pd.DataFrame:
    columns = ["dataset", "fit", "device", "accuracy", "fit_seconds", "error"]
    return rows.reindex(columns=columns).dropna(axis=1, how="all")


def _sizes(case: str) -> str:
    return case.replace("x", " × ")
