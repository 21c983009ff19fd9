"""Encodings of one's own: named by the path of their class, in the shell, in files, in workers."""

import json
import linecache
import pickle
import sys
from types import ModuleType

import pandas as pd
import pytest

from tsformer.encodings import find, names, unregister
from tsformer.studies import Study
from tsformer.studies.run.trial import Task, run_task

CODE = """
from tsformer.encodings.embed.fixed import FixedEncoding
class Own(FixedEncoding): pass
class Named(FixedEncoding, name="ownname"): pass
"""
SMALL = ("--set", "d_model=8", "--set", "n_layers=1", "--set", "n_heads=1", "--max-epochs", 1)


def forget() -> None:
    """Undo the import, as in a new process."""
    if sys.modules.pop("ownencodings", None) and "ownname" in names():
        unregister("ownname")


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the working folder, which is not imported yet."""
    (tmp_path / "ownencodings.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield
    forget()


@pytest.mark.usefixtures("module")
def test_a_path_is_imported_recorded_and_part_of_sums():
    study = Study(["GunPoint"], ["none", "rope + ownencodings.Own"])
    assert study.encodings == ("none", "rope+ownencodings.Own")
    assert study.imports == ("ownencodings",)
    assert find("ownencodings.Own").__name__ == "Own"
    assert Study(**study.as_dict()) == study


@pytest.mark.usefixtures("module")
def test_the_module_of_a_registered_name_is_recorded_and_imported_first(tmp_path):
    import ownencodings

    study = Study(["GunPoint"], methods={"a": {"estimator": "tsformer", "encoding": "ownname"}})
    design = study.as_dict()
    assert design["imports"] == ["ownencodings"]
    (tmp_path / "study.json").write_text(json.dumps(design))
    assert find("ownname") is ownencodings.Named
    forget()
    assert Study.from_toml(tmp_path / "study.json") == study
    sent = pickle.dumps(Task(study.trials()[0], study, None, ""))
    forget()
    task = pickle.loads(sent)
    object.__setattr__(task, "key", "of other libraries")  # nothing is fitted
    assert run_task(task).error.startswith("OtherVersions: ")
    assert find("ownname").__module__ == "ownencodings", "a worker imports it"


def test_other_code_of_a_class_of_a_script_is_another_fit(tmp_path, monkeypatch):
    """In a notebook the cell is run again, and the name stays the same."""
    file, keys = tmp_path / "script.py", []
    for code in ("scale = 1", "scale = 2"):
        file.write_text(CODE.replace("pass", code))
        script = ModuleType("__main__")
        script.__file__ = str(file)
        monkeypatch.setitem(sys.modules, "__main__", script)
        linecache.clearcache()
        exec(compile(file.read_text(), file, "exec"), vars(script))
        study = Study(["GunPoint"], ["ownname"], seeds=1)
        assert study.imports == (), "no process can import it"
        keys.append(study.key("GunPoint", "ownname", 0))
        unregister("ownname")
    assert keys[0] != keys[1]


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("compare --datasets A --encodings ownencodings.Own", "--allow-import"),
        ("fit A --encoding ownencodings.Own", "--allow-import"),
        ("fit A --set encoding=rope+ownencodings.Own", "--allow-import"),
        ("pretrain A --encoding ownencodings.Own", "--allow-import"),
        ("plot-encoding ownencodings.Own", "--allow-import"),
        ("fit A --encoding ownencodings.Owm --allow-import", "did you mean 'ownencodings.Own'"),
        ("fit A --encoding ownencoding.Own --allow-import", "'ownencoding'"),
    ],
)
def test_a_command_imports_only_what_it_may(command, says, run):
    _, err = run(*command.split(), exits=2)
    assert says in err
    assert ("ownencodings" in sys.modules) == ("Owm" in command)


@pytest.mark.processes
@pytest.mark.usefixtures("module", "no_figures")
def test_a_study_of_a_path_resumes_from_its_own_file(run, uri, experiment, tmp_path):
    store = ("--tracking-uri", uri, "--experiment", experiment, "--jobs", 2)
    flags = ("--encodings", "none,ownencodings.Own", "--seeds", 1, *SMALL, "--allow-import")
    run("compare", "--datasets", "ItalyPowerDemand", *flags, *store)
    rows = pd.read_csv("results/compare/results.csv")
    assert sorted(rows["encoding"]) == ["none", "ownencodings.Own"]
    forget()
    report = (tmp_path / "results/compare/report/report.md").read_text("utf-8")
    assert "tsformer compare --study study.json\n" in report
    run("compare", "--study", "results/compare/study.json", "--out", "again", *store)
    again = pd.read_csv("again/results.csv")
    assert sorted(again["run_id"]) == sorted(rows["run_id"])
