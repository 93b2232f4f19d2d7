"""regard story: attention explained from the start, as a page."""

from __future__ import annotations

from pathlib import Path

from regard.config import config
from regard.errors import RegardError
from regard.story.build import build
from regard.story.page import html, write
from regard.story.server import serve
from regard.verbs.console import Port, check_served, progress_printer
from regard.verbs.options import read_options


@config
class StoryOptions:
    """One page from a sum that remembers everything to attention, its positions and its symmetries. Every figure
    computes what it shows. The page works offline and sends nothing, your photos included. Without --out it is
    served on 127.0.0.1, to you alone.
    """

    out: str | None = None  # write the page in one file (.html); None: serve it
    port: Port | None = None  # port of the served page; None: any free port
    # the address of the documentation as HTML, such as . or https://example.org/docs: chapters link to its pages;
    # None: chapters name the pages
    docs: str | None = None

    def __post_init__(self) -> None:
        check_served(self.port, self.out)
        if self.out is not None and not self.out.lower().endswith(".html"):
            raise RegardError(f"--out is a page and must end in .html, got {self.out!r}")
        scheme = (self.docs or "").partition(":")
        if scheme[1] and scheme[0] not in ("http", "https", "file"):
            raise RegardError(f"--docs is an address of pages (http, https, file or relative), got {self.docs!r}")


def run(words: list[str]) -> int:
    """regard story"""
    options, words = read_options(StoryOptions, words, "regard story")
    if words:
        raise RegardError(f"regard story takes options only, got {' '.join(words)}; see: regard story --help")
    if options.out is not None and not Path(options.out).absolute().parent.is_dir():
        raise RegardError(f"cannot write {options.out}: its folder is not there; make it first")
    tell = progress_printer()
    if options.out is not None:
        path = write(build(tell), options.out, options.docs)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; open it in a browser")
        return 0
    serve(
        lambda: html(build(tell), options.docs),
        port=options.port,
        ready=lambda address: print(f"{address}   (Ctrl-C ends it)", flush=True),
    )
    return 0
