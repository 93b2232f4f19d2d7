"""One self-contained page: what there is to see as JSON, and the scripts and styles of `web/` beside it. No outside files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from regard import files

WEB = Path(__file__).parent / "web"
SCRIPTS = "scripts"  # web/scripts/*.js, in the order of their names


@cache
def parts() -> dict[str, str]:
    """The files that every page is made of."""
    scripts = [path.read_text("utf-8") for path in sorted((WEB / SCRIPTS).glob("*.js"))]
    return {
        "page": (WEB / "page.html").read_text("utf-8"),
        "style": (WEB / "page.css").read_text("utf-8"),
        "script": "\n".join(scripts),
    }


def html(data: Mapping[str, Any]) -> str:
    """The page as text. The format of the data is that of web/README.md."""
    known = parts()
    # the only sequences that could end a script early are made harmless; JSON means the same with them
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    filled = {
        "TITLE": escape(str(data["title"])),
        "STYLE": known["style"],
        "SCRIPT": known["script"],
        "DATA": plain,
    }
    text = known["page"]
    pieces = []
    while "{{" in text:  # once from left to right, so that what is filled in is not searched again
        before, _, rest = text.partition("{{")
        name, _, text = rest.partition("}}")
        pieces += [before, filled[name]]
    return "".join([*pieces, text])


def write(data: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the page, whole or not at all."""
    files.write_bytes(
        Path(path), html(data).encode("utf-8", "replace")
    )  # half a character of a label is shown as ?
    return Path(path)
