"""What is learned of a world, and what a run of it can do: predict, be judged, dream, be looked at."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.data.array import Array
from regard.data.batch import Source
from regard.look.reader import Reader
from regard.models.world_model import WorldModel
from regard.recipes.describe import describe_data, format_count
from regard.recipes.evaluation import Evaluation
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction, predict_each
from regard.recipes.problem import Problem
from regard.recipes.settings import Settings
from regard.recipes.world.config import WorldDataConfig, WorldTrainConfig
from regard.recipes.world.dream import DreamOptions, draw_imagined, write_dream
from regard.recipes.world.dyna_loop import DynaLoop, PredictNext
from regard.recipes.world.environments import check_trusted, open_environments
from regard.recipes.world.episodes import Episodes
from regard.recipes.world.evaluation import EvaluateOptions, evaluate_policy, evaluate_predictions
from regard.recipes.world.images import encode_episodes
from regard.recipes.world.read_episodes import Recorded, find_files, read_episodes
from regard.recipes.world.reader import EpisodeReader
from regard.recipes.world.replay_buffer import EpisodeSource, ReplayBuffer
from regard.recipes.world.spaces import Spaces
from regard.recipes.world.views.episode import EpisodeView
from regard.recipes.world.views.horizons import HorizonsView
from regard.recipes.world.views.moments import MomentsView
from regard.recipes.world.views.returns import ReturnsView, draw_returns
from regard.runs.evaluations import LAST
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.training.tasks import Task

TOGETHER = 512  # steps of an episode that are predicted at once
STILL = "one image does not show how fast things move; --model.frames 4 shows the last four at once"
VIEWS = (EpisodeView(), MomentsView(), HorizonsView(), ReturnsView())


class World(Problem):
    """What comes after each action, and a policy that learns inside that."""

    name = "world"
    config, train = WorldDataConfig, WorldTrainConfig
    options, generate_options = EvaluateOptions, DreamOptions

    # ── training

    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        """Open the environment once, or read the episodes; then make the task, the source and a config that fits."""
        data, train = settings.data, settings.train
        assert isinstance(data, WorldDataConfig) and isinstance(train, WorldTrainConfig)
        if data.environment is None:
            found = read_episodes(str(data.path), data=data)
            counts = {"steps": len(found.episodes), "episodes": len(found.episodes.starts)}
            buffer, notes = ReplayBuffer(found.spaces, data.validation, found.episodes), found.notes
        else:
            spaces = _spaces_of_old_run(context.old, data)
            if spaces is None:
                with open_environments(data, 1) as environments:
                    spaces = environments.spaces
            buffer, notes, counts = ReplayBuffer(spaces, data.validation), (), {}
        spaces, acts = buffer.spaces, data.environment is not None and train.policy != "none"
        image: tuple[int, ...] = ()
        if spaces.image is not None:
            side, _, colours = spaces.image
            image = (colours, side, side)
            if settings.model.frames == 1:
                notes += (STILL,)
        sizes = {"observations": spaces.observations, "actions": spaces.actions, "discrete": spaces.discrete}
        source = EpisodeSource(buffer, train.batch, data.context, train.seed, settings.model.frames - 1)
        judged = Split(name="test", count=train.episodes, unit="fresh episodes", batches=source.validation)

        def stepper(model: nn.Module, task: Task, source: Source, config: Any) -> DynaLoop:
            assert isinstance(source, EpisodeSource)
            return DynaLoop(model, task, source, config, data)

        def evaluate(model: nn.Module, split: Split) -> Evaluation:
            return _evaluate(model, buffer, data, train, EvaluateOptions(episodes=train.episodes))

        def draw(run: Run, model: nn.Module) -> None:
            assert isinstance(model, WorldModel)
            buffer.read_from(run, model)
            draw_returns(run, buffer)
            draw_imagined(run, model, buffer)

        return Job(
            kind=kind,
            model=replace(settings.model, image=image, **sizes),
            task=PredictNext(best_by="loss" if train.policy == "none" else LAST),
            source=source,
            processor=spaces,
            counts=counts,
            source_name=data.path,
            unit="steps",
            examples="episodes",
            keep=buffer.bind,
            notes=notes,
            test=judged if acts else None,
            evaluate=evaluate,
            stepper=stepper,
            draw=draw,
        )

    def describe(self, job: Job) -> str:
        spaces, counts = job.processor, None
        if job.counts:
            counts = (
                f"{format_count(job.counts['steps'], 'steps')} of {format_count(job.counts['episodes'], 'episodes')}"
            )
        seen = f"observations of {spaces.observations} numbers"
        if spaces.image is not None:
            side, _, colours = spaces.image
            channels = "" if colours == 1 else f" × {colours}"
            seen = f"images of {side} × {side}{channels}, coded by {spaces.observations} numbers"
        done = f"actions of {format_count(spaces.actions, 'numbers')}"
        return describe_data(job.source_name, counts, seen, f"{spaces.actions} actions" if spaces.discrete else done)

    def next_command(self, run: Run) -> str:
        environment = run.section(WorldDataConfig, "data").environment
        if environment is None:  # recorded episodes: there is nothing to act in
            return f"regard evaluate {run.quoted}"
        named = f" --environment {shlex.quote(environment)}" if ":" in environment else ""
        return f"regard evaluate {run.quoted} --episodes 100 --seed 1{named}"

    # ── using a run

    def load(self, run: Run) -> WorldModel:
        model = load_model(run)
        assert isinstance(model, WorldModel)
        return model

    def open_buffer(self, run: Run, model: WorldModel | None) -> ReplayBuffer:
        """The episodes of a run, with the codes that its model gives their images."""
        data, spaces = run.section(WorldDataConfig, "data"), run.section(Spaces, "processor")
        recorded = None
        if data.environment is None:
            recorded = read_episodes(str(data.path), spaces, data).episodes
        buffer = ReplayBuffer(spaces, data.validation, recorded)
        buffer.read_from(run, model)
        return buffer

    def read_as_trained(self, run: Run, model: WorldModel, path: str) -> Recorded:
        """Other episodes, read as the run reads its own."""
        found = read_episodes(path, run.section(Spaces, "processor"), run.section(WorldDataConfig, "data"))
        return replace(found, episodes=encode_episodes(model, found.episodes))

    def predict(self, run: Run, inputs: Sequence[str], options: Any = None) -> Iterator[Prediction]:
        """A prediction for each file, with a part for each step: what comes after it, from it and those before it."""
        model = self.load(run)

        def predict_path(path: str) -> list[Prediction]:
            return [_predict_file(model, self.read_as_trained(run, model, each), each) for each in find_files(path)]

        return predict_each(inputs, predict_path)

    def evaluate(self, run: Run, data: Any, context: DataContext, options: EvaluateOptions | None = None) -> Evaluation:
        """The mean return in the real environment, and errors of predictions; of recorded episodes only these."""
        options = options or EvaluateOptions()
        model, config = self.load(run), run.section(WorldDataConfig, "data")
        if data is not None:
            return evaluate_predictions(model, self.read_as_trained(run, model, data).episodes, data, options.seed)
        check_trusted(config.environment, options.environment)
        train = run.section(WorldTrainConfig, "train")
        return _evaluate(model, self.open_buffer(run, model), config, train, options)

    def read_other(
        self, run: Run, data: Any, context: DataContext, options: Any = None
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        model, config = self.load(run), run.section(WorldDataConfig, "data")
        found, train = self.read_as_trained(run, model, data), run.section(WorldTrainConfig, "train")
        buffer = ReplayBuffer(found.spaces, 0.0, found.episodes)
        source = EpisodeSource(buffer, train.batch, config.context, train.seed, model.config.frames - 1)
        count = len(found.episodes.starts)
        split = Split(name=data, count=count, unit="episodes", batches=source.every, notes=found.notes)
        return PredictNext(), split, None

    def generate(self, run: Run, options: DreamOptions, note: Callable[[str], None]) -> Iterator[str]:
        model, data = self.load(run), run.section(WorldDataConfig, "data")
        check_trusted(data.environment, options.environment)
        learned = run.section(WorldTrainConfig, "train").policy != "none"
        return write_dream(model, self.open_buffer(run, model), data, options, learned=learned)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        assert isinstance(model, WorldModel)
        return EpisodeReader(self, run, model, VIEWS)


def _spaces_of_old_run(run: Run | None, data: WorldDataConfig) -> Spaces | None:
    """Those of the run that is resumed or evaluated; None for one that only gives its weights to another."""
    if run is None or run.config.problem != World.name:
        return None
    old = run.section(WorldDataConfig, "data")
    seen = [(each.environment, each.observed, each.images, each.side, each.code) for each in (old, data)]
    return run.section(Spaces, "processor") if seen[0] == seen[1] else None


def _evaluate(
    model: nn.Module, buffer: ReplayBuffer, data: WorldDataConfig, train: WorldTrainConfig, options: EvaluateOptions
) -> Evaluation:
    """In the environment if there is one; recorded episodes are judged on those that were held out."""
    assert isinstance(model, WorldModel)
    if data.environment is not None:
        return evaluate_policy(model, buffer, data, options, learned=train.policy != "none")
    split = "validation" if len(buffer.held_rows) else "train"
    return evaluate_predictions(model, buffer.all.take(buffer.judged_rows), split, options.seed)


def _predict_file(model: WorldModel, found: Recorded, path: str) -> Prediction:
    spaces = found.spaces
    numbers = spaces.observed or tuple(range(spaces.observations))
    what = "next_observation" if spaces.image is None else "next_code"
    names = (*(f"{what}_{number}" for number in numbers), "reward", "continue")
    parts: list[Prediction] = []
    missed: list[Array] = []
    for number in range(len(found.episodes.starts)):
        episode = found.episodes.episode(number)
        out = predict_steps(model, episode)
        missed.append((out[:, :-2] - episode.following) / model.scale.numpy())
        for step, row in enumerate(out.tolist()):
            values, place = dict(zip(names, row, strict=True)), {"episode": number, "step": step}
            parts.append(Prediction(input=f"episode {number}, step {step}", values=values, row=place))
    error = float(np.sqrt(np.square(np.concatenate(missed)).mean()))
    return Prediction(input=path, values={"error": error}, each=tuple(parts), notes=found.notes)


@torch.no_grad()
def predict_steps(model: WorldModel, episode: Episodes) -> Array:
    """The next observation, the reward and the probability of *continue* after each step.   n -> n (o + 2)"""
    steps = torch.from_numpy(episode.steps)[None].to(model.mean)
    caches = model.caches()
    out = torch.cat([model(part, caches=caches) for part in steps.split(TOGETHER, 1)], 1)[0]
    out[:, -1] = out[:, -1].sigmoid()
    found: Array = out.cpu().numpy()
    return found
