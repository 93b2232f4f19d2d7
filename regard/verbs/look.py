"""regard look: what a model attends to, as a page, a still, or a session for several inputs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.config import config
from regard.errors import RegardError, name_keywords
from regard.look import page, plot, report
from regard.look.server import serve
from regard.look.session import Session
from regard.runs.run import Run
from regard.targets.open import Target, open_target
from regard.verbs.check import check_target
from regard.verbs.console import Port, check_served, spinner
from regard.verbs.options import one_word, read_options


@config
class LookOptions:
    """TARGET is one of these: the folder of a run, made by regard train; the folder of a downloaded Hugging Face model
    (config.json and safetensors; without safetensors the weights are random); or package.module:function, your own
    function that returns (model, inputs[, symmetry[, roles]]).
    """

    input: str | None = None
    """a text, or the path of a file (text, image, or points as .npy, .npz or .csv). For a large graph: the
    name of the node to draw in the middle. For sets: the name of a set in the data, or its number if the
    sets are generated. None: an example from the data
    """
    # encoder-decoders only: the text of the decoder; None: the text that it generates
    target: str | None = None
    out: str | None = None
    """write a page in one file (.html), or a picture (.png, .svg, .pdf) of all heads; for a model without
    attention, a picture of what matters to the prediction. None: serve the page on 127.0.0.1, where you can
    change the input, silence heads and move tokens
    """
    port: Port | None = None  # port of the served page; None: any free port
    laws: bool = False  # also measure the laws of this model (a run has them already)

    def __post_init__(self) -> None:
        check_served(self.port, self.out)


@name_keywords
def look(
    target: str | os.PathLike[str],
    given: Any = None,
    *,
    answer: str | None = None,
    out: str | os.PathLike[str],
    laws: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """What a model attends to, as a file: .html is a whole page, .png, .svg and .pdf are a still of all
    layers and heads.

        look("runs/mine", "Once upon a time", out="page.html")
        look("path/to/huggingface-vit", "cat.png", out="heads.svg")

    given   a text, the path of a file (text, image, points, graph), the name of a node or set, or an example in memory
            of what a run reads (an image, a table, an array, a graph, a mesh); None: an example
    answer  what the decoder of an encoder-decoder has written; None: what it writes itself
    laws    also measure the laws of a model that is not a run, which takes a while
    tell    told what a reader should know of the model: that its weights are random
    """
    suffix = Path(out).suffix.lower()
    if suffix not in (".html", *plot.SUFFIXES):
        raise RegardError(f"--out must end in .html, {', '.join(plot.SUFFIXES)}, got {os.fspath(out)!r}")
    session = open_session(target, given, answer=answer, laws=laws, tell=tell)
    data = session.show({}) | {"live": None}
    if suffix == ".html":
        return page.write(data, out, session.files)
    return plot.save(session.latest().still(str(data["title"])), out)


def open_session(
    target: str | os.PathLike[str] | Target,
    given: Any = None,
    *,
    answer: str | None = None,
    laws: bool = False,
    tsne: bool = True,
    tell: Callable[[str], None] | None = None,
) -> Session:
    """A target with a default input, for looking at several inputs."""
    opened = target if isinstance(target, Target) else open_target(target)
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if not (given is None or isinstance(given, str | bytes) or opened.reader.takes_objects):
        raise RegardError(f"{opened.name} is shown for a text or a file, got {type(given).__name__}")
    if answer is not None and not opened.reader.takes_target:
        raise RegardError(f"{opened.name} is not an encoder-decoder, so it takes no --target; leave it out")
    if tell is not None:
        for note in opened.notes:
            tell(note)
    found = read_laws(opened.run) if opened.run is not None else None
    if laws and opened.run is None:
        found = check_target(opened).to_json()
    return Session(
        opened.model,
        opened.reader,
        opened.name,
        given=given,
        target=answer,
        notes=opened.notes,
        run=opened.run,
        report=found,
        tsne=tsne,
    )


def read_laws(run: Run) -> dict[str, Any] | None:
    """What laws.json of a run says; None if it is not there."""
    found = run.read("laws.json")
    if found is None:
        return None
    return dict(found)


def write_report(run: Run, target: Target) -> None:
    """report.html of a finished run. A run is not lost over it: what went wrong is in its place."""
    try:
        session = open_session(target, tsne=False)
        page.write(session.show({}) | {"live": None}, run.path / report.FILE, session.files)
    except (ImportError, ValueError, OSError, RuntimeError) as error:
        report.instead(run, " ".join(str(error).split()))


# ── the command


def run(words: list[str]) -> int:
    """regard look TARGET"""
    options, words = read_options(LookOptions, words, "regard look")
    target = one_word(words, "look", "target")

    def tell(note: str) -> None:
        print(f"note: {note}", file=sys.stderr)

    how: dict[str, Any] = {"answer": options.target, "laws": options.laws, "tell": tell}
    with spinner(f"looking at {target}"):
        if options.out is not None:
            path = look(target, options.input, out=options.out, **how)
            is_page = path.suffix == ".html"
            print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; open it in a browser" if is_page else path)
            return 0
        session = open_session(target, options.input, **how)
        session.show({})  # what is wrong with target or input is said now, not in the browser

    serve(session, port=options.port, ready=lambda address: print(f"{address}   (Ctrl-C ends it)", flush=True))
    return 0
