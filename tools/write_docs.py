"""Write the generated parts of the documentation.

    python tools/write_docs.py

Entries of docs/encodings.md and docs/augmentation.md come from docstrings, the tables of methods
and of encodings behind three stems from the rows of their studies. A part lies between
``<!-- table: readme -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from tools import field, stems
from tsformer import augmentation, encodings
from tsformer._markdown import markdown_table
from tsformer.encodings import find

ROOT = Path(__file__).parents[1]

#: Hook -> heading, in the order of the page.
HOOKS = {
    "embed": "Added to the tokens",
    "rotate": "Turns or widens queries and keys",
    "bias": "Added to the scores, before the softmax",
    "mix": "Added to the attention weights, after the softmax",
    "none": "Nothing at all",
}
SIZES = ("d_model", "n_heads", "max_len")


def packaged() -> list[dict[str, Any]]:
    """Return the package's rows of `encodings.available()`, by the first hook."""
    rows = [row for row in encodings.available() if _is_own(find(row["name"]))]
    return sorted(rows, key=lambda row: list(HOOKS).index(_hook(row)))


def augmentations() -> list[dict[str, Any]]:
    """Return the package's rows of `augmentation.available()`."""
    return [row for row in augmentation.available() if _is_own(augmentation.find(row["name"]))]


def encodings_table() -> str:
    """One row per encoding, from the attributes of the classes."""
    rows = (
        (
            f"[`{row['name']}`](../encodings.md#{row['name']})",
            row["kind"],
            "each block" if row["per_block"] else "the stack",
            row["extrapolation"],
            "yes" if row["symmetric"] else "no",
            row["summary"],
            row["reference"],
        )
        for row in packaged()
    )
    header = ("name", "hook", "owned by", "past trained length", "symmetric", "what", "source")
    return markdown_table(header, rows)


def contents() -> str:
    """One line per hook, with links to its encodings."""
    links: dict[str, list[str]] = {hook: [] for hook in HOOKS}
    for row in packaged():
        links[_hook(row)].append(f"[`{row['name']}`](#{row['name']})")
    return "".join(f"- {HOOKS[hook]} (*{hook}*): {', '.join(links[hook])}\n" for hook in HOOKS)


def encoding_entries() -> str:
    """Return the entry of every encoding, under the heading of its hook."""
    parts = []
    for hook, title in HOOKS.items():
        parts.append(f"## {title}: {hook}\n" if hook != "none" else f"## {title}\n")
        for row in packaged():
            if _hook(row) == hook:
                cls = find(row["name"])
                facts = (
                    f"Class `tsformer.encodings.{cls.__name__}`; "
                    f"past the trained length: {row['extrapolation']}; "
                    f"symmetric: {'yes' if row['symmetric'] else 'no'}; "
                    f"owned by: {'each block' if row['per_block'] else 'the stack'}."
                )
                parts.append(_entry(f"### {row['name']}", cls, facts, leave_out=SIZES))
    return "\n".join(parts)


def augmentations_table() -> str:
    """One row per augmentation, from the attributes of the classes."""
    rows = (
        (
            f"[`{row['name']}`](#{row['name']})",
            row["summary"],
            "yes" if row["symbolic"] else "no",
            "yes" if row["mixes"] else "no",
            row["reference"],
        )
        for row in augmentations()
    )
    return markdown_table(("name", "what", "series of codes", "mixes targets", "source"), rows)


def augmentation_entries() -> str:
    """Return the entry of every augmentation."""
    classes = ((row["name"], augmentation.find(row["name"])) for row in augmentations())
    return "\n".join(
        _entry(f"## {name}", cls, f"Class `tsformer.augmentation.{cls.__name__}`.")
        for name, cls in classes
    )


def _is_own(cls: type) -> bool:
    return cls.__module__.startswith("tsformer.")


def _hook(row: dict[str, Any]) -> str:
    return str(row["kind"]).partition("+")[0]


def _entry(heading: str, cls: type, facts: str, *, leave_out: Collection[str] = ()) -> str:
    """Return the docstring of a class as a section of a page."""
    title, *parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.getdoc(cls) or "", flags=re.MULTILINE)
    sections = {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
    summary, _, description = title.strip().partition("\n")
    options = _options(sections["Parameters"], leave_out)
    blocks = [
        heading,
        f"**{summary}**",
        description.strip(),
        facts,
        f"Options:\n\n{options}".rstrip() if options else "No options.",
        f"Source: {sections['References']}",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _options(parameters: str, leave_out: Collection[str]) -> str:
    """Return the numpydoc section "Parameters" as a list."""
    items = []
    for entry in re.split(r"\n(?=\S)", parameters):
        head, _, body = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        names = [name for name in names.split(", ") if name not in leave_out]
        if names:
            text = textwrap.indent(textwrap.dedent(body), "  ")
            items.append(f"- {', '.join(f'`{name}`' for name in names)} ({kind}):\n{text}\n")
    return "".join(items)


#: Page -> name of each generated part -> its text.
PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"readme": field.short_table},
    "docs/accuracy.md": {"readme": field.short_table},
    "docs/accuracy_protocol.md": {
        "networks": field.networks_table,
        "seconds": field.seconds_table,
        "untuned": lambda: field.short_table(leave_out=field.TUNED),
    },
    "docs/guide/which_encoding.md": {"encodings": encodings_table},
    "docs/results/encodings.md": {"gains": stems.gain_table, "tests": stems.test_table},
    "docs/encodings.md": {"contents": contents, "entries": encoding_entries},
    "docs/augmentation.md": {"augmentations": augmentations_table, "entries": augmentation_entries},
}


def written(page: str) -> str:
    """Return the text of a page with its generated parts updated."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for name, make in PARTS[page].items():
        text = filled(text, name, make())
    return text


def filled(text: str, name: str, content: str) -> str:
    """Return `text` with its generated part `name` replaced."""
    pattern = re.compile(rf"(<!-- \w+: {name} -->\n).*?(<!-- end of \w+ -->)", re.DOTALL)
    new, n_places = pattern.subn(lambda match: f"{match[1]}{content}{match[2]}", text)
    if n_places != 1:
        raise ValueError(f"the text must have one place for {name!r}; it has {n_places}")
    return new


def main(argv: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args(argv)
    for page in PARTS:
        (ROOT / page).write_text(written(page), encoding="utf-8")


if __name__ == "__main__":
    main()
