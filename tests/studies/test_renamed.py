"""Old public names of studies and their figures go on working, and warn."""

from __future__ import annotations

from importlib import import_module

import pytest

from tsformer.studies import Progress, Study, Trial

RENAMED = [
    ("tsformer.studies", "Cell", "tsformer.studies.design.study.Trial"),
    *(
        (f"tsformer.studies.{old}", name, f"tsformer.studies.{new}.{name}")
        for old, new, names in (
            ("scores", "analysis.scores", "StudyScores complete labels read_scores read_study"),
            ("statistics", "analysis.statistics", "Statistics compare_methods holm"),
            ("statistics", "analysis.scores", "read_scores"),
            ("effects", "analysis.effects", "COVARIATES costs effects gains mean_gains"),
            ("resample", "run.resample", "stratified_resample"),
            ("problem", "run.problem", "Problem"),
            ("study_report", "report.write", "ReportFiles compare_command write_report"),
        )
        for name in names.split()
    ),
    ("tsformer.studies.scores", "variants", "tsformer.studies.analysis.scores.split_variants"),
    *(
        ("tsformer.plots", f"plot_{what}", f"tsformer.studies.analysis.plots.plot_{what}")
        for what in (
            *("chances", "comparison", "cost", "critical_difference"),
            *("gains", "mean_gains", "pairs"),
        )
    ),
]


@pytest.mark.parametrize(("module", "old", "new"), RENAMED)
def test_an_old_name_is_the_new_thing_and_warns(module: str, old: str, new: str) -> None:
    home, _, name = new.rpartition(".")
    with pytest.warns(FutureWarning, match=rf"{module}\.{old} was renamed to"):
        found = getattr(import_module(module), old)
    assert found is getattr(import_module(home), name)


@pytest.mark.parametrize("module", sorted({module for module, _, _ in RENAMED}))
def test_a_name_that_never_was_is_an_attribute_error(module: str) -> None:
    with pytest.raises(AttributeError, match=f"{module!r} has no attribute 'never_was'"):
        import_module(module).never_was  # noqa: B018


def test_a_study_has_cells_and_progress_a_cell() -> None:
    study = Study(["GunPoint"], ["none"], seeds=1)
    with pytest.warns(FutureWarning, match=r"Study.cells\(\) was renamed to Study.trials\(\)"):
        assert study.cells() == study.trials()
    trial = Trial("GunPoint", "none", 0)
    with pytest.warns(FutureWarning, match="cell was renamed to trial"):
        assert Progress("fit-start", 1, 0, 0, 0, trial=trial).cell == trial
