"""A page of text, tables and figures, rendered as one HTML file or as Markdown."""

from __future__ import annotations

import base64
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tsformer._optional import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Block",
    "Bullets",
    "Code",
    "Contents",
    "Heading",
    "Picture",
    "Table",
    "Text",
    "html",
    "markdown",
    "markdown_table",
]


@dataclass(frozen=True)
class Heading:
    """A heading below the page's title."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Contents:
    """A list of the headings that follow, each a link."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A bulleted list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table; in HTML a click on a column header sorts by that column."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A figure; `name` is its file name without the suffix, `caption` says what it shows."""

    name: str
    figure: Figure
    caption: str

    @cached_property
    def png(self) -> bytes:
        """The figure as a PNG file; drawn once, which takes most of the time of a report."""
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=130)
        return file.getvalue()


@dataclass(frozen=True)
class Code:
    """Lines shown verbatim."""

    text: str


Block = Heading | Contents | Text | Bullets | Table | Picture | Code

# The page loads nothing from elsewhere, and its policy makes the browser enforce that.
_TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 68rem; margin: 2rem auto; \
padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; margin-top: 2rem; }
figure { margin: 1.5rem 0; }
figure img { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: .9rem; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; white-space: nowrap; \
text-align: right; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid #0072B2; }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
nav { border-left: 3px solid #0072B2; padding-left: 1rem; margin: 1.5rem 0; }
nav ul { list-style: none; margin: 0; padding: 0; columns: 18rem; }
nav .level3 { margin-left: 1.2rem; font-size: .9rem; break-before: avoid; }
nav a { color: #0072B2; }
pre { background: #f5f5f5; padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% for kind, block in blocks %}
{% if kind == "Heading" %}<h{{ block.level }} id="{{ places[loop.index0] }}">{{ block.text }}\
</h{{ block.level }}>
{% elif kind == "Contents" %}<nav aria-label="Contents"><ul>{% for number, heading in headings %}\
<li class="level{{ heading.level }}">\
<a href="#{{ places[number] }}">{{ heading.text }}</a></li>{% endfor %}</ul></nav>
{% elif kind == "Text" %}<p>{{ block.text }}</p>
{% elif kind == "Bullets" %}<ul>{% for item in block.items %}<li>{{ item }}</li>{% endfor %}</ul>
{% elif kind == "Code" %}<pre>{{ block.text }}</pre>
{% elif kind == "Picture" %}<figure><img src="data:image/png;base64,{{ block.png | base64 }}" \
alt="{{ block.caption }}"><figcaption>{{ block.caption }}</figcaption></figure>
{% else %}<div class="table"><table><thead><tr>\
{% for name in block.header %}<th scope="col"><button>{{ name }}</button></th>{% endfor %}\
</tr></thead><tbody>
{% for row in block.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% endif %}{% endfor %}
<script>
for (const th of document.querySelectorAll("th")) th.addEventListener("click", () => {
  const body = th.closest("table").tBodies[0], up = th.ariaSort !== "ascending";
  for (const other of th.parentNode.children) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", up ? "ascending" : "descending");
  const text = row => row.cells[th.cellIndex].textContent.trim();
  const number = row => parseFloat(text(row).replace(/,/g, "").replace(/^[p<= ]+/, ""));
  const order = (a, b) => isNaN(number(a)) || isNaN(number(b))
    ? isNaN(number(a)) - isNaN(number(b)) || text(a).localeCompare(text(b))
    : number(a) - number(b);
  body.append(...[...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)));
});
</script>
</body>
</html>
"""


def html(title: str, blocks: Sequence[Block]) -> str:
    """Return the page as one self-contained HTML file with its figures embedded.

    Examples
    --------
    >>> "<p>1 &lt; 2</p>" in html("A page", [Text("1 < 2")])
    True
    """
    jinja2 = require("jinja2", extra="statistics", purpose="rendering an HTML page")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode("ascii")
    named = [(type(block).__name__, block) for block in blocks]
    page: str = environment.from_string(_TEMPLATE).render(
        title=title, blocks=named, places=_places(title, blocks), headings=_listed(blocks)
    )
    return page


def markdown(title: str, blocks: Sequence[Block]) -> str:
    r"""Return the page as Markdown, whose figures are files ``NAME.png`` beside it.

    Examples
    --------
    >>> print(markdown("A page", [Bullets(["a|b", "c"])]))
    # A page
    <BLANKLINE>
    - a\|b
    - c
    <BLANKLINE>
    """
    places = _places(title, blocks)
    # A line of its own: without it, a list just above would go on.
    contents = "Contents:\n\n" + "\n".join(
        f"{'  ' * (heading.level - 2)}- [{_plain(heading.text)}](#{places[number]})"
        for number, heading in _listed(blocks)
    )
    parts = [
        contents if isinstance(block, Contents) else _markdown_block(block) for block in blocks
    ]
    return "\n\n".join([f"# {_plain(title)}", *parts]) + "\n"


def markdown_table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    r"""Return a Markdown table; a column whose name starts with a blank is right-aligned.

    Not `DataFrame.to_markdown`: tabulate pads every column to its widest cell, so that one new
    row rewrites all lines of a committed table, and it leaves a ``|`` inside a cell unescaped.

    Examples
    --------
    >>> print(markdown_table(["name", " score"], [["a|b", 0.5]]), end="")
    | name | score |
    | --- | ---: |
    | a\|b | 0.5 |
    """
    rule = ["---:" if name.startswith(" ") else "---" for name in header]
    lines = [[name.strip() for name in header], rule, *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _listed(blocks: Sequence[Block]) -> list[tuple[int, Heading]]:
    """Return the headings after the list of contents, each with its place among the blocks."""
    kinds = [type(block) for block in blocks]
    start = kinds.index(Contents) if Contents in kinds else len(blocks)
    numbered = list(enumerate(blocks))[start:]
    return [(number, block) for number, block in numbered if isinstance(block, Heading)]


def _places(title: str, blocks: Sequence[Block]) -> dict[int, str]:
    """Return the anchor of each heading by its number, the same that GitHub makes of it."""
    seen = Counter([_anchor(title)])
    places = {}
    for number, block in enumerate(blocks):
        if isinstance(block, Heading):
            anchor = _anchor(block.text)
            places[number] = f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor
            seen[anchor] += 1
    return places


def _anchor(text: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _markdown_block(block: Heading | Text | Bullets | Table | Picture | Code) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {_plain(block.text)}"
        case Text():
            return _plain(block.text)
        case Bullets():
            return "\n".join(f"- {_plain(item)}" for item in block.items)
        case Code():
            return f"```text\n{block.text}\n```"
        case Picture():
            alt = block.name.replace("_", " ")
            return f"![{alt}]({block.name}.png)\n\n{_plain(block.caption)}"
        case Table():
            first, *numbers = map(_plain, block.header)
            header = [first, *(f" {name}" for name in numbers)]
            return markdown_table(header, (map(_plain, row) for row in block.rows)).rstrip("\n")


def _cell(value: object) -> str:
    return re.sub(r"(?<!\\)\|", r"\|", str(value))


def _plain(text: str) -> str:
    for special in "\\`*_<>|[]":
        text = text.replace(special, "\\" + special)
    return " ".join(text.split())
