"""Runs of several processes: where they train, who reads the data first, and who tells an error."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from regard.data.slices import check_sliceable
from regard.errors import RegardError
from regard.recipes.base import Recipe
from regard.recipes.job import Job
from regard.recipes.settings import Settings
from regard.runs.paths import new_run_path
from regard.runs.run import Run, check_free
from regard.training.config import TrainConfig
from regard.training.distributed import DistributedStepper, follow, refuse_carried
from regard.training.ranks import (
    LostRank,
    RankError,
    Ranks,
    current_ranks,
    join_ranks,
    memory_of_rank,
    restarts,
    started_by_torchrun,
)
from regard.training.sharded import ShardedStepper, choose_parallel
from regard.training.step import Stepper

T = TypeVar("T")
Place = str | os.PathLike[str]


def has_others() -> bool:
    """Did torchrun start several processes?"""
    return started_by_torchrun()


def is_follower() -> bool:
    """Does this process leave words and files to rank 0?"""
    ranks = current_ranks()
    return ranks is not None and not ranks.leads


def join(config: TrainConfig) -> Ranks | None:
    """Meet the other processes, if torchrun started several."""
    ranks = join_ranks(60 * config.timeout, config.device)
    if ranks is not None and ranks.restart and ranks.shared.check(["told"]):
        raise RankError("an error was told before all processes were started again")
    if ranks is None and (config.processes or 1) > 1:
        raise RegardError(
            f"train.processes={config.processes} is for the command line; in Python, start your script by torchrun "
            f"--nproc-per-node {config.processes}"
        )
    return ranks


def with_world(settings: Settings, ranks: Ranks | None) -> Settings:
    """The settings with the number of processes that there are."""
    if ranks is None:
        return settings
    if settings.train.seeds is not None or getattr(settings.data, "folds", None) is not None:
        raise RegardError(
            f"{ranks.world} processes train one model at a time; leave out --train.seeds and --data.folds, or train "
            "with one process"
        )
    if ranks.world > settings.train.batch * settings.train.accumulate and ranks.world > settings.train.batch:
        raise RegardError(
            f"{ranks.world} processes are too many for --train.batch {settings.train.batch}: each needs a row; use "
            f"{settings.train.batch} at most, or a larger batch"
        )
    return replace(settings, train=replace(settings.train, processes=ranks.world))


def choose_place(recipe: str, out: Place | None) -> tuple[Place, bool]:
    """Where a new run goes, and whether it is there already because torchrun has started all processes again.
    Rank 0 decides."""
    ranks = current_ranks()
    if ranks is None:
        place = new_run_path(recipe) if out is None else out
        if restarts() and Run.exists(place):
            return place, True
        check_free(place)  # before any work on data
        return place, False
    ranks.trainings += 1
    key = f"place/{ranks.trainings}"
    if not ranks.leads:
        found = json.loads(ranks.wait(key).decode())
        return found["place"], bool(found["again"])
    if ranks.restart and ranks.shared.check([key]):
        place = ranks.shared.get(key).decode()
    else:
        place = os.fspath(new_run_path(recipe) if out is None else out)
    again = bool(ranks.restart) and Run.exists(place)
    if not again:
        check_free(place)
    ranks.shared.set(key, os.fspath(place))
    ranks.store.set(key, json.dumps({"place": os.fspath(place), "again": again}, allow_nan=False))
    return place, again


@contextmanager
def telling_errors() -> Iterator[None]:
    """An error is told by one process: that of all by rank 0, that of one by itself, with its rank."""
    try:
        yield
    except RankError:
        raise
    except LostRank as error:
        ranks = current_ranks()
        if ranks is not None and not ranks.say_error(str(error)):
            raise RankError(str(error)) from error
        raise
    except BaseException as error:
        ranks = current_ranks()
        if ranks is None:
            raise
        message = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, Exception):
            ranks.shared.set("told", "1")  # to start again would not help
        if not ranks.say_error(message):
            raise RankError(message) from error
        if isinstance(error, RegardError) and not ranks.leads:
            raise RegardError(f"rank {ranks.rank}: {message}") from error
        raise


def one_after_another(work: Callable[[], T]) -> T:
    """Work whose result is cached on disk: the first process of a machine does it, then the others read it."""
    ranks = current_ranks()
    if ranks is None:
        return work()
    ranks.prepared += 1
    key = f"prepared/{socket.gethostname()}/{ranks.prepared}"
    if ranks.local:
        ranks.wait(key)
    found = work()
    if not ranks.local:
        ranks.store.set(key, "1")
    return found


def make_stepper(job_stepper: Any, recipe: str) -> Callable[..., Stepper]:
    """What does a step: that of the recipe, or one that shares its work with other processes."""
    ranks = current_ranks()
    if ranks is None:
        made: Callable[..., Stepper] = job_stepper
        return made
    if job_stepper is not Stepper:
        raise RegardError(
            f"{recipe} has steps of its own, which several processes cannot share; train with one process"
        )

    def make(model: Any, task: Any, source: Any, config: TrainConfig) -> Stepper:
        size = sum(parameter.numel() for parameter in model.parameters())
        if choose_parallel(config, size, memory_of_rank(ranks)) == "fsdp":
            return ShardedStepper(model, task, source, config, ranks)
        return DistributedStepper(model, task, source, config, ranks)

    return make


def follow_job(recipe: Recipe, job: Job, model: Any, settings: Settings) -> bool:
    """On every rank but 0, do what rank 0 says, until the end. Returns whether this was done: rank 0 goes on by
    itself."""
    ranks = current_ranks()
    if ranks is None:
        return False
    make = make_stepper(job.stepper, recipe.name)
    check_sliceable(job.source)
    refuse_carried(job.task)
    if ranks.leads:
        return False
    follow(model, job.task, job.source, settings.train, make)
    return True
