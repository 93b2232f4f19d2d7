"""How good a trained model is: its measures on the test split, or on another file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from regard.data.cache import cache_folder
from regard.data.progress import Note
from regard.data.scan import scanning_once
from regard.errors import RegardError, name_keywords
from regard.recipes.base import recipe_of
from regard.recipes.evaluation import Evaluation
from regard.recipes.job import DataContext
from regard.targets.imported import open_run
from regard.verbs.reading import as_given, configure, read_differently


@name_keywords
def evaluate(
    path: str | os.PathLike[str],
    data: Any = None,
    *,
    options: Mapping[str, Any] | None = None,
    note: Note | None = None,
) -> Evaluation:
    """The measures of a run, with the number of examples.

        evaluate("runs/mine").measures["accuracy"]
        evaluate("runs/mine", "other.csv")
        evaluate("runs/mine", frame)

    data  other data of the same kind, with its labels: a path, or data in memory as `train` takes it; None: the test
          split of the run's own data, or the validation split without one
    options  where the columns of `data` are called otherwise than in training: {"data.label": "stars"}
    note  told what is being prepared, and the share that is done
    """
    run = open_run(path)
    recipe, options = configure(recipe_of(run), options)
    if options and data is None:
        raise RegardError(f"{', '.join(f'--{name}' for name in options)} is for other data; give it with --data, too")
    run = read_differently(run, recipe, options)
    context = DataContext(cache=cache_folder(), note=note, old=run)
    if run.config.imported is not None and run.config.origin is None and data is None:
        raise RegardError(f"{run.path} holds weights of others and no data; give the data with --data")
    if run.config.given is not None and data is None:
        raise RegardError(
            f"{run.path} was trained on a {run.config.given} in memory, so there is no file to read again; "
            "give data of the same kind"
        )
    with scanning_once():
        return recipe.evaluate(run, as_given(run, recipe, data), context)
