"""Run a study: every fit tracked, none done twice, all rows in results/<study>/results.csv.

    python experiments/compare_encodings.py
    python experiments/compare_encodings.py experiments/studies/which_encoding.toml --jobs 2

Stop it whenever you like; the same line goes on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tsformer.studies import Progress, Study, compare

HERE = Path(__file__).parent
STUDY = HERE / "studies/which_encoding.toml"


def show(progress: Progress) -> None:
    if progress.event == "fit-end":
        left = "" if progress.seconds_left is None else f"{progress.seconds_left / 60:.0f} min left"
        outcome = progress.error or f"accuracy {progress.accuracy:.3f}"
        print(
            progress.trial, outcome, f"{progress.done}/{progress.total}", left, sep="  ", flush=True
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", nargs="?", type=Path, default=STUDY, help="a TOML file")
    parser.add_argument("--jobs", type=int, default=1, help="fits side by side")
    parser.add_argument(
        "--tracking-uri", help="MLflow's store, by default mlflow.db in this folder"
    )
    parser.add_argument("--experiment", help="MLflow's experiment, by default the study's name")
    parser.add_argument(
        "--out", type=Path, help="folder of the CSV, by default results/ beside this"
    )
    options = parser.parse_args()
    name = options.study.stem
    out = options.out or HERE / "results"
    comparison = compare(
        Study.from_toml(options.study),
        out=out / name,
        tracking_uri=options.tracking_uri,
        experiment=options.experiment or name.replace("_", "-"),
        jobs=options.jobs,
        on_progress=show,
    )
    print(comparison.summary().round(3).to_string())
    missing = len(comparison.failures) + len(comparison.unrecorded)
    if missing:
        print(comparison.failures.to_string(), comparison.unrecorded.to_string(), sep="\n")
    return 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
