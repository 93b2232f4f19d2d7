"""Pictures beside answers: where a model of pictures looked, one file for each input or all of them on one sheet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.data.images import ImagesConfig
from regard.jobs.job import Answer
from regard.look import overlays, plot
from regard.run import Run

MOST = 40  # pictures on one sheet
SHOWN = 3  # classes that are said above a picture


def is_folder(out: str | os.PathLike[str]) -> bool:
    """Is it the name of a folder, as one that exists, or that ends in a slash, or that has no suffix?"""
    return os.path.isdir(out) or os.fspath(out).endswith(("/", os.sep)) or not Path(out).suffix


def check_out(run: Run, given: Sequence[str], out: str | os.PathLike[str]) -> None:
    """A ValueError for what cannot be drawn, or not there; before any work."""
    if run.config.get("recipe") != "images":
        raise ValueError(f"--out draws where a model of pictures looked, and {run.path} was trained on {run.config['recipe']}")
    if is_folder(out):
        if os.path.isfile(out):
            raise ValueError(f"--out {os.fspath(out)} is a file without a suffix; give a folder, or a file in {among()}")
        return
    if Path(out).suffix.lower() not in plot.SUFFIXES:
        raise ValueError(f"--out must be a folder (ending in /) or a file in {among()}, got {os.fspath(out)!r}")
    if any(os.path.exists(out) and os.path.exists(each) and os.path.samefile(each, out) for each in given):
        raise ValueError(f"--out {os.fspath(out)} is one of the inputs, which would be lost; give another name")
    if len(given) > MOST:
        raise ValueError(f"one sheet shows {MOST} pictures at most, got {len(given)}; give a folder instead: --out looked/")


def draw(run: Run, answers: Sequence[Answer], out: str | os.PathLike[str]) -> list[Answer]:
    """Write where the model looked, and say in each answer in which file that is."""
    from regard.targets import open_target  # knows foreign libraries, which nothing else needs

    opened = open_target(run.path)
    labels, views = run.config["corpus"]["labels"], run.section(ImagesConfig, "data").views
    several = "" if views == "one" else f"; the answer is of several views ({views}), the maps are of one"

    def line(answer: Answer) -> overlays.Line:
        given = opened.reader.read(answer.given)
        assert given.picture is not None
        shown = overlays.of_answer(opened.model, given, labels.index(next(iter(answer.labels))))
        return overlays.Line(words(answer) + several, given.picture, shown)

    if not is_folder(out):
        file = plot.save(overlays.drawn([line(answer) for answer in answers]), out)
        return [replace(answer, picture=str(file)) for answer in answers]
    Path(out).mkdir(parents=True, exist_ok=True)
    files = [Path(out) / name for name in names([answer.given for answer in answers])]
    return [
        replace(answer, picture=str(plot.save(overlays.drawn([line(answer)]), file)))
        for answer, file in zip(answers, files, strict=True)
    ]


def words(answer: Answer) -> str:
    """The likeliest classes of a picture, and which picture it is."""
    first, *others = [f"{label} {share:.1%}" for label, share in list(answer.labels.items())[:SHOWN]]
    return f"{first}" + (f" (then {', '.join(others)})" if others else "") + f"   {Path(answer.given).name}"


def names(given: Sequence[str]) -> list[str]:
    """A file for each input, called after it; pictures of one name from several folders are counted."""
    found: list[str] = []
    for each in given:
        stem, number = f"{Path(each).stem}-looked", 1
        while (name := f"{stem}.png" if number == 1 else f"{stem}-{number}.png") in found:
            number += 1
        found.append(name)
    return found


def among() -> str:
    return ", ".join(plot.SUFFIXES)
