"""regard evaluate: how good a trained model is, on the test split or on another file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from torch import nn

from regard.config import config
from regard.data.cache import cache_folder
from regard.data.progress import Note
from regard.data.scan import scanning_once
from regard.errors import RegardError, name_keywords
from regard.files import json_text
from regard.recipes.answers import AMONG, check_answers_file, is_answers_file, write_answers
from regard.recipes.base import problem_of_run
from regard.recipes.evaluation import Evaluation
from regard.recipes.job import DataContext
from regard.runs.run import Run
from regard.targets.imported import open_run
from regard.training.memory import retain_freed_memory
from regard.verbs.console import spinner
from regard.verbs.options import check_single_path, one_word, read_options, take_options
from regard.verbs.own_module import evaluate_module
from regard.verbs.predict import as_given, options_of_run, read_differently, split_options


@config
class EvaluateOptions:
    """RUN is the folder of a run, made by regard train. Its best weights are evaluated on the test split of
    its data, or on the validation split if there is no test split. The output names the number of examples.
    Where other data calls its columns otherwise, name them as in training: --data.label NAME (--data.text of
    texts, --data.image of images, --data.id and --data.target of sets, --data.nodes of an edge list). Of
    translations: --data.source and --data.target, or --data.beside FILE; and --beams 5, --length-penalty 1.0. Of
    a causal LM: --memory 2048, the tokens that it sees before a segment (0: none).
    Of autoencoders: --samples 100, by which log p(x) is estimated.
    """

    data: str | None = None
    """another file or folder of the same kind, with labels. If it has a test split, only that is used;
    otherwise all of it"""
    out: str | None = None
    """write a table (.csv, .tsv, .parquet, .jsonl) with a row for each example: its name, its label or number, what the
    model answers, and the probability of each class"""
    json: bool = False
    """print JSON: "split", "count", "unit" and "measures". A classifier also has "labels", "confusion"
    (confusion[i][j] is how often class i was predicted as class j) and "classes", the precision and recall of each.
    On fewer than 1,000 examples, "intervals" has the ends of a 95 % interval of each measure
    """


@name_keywords
def evaluate(
    path: str | os.PathLike[str],
    data: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    model: nn.Module | None = None,
    note: Note | None = None,
) -> Evaluation:
    """The measures of a run, with the number of examples.

        evaluate("runs/mine").measures["accuracy"]
        evaluate("runs/mine", "other.csv")
        evaluate("runs/mine", frame)

    data  other data of the same kind, with its labels: a path, or data in memory as `train` takes it; None: the test
          split of the run's own data, or the validation split without one
    out   write a table (.csv, .tsv, .parquet, .jsonl) with a row for each example: its name, its label or number, what
          the model answers, and the probability of each class
    options  where the columns of `data` are called otherwise than in training: {"data.label": "stars"}
    model  of a run of your own module that regard cannot build: one like it, of which a copy gets the run's weights
    note  told what is being prepared, and the share that is done
    """
    return _evaluate(open_run(path), data, out, options, note, model)


def _evaluate(
    run: Run,
    data: Any,
    out: Any,
    options: Mapping[str, Any] | None,
    note: Note | None = None,
    model: nn.Module | None = None,
) -> Evaluation:
    if out is not None and not is_answers_file(out):
        raise RegardError(f"--out must be a table ({AMONG}), got {os.fspath(out)!r}")
    if out is not None:
        check_answers_file(out, [os.fspath(data)] if isinstance(data, str | os.PathLike) else [])
    if run.config.recipe is None:
        if out is not None:
            raise RegardError(f"{run.path} is of a module of your own, of which no table is written; leave --out away")
        return evaluate_module(run, data, model)
    if model is not None:
        raise RegardError(f"{run.path} was made by a recipe, which builds its model; leave model= away")
    problem = problem_of_run(run)
    own, options = split_options(problem, options)
    if options and data is None:
        raise RegardError(f"{', '.join(f'--{name}' for name in options)} is for other data; give it with --data, too")
    run = read_differently(run, options)
    context = DataContext(cache=cache_folder(), note=note, old=run)
    if run.config.imported is not None and run.config.origin is None and data is None:
        raise RegardError(f"{run.path} holds weights of others and no data; give the data with --data")
    if run.config.given is not None and data is None:
        raise RegardError(
            f"{run.path} was trained on a {run.config.given} in memory, so there is no file to read again; "
            "give data of the same kind"
        )
    with scanning_once():
        found = problem.evaluate(run, as_given(data), context, own)
    if out is not None:
        if found.predict is None:
            raise RegardError(f"{run.path} answers no single examples, so there is no table of them; leave --out away")
        for _ in write_answers(found.predict(), out, with_truth=True):
            pass
    return found


# ── the command


def run(words: list[str]) -> int:
    """regard evaluate RUN"""
    check_single_path(words)
    found = open_run(words[0]) if words and not words[0].startswith("-") else None  # it says which options it has
    own, words = take_options(options_of_run(found), words, "regard evaluate")
    options, words = read_options(EvaluateOptions, words, "regard evaluate")
    path = one_word(words, "evaluate", "run")
    with spinner(f"evaluating {path}"), retain_freed_memory():
        measured = _evaluate(found or open_run(path), options.data, options.out, own)
    for note in measured.notes:
        print(f"regard: {note}", file=sys.stderr)
    print(json_text(measured.to_json()) if options.json else measured.format())
    if options.out is not None and not options.json:
        print(f"{options.out}: a row for each example")
    return 0
