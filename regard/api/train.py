"""What the commands do, as Python functions: train a recipe or any module, predict with a run, check, look."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from regard import config as configs
from regard.api.check import write_laws
from regard.api.finish import tested, write_confusion
from regard.api.look import write_report
from regard.api.start import adopt, changed, check_same_data, new_run, started_from
from regard.data.batch import Source, TensorSource
from regard.look import report
from regard.look.plot import curves
from regard.models.registered import kind_of
from regard.recipes.base import Recipe, family, find_recipe, of_run, with_question
from regard.recipes.describe import described
from regard.recipes.job import Job, Note, Reading, work
from regard.runs.locations import cache_folder, fresh, latest
from regard.runs.run import Run, check_free
from regard.training import loop
from regard.training.budget import seconds_of
from regard.training.config import TrainConfig
from regard.training.labels import check_labels
from regard.training.progress import Observer, watch
from regard.training.step import pick_device
from regard.training.tasks import as_task

# ── train ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def train(
    recipe: str | None = None,
    *,
    data: Any = None,
    model: str | nn.Module | None = None,
    task: Any = None,
    out: str | os.PathLike[str] | None = None,
    start: str | os.PathLike[str] | None = None,
    resume: bool = False,
    minutes: float | None = None,
    steps: int | None = None,
    options: Mapping[str, Any] | None = None,
    note: Note | None = None,
    observers: Sequence[Observer] | None = None,
) -> Run:
    """Train a recipe on your data, or any module of your own; what comes back is the run directory.

        train("text", data="my.txt", out="runs/mine", minutes=2)
        train("text", data="my.txt", options={"model.dim": 256, "train.lr": 0.01})
        train(model=my_module, task="classify", data=(x, y), steps=500)

    data      a path for a recipe; for a module a pair of tensors, a Dataset or a Source
    model     the kind of model of a recipe ("decoder"), or a module
    task      of a module: "classify", "regress", "next token", or a function (model, batch) -> loss
    start     an earlier run to start from (fine-tuning)
    resume    go on with the run in `out`, exactly where it stopped
    options   dotted names of the recipe's settings, or those of TrainConfig for a module
    note      told what is being prepared, and the share that is done
    observers who watches; None: a progress bar on a terminal, lines elsewhere
    """
    budget = {name: value for name, value in (("minutes", minutes), ("steps", steps)) if value is not None}
    watching = [watch()] if observers is None else list(observers)
    if isinstance(model, nn.Module):
        if recipe is not None or start is not None:
            raise ValueError("give a module of your own, or a recipe (with start=), not both")
        return train_module(model, task, data, out, resume, {**budget, **(options or {})}, watching)
    if recipe is None or task is not None:
        raise ValueError("name a recipe such as 'text', or give a module as model= with its task=")
    settings = {**(options or {}), **{f"train.{name}": value for name, value in budget.items()}}
    if (
        not resume
        and not {"train.steps", "train.minutes"} & set(settings)
        and os.environ.get("REGARD_BUDGET")
    ):
        settings["train.minutes"] = seconds_of(os.environ["REGARD_BUDGET"]) / 60
    path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    given = data if path is None else None  # an object: only some recipes take one, and say so
    if resume:
        family(recipe)  # or say which there are
        run = Run.open(latest(recipe) if out is None else out)
        asked = changed(of_run(run), settings | ({} if path is None else {"data.path": path}))
        before = {"model": run.config["kind"], "from": run.config.get("from")}
        for name, now in (("model", model), ("from", start)):
            if now is not None and os.fspath(now) != before[name]:
                raise ValueError(
                    f"{run.path} was started with another --{name}: {before[name] or 'none'}, not {now}; leave it out"
                )
        if (was := run.config.get("given")) != (None if given is None else type(given).__name__):
            raise ValueError(
                f"{run.path} was started with data={was or 'a path'}; give the same again to go on"
            )
        for section, but in (("data", ()), ("model", ()), ("train", loop.MAY_CHANGE)):
            run.agree(section, getattr(asked, section), but=but)
        origin = run.config.get("from")
        job = prepared(recipe, asked, Reading(cache=cache_folder(), note=note, old=run, given=given))
        check_same_data(run, job.about)
        if origin is not None and not (run.state / "latest.json").exists():
            adopt(job.model, Run.open(origin))
        beginning: AbstractContextManager[Run] = nullcontext(run)
    else:
        place = fresh(recipe) if out is None else out
        check_free(place)  # before any work on data
        asked = with_question(
            find_recipe(recipe, data if path is None else path, model, settings), settings, given
        )
        old = None if start is None else Run.open(start)
        asked = changed(asked if old is None else started_from(old, recipe, asked, settings), settings)
        origin = None if start is None else os.fspath(start)
        job = prepared(recipe, asked, Reading(cache=cache_folder(), note=note, old=old, given=given))
        if old is not None:
            adopt(job.model, old)
        more = {"from": origin, "given": None if given is None else type(given).__name__}
        beginning = new_run(
            place,
            {
                "recipe": recipe,
                "kind": job.kind,
                "model": job.model.config,
                "data": asked.data,
                "train": asked.train,
            }
            | {"corpus": job.about, "unit": job.unit}
            | {name: value for name, value in more.items() if value is not None},
        )
    how: dict[str, Any] = {"resume": resume, "observers": watching, "sample": job.sample, "notes": job.notes}
    with beginning as run:
        job.keep(run)
        for observer in watching:
            if (heard := getattr(observer, "described", None)) is not None:
                heard(described(job))
        ended = loop.fit(run, job.model, job.task, job.source, asked.train, **how)
    if job.test is not None and ended.reason != "stopped":
        tested(run, job, watching, ended.step)
    curves(run)
    write_confusion(run, job)
    write_laws(run)
    write_report(run)
    return run


def prepared(name: str, recipe: Recipe, reading: Reading) -> Job:
    """A recipe with its data read. What is random in it follows from the seed."""
    pick_device(recipe.train.device)  # an error before long work, not after
    torch.manual_seed(recipe.train.seed)
    return work(name).prepared(recipe, reading)


def train_module(
    model: nn.Module,
    task: Any,
    data: Any,
    out: Any,
    resume: bool,
    options: Mapping[str, Any],
    observers: Sequence[Observer],
) -> Run:
    config = configs.from_dict(
        TrainConfig, {name.removeprefix("train."): value for name, value in options.items()}
    )
    if task is None or data is None:
        raise ValueError(
            "a module needs a task ('classify', 'regress', 'next token' or a function) and data to learn from"
        )
    source = data if isinstance(data, Source) else TensorSource(data, batch=config.batch, seed=config.seed)
    wanted = as_task(task)
    check_labels(model, wanted, source, data)
    beginning: AbstractContextManager[Run]
    if resume:
        beginning = nullcontext(Run.open(latest(None) if out is None else out))
    else:
        kind = kind_of(model)
        about: dict[str, Any] = {"kind": kind, "module": type(model).__qualname__, "train": config}
        about |= {"model": model.config} if kind is not None else {}
        beginning = new_run(fresh("module") if out is None else out, about)
    with beginning as run:
        loop.fit(run, model, wanted, source, config, resume=resume, observers=observers)
    curves(run)
    report.of_module(run, model)
    return run


# ── predict ─────────────────────────────────────────────────────────────────────────────────────────────────────────


# ── check ────────────────────────────────────────────────────────────────────────────────────────────────────────────


# ── look ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
