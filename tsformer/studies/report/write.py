"""The report of a study: one HTML page, and the same as Markdown with figures beside it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import tsformer
from tsformer._optional import require
from tsformer.studies._output import check_folder, write_atomically
from tsformer.studies.analysis.statistics import analyse
from tsformer.studies.analysis.study_scores import read_study
from tsformer.studies.report.content import content, figures, verdict
from tsformer.studies.report.render import html, markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ReportFiles", "write_report"]


class ReportFiles(NamedTuple):
    """The files of a report, and its first sentences."""

    html: Path
    markdown: Path
    figures: tuple[Path, ...]
    verdict: str = ""


def write_report(
    study: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    baseline: str | None = None,
    rope: float = 0.01,
    vary: str | Iterable[str] | None = None,
    command: str | None = None,
) -> ReportFiles:
    """Write the report of a study: ``report.html``, ``report.md`` and the latter's figures.

    The HTML is one self-contained file. The same scores give the same bytes.

    Parameters
    ----------
    study : str or path
        A study's folder, or a CSV as `tsformer.studies.read_scores` takes it. It may be unfinished.
    out : str or path, optional
        The folder to write to; by default, ``report`` beside the CSV.
    baseline : str, optional
        The method that gains are over; by default ``"none"``, or else ``"tsformer"``, if there.
    rope : float, default=0.01
        Region of practical equivalence: scores no further apart count as equal.
    vary : str or iterable of str, optional
        Columns that distinguish variants; by default those of ``study.json`` beside the CSV.
    command : str, optional
        The shell command that made the report, to be shown in it.

    Returns
    -------
    ReportFiles
        The paths `html`, `markdown` and `figures`, and the `verdict` in Markdown.

    Raises
    ------
    FileNotFoundError, ValueError, ImportError
        Without such a study, column, score or `baseline`, or the extras `statistics` and `plots`.
    """
    for library in ("jinja2", "markdown_it", "baycomp", "scikit_posthocs"):
        require(library, extra="statistics", purpose="the report of a study")
    scores = read_study(study, vary=vary)
    if baseline is None:  # or no gains
        methods = set(scores.rows["method"])
        baseline = next((name for name in ("none", "tsformer") if name in methods), None)
    findings = analyse(scores, baseline=baseline, rope=rope)
    drawn = figures(scores, findings, baseline)
    pictures = {f"{name}.png": as_png(figure) for name, figure in drawn.items()}
    commands = ["tsformer compare --study study.json"] * (scores.design is not None)
    variables = content(scores, findings, baseline) | {
        "pictures": pictures,
        "commands": "\n".join([*commands, *([command] if command else [])]),
        "design_text": json.dumps(scores.design, ensure_ascii=False),
        "digest": hashlib.sha256(scores.path.read_bytes()).hexdigest()[:16],
        "versions": [f"tsformer {tsformer.__version__}", f"Python {platform.python_version()}"],
    }
    encodings = variables["noun"] == "encoding"
    title = "Which encoding helps" if encodings else "Which method scores higher"
    name = scores.path.parent.name if scores.path.name == "results.csv" else scores.path.stem
    text = markdown(f"{title}: {name}" if name else title, variables)
    folder = Path(out) if out is not None else scores.path.parent / "report"
    contents: dict[str, str | bytes] = {"report.html": html(text, pictures), "report.md": text}
    contents |= pictures
    folder.mkdir(parents=True, exist_ok=True)
    check_folder(folder, contents, sign="report.md", text="tsformer")
    for file, written in contents.items():
        write_atomically(written, folder / file)
    html_file, markdown_file, *paths = (folder / file for file in contents)
    sentences = "\n".join(verdict(result, baseline, variables["noun"]) for result in findings)
    return ReportFiles(html_file, markdown_file, tuple(paths), sentences)


def as_png(figure: Figure) -> bytes:
    """Return a figure as the bytes of a PNG."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130)
    return file.getvalue()
