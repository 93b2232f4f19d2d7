"""Train a recipe on your data, or any module of your own; or resume a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard import config as configs
from regard.data.batch import Source
from regard.data.cache import cache_folder
from regard.data.progress import Note
from regard.data.row_source import TensorSource
from regard.data.scan import scanning_once
from regard.errors import RegardError, name_keywords
from regard.look import report as reports
from regard.look.plot import curves
from regard.models.registered_model import registered_name
from regard.nn.moe import say_parameters
from regard.recipes.base import Recipe, get_recipe, recipe_of, settings_of
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job
from regard.recipes.request import TrainRequest
from regard.recipes.same_data import check_same_data
from regard.recipes.settings import Settings, apply_settings, moved_data
from regard.recipes.start_from import check_body, copy_weights
from regard.runs.lock import exclusive_lock
from regard.runs.new_run import latest_run_path, new_run, new_run_path
from regard.runs.run import Run, SharedRun
from regard.runs.run_config import read_run_config
from regard.runs.run_group import Repeats
from regard.targets.imported import open_run
from regard.training import loop
from regard.training.config import TrainConfig
from regard.training.distributed import choose_stepper
from regard.training.progress import Observer, tell, watch
from regard.training.ranks import Ranks, current_ranks, join_ranks, telling_errors
from regard.training.step import pick_device
from regard.training.tasks import as_task, check_labels
from regard.verbs.finish import finish_run

Place = str | os.PathLike[str]


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

    data      a path for a recipe; for a module a pair of tensors, a Dataset or a Source
    model     the kind of model of a recipe ("decoder"), or a module
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
    if isinstance(model, nn.Module):
        if recipe is not None or start is not None:
            raise RegardError("give a module of your own, or a recipe (with start=), not both")
        plain = {**budget, **(options or {})}
        return _train_module(
            model, task, data, out=out, resume=resume, options=plain, observers=watching, report=report
        )
    if recipe is None or not (task is None or isinstance(task, str)):
        raise RegardError("name a recipe such as 'text', or give a module as model= with its task=")
    wanted = {**(options or {}), **{f"train.{name}": value for name, value in budget.items()}}
    found = get_recipe(recipe)
    how: dict[str, Any] = {"note": note, "observers": watching, "report": report}
    if isinstance(data, str | os.PathLike):
        path = os.fspath(data)
    else:
        path = None
    # an object: only some recipes take one; others raise
    if path is None:
        given = data
    else:
        given = None
    from regard.verbs import repeat  # which trains each of several runs by the functions below

    with scanning_once(), telling_errors():
        if resume:
            place = latest_run_path(recipe) if out is None else out
            if Repeats.exists(place):
                several, settings = repeat.open_to_resume(place, found, model=model, start=start, given=given)
                changed = apply_settings(settings, wanted | moved_data(settings, path))
                return repeat.resume_repeats(several, changed, given=given, **how)
            run = Run.open(place)
            found.choose_kind(run.config.kind, task)
            check_resumable(run, found, model=model, start=start, given=given)
            settings = settings_of(run)
            settings = apply_settings(settings, wanted | moved_data(settings, path))
            return resume_run(run, settings, given=given, **how)
        origin = None if start is None else open_run(start)
        what = data if path is None else path
        kind = found.choose_kind(model, task, what)
        request = TrainRequest(recipe=found, data=what, kind=kind, start=origin, note=note)
        settings = request.settings(wanted)
        place, again = join_ranks(settings.train).choose_place(recipe, out)
        if again:
            run = Run.open(place)
            return resume_run(run, apply_settings(settings_of(run), wanted), given=given, **how)
        how |= {"given": given, "examples": request.examples}
        return repeat.train_settings(found, settings, out=place, start=origin, **how)


# ── a recipe


def train_recipe(
    recipe: Recipe,
    settings: Settings,
    *,
    out: Place,
    observers: Sequence[Observer],
    start: Run | None = None,
    given: Any = None,
    examples: Examples | None = None,
    note: Note | None = None,
    report: bool = True,
) -> Run:
    """Train a recipe with these settings, from the beginning. given: data that is not a path; examples: what was read
    of the data already"""
    ranks = join_ranks(settings.train)
    settings = _with_world(settings, ranks)
    if start is not None:
        check_body(recipe, settings, start)
    context = DataContext(cache=cache_folder(), note=note, old=start, given=given, examples=examples)
    with new_run(out) if ranks.leads else nullcontext() as create:
        job = ranks.one_after_another(lambda: prepare_job(recipe, settings, context))
        model = build_model(job, settings)
        if start is not None:
            copy_weights(model, start, job.kind)
        if create is None:  # rank 0 makes the run
            run: Run = SharedRun(out, read_run_config(ranks.agree(None), os.fspath(out)))
            return _fit(run, recipe, job, model, settings, observers, report, resume=False)
        sections: dict[str, Any] = {"recipe": recipe.name, "problem": job.problem, "kind": job.kind, "unit": job.unit}
        sections |= {"model": job.model, "data": settings.data, "train": settings.train, **job.summary}
        sections |= {} if start is None else {"from": str(start.path), "imported": start.config.imported}
        sections |= {} if given is None else {"given": type(given).__name__}
        run = create(sections)
        ranks.agree(run.config.to_json())
        return _fit(run, recipe, job, model, settings, observers, report, resume=False)


def resume_run(
    run: Run,
    settings: Settings,
    *,
    observers: Sequence[Observer],
    given: Any = None,
    note: Note | None = None,
    report: bool = True,
) -> Run:
    """Go on with a run, exactly where it stopped. Settings may differ from its own only in the budget and in
    saving."""
    recipe = recipe_of(run)
    ranks = join_ranks(settings.train)
    settings = _with_world(settings, ranks)
    run.agree("data", settings.data)
    run.agree("model", settings.model)
    run.agree("train", settings.train, but=loop.MAY_CHANGE)
    context = DataContext(cache=cache_folder(), note=note, old=run, given=given)
    job = ranks.one_after_another(lambda: prepare_job(recipe, settings, context))
    check_same_data(run, job)
    model = build_model(job, settings)
    if run.config.origin is not None and not (run.state / "latest.json").exists():
        copy_weights(model, Run.open(run.config.origin), job.kind)
    if not ranks.leads:
        run = SharedRun(run.path, run.config)
        return _fit(run, recipe, job, model, settings, observers, report, resume=True)
    with exclusive_lock(run.state):
        return _fit(run, recipe, job, model, settings, observers, report, resume=True)


def check_resumable(run: Run, recipe: Recipe, *, model: str | None, start: Place | None, given: Any) -> None:
    """Raise a ValueError if the run was started in another way."""
    if run.config.recipe != recipe.name:
        raise RegardError(
            f"{run.path} was made by {run.config.recipe or 'a module of your own'}, not by the recipe "
            f"{recipe.name}, so this recipe cannot resume it"
        )
    before = {"model": run.config.kind, "from": run.config.origin}
    for name, now in (("model", model), ("from", start)):
        if now is not None and recipe.aliases.get(os.fspath(now), os.fspath(now)) != before[name]:
            raise RegardError(
                f"{run.path} was started with another --{name}: {before[name] or 'none'}, not {now}; leave it out"
            )
    if run.config.given != (None if given is None else type(given).__name__):
        raise RegardError(
            f"{run.path} was started with data={run.config.given or 'a path'}; give the same again to go on"
        )


def prepare_job(recipe: Recipe, settings: Settings, context: DataContext) -> Job:
    """Read the data. Its random numbers depend on the seed alone."""
    pick_device(settings.train.device)  # an error before long work, not after
    torch.manual_seed(settings.train.seed)
    return recipe.prepare(settings, context)


def build_model(job: Job, settings: Settings) -> nn.Module:
    """A new model: its weights depend on the seed, not on how the data was read."""
    torch.manual_seed(settings.train.seed)
    return job.build()


def _fit(
    run: Run,
    recipe: Recipe,
    job: Job,
    model: nn.Module,
    settings: Settings,
    observers: Sequence[Observer],
    report: bool,
    resume: bool,
) -> Run:
    """The training, and the files at its end. For who holds the lock of the run."""
    ranks = current_ranks()
    if ranks.leads:
        job.keep(run)
        tell(observers, "described", f"{recipe.describe(job)}; {job.kind} with {say_parameters(model)}")
    how: dict[str, Any] = {
        "resume": resume,
        "observers": observers,
        "sample": job.sample,
        "notes": job.notes,
        "stepper": choose_stepper(job.stepper, recipe.name, ranks),
    }
    ended = loop.fit(run, model, job.task, job.source, settings.train, **how)
    if ranks.leads:
        finish_run(run, recipe, job, ended, observers, report=report)
    return run


def _with_world(settings: Settings, ranks: Ranks) -> Settings:
    """The settings with the number of processes that there are."""
    if ranks.world == 1:
        return settings
    train = settings.train
    if train.seeds is not None or getattr(settings.data, "folds", None) is not None:
        raise RegardError(
            f"{ranks.world} processes train one model at a time; leave out --train.seeds and --data.folds, or train "
            "with one process"
        )
    if ranks.world > train.batch * train.accumulate:
        raise RegardError(
            f"{ranks.world} processes are too many for --train.batch {train.batch}: each needs a row; use "
            f"{train.batch} at most, or a larger batch"
        )
    return replace(settings, train=replace(train, processes=ranks.world))


# ── a module


def _train_module(
    model: nn.Module,
    task: str | Callable[..., Any] | Any,
    data: Any,
    *,
    out: Place | None = None,
    resume: bool = False,
    options: Mapping[str, Any] | None = None,
    observers: Sequence[Observer] = (),
    report: bool = True,
) -> Run:
    """Train any module on a pair of tensors, a Dataset or a Source. options: those of TrainConfig"""
    settings = {name.removeprefix("train."): value for name, value in (options or {}).items()}
    config = configs.from_dict(TrainConfig, settings)
    if config.seeds is not None:
        raise RegardError(
            f"seeds={config.seeds} needs a recipe, which makes a new model for each; call train for each seed, "
            "with a new module"
        )
    if task is None or data is None:
        raise RegardError(
            "a module needs a task ('classify', 'regress', 'next token' or a function) and data to train on"
        )
    if isinstance(data, Source):
        source = data
    else:
        source = TensorSource(data, batch=config.batch, seed=config.seed)
    wanted = as_task(task)
    check_labels(model, wanted, source, data)
    with ExitStack() as after:
        if resume:
            run = Run.open(latest_run_path(None) if out is None else out)
            after.enter_context(exclusive_lock(run.state))
        else:
            kind = registered_name(model)
            about: dict[str, Any] = {"kind": kind, "module": type(model).__qualname__, "train": config}
            about |= {"model": model.config} if kind is not None else {}
            create = after.enter_context(new_run(new_run_path("module") if out is None else out))
            run = create(about)
        loop.fit(run, model, wanted, source, config, resume=resume, observers=observers)
        if report:
            curves(run)
            reports.of_module(run, model)
    return run
