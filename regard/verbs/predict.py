"""Predictions of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from regard.data.rows_in_memory import NAME, rows_as_file, rows_of
from regard.data.tables import table_of
from regard.errors import RegardError, name_keywords
from regard.files import json_text
from regard.recipes.answers import check_answers_file, is_answers_file, plain_cell, write_answers
from regard.recipes.base import Recipe, recipe_of
from regard.recipes.prediction import Prediction
from regard.runs.run import Run
from regard.targets.imported import open_run
from regard.verbs.reading import configure, read_differently


@name_keywords
def predict(
    path: str | os.PathLike[str],
    inputs: Any,
    *,
    out: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[Prediction]:
    """Predictions for one or several inputs: texts for a classifier of texts, files for other kinds
    of data, or tables, of which each row (of sets: each set) is an input.

        predict("runs/stars", "what a film")
        predict("runs/stars", "reviews.csv", out="answers.csv")
        predict("runs/stars", [{"text": "what a film"}, {"text": "dull"}])

    What cannot be read has an `error` in place of a prediction. Of images a folder or a pattern stands for
    all in it.

    inputs   also data in memory, as `train` takes it: a DataFrame, a list of dicts, images of pillow's, arrays, graphs,
             meshes; with targets or without
    out      write the answers as a table (.csv, .tsv, .parquet, .jsonl): the columns of the input, the answer,
             and the probability of each class; or of images, draw where the model looked, all on one sheet
             (.png, .svg, .pdf), or a file for each in a folder
    options  where the columns are called otherwise than in training: {"data.text": "body"}; of translations
             also how they are searched: {"beams": 8}
    """
    return list(iter_predictions(path, inputs, out=out, options=options))


def iter_predictions(
    path: str | os.PathLike[str],
    inputs: Any,
    *,
    out: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[Prediction]:
    """The same, each as soon as it is ready. A table or a sheet is written after the last."""
    run = open_run(path)
    recipe, options = configure(recipe_of(run), options)
    run = read_differently(run, recipe, options)
    with ExitStack() as stack:
        files: Sequence[Any]
        if recipe.problem_of_run(run) is None:
            files, names = _open_inputs(inputs, run, recipe, stack)
        else:
            files, names = list_inputs(inputs), {}
        table = None if out is None or not is_answers_file(out) else out
        if table is not None:
            check_answers_file(table, [file for file in files if isinstance(file, str)])
        elif out is not None:
            recipe.check_output(run, files, out)
        found = recipe.predict(run, files)
        if out is not None and table is None:
            found = recipe.draw(run, files, found, out)
        named = (_restore_name(prediction.without_nan(), names) for prediction in found)
        yield from named if table is None else write_answers(named, table)


def list_inputs(inputs: Any) -> list[Any]:
    """One or several inputs as a list. A table in memory is one, and so is a tuple of data: (points, faces), (edges,
    nodes)."""
    several = isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes)
    if isinstance(inputs, tuple):
        several = any(isinstance(each, str | os.PathLike) for each in inputs)
    found = list(inputs) if several and table_of(inputs) is None else [inputs]
    return [os.fspath(each) if isinstance(each, os.PathLike) else each for each in found]


def _open_inputs(inputs: Any, run: Run, recipe: Recipe, stack: ExitStack) -> tuple[list[str], Mapping[str, str]]:
    """The inputs as paths or texts; those in memory are files until the stack closes: path -> name."""
    if (rows := rows_of(inputs)) is not None:
        file = stack.enter_context(rows_as_file(rows, lambda row: json_text(plain_cell(dict(row)))))
        return [file], {file: NAME}
    one = isinstance(inputs, str | bytes | os.PathLike) or not isinstance(inputs, Sequence)
    several = [inputs] if one else inputs
    return recipe.expand_inputs(_to_paths(several, run, recipe)), {}


def _restore_name(prediction: Prediction, names: Mapping[str, str]) -> Prediction:
    """With what an input from memory is called, in place of the file that it was for a while."""
    file = next((each for each in (prediction.input, prediction.source) if each in names), None)
    if file is None and len(names) == 1:  # a part of it, such as a set of a table
        file = next(iter(names))
    if file is None:
        return prediction
    name = names[file]
    if prediction.error is None:
        error = None
    else:
        error = prediction.error.replace(file, name)
    source = name if prediction.source == file else prediction.source
    return replace(prediction, input=prediction.input.replace(file, name), error=error, source=source)


def _to_paths(several: Sequence[Any], run: Run, recipe: Recipe) -> list[str]:
    """Inputs as strings, as on a command line."""
    for each in several:
        if not isinstance(each, str | os.PathLike):
            also = f", {recipe.in_memory}" if recipe.in_memory else ""
            raise RegardError(
                f"predict takes texts, paths of files, or rows of a table as dicts{also}, got "
                f"{type(each).__name__}; for inputs of your own call the model itself: "
                f"regard.load({str(run.path)!r})"
            )
    return [os.fspath(each) for each in several]
