"""All pages: programs and commands run, links lead somewhere, and the map is true."""

import re
import runpy
import shlex
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from marks import exhaustive_except

import tsformer
from tsformer.estimators.series_estimator import add_observer, remove_observer
from tsformer.training import Callback

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WRITTEN = {"_build", "api", "gallery"}  # by `make docs`
PAGES = {
    str(path.relative_to(DOCS)): path.read_text(encoding="utf-8")
    for path in sorted(DOCS.rglob("*.md"))
    if not WRITTEN & set(path.relative_to(DOCS).parts)
}
#: Those beside the code, by their way from docs/.
OF_GITHUB = {
    f"../{name}.md": (ROOT / f"{name}.md").read_text(encoding="utf-8")
    for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")
}
REPORTS = {
    f"../{path.relative_to(ROOT)}": path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "experiments/results").rglob("*.md"))
}
#: Their programs are fragments, or need a folder or a process of their own, and have their tests.
TESTED_ELSEWHERE = {"augmentation.md", "encodings.md", "guide/pictures.md"}
PROGRAMS = [
    pytest.param(code, id=f"{page}-{number}")
    for page, text in PAGES.items()
    if page not in TESTED_ELSEWHERE
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.M))
]
COMMANDS = [
    (page, line)
    for page, text in PAGES.items()
    for block in re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("tsformer ")
]


class Stops(Callback):
    def on_epoch_end(self, state):
        state.stop = state.epoch >= 2


@contextmanager
def short_fits():
    """End every fit after two epochs."""

    @contextmanager
    def observer(fit):
        fit.callbacks.append(Stops())
        yield

    add_observer(observer)
    try:
        yield
    finally:
        remove_observer(observer)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # short fits are warned of, as they should be
@pytest.mark.parametrize("in_full", exhaustive_except([False, True], [False]))
@pytest.mark.parametrize("code", PROGRAMS)
def test_program_runs(code, in_full, tmp_path, monkeypatch, capsys, empty_store):
    for library in ("sktime", "mlflow", "matplotlib", "captum", "onnxruntime", "optuna"):
        pytest.importorskip(library, reason='needs the extras "all" and "test"')
    (tmp_path / "program.py").write_text(code, encoding="utf-8")
    empty_store(tmp_path / "mlflow.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)
    encodings = re.findall(r'PositionalEncoding, name="(\w+)"', code)
    try:
        with nullcontext() if in_full else short_fits():
            runpy.run_path("program.py")
    finally:
        tsformer.autolog(disable=True)
        for name in encodings:
            from tsformer.encodings import unregister

            unregister(name)
    printed = capsys.readouterr().out
    assert ("print(" not in code) or printed
    # Far above chance, 0.25 and 0.5 here: the program learns something.
    assert not in_full or all(
        float(accuracy) > 0.8 for accuracy in re.findall(r"^accuracy ([\d.]+)", printed, re.M)
    )


def test_the_first_program_is_that_of_the_readme():
    programs = [
        re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        for text in (PAGES["get_started.md"], OF_GITHUB["../README.md"])
    ]
    first, of_readme = ([re.sub(r"  #.*", "", code) for code in codes] for codes in programs)
    assert first == of_readme
    assert len(first) == 1


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_command_is_understood(page, line):
    typer = pytest.importorskip("typer", reason='needs the extra "cli"')
    from tsformer.cli.app import app

    words = shlex.split(line, comments=True)[1:]
    command = typer.main.get_command(app).commands[words[0]]
    command.make_context(words[0], words[1:])  # raises a usage error otherwise


@pytest.mark.parametrize("page", [*PAGES, *OF_GITHUB, *REPORTS])
def test_links_lead_to_files_and_places(page):
    text = re.sub(
        r"^```.*?^```$", "", (PAGES | OF_GITHUB | REPORTS)[page], flags=re.MULTILINE | re.DOTALL
    )
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if ":" in target:
            continue
        name, _, anchor = target.partition("#")
        path = ((DOCS / page).parent / name).resolve() if name else DOCS / page
        assert path.exists(), f"{target} on {page} leads nowhere"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, f"{target} leads nowhere"


def slug(heading: str) -> str:
    """Return the anchor that GitHub and the site give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


LISTED = PAGES["how_it_works.md"].partition("## The map")[2]
#: Path -> what the map says of it.
MAP = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", LISTED, re.MULTILINE))


def test_every_path_on_the_map_exists():
    assert len(MAP) > 12
    for where, description in MAP.items():
        assert (ROOT / where).exists(), f"the map names {where}"
        for name in re.findall(r"`([\w./-]+(?:/|\.py|\.md|\.csv))`", description):
            there = (ROOT / where / name).exists() or (ROOT / name).exists()
            assert there, f"the map names {name} at {where}"


def test_the_map_lists_every_part_of_the_package():
    for path in (ROOT / "tsformer").iterdir():
        if path.name[0] not in "_." and (path.is_dir() or path.suffix == ".py"):
            name = f"tsformer/{path.name}{'/' if path.is_dir() else ''}"
            assert name in MAP, f"the map lacks {name}"
            for file in path.glob("*/__init__.py"):
                assert f"`{file.parent.name}/`" in MAP[name], f"the map lacks {file.parent}"


def test_the_changelog_knows_this_version():
    sections = re.findall(r"^## (.*)$", OF_GITHUB["../CHANGELOG.md"], re.MULTILINE)
    version, development, _ = tsformer.__version__.partition(".dev")
    newest = f"Unreleased ({version}.dev)" if development else rf"{version} - \d{{4}}-\d\d-\d\d"
    assert sections[0] == newest or re.fullmatch(newest, sections[0])
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", older) for older in sections[1:])
