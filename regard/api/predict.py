"""What a run says of inputs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from regard.recipes.images import draw
from regard.recipes.images.in_memory import as_files, is_handed
from regard.recipes.job import work
from regard.recipes.prediction import Answer
from regard.runs.run import Run
from regard.training.heap import kept_heap


def predict(
    path: str | os.PathLike[str],
    given: Any,
    *,
    out: str | os.PathLike[str] | None = None,
) -> list[Answer]:
    """What a run says of each input, one or several: texts for a classifier of texts, files for other kinds of data.

    What cannot be read has an `error` in place of an answer. Of pictures a folder or a pattern stands for all in it, and those
    in memory are taken, too: of pillow's, or arrays of bytes, h w or h w c.

    out  of pictures: draw where the model looked, all on one sheet (.png, .svg, .pdf), or a file for each in a folder
    """
    return list(answers(path, given, out=out))


def answers(
    path: str | os.PathLike[str], given: Any, *, out: str | os.PathLike[str] | None = None
) -> Iterator[Answer]:
    """The same, each as soon as it is known. A sheet is drawn after the last."""
    run = Run.open(path)
    if run.config.get("recipe") is None:
        raise ValueError(
            f"{run.path} was not made by a recipe, so regard does not know how its inputs are read"
        )
    job = work(run.config["recipe"])
    several = (
        [given] if isinstance(given, str | bytes | os.PathLike) or not isinstance(given, Sequence) else given
    )
    handed = run.config["recipe"] == "images" and bool(several) and all(map(is_handed, several))
    memory: AbstractContextManager[dict[str, str]] = as_files(several) if handed else nullcontext({})
    with memory as called, kept_heap():
        inputs = list(called) if handed else job.inputs(words_of(several, run))
        if out is not None:
            draw.check_out(run, inputs, out)
        found = job.predict(run, inputs)
        for answer in found if out is None else draw.draw(run, inputs, found, out):
            yield called_again(answer, called)


def called_again(answer: Answer, called: Mapping[str, str]) -> Answer:
    """With what a picture from memory is called, in place of the file that it was for a while."""
    name = called.get(answer.given)
    if name is None:
        return answer
    error = None if answer.error is None else answer.error.replace(answer.given, name)
    return replace(answer, given=name, error=error)


def words_of(several: Sequence[Any], run: Run) -> list[str]:
    """Inputs as a command line would have them."""
    for each in several:
        if not isinstance(each, str | os.PathLike):
            also = ", pillow's pictures or arrays of bytes" if run.config["recipe"] == "images" else ""
            raise ValueError(
                f"predict takes texts, or paths of files{also}, got {type(each).__name__}; for inputs of your own "
                f"call the model itself: regard.load({str(run.path)!r})"
            )
    return [os.fspath(each) for each in several]
