"""One self-contained page: what there is to see as JSON, and the scripts and styles of `web/` beside it. No
outside files, and a policy that lets a browser run this script and no other."""

from __future__ import annotations

import base64
import hashlib
import json
import math
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
    names. Several views may share some."""
    more = tuple(dict.fromkeys(more))
    scripts = [*(WEB / SCRIPTS).glob("*.js"), *(path for path in more if path.suffix == ".js")]
    styles = [WEB / "page.css", *(path for path in more if path.suffix == ".css")]
    return {
        "page": (WEB / "page.html").read_text("utf-8"),
        "style": "\n".join(path.read_text("utf-8") for path in styles),
        "script": join_scripts(scripts),
    }


def join_scripts(paths: Iterable[Path]) -> str:
    """Scripts in the order of their names. One function, in strict mode, is around all of them."""
    script = "\n".join(path.read_text("utf-8") for path in sorted(paths, key=lambda path: path.name))
    return f'\n(() => {{\n"use strict";\n{script}\n}})();\n'


def policy(files: Iterable[Path] = (), *, live: bool = False) -> str:
    """The Content-Security-Policy of a page: its one script and its one style, named by their hashes, images
    inside the page, and nothing else; a live page may ask its own server."""
    known = parts(tuple(files))
    return policy_with(known["style"], known["script"], live=live)


def policy_with(style: str, script: str, *, live: bool = False) -> str:
    """The policy of a page that has this one style and this one script."""
    asks = "'self'" if live else "'none'"
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash_of(script)}",
            f"style-src {_hash_of(style)}",
            "img-src data:",
            f"connect-src {asks}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def policy_without_scripts(style: str) -> str:
    """The policy of a page that has this one style and no script."""
    return f"default-src 'none'; style-src {_hash_of(style)}; img-src data:; base-uri 'none'; form-action 'none'"


@cache
def _hash_of(text: str) -> str:
    """As a policy writes it, of exactly what stands between the tags."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def to_json(data: Any) -> str:
    """What a page is given: always JSON that every browser reads. What is not finite becomes null."""
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def html(data: Mapping[str, Any], files: Iterable[Path] = ()) -> str:
    """The page as text. The format of the data is that of web/README.md; `files` are scripts and styles of
    its views."""
    files = tuple(files)
    known = parts(files)
    filled = {
        "TITLE": escape(str(data["title"])),
        "POLICY": policy(files, live=data.get("live") is not None),
        "STYLE": known["style"],
        "SCRIPT": known["script"],
        "DATA": to_script(data),
    }
    return fill(known["page"], filled)


def to_script(data: Any) -> str:
    """JSON inside a script of a page: the only sequences that could end it early are made harmless; it means the same."""
    return to_json(data).replace("<", "\\u003c")


def fill(text: str, filled: Mapping[str, str]) -> str:
    """A template with what stands for its {{NAMES}}."""
    pieces = []
    while "{{" in text:  # once from left to right, so that what is filled in is not searched again
        before, _, rest = text.partition("{{")
        name, _, text = rest.partition("}}")
        pieces += [before, filled[name]]
    return "".join([*pieces, text])


def encode(text: str) -> bytes:
    """In UTF-8; half a character of a label is shown as ?"""
    return text.encode("utf-8", "replace")


def write(data: Mapping[str, Any], path: str | os.PathLike[str], files: Iterable[Path] = ()) -> Path:
    """Write the page, whole or not at all."""
    write_bytes(Path(path), encode(html(data, files)))
    return Path(path)
