"""regard predict: a prediction for each input of a run, or a vector for each text."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard import files
from regard.config import config, from_dict
from regard.data.array import Array
from regard.data.dialect import TableConfig
from regard.data.tables import table_of
from regard.data.targets import sort_labels
from regard.errors import RegardError, did_you_mean, name_keywords
from regard.files import json_text
from regard.recipes.answers import check_answers_file, is_answers_file, is_lines_file, write_answers
from regard.recipes.base import problem_of_run, recipe_of
from regard.recipes.prediction import Prediction
from regard.recipes.problem import Problem
from regard.runs.number_format import say_percent
from regard.runs.run import Run
from regard.targets.imported import open_run
from regard.training.memory import retain_freed_memory
from regard.verbs.options import read_options, take_options
from regard.verbs.own_module import predict_module

Place = str | os.PathLike[str]
LISTED = 10  # files that are named one by one
NAMED = 5  # errors that are printed, when all of them are in a table; classes that a sentence names
EVERY = {True: 0.5, False: 10.0}  # seconds between two words about how far it is: on a terminal, elsewhere


@config
class PredictOptions:
    """RUN is the folder of a run, made by regard train. INPUT is of the same kind as its training data: a
    text in quotes or the path of a text file (UTF-8) for a text classifier; otherwise the path of an image, a
    point cloud, a table or a graph. Of a table (.csv, .tsv, .jsonl, .parquet) of texts or of paths of images,
    every row is an input. A folder means all images in it and in its sub-folders. A pattern in quotes works
    too: 'photos/*.jpg', 'photos/**/*.png'. Columns are those of the training; --data.text NAME and --data.label
    NAME (of images --data.image, of sets --data.id and --data.target) name others. A run of translation takes
    a text, a text file (each line is a sentence) or a table, and has options of its own: --beams 5, --n-best 1,
    --length-penalty 1.0 and --ensemble RUN,RUN. A run of an autoencoder gives inputs back, and writes their codes
    with --codes codes.npz. A run of series forecasts --horizon 24 steps.

    exit code: 0 every input has a prediction, 1 some inputs could not be read (stderr names them), 2 no input
    could be read, or the command is wrong
    """

    json: bool = False
    """print one line of JSON for each input, with "input" and one of "labels", "values", "each", "error". For
    text, "kind" is "text" or "file": what the input was taken for. Of a row of a table, "row" has its cells,
    and "truth" its label. With --out, "picture" is the file drawn
    """
    embeddings: str | None = None
    """for texts: write a vector of length 1 for each to this .npz file, as `embeddings`, beside `texts`. Of a text
    file each line is a text. A product of two vectors is their cosine
    """
    out: str | None = None
    """a table (.csv, .tsv, .jsonl, .parquet): write the answers, one row for each input, in the same order: the
    columns of the input, "answer", "right" where the input has a label, "p(CLASS)" for each class, and "error"
    for what could not be read. For translations also a text file (.txt): one line for each line. For images also
    a picture: what the model attends to, and an occlusion map (how
    much the logit drops when a patch is greyed out). A file (.png, .svg, .pdf) is one sheet with all inputs. A
    folder gets one file for each input: NAME-looked.png, or FOLDER-NAME-looked.png if two inputs have the same
    name. Attention is that of the class token, or rollout to the mean of all patches; models without attention
    have only the occlusion map. Of autoencoders the picture is what came back
    """


@name_keywords
def predict(
    path: str | os.PathLike[str],
    inputs: Any,
    *,
    out: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    model: nn.Module | None = None,
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
    model    of a run of your own module that regard cannot build: one like it, of which a copy gets the run's weights
    """
    return list(iter_predictions(path, inputs, out=out, options=options, model=model))


def iter_predictions(
    path: str | os.PathLike[str],
    inputs: Any,
    *,
    out: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    model: nn.Module | None = None,
) -> Iterator[Prediction]:
    """The same, each as soon as it is ready. A table or a sheet is written after the last."""
    yield from _predict(open_run(path), inputs, out, options, model)


def _predict(
    run: Run, inputs: Any, out: Place | None, options: Mapping[str, Any] | None, model: nn.Module | None = None
) -> Iterator[Prediction]:
    if run.config.recipe is None:
        yield from predict_module(run, inputs, model)
        return
    if model is not None:
        raise RegardError(f"{run.path} was made by a recipe, which builds its model; leave model= away")
    problem = problem_of_run(run)
    own, options = split_options(problem, options)
    run, given = read_differently(run, options), list_inputs(inputs)
    table = None if out is None or not is_answers_file(out) else out
    if table is not None:
        check_answers_file(table, [file for file in given if isinstance(file, str)])
    elif out is not None:
        problem.check_output(run, given, out)
    found = problem.predict(run, given, own)
    if out is not None and table is None:
        found = problem.draw(run, given, found, out)
    finite = (prediction.without_nan() for prediction in found)
    yield from finite if table is None else write_answers(finite, table)


def list_inputs(inputs: Any) -> list[Any]:
    """One or several inputs as a list. A table in memory is one, and so is a tuple of data: (points, faces), (edges,
    nodes)."""
    several = isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes)
    if isinstance(inputs, tuple):
        several = any(isinstance(each, str | os.PathLike) for each in inputs)
    found = list(inputs) if several and table_of(inputs) is None else [inputs]
    return [os.fspath(each) if isinstance(each, os.PathLike) else each for each in found]


@name_keywords
def embed(
    path: Place,
    inputs: str | Sequence[str],
    out: Place | None = None,
    *,
    column: str | None = None,
    options: Mapping[str, Any] | None = None,
    note: Callable[[str], None] | None = None,
) -> tuple[list[str], Array]:
    """The texts, and a vector of length 1 for each: embed("all-MiniLM-L6-v2", "texts.txt", out="out.npz").

    A product of two vectors is their cosine. out: an .npz file with `embeddings` and `texts`; column: the one
    with the texts, where an input is a table; options: how tables are read ({"data.separator": ";"}); note: is told how
    each was read
    """
    if out is not None and Path(out).suffix != ".npz":
        raise RegardError(f"embeddings are written to a file that ends in .npz, got {os.fspath(out)!r}")
    run = open_run(path)
    several = [inputs] if isinstance(inputs, str) else list(inputs)
    tables = table_config(run, options)
    names, vectors = problem_of_run(run).embed(run, several, column, tables, note or (lambda said: None))
    if out is not None:
        files.write_arrays(out, {"embeddings": vectors, "texts": np.array(names)})
    return names, vectors


# ── options of other data


def split_options(problem: Problem, options: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    """The options of predict and evaluate that only this problem has ({"beams": 8}), as an object of their class, and the
    options that are left."""
    rest = dict(options or {})
    if problem.options is None:
        return None, rest
    own = {each.name: rest.pop(each.name) for each in fields(problem.options) if each.name in rest}
    return from_dict(problem.options, own), rest


def options_of_run(run: Run | None) -> type[Any] | None:
    """The class of the options of predict and evaluate that only runs like this one have."""
    return None if run is None or run.config.recipe is None else problem_of_run(run).options


def as_given(data: Any) -> Any:
    """Other data of a command: a path as text, or data in memory."""
    return os.fspath(data) if isinstance(data, os.PathLike) else data


def read_differently(run: Run, options: Mapping[str, Any] | None) -> Run:
    """The run with some settings of its data changed for this command, by dotted name: {"data.text": "body"}."""
    if not options:
        return run
    own = run.config.data or {}
    tables = [each.name for each in fields(TableConfig) if each.name in own]  # of kinds that read tables
    recipe = recipe_of(run)
    return run.reading(_read_options(options, (*recipe.reading_options, *tables), f"a run of {recipe.name}"))


def table_config(run: Run, options: Mapping[str, Any] | None) -> TableConfig:
    """How tables are read: as the run reads its own, but for the options of this command."""
    names = [each.name for each in fields(TableConfig)]
    own = {name: value for name, value in (run.config.data or {}).items() if name in names}
    return from_dict(TableConfig, own | _read_options(options or {}, names, "this command"))


def _read_options(options: Mapping[str, Any], names: Sequence[str], taker: str) -> dict[str, Any]:
    """Settings by their names, which must be among these."""
    known = tuple(f"data.{name}" for name in names)
    for key in options:
        if key not in known:
            given = ", ".join(f"--{name}" for name in known) or "none"
            raise RegardError(f"there is no option --{key} here; {did_you_mean(key, known)}{taker} takes {given}")
    return {key.removeprefix("data."): _value(key, value) for key, value in options.items()}


def _value(key: str, value: Any) -> Any:
    """What a word of the command line means for an option that is no text."""
    if key == "data.header" and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), value)
    if key == "data.nulls" and isinstance(value, str):
        return tuple(value.split(","))
    return value


# ── the command


def run(words: list[str]) -> int:
    """regard predict RUN INPUT..."""
    if len([word for word in words if not word.startswith("--")]) < 2:
        raise RegardError("regard predict takes a run and one input at least: a text, or a file")
    found = None if words[0].startswith("-") else open_run(words[0])  # it says which options it has
    own, words = take_options(options_of_run(found), words, "regard predict")
    options, words = read_options(PredictOptions, words, "regard predict")
    if len(words) < 2:
        raise RegardError("regard predict takes a run and one input at least: a text, or a file")
    if options.embeddings is not None:
        if options.out is not None:
            raise RegardError("--embeddings and --out are two questions; give one of them")
        column = own.pop("data.text", None)
        _, vectors = embed(words[0], words[1:], options.embeddings, column=column, options=own, note=_print_note)
        print(f"{options.embeddings}: {len(vectors):,} vectors of {vectors.shape[1]} numbers")
        return 0
    printer = AnswersPrinter(out=options.out, json=options.json)
    with retain_freed_memory():
        for prediction in _predict(found or open_run(words[0]), words[1:], options.out, own):
            printer.show(prediction)
    return printer.finish()


def _print_note(note: str) -> None:
    print(f"regard: {note}", file=sys.stderr)


class AnswersPrinter:
    """Prints predictions as they come, and counts them."""

    def __init__(self, *, out: str | None, json: bool) -> None:
        self.out, self.json = out, json
        self.table = out is not None and (is_answers_file(out) or is_lines_file(out))
        self.drawn: dict[str, None] = {}
        self.shown = ""  # what the files drawn show
        self.answered = self.errors = self.judged = self.right = 0
        self.known = 0  # labels that are classes of the model
        self.strange = ""  # a label that is none, and the classes
        self.said, self.live = time.monotonic(), False  # when progress was told; is it on the screen?

    def show(self, prediction: Prediction) -> None:
        """One prediction, at once: each may have taken a while."""
        for part in prediction.each or (prediction,):
            self.answered += part.error is None
            self.errors += part.error is not None
            self.judged += part.right is not None
            self.right += bool(part.right)
            if part.truth in part.labels:
                self.known += 1
            elif part.right is not None and part.labels and not self.strange:
                some = ", ".join(sort_labels(part.labels)[:NAMED]) + ", ..." * (len(part.labels) > NAMED)
                self.strange = f"labels such as '{part.truth}' are none of the model's classes ({some})"
        if prediction.notes or prediction.error is not None or not self.table:
            self._clear()
        for note in prediction.notes:
            print(f"regard: {note}", file=sys.stderr, flush=True)
        if self.json:
            print(json_text(prediction.to_json()), flush=True)
        elif prediction.error is not None:
            if not self.table or self.errors <= NAMED:
                print(f"regard: {prediction.error}", file=sys.stderr, flush=True)
        elif not self.table:
            print(prediction.format(), flush=True)
        if prediction.picture is not None:
            self.drawn[prediction.picture] = None
            self.shown = prediction.shows
        self._tell_progress()

    def finish(self) -> int:
        """A summary, and the exit code."""
        self._clear()
        if self.table and self.errors > NAMED and not self.json:
            print(f"regard: {self.errors - NAMED:,} more inputs have no answer", file=sys.stderr)
        if not self.json:
            self._summarise()
        if not self.errors:
            return 0
        if self.answered:
            return 1
        return 2

    def _summarise(self) -> None:
        if self.strange and not self.known:
            print(f"{self.strange}, so it is not known which answers are right")
        elif self.judged:
            print(f"right: {say_percent(self.right / self.judged)} of {self.judged:,} with a known label")
        if self.table and self.answered:
            without = f", {self.errors:,} of them without an answer" if self.errors else ""
            count = self.answered + self.errors
            print(f"{self.out}: {count:,} row{'s' if count > 1 else ''}{without}")
        elif self.table:
            print(f"regard: there are no answers, so {self.out} was not written", file=sys.stderr)
        if self.drawn:
            if len(self.drawn) <= LISTED:
                files = [*self.drawn]
            else:
                files = [f"{len(self.drawn):,} files in {self.out}"]
            print("\n".join([f"{self.shown}:", *(f"  {file}" for file in files)]))

    def _tell_progress(self) -> None:
        """How many answers a table has until now."""
        terminal = sys.stderr.isatty()
        if not self.table or time.monotonic() - self.said < EVERY[terminal]:
            return
        self.said = time.monotonic()
        words = f"{self.answered + self.errors:,} answers"
        sys.stderr.write(f"\r\033[K{words}" if terminal else f"regard: {words}\n")
        sys.stderr.flush()
        self.live = terminal

    def _clear(self) -> None:
        if self.live:
            sys.stderr.write("\r\033[K")
            self.live = False
