"""The recipe for autoencoders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from regard.look.reader import Reader
from regard.recipes.autoencoder.defaults import CONFIGS, SETTINGS, defaults
from regard.recipes.autoencoder.evaluation import CodeEvaluation, evaluate_codes
from regard.recipes.autoencoder.job import other_split, prepare_job
from regard.recipes.autoencoder.run_reader import RunInputReader
from regard.recipes.base import Recipe
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.same_data import check_same_data
from regard.recipes.settings import Settings, read_settings
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.tasks import Task


class AutoencoderRecipe(Recipe):
    """Images, tables or point clouds through a small code and back."""

    name = "autoencoder"
    title = "Autoencoders: compress, denoise and generate images, rows of tables or point clouds."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "images as for regard train images, with labels or without; a table of numbers (.csv, .parquet);\n"
        "                a folder of point clouds; without it: scikit-learn's digits",
        "--model KIND": "vae (default: variational, so that new samples can be drawn), autoencoder or denoising; each\n"
        "                with --model.body mlp, conv, vit (images) or set (point clouds)",
    }
    examples = (
        "regard train autoencoder",
        "regard train autoencoder --data photos --model.body conv --train.minutes 20",
        "regard train autoencoder --data mnist --data.binarise dynamic --model.latent 2",
        "regard train autoencoder --data photos --model denoising --model.noise 0.2",
        "regard train autoencoder --data measurements.csv --model.latent 3",
    )
    models = tuple(CONFIGS)
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.shape": "give --data.size or --data.points",
        "model.mean": "",
        "model.deviation": "",
    }
    not_inherited = frozenset({"shape", "mean", "deviation"})
    early_options = (
        "data.size",
        "data.image",
        "data.label",
        "data.binarise",
        "model.body",
        "model.likelihood",
    )
    reading_options = ("image", "label", "damaged")

    def defaults(
        self, data: Any = None, model: str | None = None, early: Mapping[str, Any] | None = None
    ) -> Settings:
        return defaults(data, model, early)

    def settings_class(self, config: RunConfig) -> type[Settings]:
        return SETTINGS[str(config.kind)]

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        return prepare_job(settings, context)

    def describe(self, job: Job) -> str:
        info = job.info
        splits = format_splits(info.train, info.validation, info.test)
        shape = " × ".join(map(str, info.shape))
        code = f"codes of {job.model.latent}"
        return describe_data(info.path, format_count(info.rows, job.examples), shape, splits, code)

    def next_command(self, run: Run) -> str:
        return f"regard generate {run.quoted} --count 64 --out sheet.png"

    def predict(self, run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
        raise NotImplementedError

    def evaluate(self, run: Run, data: str | None, context: DataContext) -> CodeEvaluation:
        model = self.load(run)
        if data is not None:
            task, split = other_split(run, data, context)
            return evaluate_codes(model, task, split)
        job = self.prepare(read_settings(self.settings_class(run.config), run), context)
        check_same_data(run, job.info, "Give the data to evaluate on with --data")
        task: Any = job.task
        return evaluate_codes(model, task, job.best_split)

    def other_split(
        self, run: Run, data: str, context: DataContext
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        task, split = other_split(run, data, context)
        return task, split, None

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return RunInputReader(run, model)


RECIPE = AutoencoderRecipe()
