"""How a run begins, or goes on: settings laid over a recipe, the weights of an earlier run, data that must be what it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from regard import config as configs
from regard import files, registry
from regard.recipes.base import Recipe, family, find_recipe, of_run, with_optimiser
from regard.runs.load import load_model
from regard.runs.locations import latest
from regard.runs.run import Run

TOLD = 3  # differences that are named
LONGEST = 40  # characters of a value that are shown

# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def changed(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with dotted options set: {"model.dim": 256}. Unknown names are refused with the nearest known one."""
    if not settings:
        return recipe
    sections = configs.to_dict(with_optimiser(recipe, settings.get("train.optimiser")))
    for key, value in settings.items():
        section, *registry = key.split(".")
        if section not in sections or not registry:
            raise ValueError(
                f"options are named section.name with a section among {', '.join(sections)}, got '{key}'"
            )
        place = sections[section]
        for part in registry[:-1]:  # of a section in a section: data.augment.flip
            place = place[part] if isinstance(place.get(part), dict) else {}
        place[registry[-1]] = value
    made: Recipe = configs.from_dict(type(recipe), sections)
    return made


def asked_for(
    recipe: str,
    data: str | None,
    kind: str | None,
    out: str | None,
    resume: bool,
    start: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Recipe:
    """The settings that options change: the recipe's own for this data, or those of the run that goes on or is started from.

    settings: what is known of them already, as far as others depend on it.
    """
    family(recipe)  # or say which there are
    if resume:
        return of_run(Run.open(out or latest(recipe)))
    found = find_recipe(recipe, data, kind, settings)
    return found if start is None else started_from(Run.open(start), recipe, found, {})


# ── from an earlier run ──────────────────────────────────────────────────────────────────────────────────────────────


def started_from(old: Run, name: str, recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe with the body of an earlier run's model, and a head of its own. Settings for another body are refused."""
    body = old.config.get("model")
    if not isinstance(body, dict):
        raise ValueError(f"{old.path} holds no model of ours to start from")
    check_kind(old, name, recipe)
    shared = {field.name for field in fields(type(recipe.model))} & set(body) - family(name).OWN
    for each in sorted(shared):
        asked = settings.get(f"model.{each}", body[each])
        if (list(asked) if isinstance(asked, tuple) else asked) != body[each]:
            raise ValueError(
                f"{old.path} cannot be a start for this model: model.{each} is {body[each]!r} there, and {asked!r} was asked "
                f"for. Leave it out, or train without --from"
            )
    model = configs.from_dict(
        type(recipe.model), configs.to_dict(recipe.model) | {each: body[each] for each in shared}
    )
    return replace(recipe, model=model)


def check_kind(old: Run, name: str, recipe: Recipe) -> None:
    """A ValueError if the earlier run's model is of another kind."""
    kinds = registry.entries("models")
    wanted = next(kind for kind in kinds if registry.find("models", kind).Config is type(recipe.model))
    had = old.config.get("kind")
    if had != wanted:
        how = f": regard train {name} --model {wanted}" if name == "text" else ""
        raise ValueError(
            f"{old.path} cannot be a start for this model: it holds a model of the kind {had}, and what is "
            f"trained here is of the kind {wanted}; start from one of that kind{how}"
        )


def adopt(model: nn.Module, old: Run) -> None:
    """Start from the weights of an earlier run: all of the body must fit; a head may be new."""
    theirs = load_model(old).state_dict()
    mine = model.state_dict()
    fitting = {
        name: theirs[name] for name in mine if name in theirs and theirs[name].shape == mine[name].shape
    }
    missing = [name for name in mine if name not in fitting and not name.startswith(("head.", "pool."))]
    if missing:
        first, more = missing[0], len(missing) - 1
        there = tuple(theirs[first].shape) if first in theirs else "missing"
        also = f", and {more} more" if more else ""
        raise ValueError(
            f"{old.path} cannot be a start for this model: {first} is {there} there and {tuple(mine[first].shape)} here{also}"
        )
    model.load_state_dict(fitting, strict=False)


# ── going on ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_same_data(run: Run, about: Mapping[str, Any]) -> None:
    """A ValueError if the data is no longer what the run was started with, as far as its figures tell."""
    if "corpus" not in run.config:
        return
    then, now = flat(run.config["corpus"]), flat(json.loads(json.dumps(about)))
    # (where it lies may be said otherwise from another folder)
    other = [key for key in dict.fromkeys((*then, *now)) if key != "path" and then.get(key) != now.get(key)]
    if other:
        told = "; ".join(
            f"{key} was {shown(then.get(key))} and is now {shown(now.get(key))}" for key in other[:TOLD]
        )
        more = f"; and {len(other) - TOLD} more" if len(other) > TOLD else ""
        raise ValueError(
            f"{run.path} was started with other data: {told}{more}. Give it the data of then to go on, or start a "
            f"new run, with --from {run.path} if you want its weights"
        )


def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Dicts in dicts as one, by dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value}
    return found


def shown(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


# ── a start that fails ───────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def new_run(path: files.PathLike, sections: Mapping[str, Any]) -> Iterator[Run]:
    """A new run. If what follows fails before a step is done, the folder is gone again, and its name free.

    Only the process that made the folder takes it away: to take over a folder in which nothing was trained yet would be to take
    it from another process that is about to begin.
    """
    path = Path(path)
    made = [each for each in (path, *path.parents) if not each.exists()]
    run = Run.create(path, sections)
    try:
        yield run
    except BaseException:
        if not was_trained(run):
            discard(run, made)
        raise


def was_trained(run: Run) -> bool:
    """Is a step done, or anything kept of one? If that cannot be told, it is."""
    try:
        stepped = any(event["event"] == "step" for event in run.metrics())
    except (OSError, ValueError, KeyError):
        return True
    return stepped or run.model_file.exists() or (run.state / "latest.json").exists()


def discard(run: Run, made: list[Path]) -> None:
    """Take away what a start writes, and the folders that were made for it, unless there is something else in them."""
    with suppress(OSError):
        for name in ("config.json", "environment.json", "metrics.jsonl", run.tokenizer_file.name):
            (run.path / name).unlink(missing_ok=True)
        for name in ("state", "tensorboard"):
            shutil.rmtree(run.path / name, ignore_errors=True)
        for folder in made:
            folder.rmdir()
