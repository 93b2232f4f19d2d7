"""What a model attends to: pages, stills, and sessions that can be asked again."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard import files
from regard.api.check import check
from regard.look import page, plot, report
from regard.look.model_input import Given
from regard.look.session import Live
from regard.look.stills import still
from regard.runs.run import Run


def look(
    target: str | os.PathLike[str],
    given: str | None = None,
    *,
    answer: str | None = None,
    out: str | os.PathLike[str],
    laws: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """What a model attends to, as a file: .html is a whole page, .png, .svg and .pdf are a still of all layers and heads.

        look("runs/mine", "Once upon a time", out="page.html")
        look("path/to/huggingface-vit", "cat.png", out="heads.svg")

    given   a text, the path of a file (text, image, points, graph), or the name of a node or set; None: an example
    answer  what the decoder of an encoder-decoder has written; None: what it writes itself
    laws    measure the laws of a model that is no run, too, which takes a while
    tell    told what a reader should know of the model: that its weights are random
    """
    suffix = Path(out).suffix.lower()
    if suffix not in (".html", *plot.SUFFIXES):
        raise ValueError(f"--out must end in .html, {', '.join(plot.SUFFIXES)}, got {os.fspath(out)!r}")
    live = living(target, given, answer=answer, laws=laws, tell=tell)
    data = live.show({}) | {"live": None}
    if suffix == ".html":
        return page.write(data, out)
    return plot.save(still(live.latest(), title=str(data["title"])), out)


def living(
    target: str | os.PathLike[str],
    given: str | None = None,
    *,
    answer: str | None = None,
    laws: bool = False,
    tsne: bool = True,
    tell: Callable[[str], None] | None = None,
) -> Live:
    """A target that can be looked at again and again; what is not asked for otherwise is this input."""
    from regard.targets.open import open_target  # knows foreign libraries, which nothing else needs

    opened = open_target(target)
    if answer is not None and not opened.reader.takes_target:
        raise ValueError(f"{opened.name} is no encoder-decoder, so it takes no --target")
    if tell is not None:
        for note in opened.notes:
            tell(note)

    def read(other: str | bytes | None, written: str | None) -> Given:
        if other is None:
            found = opened.reader.read(given, answer if written is None else written)
        else:
            found = opened.reader.read(other, written)
        return replace(found, notes=(*opened.notes, *found.notes))

    laws_found = laws_of(opened.run) if opened.run is not None else check(target).to_json() if laws else None
    how: dict[str, Any] = {
        "kind": opened.reader.kind,
        "takes_target": opened.reader.takes_target,
        "tsne": tsne,
    }
    return Live(opened.model, read, opened.name, run=opened.run, report=laws_found, **how)


def laws_of(run: Run) -> dict[str, Any] | None:
    path = run.path / "laws.json"
    return dict(files.read_json(path)) if path.exists() else None


def write_report(run: Run) -> None:
    """report.html of a finished run. A run is not lost over it: what went wrong is in its place."""
    try:
        data = living(run.path, tsne=False).show({}) | {"live": None}
        page.write(data, run.path / report.FILE)
    except (ImportError, ValueError, OSError, RuntimeError) as error:
        report.instead(run, " ".join(str(error).split()))
