"""How Sphinx makes the site from what assemble.py wrote. All of it works offline: nothing comes from elsewhere."""

from __future__ import annotations

import functools
import pkgutil
import re
from collections.abc import Callable
from typing import Any

from sphinx.search.en import SearchEnglish

import regard

project = "regard"
author = "The regard developers"
release = version = regard.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"regard {release}"
html_show_sphinx = html_copy_source = html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "monokai"
myst_heading_anchors = 4
autodoc_typehints = "none"  # the docstrings give shapes, which say more; signatures keep their defaults
toc_object_entries = False  # the menu names pages, not every method
autodoc_member_order = "bysource"
autodoc_use_type_comments = False  # there are none to look for
html_show_search_summary = False  # excerpts are fetched, which a browser refuses to a page of a folder
maximum_signature_line_length = 100
# a fenced block in a language that Pygments does not know, or that is cut short, is shown as it is
suppress_warnings = ["misc.highlighting_failure"]

SPECIAL = re.compile(r"([\\*_|<>])")


def to_rst(lines: list[str]) -> list[str]:
    """Our docstrings as reStructuredText: equations, columns and whatever is indented stay as they are typed, the
    rest is text, in which `code` is code."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    found: list[str] = []
    for paragraph in paragraphs:
        if not paragraph:
            continue
        indented = any(line.startswith(" ") for line in paragraph)
        columns = sum("  " in line.strip() for line in paragraph) > 1
        if indented or columns:
            found += ["::", "", *(f"   {line}" for line in paragraph), ""]
        else:
            found += [*(_text(line) for line in paragraph), ""]
    return found


def _text(line: str) -> str:
    line = re.sub(r"(?<=\S) {2,}(?=\S)", "\u2003", line)  # a wide space before shapes stays wide
    pieces = line.split("`")
    if len(pieces) % 2 == 0:  # a lone backtick
        return SPECIAL.sub(r"\\\1", line.replace("`", "'"))
    for i, piece in enumerate(pieces):
        if i % 2 == 0:
            pieces[i] = SPECIAL.sub(r"\\\1", piece)
        else:
            pieces[i] = f"\\ ``{piece}``\\ " if piece.strip() else ""
    return "".join(pieces)


def _is_inherited_from_others(what: str, name: str) -> bool:
    """Has a method no text of its own, so that Sphinx took that of a class of torch?"""
    owner, _, method = name.rpartition(".")
    if what != "method":
        return False
    bases = pkgutil.resolve_name(owner).__mro__
    writer = next((base for base in bases if getattr(vars(base).get(method), "__doc__", None)), None)
    return writer is not None and not writer.__module__.startswith("regard.")


def _process(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [] if _is_inherited_from_others(what, name) else to_rst(lines)


class Search(SearchEnglish):
    """Sphinx stems the words of each page anew; most of them are on many pages."""

    stem = functools.cache(SearchEnglish.stem)


_menus: dict[str, str] = {}


def _share_menu(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """The pages of code are not in the menu, so it is the same for all those of a folder: it is made once."""
    if not page.startswith("source/"):
        return
    folder = page.rpartition("/")[0]
    make: Callable[..., str] = context["toctree"]

    def menu(**how: Any) -> str:
        if folder not in _menus:
            _menus[folder] = make(**how)
        return _menus[folder]

    context["toctree"] = menu


def setup(app: Any) -> None:
    app.add_search_language(Search)
    app.connect("autodoc-process-docstring", _process)
    app.connect("html-page-context", _share_menu, priority=400)  # before Furo asks for the menu
