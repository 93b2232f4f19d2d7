"""Figures beside predictions: where a model of images looked, one file for each input or all of them on one
sheet."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from torch import nn

from regard.errors import RegardError
from regard.look import plot
from regard.recipes.answers import AMONG
from regard.recipes.example import Example
from regard.recipes.images import overlays
from regard.recipes.images.processor import ImagesProcessor
from regard.recipes.images.read_images import LOOKED
from regard.recipes.prediction import Prediction
from regard.recipes.target import Target

MOST = 40  # images on one sheet


def _is_folder(out: str | os.PathLike[str]) -> bool:
    """Is it the name of a folder, as one that exists, or that ends in a slash, or that has no suffix?"""
    return os.path.isdir(out) or os.fspath(out).endswith(("/", os.sep)) or not Path(out).suffix


def check_output(given: Sequence[str], count: int, out: str | os.PathLike[str]) -> None:
    """A ValueError for what cannot be drawn, or not there; before any work."""
    if _is_folder(out):
        if os.path.isfile(out):
            raise RegardError(
                f"--out {os.fspath(out)} is a file without a suffix; give a folder, or a file in {_among()}"
            )
        return
    if Path(out).suffix.lower() not in plot.SUFFIXES:
        raise RegardError(
            f"--out must be a table ({AMONG}), a folder (ending in /) or a picture ({_among()}), got {os.fspath(out)!r}"
        )
    if any(os.path.exists(out) and os.path.exists(each) and os.path.samefile(each, out) for each in given):
        raise RegardError(f"--out {os.fspath(out)} is one of the inputs, which would be lost; give another name")
    if count > MOST:
        raise RegardError(f"one sheet shows {MOST} images at most, got {count}; give a folder instead: --out looked/")


def draw(
    processor: ImagesProcessor,
    model: nn.Module,
    given: Iterable[tuple[str, Example | None]],
    predictions: Iterable[Prediction],
    out: str | os.PathLike[str],
) -> Iterator[Prediction]:
    """Write where the model looked, and say in each prediction in which file that is. Without a prediction
    nothing is drawn.

    A file of its own is there when its prediction comes, a sheet after the last one. given: the name of each image, and
    the image; None: there is none
    """
    examples, views = list(given), processor.config.views
    if views == "one":
        several = ""
    else:
        several = f"; the prediction averages several views ({views}), the maps show one"

    called = told_apart([name for name, example in examples if example is not None])
    files = _files_of(called, out)
    sheet: list[overlays.Line] = []
    drawn: set[str] = set()  # (an image that is given twice is drawn once in a folder)

    def line(prediction: Prediction, example: Example) -> overlays.Line:
        encoded = processor.encode(example)
        batch = processor.finish(processor.collate([encoded]), training=False)
        read: Any = processor.model_input(example, encoded, batch, model, None)
        words, place = _words_of(prediction, processor.target, called[example.name])
        shown = overlays.of_prediction(model, read, place)
        return overlays.Line(words + several, read.image, shown)

    for prediction, (name, example) in zip(predictions, examples, strict=True):
        if prediction.error is None and example is not None:
            if not _is_folder(out):
                sheet.append(line(prediction, example))
            elif name not in drawn:
                plot.save(overlays.draw_lines([line(prediction, example)]), files[name])
                drawn.add(name)
            prediction = replace(prediction, picture=str(files[name]))
        yield prediction
    if sheet:
        plot.save(overlays.draw_lines(sheet), out)


def _words_of(prediction: Prediction, target: Target, called: str) -> tuple[str, int]:
    """A prediction as a title, and which output of the model it is."""
    if target.numbers:
        numbers = "  ".join(f"{name} {value:.6g}" for name, value in prediction.values.items())
        return f"{numbers}   {called}", 0
    best = next(iter(prediction.labels))
    title = overlays.prediction_title(list(prediction.labels.items()), called)
    return title, target.classes.index(best)


def _files_of(called: dict[str, str], out: str | os.PathLike[str]) -> dict[str, Path]:
    """Where each input is drawn; a folder is made if it is not there."""
    if not _is_folder(out):
        return dict.fromkeys(called, Path(out))
    Path(out).mkdir(parents=True, exist_ok=True)
    return {given: Path(out) / name for given, name in zip(called, names(list(called.values())), strict=True)}


def told_apart(given: Sequence[str]) -> dict[str, str]:
    """What each path is called: its name, with as many of its folders as tell it from the others, such as
    cat/1.png."""
    waiting = {each: Path(each).parts for each in given}
    paths, many = set(waiting.values()), 0
    called: dict[str, str] = {}
    while waiting:
        many += 1
        ends = Counter(parts[-many:] for parts in paths)
        told = [each for each, parts in waiting.items() if ends[parts[-many:]] == 1 or many >= len(parts)]
        called |= {each: str(Path(*waiting.pop(each)[-many:])) for each in told}
    return called


def names(called: Sequence[str]) -> list[str]:
    """A file for each input, called after it, in one folder; where names are equal the ending tells, or a
    number."""
    found: dict[str, None] = {}
    for each in called:
        path = Path(each.strip("/"))
        stem, ending = "-".join(path.with_suffix("").parts), path.suffix.removeprefix(".")
        names = chain((f"{stem}-", f"{stem}-{ending}-"), (f"{stem}-{number}-" for number in count(2)))
        found[next(name for start in names if (name := f"{start}{LOOKED}") not in found)] = None
    return list(found)


def _among() -> str:
    return ", ".join(plot.SUFFIXES)
