"""The report of a study: one HTML page, and the same as Markdown with figures beside it."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import tsformer
from tsformer._optional import require
from tsformer.baselines.catalogue import BASELINES
from tsformer.studies._files import check_folder, write_atomically
from tsformer.studies.analysis.analyse import Findings, analyse, default_baseline
from tsformer.studies.analysis.plots import plot_mean_gains
from tsformer.studies.analysis.published import Paths
from tsformer.studies.analysis.scores import StudyScores, read_study
from tsformer.studies.report import text
from tsformer.studies.report.render import (
    Block,
    Bullets,
    Code,
    Contents,
    Heading,
    Picture,
    Text,
    html,
    markdown,
)
from tsformer.studies.report.sections import (
    has_intervals,
    learning_curves,
    side_by_side,
    variant_section,
)

__all__ = ["ReportFiles", "compare_command", "write_findings", "write_report"]

_LIBRARIES = ("numpy", "pandas", "scipy", "torch", "matplotlib", "baycomp", "scikit-posthocs")


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
    published: Paths | None = None,
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
    published : path or iterable of paths, optional
        Published accuracies to set beside the study, as `tsformer.studies.read_published` takes
        them. Those of its data sets on the default split are further methods, marked as published.
    command : str, optional
        The shell command that made the report, to be shown in it.

    Returns
    -------
    ReportFiles

    Raises
    ------
    FileNotFoundError
        If there is no such study.
    ValueError
        If a column or a score is missing, there is no method `baseline`, or the published results
        are malformed.
    ImportError
        If the extra `statistics` or `plots` is missing.
    """
    for library in ("jinja2", "baycomp", "scikit_posthocs"):
        require(library, extra="statistics", purpose="the report of a study")
    scores = read_study(study, vary=vary, published=published)
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
    blocks = _blocks(scores, findings, baseline, command)
    folder.mkdir(parents=True, exist_ok=True)
    title = _title(scores)
    pictures = [block for block in blocks if isinstance(block, Picture)]
    figures = tuple(folder / f"{picture.name}.png" for picture in pictures)
    files = ReportFiles(folder / "report.html", folder / "report.md", figures)
    names = [path.name for path in (files.html, files.markdown, *figures)]
    check_folder(folder, names, sign="report.md", text="tsformer")
    for picture, path in zip(pictures, figures, strict=True):
        write_atomically(picture.png, path)
    write_atomically(html(title, blocks), files.html)
    write_atomically(markdown(title, blocks), files.markdown)
    return files


def compare_command(design: Mapping[str, Any]) -> str:
    """Return the shell command that runs a study of this design.

    Parameters of methods, methods that are left out and how data of one's own were split are in
    its file only, ``study.json``.

    Examples
    --------
    >>> compare_command({"datasets": ["A", "B"], "encodings": ["none"], "seeds": [0, 1],
    ...                  "parameters": {"d_model": 32}})
    'tsformer compare --datasets A,B --encodings none --seeds 0,1 --set d_model=32'
    """
    words = ["tsformer", "compare"]
    methods = design.get("methods", {})
    without_flag = any(said or name not in BASELINES for name, said in methods.items())
    if without_flag or design.get("leave_out") or design.get("splits"):
        return shlex.join([*words, "--study", "study.json"])
    words += ["--datasets", ",".join(design["datasets"])]
    words += ["--encodings", ",".join(design["encodings"])] if design["encodings"] else []
    words += ["--methods", ",".join(methods)] if methods else []
    seeds = ",".join(map(str, design["seeds"]))
    words += ["--seeds", seeds if "," in seeds else f"{seeds},"]
    for name, values in design.get("vary", {}).items():
        words += ["--vary", f"{name}={','.join(map(str, values))}"]
    if design.get("train_sizes"):
        words += ["--train-sizes", ",".join(design["train_sizes"])]
    if design.get("resamples", 1) > 1:
        words += ["--resamples", str(design["resamples"])]
    for name, value in design.get("parameters", {}).items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)


def _title(scores: StudyScores) -> str:
    of = scores.path.parent.name if scores.path.name == "results.csv" else scores.path.stem
    encodings = scores.ours and not (scores.design or {}).get("methods")
    question = "Which encoding helps" if encodings else "Which method scores higher"
    return f"{question}: {of}" if of else question


def _blocks(
    scores: StudyScores, findings: list[Findings], baseline: str | None, command: str | None
) -> list[Block]:
    verdicts = [text.verdict(each) for each in findings]
    blocks: list[Block] = [
        Text(verdicts[0]) if len(verdicts) == 1 else Bullets(verdicts),
        Contents(),
        Heading("What was asked"),
        Text(text.asked(scores, findings, baseline)),
        Heading("How"),
        Bullets(text.protocol(scores, findings)),
    ]
    if sum(each.statistics is not None for each in findings) > 1:
        blocks += [Heading("Variants side by side"), side_by_side(findings)]
    tables = {each.label: each.mean_gains for each in findings if each.mean_gains is not None}
    if tables and baseline is not None:
        interval = " with its interval" if any(map(has_intervals, tables.values())) else ""
        caption = f"Mean gain over {baseline}{interval}."
        if len(tables) > 1:
            caption += " Each panel has its own scale."
        blocks += [
            *([Heading("Gains")] if len(findings) == 1 else []),
            Picture("mean_gains", plot_mean_gains(tables, baseline), caption),
        ]
    blocks += learning_curves(scores)
    for each in findings:
        blocks += variant_section(each, baseline, len(findings) > 1)
    return [
        *blocks,
        Heading("What cannot be concluded"),
        Bullets(text.limits(scores, findings)),
        Heading("How this page was made"),
        *_provenance(scores, command),
    ]


def _provenance(scores: StudyScores, command: str | None) -> list[Block]:
    lines = []
    if scores.design is not None:
        lines.append(compare_command(scores.design))
    lines += [command] if command is not None else []
    digest = hashlib.sha256(scores.path.read_bytes()).hexdigest()[:16]
    versions = [f"tsformer {tsformer.__version__}", f"Python {platform.python_version()}"]
    versions += [f"{name} {_version(name)}" for name in _LIBRARIES]
    blocks: list[Block] = [Code("\n".join(lines))] if lines else []
    blocks.append(Text(f"Scores: {scores.path.name}, SHA-256 {digest}…"))
    if scores.ours and "version" in scores.rows.columns:
        found = ", ".join(sorted(map(str, scores.rows["version"].dropna().unique())))
        blocks.append(Text(f"The fits were made by tsformer {found}."))
    return [*blocks, Text(f"The page was made by {', '.join(versions)}.")]


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:  # imported from a path, without its metadata
        return "of unknown version"
