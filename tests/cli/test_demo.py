"""`tsformer demo`: it says what it will do, and ends with where to go."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

demonstration = pytest.importorskip("tsformer.cli.studies", reason='needs the extra "cli"')

SCORES = {"none": 0.5, "fixed": 0.7, "learnable": 0.7, "lspe": 0.79, "rope": 0.6, "erpe": 0.8}


@pytest.fixture
def demo(run, monkeypatch):
    """Run the command with made-up results; return the studies and what it prints."""

    def printed(**scores: float) -> tuple[list[tuple[Any, Any]], list[str]]:
        studies = []

        def instead(study, **options):
            studies.append((study, options))
            rows = [
                {"dataset": data, "encoding": name, "accuracy": score - 0.1 * (data != "ArrowHead")}
                for data in study.datasets
                for name, score in (SCORES | scores).items()
            ]
            return SimpleNamespace(
                results=pd.DataFrame(rows),
                failures=pd.DataFrame(columns=["error"]),
                unrecorded=pd.DataFrame(),
                figure_path=Path(f"{len(study.datasets)}.png"),
                report_path=Path("report.html"),
                ui_command="tsformer ui",
            )

        monkeypatch.setattr(demonstration, "run", instead)
        return studies, run("demo", "--max-epochs", 3)[0].splitlines()

    return printed


def test_short_series_come_first_and_each_step_ranks_its_own(demo):
    ((first, options), (both, _)), lines = demo()
    assert first.datasets == ("ItalyPowerDemand",)
    assert both.datasets == ("ItalyPowerDemand", "ArrowHead")
    assert first.parameters == both.parameters == {"stem": "linear", "max_epochs": 3}
    assert options == {"out": Path("results/demo"), "jobs": 2}
    ranked = [line.split()[0] for line in lines if line.endswith(("00", "90"))]
    assert ranked == 2 * ["erpe", "lspe", "fixed", "learnable", "rope", "none"]
    assert 'Yes: "erpe" scores 0.80, without one ("none") 0.50.' in "\n".join(lines)
    assert 'No: "erpe" scores 0.80, without one ("none") 0.79.' in "\n".join(demo(none=0.79)[1])
