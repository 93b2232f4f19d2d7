"""Predictions of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from regard.errors import RegardError
from regard.recipes.base import Recipe, recipe_of
from regard.recipes.prediction import Prediction
from regard.runs.run import Run


def predict(
    path: str | os.PathLike[str],
    inputs: Any,
    *,
    out: str | os.PathLike[str] | None = None,
) -> list[Prediction]:
    """Predictions for one or several inputs: texts for a classifier of texts, files for other kinds
    of data.

    What cannot be read has an `error` in place of a prediction. Of images a folder or a pattern stands for
    all in it, and those in memory are taken, too: of pillow's, or arrays of bytes, h w or h w c.

    out  of images: draw where the model looked, all on one sheet (.png, .svg, .pdf), or a file for each in
         a folder
    """
    return list(iter_predictions(path, inputs, out=out))


def iter_predictions(
    path: str | os.PathLike[str], inputs: Any, *, out: str | os.PathLike[str] | None = None
) -> Iterator[Prediction]:
    """The same, each as soon as it is ready. A sheet is drawn after the last."""
    run = Run.open(path)
    recipe = recipe_of(run)
    one = isinstance(inputs, str | bytes | os.PathLike) or not isinstance(inputs, Sequence)
    several = [inputs] if one else inputs
    taken = recipe.take_inputs(several)
    if taken is None:
        memory: AbstractContextManager[Mapping[str, str]] = nullcontext({})
    else:
        memory = taken
    with memory as names:
        if taken is not None:
            files = list(names)
        else:
            files = recipe.expand_inputs(_to_paths(several, run, recipe))
        if out is not None:
            recipe.check_output(run, files, out)
        found = recipe.predict(run, files)
        for prediction in found if out is None else recipe.draw(run, files, found, out):
            yield _restore_name(prediction.without_nan(), names)


def _restore_name(prediction: Prediction, names: Mapping[str, str]) -> Prediction:
    """With what an input from memory is called, in place of the file that it was for a while."""
    name = names.get(prediction.input)
    if name is None:
        return prediction
    if prediction.error is None:
        error = None
    else:
        error = prediction.error.replace(prediction.input, name)
    return replace(prediction, input=name, error=error)


def _to_paths(several: Sequence[Any], run: Run, recipe: Recipe) -> list[str]:
    """Inputs as strings, as on a command line."""
    for each in several:
        if not isinstance(each, str | os.PathLike):
            also = f", {recipe.in_memory}" if recipe.in_memory else ""
            raise RegardError(
                f"predict takes texts, or paths of files{also}, got {type(each).__name__}; for inputs of "
                f"your own call the model itself: regard.load({str(run.path)!r})"
            )
    return [os.fspath(each) for each in several]
