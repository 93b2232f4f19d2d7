"""What a command says while it works: what is being prepared, or that it is worth waiting."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated

from pydantic import Field

from regard.errors import RegardError

Port = Annotated[int, Field(ge=0, le=65_535)]
PATIENCE = 3.0  # seconds without a word that a log can bear


def progress_printer() -> Callable[[str, float | None], None]:
    """Tells on stderr what is being prepared: one line that lives on a terminal; elsewhere a line for what
    takes long."""
    last, began = "", time.monotonic()

    def tell(what: str, share: float | None) -> None:
        nonlocal last
        if sys.stderr.isatty():
            done = "" if share is None else f" {share:.0%}"
            sys.stderr.write("\r\033[K" if share == 1 else f"\r\033[K{what}{done}")
        elif what != last and time.monotonic() - began > PATIENCE:
            sys.stderr.write(f"{what}\n")
            last = what
        sys.stderr.flush()

    return tell


@contextlib.contextmanager
def spinner(what: str) -> Iterator[None]:
    """Says on a terminal what is being waited for, as long as it takes."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def check_served(port: int | None, out: str | None) -> None:
    """A port is of a page that is served."""
    if port is not None and out is not None:
        raise RegardError("--port is for a page that is served, and --out writes one; give one of them")
