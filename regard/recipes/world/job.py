"""An environment or recorded episodes become a task, batches, and a world model that fits them."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from regard.data.batch import Source
from regard.errors import RegardError
from regard.models.world_model import WorldModel
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.settings import Settings
from regard.recipes.world.defaults import CONFIGS
from regard.recipes.world.draw_imagined import draw_imagined
from regard.recipes.world.draw_returns import draw_returns
from regard.recipes.world.environments import PREFIX, open_environments
from regard.recipes.world.evaluation import EvaluateOptions, WorldEvaluation, evaluate_world
from regard.recipes.world.read_episodes import find_files, read_episodes
from regard.recipes.world.rounds import Rounds
from regard.recipes.world.settings import DEFAULT, WorldDataConfig, WorldInfo, WorldTrainConfig
from regard.recipes.world.source import EpisodeSource
from regard.recipes.world.spaces import Spaces
from regard.recipes.world.store import EpisodeStore
from regard.recipes.world.task import PredictNext
from regard.runs.best_checkpoint import LAST
from regard.runs.run import Run
from regard.training.tasks import Task

STILL = "one image does not show how fast things move; --model.frames 4 shows the last four at once"


def prepare_job(settings: Settings, context: DataContext) -> Job:
    """Open the environment once, or read the episodes; then make the task, the source and a config that fits."""
    data, train = settings.data, settings.train
    assert isinstance(data, WorldDataConfig) and isinstance(train, WorldTrainConfig)
    store, info, notes = make_store(data, _same_environment(context.old, data))
    before = settings.model.frames - 1
    source = EpisodeSource(store, train.batch, data.context, train.seed, before)
    kind = next(name for name, cls in CONFIGS.items() if type(settings.model) is cls)
    task = PredictNext(best_by="loss" if train.policy == "none" else LAST)

    def stepper(model: nn.Module, task: Task, source: Source, config: Any) -> Rounds:
        assert isinstance(source, EpisodeSource)
        return Rounds(model, task, source, config, data)

    def evaluate(model: nn.Module, split: Split) -> WorldEvaluation:
        assert isinstance(model, WorldModel)
        return evaluate_world(
            model, store, data, EvaluateOptions(episodes=train.episodes), learned=train.policy != "none"
        )

    spaces = store.spaces
    image: tuple[int, ...] = ()
    if spaces.image is not None:
        side, _, colours = spaces.image
        image = (colours, side, side)
        if settings.model.frames == 1:
            notes += (STILL,)
    test = None
    if info.environment is not None and train.policy != "none":
        test = Split(name="test", count=train.episodes, unit="fresh episodes", batches=source.validation)
    return Job(
        kind=kind,
        model=replace(
            settings.model,
            observations=spaces.observations,
            actions=spaces.actions,
            discrete=spaces.discrete,
            image=image,
        ),
        task=task,
        source=source,
        info=info,
        unit="steps",
        examples="episodes",
        keep=store.bind,
        notes=notes,
        test=test,
        evaluate=evaluate,
        stepper=stepper,
        draw=partial(_draw, store),
    )


def make_store(data: WorldDataConfig, old: Run | None = None) -> tuple[EpisodeStore, WorldInfo, tuple[str, ...]]:
    """The store of an environment, still empty, or of recorded episodes; what is known of them; and notes.
    old: the run that knows the spaces of the environment already"""
    path = DEFAULT if data.path is None else data.path
    name = data.environment
    if name is not None:
        if not name.strip():
            raise RegardError(f"--data {PREFIX} needs the name of an environment, such as {DEFAULT}")
        if old is None:
            spaces = find_spaces(data, name)
        else:
            spaces = old.section(WorldInfo, "corpus").spaces
        return (EpisodeStore(spaces, data.validation), WorldInfo(path=path, environment=name, spaces=spaces), ())
    found = read_episodes(find_files(os.path.expanduser(path)), sight=data.sight, config=data)
    info = WorldInfo(
        path=path, environment=None, spaces=found.spaces, steps=len(found.episodes), episodes=len(found.episodes.starts)
    )
    return EpisodeStore(found.spaces, data.validation, found.episodes), info, found.notes


def _same_environment(run: Run | None, data: WorldDataConfig) -> Run | None:
    """The run that is resumed or evaluated; None for one that only gives its weights to another."""
    if run is None or run.config.corpus is None or run.config.corpus.get("environment") != data.environment:
        return None
    spaces, sight = run.section(WorldInfo, "corpus").spaces, data.sight
    same = spaces.observed == sight.observed and spaces.drawn == sight.drawn
    if spaces.image is not None:
        same = same and spaces.image[0] == sight.side and spaces.observations == sight.code
    return run if same else None


def find_spaces(data: WorldDataConfig, name: str) -> Spaces:
    """What the environment says of its observations and actions."""
    with open_environments(name, 1, seconds=data.timeout, sight=data.sight) as environments:
        return environments.spaces


def _draw(store: EpisodeStore, run: Run, model: nn.Module) -> None:
    assert isinstance(model, WorldModel)
    store.read_from(run)
    store.encode(model)
    draw_returns(run, store)
    draw_imagined(run, model, store)
