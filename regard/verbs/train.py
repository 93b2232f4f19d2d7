"""regard train: a recipe on your data, or any module of your own; from the beginning, or from where it stopped."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from regard.data.progress import Note
from regard.data.scan import scanning_once
from regard.errors import RegardError, name_keywords
from regard.recipes.base import get_recipe, problem_of_run, settings_of
from regard.recipes.request import Place, TrainRequest
from regard.runs.environment import shell_command
from regard.runs.new_run import latest_run_path
from regard.runs.run import Run
from regard.runs.run_group import Repeats
from regard.targets.imported import open_run
from regard.training.memory import retain_freed_memory
from regard.training.progress import Ending, Observer, watch
from regard.training.ranks import current_ranks, join_ranks, started_by_torchrun, telling_errors
from regard.verbs.console import progress_printer
from regard.verbs.finish import files_in_a_line, laws_in_a_line
from regard.verbs.launch import is_worker, launch, wanted_processes
from regard.verbs.look import read_laws
from regard.verbs.options import check_single_path, help_text, pop_options, read_settings_options
from regard.verbs.own_module import train_module
from regard.verbs.repeat import open_to_resume, repeated_over, resume_runs, start_runs
from regard.verbs.train_run import check_resumable, resume_run, start_run

FIRST = {"--data": "data", "--model": "model", "--task": "task", "--from": "start", "--out": "out"}


@name_keywords
def train(
    recipe: str | None = None,
    *,
    data: Any = None,
    model: str | nn.Module | None = None,
    task: Any = None,
    out: Place | None = None,
    start: Place | None = None,
    resume: bool = False,
    minutes: float | None = None,
    steps: int | None = None,
    options: Mapping[str, Any] | None = None,
    note: Note | None = None,
    observers: Sequence[Observer] | None = None,
    report: bool = True,
) -> Run | Any:
    """Train a recipe on your data, or any module of your own. Returns the run directory; for several seeds or
    folds the folder with all their runs, `regard.runs.run_group.Repeats`.

        train("text", data="my.txt", out="runs/mine", minutes=2)
        train("text", data="my.txt", options={"model.dim": 256, "train.lr": 0.01})
        train("sets", data="clouds", options={"data.folds": 5}).facts["test"]["accuracy"]["mean"]
        train(model=my_module, task="classify", data=(x, y), steps=500)

    data      a path, or data in memory, for a recipe; for a module a pair of tensors or arrays, a Dataset, a DataLoader
              or a Source
    model     the kind of model of a recipe ("decoder"), or a module, which is trained in place
    task      of a module: "classify", "regress", "next token", or a function (model, batch) -> loss; of a recipe
              what --task takes ("permutation")
    start     an earlier run to start from (fine-tuning), or weights of others: a Hugging Face directory
    resume    go on with the run in `out`, exactly where it stopped
    options   dotted names of the recipe's settings, or those of TrainConfig for a module
    note      told what is being prepared, and the share that is done
    observers who watches; None: a progress bar on a terminal, lines elsewhere
    report    at the end, draw the curves and the confusion matrix, measure the laws, write report.html
    """
    budget = {name: value for name, value in (("minutes", minutes), ("steps", steps)) if value is not None}
    watching = [watch()] if observers is None else list(observers)
    if isinstance(model, type):
        raise RegardError(f"model={model.__name__} is a class; call it: model={model.__name__}(...)")
    if isinstance(model, nn.Module):
        if recipe is not None:
            raise RegardError("give a module of your own, or a recipe, not both")
        if start is not None:
            raise RegardError(
                f"start= is for recipes; load_weights({os.fspath(start)!r}, module) puts the weights of a run into a "
                "module (from regard.runs.load import load_weights), and training goes on from there"
            )
        plain = {**budget, **(options or {})}
        return train_module(model, task, data, out=out, resume=resume, options=plain, observers=watching, report=report)
    if recipe is None or not (task is None or isinstance(task, str)):
        raise RegardError("name a recipe such as 'text', or give a module as model= with its task=")
    wanted = {**(options or {}), **{f"train.{name}": value for name, value in budget.items()}}
    return run_request(
        TrainRequest(
            recipe=get_recipe(recipe),
            options=wanted,
            data=data,
            model=model,
            task=task,
            out=out,
            start=start,
            resume=resume,
            note=note,
            observers=watching,
            report=report,
        )
    )


def run_request(request: TrainRequest) -> Run | Repeats:
    """Train as asked: from the beginning or from where it stopped; one run, or one for each seed or fold; alone, or as one
    of several processes."""
    recipe = request.recipe
    with scanning_once(), telling_errors():
        if request.resume:
            place = latest_run_path(recipe.name) if request.out is None else request.out
            if Repeats.exists(place):
                several, before = open_to_resume(request, place)
                return resume_runs(request, several, request.resumed(before))
            run = Run.open(place)
            check_resumable(run, request)
            return resume_run(request, run, request.resumed(settings_of(run)))
        if request.start is not None:
            request.origin = open_run(request.start)
        settings = request.settings()
        place, again = join_ranks(settings.train).choose_place(recipe.name, request.out)
        if again:  # torchrun has started all processes again
            run = Run.open(place)
            return resume_run(request, run, request.resumed(settings_of(run)))
        over = repeated_over(settings)
        if over is not None:
            return start_runs(request, settings, place, over)
        return start_run(request, settings, place)


# ── the command


def run(words: list[str]) -> int:
    """regard train RECIPE ..."""
    recipe, rest = get_recipe(words[0]), words[1:]
    check_single_path(rest)
    taken, rest = pop_options(rest, tuple(FIRST))
    resume, report = "--resume" in rest, "--no-report" not in rest
    rest = [word for word in rest if word not in ("--resume", "--no-report")]
    if not is_worker() and (processes := wanted_processes(rest, resume, taken.get("--out"), recipe.name)) > 1:
        return launch(processes, words)
    ending = Ending()
    known: dict[str, Any] = {FIRST[name]: value for name, value in taken.items()}
    which = [f" {name} {taken[name]}" for name in ("--model", "--task") if name in taken][:1]
    program = "".join([f"regard train {recipe.name}", *which])
    request = TrainRequest(
        recipe=recipe,
        options=partial(read_settings_options, recipe, rest, program),
        help=f"{program} --help",
        resume=resume,
        note=None if started_by_torchrun() else progress_printer(),
        observers=[watch(), ending],
        report=report,
        **known,
    )
    with retain_freed_memory():
        done = run_request(request)
    if not current_ranks().leads:
        return 0
    print(f"\n{files_in_a_line(done)}")
    first = done.runs[0] if isinstance(done, Repeats) else done
    if (laws := read_laws(first)) is not None and laws["laws"]:
        print(laws_in_a_line(laws["laws"]))
    print(f"next: {shell_command(problem_of_run(first).next_command(first))}")
    return 130 if ending.stopped else 0  # as a command that Ctrl-C ended


def explain(words: list[str]) -> str:
    """The options of a recipe, for this data and kind of model."""
    recipe = get_recipe(words[0])
    taken, rest = pop_options(words[1:], tuple(FIRST))
    kind = recipe.choose_kind(taken.get("--model"), taken.get("--task"), taken.get("--data"))
    return help_text(recipe, taken.get("--data"), kind, rest, every="--help-all" in rest)
