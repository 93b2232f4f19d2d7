"""Chapters: short texts in Markdown, as the HTML of the page. HTML in them is shown, not used.

# A title
A paragraph with *emphasis*, `code`, and $x_i$ mathematics.
$$ an equation $$ $$ and another $$    on a line of their own, above the figure
[figure: name]                         where a script draws
```python                              the call that does this for real
[docs: attention.md#4-attention]       where to read on
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from regard.errors import RegardError
from regard.story.equations import mathml

FOLDER = Path(__file__).parent / "chapters"
DOCS = re.compile(r"\[docs: ([\w.]+)(#[\w-]+)?\]")
FIGURE = re.compile(r"\[figure: ([\w-]+)\]")
MATHEMATICS = re.compile(r"(\$\$?)([^$]+)\1")


class Chapter(NamedTuple):
    """One idea."""

    name: str  # of its section in the page: #name
    title: str
    html: str


def read_chapters(docs: str | None = None) -> list[Chapter]:
    """All chapters, in the order of their files. `docs`: the address under which the pages of the documentation are."""
    paths = sorted(FOLDER.glob("*.md"))
    return [_read(path, number, docs) for number, path in enumerate(paths)]


def _read(path: Path, number: int, docs: str | None) -> Chapter:
    name = path.stem.partition("-")[2]
    title, _, body = path.read_text("utf-8").partition("\n")
    if not title.startswith("# "):
        raise RegardError(f"{path.name} must begin with # and its title, got {title!r}")
    title = title[2:].strip()
    heading = f'<h2 id="{name}-title"><span class="number">{number or ""}</span>{escape(title)}</h2>'
    inside = f"{heading}\n{_to_html(body, docs)}"
    return Chapter(name, title, f'<section id="{name}" aria-labelledby="{name}-title">\n{inside}</section>')


def _to_html(text: str, docs: str | None) -> str:
    markdown = MarkdownIt("commonmark", {"html": False})
    markdown.inline.ruler.before("escape", "mathematics", _mathematics)
    markdown.add_render_rule("fence", _call)
    tokens = markdown.parse(text)
    for begin, inside, end in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if figure := FIGURE.fullmatch(inside.content):
            begin.tag = end.tag = "figure"
            begin.attrs, inside.children = {"data-figure": figure[1]}, []
        elif link := DOCS.fullmatch(inside.content):
            begin.attrs = {"class": "read-on"}
            inside.children = [Token("html_inline", "", 0, content=_read_on(link[1], link[2] or "", docs))]
        elif inside.type == "inline" and inside.content.startswith("$$"):
            begin.tag = end.tag = "div"
            begin.attrs = {"class": "equation"}
    return str(markdown.renderer.render(tokens, markdown.options, {}))


def _mathematics(state: StateInline, silent: bool) -> bool:
    """A rule of the parser: $x_i$ and $$ x_i $$, in which nothing else has a meaning."""
    match = MATHEMATICS.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.push("html_inline", "", 0).content = mathml(match[2], display=match[1] == "$$")
    state.pos = match.end()
    return True


def _call(_: Any, tokens: Sequence[Token], at: int, *rest: Any) -> str:
    """Python, with its comments in another colour."""
    lines = []
    for line in tokens[at].content.rstrip().splitlines():
        before, sign, comment = line.partition("# ")
        shown = escape(before, quote=False)
        if sign:
            shown += f'<span class="comment">{escape(sign + comment, quote=False)}</span>'
        lines.append(shown)
    label = "the same, for real, in Python"
    return (
        f'<pre class="call" tabindex="0" role="group" aria-label="{label}"><code>'
        + "\n".join(lines)
        + "</code></pre>\n"
    )


def _read_on(page: str, anchor: str, docs: str | None) -> str:
    """A link if it is known where the documentation is; else the name of the page."""
    if docs is None:
        return f"Read on in <code>docs/{page}</code>"
    address = f"{docs.rstrip('/')}/{Path(page).stem}.html{anchor}"
    return f'Read on: <a href="{escape(address)}">{escape(page)}</a>'
