"""What a tag has to agree with before it is released."""

from __future__ import annotations

import pytest

from tools.check_release import disagreements


@pytest.mark.parametrize(
    ("tag", "version", "newest", "cited", "said"),
    [
        ("v0.2.0", "0.2.0", "0.2.0 - 2027-01-02", "0.2.0", ""),
        ("v0.2.0rc1", "0.2.0rc1", "0.2.0rc1 - 2027-01-02", "0.2.0rc1", ""),
        ("v0.2.1", "0.2.0", "0.2.0 - 2027-01-02", "0.2.0", "the tag is v0.2.1, and"),
        ("v0.2.dev3", "0.2.dev3", "0.2.dev3 - 2027-01-02", "0.2.dev3", "not the version of a rel"),
        ("v0.2.0", "0.2.0", "Unreleased (0.2.0.dev)", "0.2.0", "CHANGELOG.md begins with"),
        ("v0.2.0", "0.2.0", "0.2.0 - 2027-01-02", "0.1.0", "CITATION.cff has version 0.1.0"),
        ("v0.2.0", "0.2.0", "0.2.0 - 2027-01-03", "0.2.0", "released on 2027-01-02"),
    ],
)
def test_what_disagrees_is_named(tag, version, newest, cited, said, tmp_path):
    (tmp_path / "tsformer").mkdir()
    (tmp_path / "tsformer/_version.py").write_text(f'"""Doc."""\n__version__ = "{version}"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {newest}\n\n## 0.1.0 - 2026\n")
    (tmp_path / "CITATION.cff").write_text(f"version: {cited}\ndate-released: 2027-01-02\n")
    found = disagreements(tag, tmp_path)
    assert len(found) == bool(said)
    assert said in "".join(found)


def test_the_files_of_this_tree_can_be_read():
    assert "the tag is v9.9.9" in "\n".join(disagreements("v9.9.9"))
