"""What is released: sdist and wheel are whole, hold nothing else, and need no checkout."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import tsformer

ROOT = Path(__file__).parents[1]
VERSION = tsformer.__version__
PACKAGE = {
    str(file.relative_to(ROOT))
    for file in (ROOT / "tsformer").rglob("*")
    if file.suffix in (".py", ".jinja", ".csv") or file.name == "py.typed"
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*arguments: object, cwd: Path, **variables: str) -> str:
    """Run Python apart from the checkout, and return what it prints."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "TSFORMER_DATA", "MYPYPATH")
    }
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    """Build as `make dist` does, from a tree without what earlier builds left."""
    pytest.importorskip("build", reason='needs the extra "dev"')
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, source)
    shutil.copy(ROOT / "CITATION.cff", source)
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("tsformer", "tests", "data"):
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=ignored)
    run("-m", "build", "--no-isolation", "--outdir", built, cwd=source)
    return built


@pytest.fixture(scope="module")
def installed(dist, tmp_path_factory) -> Path:
    """Install the wheel alone; its dependencies are those of this environment."""
    site = tmp_path_factory.mktemp("site")
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site]
    run(*pip, next(dist.glob("*.whl")), cwd=site)
    return site


def test_the_wheel_holds_the_package_and_nothing_else(dist):
    (path,) = dist.glob("*.whl")
    assert path.name == f"tsformer-{VERSION}-py3-none-any.whl"
    about = f"tsformer-{VERSION}.dist-info"
    with zipfile.ZipFile(path) as wheel:
        shipped = set(wheel.namelist())
        catalogue = wheel.read("tsformer/data/catalog.csv")
        metadata = wheel.read(f"{about}/METADATA").decode()
    assert len(PACKAGE) > 100
    expected = {"licenses/LICENSE", "METADATA", "RECORD", "WHEEL"}
    expected |= {"entry_points.txt", "top_level.txt"}
    assert shipped == PACKAGE | {f"{about}/{name}" for name in expected}
    assert catalogue == (ROOT / "data/catalog.csv").read_bytes()
    for line in ("License-Expression: BSD-3-Clause", "Requires-Python: >=3.11"):
        assert f"\n{line}\n" in metadata


def test_the_source_distribution_is_whole(dist):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
    files = {member.name.partition("/")[2] for member in members}
    files = {name for name in files if ".egg-info/" not in name}
    documents = {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "MANIFEST.in"}
    assert files == PACKAGE | documents | {"PKG-INFO", "pyproject.toml", "setup.cfg"}


def test_the_wheel_runs_the_first_example_without_the_checkout(installed, tmp_path):
    pytest.importorskip("sktime", reason='the problem comes with the extra "data"')
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
    example, shortened = re.subn(r"max_epochs=\d+", "max_epochs=8", example)
    assert shortened
    example += "\nimport tsformer\nprint(tsformer.__file__)\n"
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    printed = run("example.py", cwd=tmp_path, PYTHONPATH=str(installed))
    assert float(re.search(r"accuracy ([\d.]+)", printed)[1]) > 0.8
    assert printed.splitlines()[-1] == str(installed / "tsformer/__init__.py")
    assert (tmp_path / "model").is_dir()
    pytest.importorskip("typer", reason='needs the extra "cli"')
    command = [installed / "bin/tsformer", "--version"]
    assert run(*command, cwd=tmp_path, PYTHONPATH=str(installed)) == f"tsformer {VERSION}\n"
