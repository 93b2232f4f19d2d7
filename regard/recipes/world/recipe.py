"""The recipe for worlds: an environment, or recorded episodes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from regard.look.reader import Reader
from regard.models.world_model import WorldModel
from regard.recipes.base import Recipe
from regard.recipes.describe import describe_data, format_count
from regard.recipes.evaluation import Evaluation
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.settings import Settings, read_settings
from regard.recipes.world.codes import encode_episodes
from regard.recipes.world.defaults import KINDS, defaults, refine_defaults, settings_class_of
from regard.recipes.world.dream import DreamOptions, write_dream
from regard.recipes.world.environments import check_trusted
from regard.recipes.world.evaluation import EvaluateOptions, evaluate_recorded, evaluate_world
from regard.recipes.world.job import make_store, prepare_job
from regard.recipes.world.predict import predict
from regard.recipes.world.read_episodes import find_files, read_episodes
from regard.recipes.world.run_reader import EpisodeReader
from regard.recipes.world.settings import WorldDataConfig, WorldInfo, WorldTrainConfig
from regard.recipes.world.source import EpisodeSource
from regard.recipes.world.spaces import Spaces
from regard.recipes.world.store import EpisodeStore
from regard.recipes.world.task import PredictNext
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.tasks import Task


class WorldRecipe(Recipe):
    """Episodes: a model of a world, and a policy that learns inside it."""

    name = "world"
    title = "World: a model that predicts what comes after an action, and a policy that learns inside it."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "gymnasium:NAME, any environment that is seen as vectors or images (default: gymnasium:CartPole-v1);\n"
        "                or recorded episodes: a file (.npz, .parquet, .csv, .jsonl) or a folder of them",
        "--model KIND": "transformer (default) or gru",
    }
    examples = (
        "regard train world",
        "regard train world --data gymnasium:Pendulum-v1 --out runs/pendulum",
        "regard train world --data episodes.npz --train.policy none",
        "regard train world --data.observed 0 2  # CartPole without its velocities",
        "regard train world --data.images  # CartPole from images of 32 × 32",
    )
    models = tuple(KINDS.values())
    aliases = KINDS
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.observations": "give --data.observed",
        "model.actions": "",
        "model.discrete": "",
        "model.image": "give --data.images or --data.side",
    }
    predict_options = EvaluateOptions
    generate_options = DreamOptions

    def __init__(self, options: EvaluateOptions | None = None) -> None:
        self.options = EvaluateOptions() if options is None else options

    def with_options(self, options: Any) -> WorldRecipe:
        return WorldRecipe(options)

    def defaults(self, data: Any = None, model: str | None = None, early: Mapping[str, Any] | None = None) -> Settings:
        return defaults(data, model)

    def refine_defaults(self, settings: Settings, options: Mapping[str, Any], data: Any = None) -> Settings:
        return refine_defaults(settings, options)

    def settings_class(self, config: RunConfig) -> type[Settings]:
        return settings_class_of(config)

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        return prepare_job(settings, context)

    def describe(self, job: Job) -> str:
        info = job.info
        spaces = info.spaces
        what = (
            f"{spaces.actions} actions" if spaces.discrete else f"actions of {format_count(spaces.actions, 'numbers')}"
        )
        counts = None
        if info.steps is not None:
            counts = f"{format_count(info.steps, 'steps')} of {format_count(info.episodes, 'episodes')}"
        return describe_data(info.path, counts, _describe_observations(spaces), what)

    def next_command(self, run: Run) -> str:
        environment = (run.config.corpus or {}).get("environment")
        if environment is None:  # recorded episodes: there is nothing to act in
            return f"regard evaluate {run.quoted}"
        named = f" --environment {shlex.quote(environment)}" if ":" in environment else ""
        return f"regard evaluate {run.quoted} --episodes 100 --seed 1{named}"

    def predict(self, run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
        return predict(run, inputs)

    def evaluate(self, run: Run, data: str | None, context: DataContext) -> Evaluation:
        """The mean return in the real environment, and errors of predictions; of other episodes only these."""
        model, store, config, learned = self._open(run)
        if data is not None:
            found = read_episodes(find_files(data), store.spaces, config=config)
            store = EpisodeStore(store.spaces, 0.0, encode_episodes(model, found.episodes))
            return evaluate_recorded(model, store, data, self.options)
        check_trusted(config.environment, self.options.environment)
        return evaluate_world(model, store, config, self.options, learned=learned)

    def _open(self, run: Run) -> tuple[WorldModel, EpisodeStore, WorldDataConfig, bool]:
        """The model of a run, its episodes, where they come from, and whether it learned a policy."""
        settings = read_settings(self.settings_class(run.config), run)
        model = self.load(run)
        assert isinstance(model, WorldModel) and isinstance(settings.train, WorldTrainConfig)
        store, _, _ = make_store(settings.data, run)
        store.read_from(run)
        store.encode(model)
        return model, store, settings.data, settings.train.policy != "none"

    def other_split(self, run: Run, data: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
        settings = read_settings(self.settings_class(run.config), run)
        found = read_episodes(find_files(data), run.section(WorldInfo, "corpus").spaces, config=settings.data)
        model = self.load(run)
        assert isinstance(model, WorldModel)
        store = EpisodeStore(found.spaces, 0.0, encode_episodes(model, found.episodes))
        before = settings.model.frames - 1
        source = EpisodeSource(store, settings.train.batch, settings.data.context, settings.train.seed, before)
        count = len(found.episodes.starts)
        split = Split(name=data, count=count, unit="episodes", batches=source.every, notes=found.notes)
        return PredictNext(), split, None

    def generate(self, run: Run, options: Any, note: Callable[[str], None]) -> Iterator[str]:
        model, store, config, learned = self._open(run)
        check_trusted(config.environment, options.environment)
        return write_dream(model, store, config, options, learned=learned)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        assert isinstance(model, WorldModel)
        return EpisodeReader(run, model)


def _describe_observations(spaces: Spaces) -> str:
    if spaces.image is None:
        return f"observations of {spaces.observations} numbers"
    side, _, colours = spaces.image
    channels = "" if colours == 1 else f" × {colours}"
    return f"images of {side} × {side}{channels}, coded by {spaces.observations} numbers"


RECIPE = WorldRecipe()
