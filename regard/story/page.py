"""The story as one page that needs nothing else: its text as HTML, its numbers as JSON, one style and one script.

Scripts of `regard/look/web` that make elements, numbers, colours and themes are used here, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from regard.files import write_bytes
from regard.look import page as look
from regard.story.chapter import read_chapters

WEB = Path(__file__).parent / "web"
SHARED = ("00-elements.js", "02-numbers.js", "03-colours.js", "06-theme.js")
TITLE = "From a sum to attention"


@cache
def _style_and_script() -> tuple[str, str]:
    styles = (look.WEB / "page.css", WEB / "story.css")
    scripts = [*(look.WEB / look.SCRIPTS / name for name in SHARED), *WEB.glob("*.js")]
    return "\n".join(path.read_text("utf-8") for path in styles), look.join_scripts(scripts)


def policy() -> str:
    """The Content-Security-Policy: this style, this script, images inside the page, and no connection to anywhere."""
    return look.policy_with(*_style_and_script())


def html(data: Mapping[str, Any], docs: str | None = None) -> str:
    """The page. data: what `build` found; docs: where the pages of the documentation are, None: they are only named."""
    style, script = _style_and_script()
    chapters = read_chapters(docs)
    contents = [f'<li><a href="#{each.name}">{escape(each.title)}</a></li>' for each in chapters[1:]]
    filled = {
        "TITLE": escape(TITLE),
        "POLICY": policy(),
        "STYLE": style,
        "FIRST": chapters[0].html,
        "CONTENTS": "\n".join(contents),
        "CHAPTERS": "\n".join(each.html for each in chapters[1:]),
        "DATA": look.to_script(data),
        "SCRIPT": script,
    }
    return look.fill((WEB / "story.html").read_text("utf-8"), filled)


def write(data: Mapping[str, Any], path: str | os.PathLike[str], docs: str | None = None) -> Path:
    """Write the page, whole or not at all."""
    write_bytes(Path(path), look.encode(html(data, docs)))
    return Path(path)
