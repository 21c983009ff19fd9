"""Markdown from a Jinja template, HTML from that Markdown, and the escaping of names in both."""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tsformer import _markdown
from tsformer._optional import require
from tsformer.studies.analysis.statistics import p_text

_MOST_NAMED = 10


def markdown(title: str, content: Mapping[str, Any]) -> str:
    """Render ``report.md.jinja``; figures are files ``NAME.png`` beside the page."""
    text = _environment().get_template("report.md.jinja").render(title=title, **content)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def html(text: str, pictures: Mapping[str, bytes]) -> str:
    """Return Markdown as one self-contained HTML page with a list of contents and its figures."""
    library = require("markdown_it", extra="statistics", purpose="rendering an HTML page")
    parser = library.MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("table_open", lambda *_: '<div class="table"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    tokens = parser.parse(text)
    headings: list[tuple[int, str, str]] = []
    for token, inline in zip(tokens, [*tokens[1:], None], strict=True):
        for image in token.children or ():
            if image.type == "image":
                png = base64.b64encode(pictures[image.attrs["src"]]).decode("ascii")
                image.attrSet("src", f"data:image/png;base64,{png}")
        if token.type == "heading_open":
            anchor = f"section-{len(headings)}"
            words = parser.renderer.render(inline.children, parser.options, {})
            headings.append((int(token.tag[1]), anchor, words))
            token.attrSet("id", anchor)
    body = parser.renderer.render(tokens, parser.options, {})
    top, between, rest = body.partition("<h2")
    page = _environment().get_template("report.html.jinja")
    return page.render(top=top, rest=between + rest, headings=headings)


def code(name: object) -> str:
    """Return a name in code style."""
    return markup(_markdown.code(name))


def joined(items: Iterable[object], show: Callable[[object], str] | None = None) -> str:
    """Join names as a sentence does: "A, B and C", or "A, B and 3 more"."""
    texts = list(map(show or escaped, items))
    if len(texts) > _MOST_NAMED:
        texts = [*texts[:_MOST_NAMED], f"{len(texts) - _MOST_NAMED} more"]
    *first, last = texts
    return markup(f"{', '.join(first)} and {last}" if first else last)


def codes(items: Iterable[object]) -> str:
    """Join names in code style as a sentence does: "`a`, `b` and `c`"."""
    return joined(items, code)


@cache
def _environment() -> Any:
    jinja2 = require("jinja2", extra="statistics", purpose="the report of a study")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=escaped,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "code": code,
        "codes": codes,
        "names": joined,
        "p_text": p_text,
        "f": lambda value, form: "–" if value is None or value != value else format(value, form),
        "counted": lambda n, noun: f"{n} {noun}" if n == 1 else f"{n} {noun}s",
    }
    return environment


def markup(text: object) -> str:
    """Mark text as Markdown that needs no escaping."""
    return require("markupsafe", extra="statistics", purpose="a report").Markup(text)


def escaped(value: object) -> str:
    """Escape a value for Markdown, unless it is Markdown already."""
    return markup(value if hasattr(value, "__html__") else _markdown.escaped(value))
