"""The report of a study: one HTML page, and the same as Markdown with figures beside it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import tsformer
from tsformer._optional import require
from tsformer.encodings import find, names
from tsformer.studies._files import check_folder, write_atomically
from tsformer.studies.analysis.scores import Findings, StudyScores, read_study
from tsformer.studies.analysis.statistics import analyse, default_baseline
from tsformer.studies.report.content import content, figures
from tsformer.studies.report.render import html, markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ReportFiles", "write_findings", "write_report"]


class ReportFiles(NamedTuple):
    """The files of a report."""

    html: Path
    markdown: Path
    figures: tuple[Path, ...]


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
        A study's folder, or a CSV as `tsformer.studies.read_scores` takes it. It may be unfinished:
        data sets that lack a method are left out of the statistics, and named.
    out : str or path, optional
        The folder to write to; by default, ``report`` beside the CSV.
    baseline : str, optional
        The method over which gains are computed; by default ``"none"``, or else ``"tsformer"``, if
        the study has it.
    rope : float, default=0.01
        Region of practical equivalence: scores no further apart count as equal.
    vary : str or iterable of str, optional
        Columns that distinguish variants of the study; by default what ``study.json`` beside the
        CSV says.
    command : str, optional
        The shell command that made the report, to be shown in it.

    Raises
    ------
    FileNotFoundError
        If there is no such study.
    ValueError
        If a column or a score is missing, or there is no method `baseline`.
    ImportError
        If the extra `statistics` or `plots` is missing.
    """
    for library in ("jinja2", "markdown_it", "baycomp", "scikit_posthocs"):
        require(library, extra="statistics", purpose="the report of a study")
    scores = read_study(study, vary=vary)
    baseline = default_baseline(scores) if baseline is None else baseline
    return write_findings(
        scores,
        analyse(scores, baseline=baseline, rope=rope),
        Path(out) if out is not None else scores.path.parent / "report",
        baseline=baseline,
        command=command,
    )


def write_findings(
    scores: StudyScores,
    findings: list[Findings],
    folder: Path,
    *,
    baseline: str | None,
    command: str | None = None,
) -> ReportFiles:
    """Write the report of findings that `analyse` returned for these scores and baseline."""
    drawn = figures(scores, findings, baseline)
    pictures = {f"{name}.png": as_png(figure) for name, figure in drawn.items()}
    again = scores.design is not None and not _needs_its_script(scores.design)
    commands = ["tsformer compare --study study.json"] if again else []
    versions = [f"tsformer {tsformer.__version__}", f"Python {platform.python_version()}"]
    name = scores.path.parent.name if scores.path.name == "results.csv" else scores.path.stem
    encodings = scores.ours and not (scores.design or {}).get("methods")
    question = "Which encoding helps" if encodings else "Which method scores higher"
    text = markdown(
        f"{question}: {name}" if name else question,
        {
            **content(scores, findings, baseline),
            "pictures": pictures,
            "commands": "\n".join([*commands, *([command] if command else [])]),
            "design_text": json.dumps(scores.design, ensure_ascii=False),
            "digest": hashlib.sha256(scores.path.read_bytes()).hexdigest()[:16],
            "versions": versions,
        },
    )
    page = html(text, pictures)
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / name for name in pictures)
    files = ReportFiles(folder / "report.html", folder / "report.md", paths)
    written = [files.html.name, files.markdown.name, *pictures]
    check_folder(folder, written, sign="report.md", text="tsformer")
    for name, png in pictures.items():
        write_atomically(png, folder / name)
    write_atomically(page, files.html)
    write_atomically(text, files.markdown)
    return files


def _needs_its_script(design: Mapping[str, Any]) -> bool:
    """Return whether an encoding is defined where no other process can import it."""
    methods = [each.get("encoding", "none") for each in design.get("methods", {}).values()]
    parts = [part for each in (*design.get("encodings", ()), *methods) for part in each.split("+")]
    ours = [name for name in names() if find(name).__module__.startswith("tsformer.")]
    return not design.get("imports") and any("." not in each and each not in ours for each in parts)


def as_png(figure: Figure) -> bytes:
    """Return a figure as the bytes of a PNG."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130)
    return file.getvalue()
