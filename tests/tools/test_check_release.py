"""What a tag has to agree with before it is released."""

from __future__ import annotations

import re

import pytest

from tools.check_release import ROOT, disagreements


@pytest.fixture
def tree(tmp_path):
    """Return a function that writes the three files that name a version."""

    def write(package: str, newest: str, cited: str, date: str = "2027-01-02"):
        (tmp_path / "tsformer").mkdir(exist_ok=True)
        (tmp_path / "tsformer/__init__.py").write_text(f'"""Doc."""\n__version__ = "{package}"\n')
        (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {newest}\n\n## 0.1.0 - 2026\n")
        (tmp_path / "CITATION.cff").write_text(f"version: {cited}\ndate-released: {date}\n")
        return tmp_path

    return write


def test_all_agree(tree):
    assert disagreements("v0.2.0", tree("0.2.0", "0.2.0 - 2027-01-02", "0.2.0")) == []
    assert disagreements("v0.2.0rc1", tree("0.2.0rc1", "0.2.0rc1 - 2027-01-02", "0.2.0rc1")) == []


@pytest.mark.parametrize(
    ("tag", "files", "said"),
    [
        ("v0.2.1", ("0.2.0", "0.2.0 - 2027-01-02", "0.2.0"), "the tag is v0.2.1, and"),
        (
            "v0.2.0.dev3",
            ("0.2.0.dev3", "0.2.0.dev3 - 2027-01-02", "0.2.0.dev3"),
            "not the version of a release",
        ),
        ("v0.2.0", ("0.2.0", "Unreleased (0.2.0.dev)", "0.2.0"), "CHANGELOG.md begins with"),
        ("v0.2.0", ("0.2.0", "0.2.0 - 2027-01-02", "0.1.0"), "CITATION.cff has version 0.1.0"),
        (
            "v0.2.0",
            ("0.2.0", "0.2.0 - 2027-01-02", "0.2.0", "2027-01-03"),
            "released on 2027-01-03",
        ),
    ],
)
def test_what_disagrees_is_named(tree, tag, files, said):
    (found,) = disagreements(tag, tree(*files))
    assert said in found


def test_the_files_of_this_tree_can_be_read():
    found = "\n".join(disagreements("v9.9.9"))
    assert "the tag is v9.9.9" in found
    assert re.search(r"^## Unreleased|^## \d", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
