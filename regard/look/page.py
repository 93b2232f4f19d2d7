"""One self-contained page: what there is to see as JSON, and the scripts and styles of `web/` beside it. No
outside files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from regard.files import write_bytes

WEB = Path(__file__).parent / "web"
SCRIPTS = "scripts"  # web/scripts/*.js, in the order of their names


@cache
def parts(more: tuple[Path, ...] = ()) -> dict[str, str]:
    """The files that every page is made of, and those of views that not all have, in the order of their
    names."""
    scripts = [*(WEB / SCRIPTS).glob("*.js"), *(path for path in more if path.suffix == ".js")]
    styles = [WEB / "page.css", *(path for path in more if path.suffix == ".css")]
    return {
        "page": (WEB / "page.html").read_text("utf-8"),
        "style": "\n".join(path.read_text("utf-8") for path in styles),
        "script": "\n".join(path.read_text("utf-8") for path in sorted(scripts, key=lambda path: path.name)),
    }


def html(data: Mapping[str, Any], files: Iterable[Path] = ()) -> str:
    """The page as text. The format of the data is that of web/README.md; `files` are scripts and styles of
    its views."""
    known = parts(tuple(files))
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


def write(data: Mapping[str, Any], path: str | os.PathLike[str], files: Iterable[Path] = ()) -> Path:
    """Write the page, whole or not at all."""
    text = html(data, files)
    write_bytes(Path(path), text.encode("utf-8", "replace"))  # half a character of a label is shown as ?
    return Path(path)
