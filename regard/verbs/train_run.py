"""One run of a recipe, from its beginning or from where it stopped, to the files at its end."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.data.cache import cache_folder
from regard.errors import RegardError
from regard.nn.moe import say_parameters
from regard.recipes.base import Recipe
from regard.recipes.job import DataContext, Job
from regard.recipes.request import Place, TrainRequest
from regard.recipes.same_data import check_same_data
from regard.recipes.settings import Settings
from regard.recipes.start_from import check_body, copy_weights
from regard.runs.lock import exclusive_lock
from regard.runs.new_run import new_run
from regard.runs.run import Run, SharedRun
from regard.runs.run_config import read_run_config
from regard.training import loop
from regard.training.distributed import choose_stepper
from regard.training.progress import tell
from regard.training.ranks import Ranks, join_ranks
from regard.training.step import pick_device
from regard.verbs.finish import finish_run


def start_run(request: TrainRequest, settings: Settings, place: Place) -> Run:
    """A new run with these settings. Only rank 0 makes and writes it."""
    ranks, origin, given = join_ranks(settings.train), request.origin, request.given
    settings = _with_world(settings, ranks)
    if origin is not None:
        check_body(request.recipe, settings, origin)
    with new_run(place) if ranks.leads else nullcontext() as create:
        context = DataContext(
            cache=cache_folder(), note=request.note, old=origin, given=given, examples=request.examples
        )
        job = ranks.one_after_another(lambda: prepare_job(request.recipe, settings, context))
        model = build_model(job, settings)
        if origin is not None:
            copy_weights(model, origin, job.kind)
        if create is None:
            run: Run = SharedRun(place, read_run_config(ranks.agree(None), os.fspath(place)))
        else:
            sections: dict[str, Any] = {
                "recipe": request.recipe.name,
                "problem": job.problem,
                "kind": job.kind,
                "unit": job.unit,
            }
            sections |= {"model": job.model, "data": settings.data, "train": settings.train, **job.summary}
            sections |= {} if origin is None else {"from": str(origin.path), "imported": origin.config.imported}
            sections |= {} if given is None else {"given": type(given).__name__}
            run = create(sections)
            ranks.agree(run.config.to_json())
        return _fit(request, run, job, model, settings, ranks)


def resume_run(request: TrainRequest, run: Run, settings: Settings) -> Run:
    """Go on with a run, exactly where it stopped. Settings may differ from its own only in the budget and in saving."""
    ranks = join_ranks(settings.train)
    settings = _with_world(settings, ranks)
    run.agree("data", settings.data)
    run.agree("model", settings.model)
    run.agree("train", settings.train, but=loop.MAY_CHANGE)
    context = DataContext(cache=cache_folder(), note=request.note, old=run, given=request.given)
    job = ranks.one_after_another(lambda: prepare_job(request.recipe, settings, context))
    check_same_data(run, job)
    model = build_model(job, settings)
    if run.config.origin is not None and not (run.state / "latest.json").exists():
        copy_weights(model, Run.open(run.config.origin), job.kind)
    with exclusive_lock(run.state) if ranks.leads else nullcontext():
        own = run if ranks.leads else SharedRun(run.path, run.config)
        return _fit(request, own, job, model, settings, ranks, resume=True)


def check_resumable(run: Run, request: TrainRequest) -> None:
    """Raise a ValueError if the run was started in another way than it is to go on."""
    recipe = request.recipe
    if run.config.recipe != recipe.name:
        raise RegardError(
            f"{run.path} was made by {run.config.recipe or 'a module of your own'}, not by the recipe "
            f"{recipe.name}, so this recipe cannot resume it"
        )
    before = {"model": run.config.kind, "from": run.config.origin}
    for name, now in (("model", request.model), ("from", request.start)):
        if now is not None and recipe.aliases.get(os.fspath(now), os.fspath(now)) != before[name]:
            raise RegardError(
                f"{run.path} was started with another --{name}: {before[name] or 'none'}, not {now}; leave it out"
            )
    given = None if request.given is None else type(request.given).__name__
    if run.config.given != given:
        raise RegardError(
            f"{run.path} was started with data={run.config.given or 'a path'}; give the same again to go on"
        )
    recipe.choose_kind(run.config.kind, request.task)


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
    request: TrainRequest,
    run: Run,
    job: Job,
    model: nn.Module,
    settings: Settings,
    ranks: Ranks,
    *,
    resume: bool = False,
) -> Run:
    """The training, and the files at its end. For who holds the lock of the run."""
    observers = request.observers
    if ranks.leads:
        job.keep(run)
        tell(
            observers,
            "described",
            f"{request.recipe.problems[str(job.problem)].describe(job)}; {job.kind} with {say_parameters(model)}",
        )
    ended = loop.fit(
        run,
        model,
        job.task,
        job.source,
        settings.train,
        resume=resume,
        observers=observers,
        sample=job.sample,
        notes=job.notes,
        stepper=choose_stepper(job.stepper, request.recipe.name, ranks),
    )
    if ranks.leads:
        finish_run(run, job, ended, observers, report=request.report)
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
