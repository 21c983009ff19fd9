"""Shared by all tests: one thread, one seed, no GPU, and real problems if the archive is here."""

import os
import re
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from listening import free_port

#: Files of half a minute or more. Workers end together if these come first.
LONGEST = (
    *("tests/ui/", "test_documented_servers", "test_resume", "test_distributed"),
    *("test_commands", "test_compare", "test_guide", "test_export"),
)

#: Libraries of the extras, by the folders of tests that need them.
NEEDS = {
    "cli": ("typer", "rich", "sktime", "mlflow", "matplotlib"),
    "analysis": ("baycomp", "scikit_posthocs", "matplotlib"),
    "report": ("baycomp", "scikit_posthocs", "matplotlib", "markupsafe"),
    "run": ("mlflow", "matplotlib"),
    "tracking": ("mlflow",),
}
NEEDS_ARCHIVE = "needs the UCR and UEA archives: set TSFORMER_DATA to the folder that holds them"


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)
    if not re.search(r"(?<!not )\bcuda\b", config.option.markexpr):
        # They compare bit for bit with what was computed on a CPU, in other processes too. What
        # must hold on a GPU has tests of its own: `-m cuda`, or `make gpu`.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if (
        "TSFORMER_DATA" in os.environ
    ):  # tests change the working folder; a relative name would be lost
        os.environ["TSFORMER_DATA"] = str(Path(os.environ["TSFORMER_DATA"]).absolute())


def pytest_runtest_setup() -> None:
    # Classifiers of sktime leave as many threads as numba has; sums then differ in their last bits.
    torch.set_num_threads(1)
    torch.manual_seed(0)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    missing = [lib for lib in NEEDS.get(collection_path.name, ()) if find_spec(lib) is None]
    if missing and collection_path.is_dir():
        warnings.warn(f"{collection_path} needs {', '.join(missing)}", stacklevel=1)
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # Processes may take minutes to start where the machine is busy.
        if item.get_closest_marker("processes") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))
    items.sort(key=lambda item: not any(name in item.nodeid for name in LONGEST))
    if _archive_is_here():
        return
    for item in items:
        if item.get_closest_marker("archive"):
            item.add_marker(pytest.mark.skip(reason=NEEDS_ARCHIVE))


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """Write an MLflow store without runs; its tables, which take seconds, are created once."""
    base = tmp_path_factory.getbasetemp()
    template = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "empty.db"

    def write(file: Path) -> str:
        from tsformer.tracking import prepare_store

        prepare_store(f"sqlite:///{template}", "Default")
        file.parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(template)) as source, closing(sqlite3.connect(file)) as copy:
            source.backup(copy)
        return f"sqlite:///{file}"

    return write


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory, empty_store: Callable[[Path], str]) -> str:
    """One MLflow store for the tests of tracking and of studies."""
    return empty_store(tmp_path_factory.getbasetemp() / "store/mlflow.db")


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Run a command in this process, for speed; return standard output and error."""
    from tsformer.cli import main

    def run_here(*args: object, exits: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(arg) for arg in args])
        printed = capsys.readouterr()
        assert (stopped.value.code or 0) == exits, printed.err
        return printed.out, printed.err

    return run_here


@pytest.fixture
def run(
    invoke: Callable[..., tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[str, str]]:
    """Run commands in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    return invoke


@pytest.fixture
def port() -> int:
    """A port that is free."""
    return free_port()


@pytest.fixture(autouse=True)
def _registries_as_found() -> Iterator[None]:
    """Unregister the encodings, augmentations and objectives that a test defines."""
    from tsformer import augmentation, encodings, objectives

    before = {room: set(room.names()) for room in (augmentation, encodings, objectives)}
    yield
    for room, known in before.items():
        for name in set(room.names()) - known:
            room.unregister(name)


def _archive_is_here() -> bool:
    folder = os.environ.get("TSFORMER_DATA", "")
    return bool(folder) and Path(folder).is_dir()
