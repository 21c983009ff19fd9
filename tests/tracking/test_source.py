"""The command that a run is of: whole in a tag, without passwords, and short where pages cut it."""

from __future__ import annotations

import pytest

from tsformer.tracking.source import command_line, source_tags


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["/bin/tsformer", "fit", "--out", "a b"], "tsformer fit --out 'a b'"),
        (["/venv/lib/tsformer/__main__.py", "fit", "GunPoint"], "tsformer fit GunPoint"),
        (["train.py", "--uri=https://me:secret@host:5000/x"], "train.py --uri=https://host:5000/x"),
        (["/x/ipykernel_launcher.py", "-f", "/root/kernel.json"], "notebook"),
        ([""], "python"),
        ([], "python"),
    ],
)  # fmt: skip
def test_the_command_line(argv: list[str], line: str) -> None:
    assert command_line(argv) == line


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("tsformer compare --study studies/mine.toml", "tsformer compare"),
        ("tsformer --version", "tsformer"),
        ("train.py data/mine.ts", "train.py"),
    ],
)
def test_the_source_has_no_slash_at_which_pages_would_cut_it(command: str, name: str) -> None:
    tags = source_tags(command)
    assert tags["mlflow.source.name"] == name
    assert tags["tsformer.command"] == command


def test_a_long_command_is_cut() -> None:
    assert len(command_line(["x.py", *["word"] * 9999])) == 2000
