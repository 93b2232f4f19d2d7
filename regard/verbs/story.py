"""The command that tells the story of attention."""

from __future__ import annotations

from pathlib import Path

from regard.errors import RegardError
from regard.verbs.commands import command, command_options


@command(
    "story [--out PAGE]",
    "attention explained from the start: a page with figures to move",
    "regard story",
    "regard story --out story.html",
)
def story(words: list[str]) -> int:
    options = command_options("story", "StoryOptions", words)
    if options is None:
        return 0
    chosen, words = options
    if words:
        raise RegardError(f"regard story takes options only, got {' '.join(words)}; see: regard story --help")
    if chosen.out is not None and not Path(chosen.out).absolute().parent.is_dir():
        raise RegardError(f"cannot write {chosen.out}: its folder is not there; make it first")
    from regard.story.build import build
    from regard.story.page import html, write
    from regard.verbs.console import progress_printer

    tell = progress_printer()
    if chosen.out is not None:
        path = write(build(tell), chosen.out, chosen.docs)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; open it in a browser")
        return 0
    from regard.story.server import serve

    serve(
        lambda: html(build(tell), chosen.docs),
        port=chosen.port,
        ready=lambda address: print(f"{address}   (Ctrl-C ends it)", flush=True),
    )
    return 0
