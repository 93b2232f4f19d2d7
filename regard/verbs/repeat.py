"""The same training for several seeds, or for each fold of the data: runs in one folder, and what they give
together.

Each of them is a complete run. A stopped or killed training of several goes on with those that are not
finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard import config as configs
from regard.data.splits import SplitConfig
from regard.errors import RegardError
from regard.look.report import write_repeats_page
from regard.recipes.base import Recipe, settings_of
from regard.recipes.request import Place, TrainRequest
from regard.recipes.settings import Settings, apply_settings, kind_of
from regard.runs.lock import exclusive_lock
from regard.runs.new_run import claim_folder, discard_start
from regard.runs.run import SUMMARY, Run
from regard.runs.run_config import RunConfig
from regard.runs.run_group import Over, Repeats, name_runs, number_of
from regard.training.config import TrainConfig
from regard.training.loop import MAY_CHANGE
from regard.training.progress import Ending, tell
from regard.verbs.train_run import check_resumable, resume_run, start_run


def start_runs(request: TrainRequest, settings: Settings, place: Place, over: Over) -> Repeats:
    """A run for each seed or fold that these settings ask for."""
    recipe, origin, given = request.recipe, request.origin, request.given
    names = _names(settings, over)
    for name in names:
        _settings_for(settings, over, name)  # what cannot be is said before the first of them is trained
    kind = kind_of(recipe.models, settings)
    facts = {
        "recipe": recipe.name,
        "problem": recipe.problem_of(settings.data, kind).name,
        "kind": kind,
        "settings": configs.to_dict(settings),
        "from": None if origin is None else str(origin.path),
        "given": None if given is None else type(given).__name__,
    }
    with _new_folder(Path(place)):
        return _train_each(request, Repeats.create(place, over, names, facts), settings, {})


def resume_runs(request: TrainRequest, repeats: Repeats, settings: Settings) -> Repeats:
    """Go on: finished runs stay, the one that was stopped is resumed, the others are trained. Settings may
    differ from those of the start in the budget, in saving, and in more seeds."""
    changes = _changes(repeats, request.recipe, settings)
    origin = repeats.facts["from"]
    request.origin = None if origin is None else Run.open(origin)
    with exclusive_lock(repeats.path / "state"):
        repeats.facts |= {"names": _names(settings, repeats.over), "settings": configs.to_dict(settings)}
        repeats.write()
        changes.pop("train.seeds", None)
        return _train_each(request, repeats, settings, changes)


def open_to_resume(request: TrainRequest, path: Place) -> tuple[Repeats, Settings]:
    """The runs of a folder and their common settings. Raise if they were started in another way."""
    repeats = Repeats.open(path)
    facts = repeats.facts
    known = RunConfig(
        regard=facts["regard"], recipe=facts["recipe"], kind=facts["kind"], origin=facts["from"], given=facts["given"]
    )
    check_resumable(Run(repeats.path, known), request)
    return repeats, _common_settings(repeats, request.recipe)


# ── settings


def repeated_over(settings: Settings) -> Over | None:
    """In what the runs that these settings ask for differ; None: they ask for one run."""
    seeds, folds = settings.train.seeds, getattr(settings.data, "folds", None)
    every_fold = folds is not None and settings.data.fold is None
    if seeds is not None and folds is not None and every_fold:
        raise RegardError(
            f"--train.seeds {seeds} and --data.folds {folds} together would be {seeds * folds} runs; give one of "
            "them, or choose one fold with --data.fold"
        )
    if seeds is not None:
        return "seed"
    if every_fold:
        return "fold"
    return None


def _names(settings: Settings, over: Over) -> list[str]:
    if over == "seed":
        first = settings.train.seed
        return name_runs(over, range(first, first + (settings.train.seeds or 0)))
    return name_runs(over, range(1, settings.data.folds + 1))


def _settings_for(settings: Settings, over: Over, name: str) -> Settings:
    """The settings of one run. Seeds change the training; the splits stay those of the first seed."""
    number = number_of(name)
    if over == "fold":
        return replace(settings, data=replace(settings.data, fold=number))
    train = replace(settings.train, seed=number, seeds=None)
    data = settings.data
    if isinstance(data, SplitConfig):
        data = replace(data, seed=data.seed_of(settings.train.seed))
    return replace(settings, data=data, train=train)


def _common_settings(repeats: Repeats, recipe: Recipe) -> Settings:
    """What was asked for at the start. Paths count from there, as those of a run do."""
    problem = recipe.problems[repeats.facts["problem"]]
    settings = configs.from_dict(problem.settings_class(repeats.facts["kind"]), repeats.facts["settings"])
    started = repeats.runs
    if not started:
        return settings
    own = started[0].section(type(settings.data), "data")
    paths = {name: getattr(own, name) for name in getattr(type(own), "paths", ())}
    return replace(settings, data=replace(settings.data, **paths))


def _changes(repeats: Repeats, recipe: Recipe, settings: Settings) -> dict[str, Any]:
    """What differs from the settings of the start, by dotted name; raise if it may not."""
    before = _common_settings(repeats, recipe)
    found = configs.differences(before, settings)
    may_change = {f"train.{name}" for name in (*MAY_CHANGE, "seeds")}
    wrong = [each for each in found if each[0] not in may_change]
    if wrong:
        said = "; ".join(f"{key} was {then!r} and is now {now!r}" for key, then, now in wrong)
        raise RegardError(f"{repeats.path} was started with other options: {said}. Resume with the same, or start anew")
    changes = {key: now for key, _, now in found}
    fewer = changes.get("train.seeds", before.train.seeds)
    if before.train.seeds is not None and (fewer is None or fewer < before.train.seeds):
        raise RegardError(f"{repeats.path} has {before.train.seeds} seeds and may get more, but not fewer, got {fewer}")
    return changes


# ── training


def _train_each(request: TrainRequest, repeats: Repeats, settings: Settings, changes: Mapping[str, Any]) -> Repeats:
    """Train what is not finished yet, one after the other, until one of them is stopped."""
    names, observers = repeats.names, request.observers
    waiting = [name for name in names if name not in repeats.figures]
    tell(observers, "described", _say_plan(repeats, waiting, settings.train))
    each = replace(request, observers=[*observers, ending := Ending()])
    for name in waiting:
        tell(observers, "described", f"── {name}: {names.index(name) + 1} of {len(names)} ──")
        place = repeats.path / name
        if Run.exists(place):
            run = Run.open(place)
            resume_run(each, run, apply_settings(settings_of(run), changes))
        else:
            run = start_run(each, _settings_for(settings, repeats.over, name), place)
        if not ending.stopped:
            repeats.add(run)
        if request.report:
            write_repeats_page(repeats)
        if ending.stopped:
            done = f"{len(repeats.figures)} of {len(names)} runs are finished"
            tell(observers, "described", f"{done}; --resume goes on with the others")
            return repeats
    if request.report:
        write_repeats_page(repeats)  # it may have been killed before that
    tell(observers, "concluded", repeats.say())
    return repeats


def _say_plan(repeats: Repeats, waiting: Sequence[str], train: TrainConfig) -> str:
    """How many runs there will be, and how long they take, before the first of them."""
    count = len(waiting)
    if not count:
        return f"all {len(repeats.names)} runs of {repeats.path} are finished"
    if train.steps is not None:
        budget = f"{train.steps:,} steps each"
    else:
        minutes = train.minutes or 0.0
        budget = f"{minutes:g} minutes each, {minutes * count:g} minutes in all"
    done = len(repeats.names) - count
    before = f"{done} of {len(repeats.names)} are finished; " if done else ""
    which = waiting[0] if count == 1 else f"{waiting[0]} … {waiting[-1]}"
    return f"{before}{count} {'run' if count == 1 else 'runs'} of {budget}: {which}"


@contextmanager
def _new_folder(path: Path) -> Iterator[None]:
    """A folder for several runs, with its lock. If not even the first of them begins, the folder is gone
    again."""
    with claim_folder(path) as (_, made):
        try:
            yield
        except BaseException:
            if not any(Run.exists(each) for each in path.iterdir()):
                (path / SUMMARY).unlink(missing_ok=True)
                discard_start(path, made)
            raise
