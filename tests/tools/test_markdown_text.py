"""Docstrings and rows as Markdown."""

from __future__ import annotations

from tools import markdown_text


def test_a_docstring_falls_into_its_sections():
    text = (
        "Do it.\n\nMore: a - b.\n\nParameters\n----------\na : int\n    An a.\n\nSee Also\n---\nb\n"
    )
    assert markdown_text.sections(text) == {
        "": "Do it.\n\nMore: a - b.",
        "Parameters": "a : int\n    An a.",
        "See Also": "b",
    }


def test_parameters_become_a_list():
    text = (
        'n, a, b : int\n    Both.\nkind : {"x", "y"}, default="x"\n    One line,\n    and more.\n'
        "m : int\n    Left out."
    )
    assert markdown_text.options(text, leave_out=("n", "m")) == (
        "- `a`, `b` (int):\n  Both.\n"
        '- `kind` ({"x", "y"}, default="x"):\n  One line,\n  and more.\n'
    )
