"""Write the generated parts of the documentation.

    python tools/write_docs.py

These are the entries of docs/encodings.md and docs/augmentation.md, from docstrings; the tables of
methods in README.md and the pages on accuracy, from the rows of their study; and the whole of
docs/gpu_measurements.md. Each is between comments, such as ``<!-- table: field -->`` and
``<!-- end of table -->``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `experiments` and `tools`

from tools import catalogue_pages, field, gpu_page

ROOT = Path(__file__).parents[1]
#: Page -> name of each generated part -> its text.
PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"readme": field.short_table},
    "docs/accuracy.md": {"readme": field.short_table},
    "docs/accuracy_protocol.md": {"field": field.table},
    "docs/guide/which_encoding.md": {"encodings": catalogue_pages.encodings_table},
    "docs/encodings.md": {
        "contents": catalogue_pages.contents,
        "entries": catalogue_pages.encoding_entries,
    },
    "docs/augmentation.md": {
        "augmentations": catalogue_pages.augmentations_table,
        "entries": catalogue_pages.augmentation_entries,
    },
}


def written(page: str) -> str:
    """Return the text of a page with its generated parts written anew."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for name, make in PARTS[page].items():
        text = filled(text, name, make())
    return text


def filled(text: str, name: str, part: str) -> str:
    """Return `text` with its generated part `name` replaced."""
    place = re.compile(rf"(<!-- \w+: {name} -->\n).*?(<!-- end of \w+ -->)", re.DOTALL)
    new, n_places = place.subn(lambda match: f"{match[1]}{part}{match[2]}", text)
    if n_places != 1:
        raise ValueError(f"the text must have one place for {name!r}; it has {n_places}")
    return new


def main(argv: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args(argv)
    for page in PARTS:
        (ROOT / page).write_text(written(page), encoding="utf-8")
    (ROOT / "docs/gpu_measurements.md").write_text(gpu_page.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
