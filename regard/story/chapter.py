"""Chapters: short texts in a small part of Markdown, as the HTML of the page.

# A title
A paragraph with *emphasis*, `code`, and $x_i$ mathematics.
$$ an equation $$ $$ and another $$    on a line of their own, above the figure
[figure: name]                         where a script draws
```python                              the call that does this for real
[docs: attention.md#4-attention]       where to read on
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

from regard.errors import RegardError
from regard.story.equations import mathml

FOLDER = Path(__file__).parent / "chapters"
INLINE = re.compile(r"\$([^$]+)\$|`([^`]+)`|\*([^*]+)\*")
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
DOCS = re.compile(r"\[docs: ([\w.]+)(#[\w-]+)?\]")
EQUATION = re.compile(r"\$\$(.*?)\$\$", re.DOTALL)
FIGURE = re.compile(r"\[figure: ([\w-]+)\]")


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
    text = path.read_text("utf-8")
    title, _, body = text.partition("\n")
    if not title.startswith("# "):
        raise RegardError(f"{path.name} must begin with # and its title, got {title!r}")
    title = title[2:].strip()
    pieces = [_block(piece, docs) for piece in _blocks(body)]
    heading = f'<h2 id="{name}-title"><span class="number">{number or ""}</span>{escape(title)}</h2>'
    inside = "\n".join([heading, *pieces])
    return Chapter(name, title, f'<section id="{name}" aria-labelledby="{name}-title">\n{inside}\n</section>')


def _blocks(text: str) -> list[str]:
    """What stands between empty lines; the lines of a code block stay together."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\0{len(kept) - 1}\0"

    found = re.split(r"\n\s*\n", CODE.sub(keep, text).strip())
    return [re.sub(r"\0(\d+)\0", lambda match: kept[int(match[1])], each.strip()) for each in found]


def _block(text: str, docs: str | None) -> str:
    if code := CODE.fullmatch(text):
        return _call(code[1])
    if figure := FIGURE.fullmatch(text):
        return f'<figure data-figure="{figure[1]}"></figure>'
    if link := DOCS.fullmatch(text):
        return _read_on(link[1], link[2] or "", docs)
    if text.startswith("$$"):
        found = [mathml(each, display=True) for each in EQUATION.findall(text)]
        return f'<div class="equation">{"".join(found)}</div>'
    return f"<p>{INLINE.sub(_inline, escape(' '.join(text.split()), quote=False))}</p>"


def _inline(match: re.Match[str]) -> str:
    mathematics, code, emphasis = match.groups()
    if mathematics:
        return mathml(mathematics.replace("&lt;", "<").replace("&gt;", ">"))
    if code:
        return f"<code>{code}</code>"
    return f"<em>{emphasis}</em>"


def _call(code: str) -> str:
    """Python, with its comments in another colour."""
    lines = []
    for line in code.rstrip().splitlines():
        before, sign, comment = line.partition("# ")
        shown = escape(before, quote=False)
        if sign:
            shown += f'<span class="comment">{escape(sign + comment, quote=False)}</span>'
        lines.append(shown)
    label = "the same, for real, in Python"
    return (
        f'<pre class="call" tabindex="0" role="group" aria-label="{label}"><code>'
        + "\n".join(lines)
        + "</code></pre>"
    )


def _read_on(page: str, anchor: str, docs: str | None) -> str:
    """A link if it is known where the documentation is; else the name of the page."""
    if docs is None:
        return f'<p class="read-on">Read on in <code>docs/{page}</code></p>'
    address = f"{docs.rstrip('/')}/{Path(page).stem}.html{anchor}"
    return f'<p class="read-on">Read on: <a href="{escape(address)}">{escape(page)}</a></p>'
