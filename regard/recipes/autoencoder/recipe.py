"""The recipe for autoencoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from torch import nn

from regard.look.reader import Reader
from regard.recipes.autoencoder.dataset import Form, InputsInfo
from regard.recipes.autoencoder.defaults import CONFIGS, SETTINGS, defaults
from regard.recipes.autoencoder.evaluation import CodeEvaluation, evaluate_codes
from regard.recipes.autoencoder.generate import GenerateOptions, generate
from regard.recipes.autoencoder.in_memory import temporary_files
from regard.recipes.autoencoder.job import other_split, prepare_job
from regard.recipes.autoencoder.lend import lend_encoder
from regard.recipes.autoencoder.pictures import write_pictures
from regard.recipes.autoencoder.predict import CodeOptions, check_output, draw, predict
from regard.recipes.autoencoder.run_reader import RunInputReader
from regard.recipes.autoencoder.task import Reconstruct
from regard.recipes.base import LentBody, Recipe
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.images.read_images import is_object
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.problem import Output
from regard.recipes.same_data import check_same_data
from regard.recipes.settings import Settings, read_settings
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.tasks import Task

NEXT: dict[Form, str] = {"images": "sheet.png", "rows": "samples.csv", "points": "samples.npz"}


class AutoencoderRecipe(Recipe):
    """Images, tables or point clouds through a small code and back."""

    name = "autoencoder"
    title = "Autoencoders: compress, denoise and generate images, rows of tables or point clouds."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "images as for regard train images, with labels or without; a table of numbers (.csv, .parquet);\n"
        "                a folder of point clouds; without it: scikit-learn's digits",
        "--model KIND": "vae (default: variational, so that new samples can be drawn), autoencoder or denoising; each\n"
        "                with --model.body mlp, conv, vit, spatial (images) or set (point clouds)",
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
    early_options = ("data.size", "data.image", "data.label", "data.binarise", "model.body", "model.likelihood")
    reading_options = ("image", "label", "damaged")
    in_memory = "pillow's images or arrays of bytes"
    predict_options = CodeOptions
    generate_options = GenerateOptions

    def __init__(self, options: CodeOptions | None = None) -> None:
        self.options = CodeOptions() if options is None else options

    def lend_body(self, run: Run) -> LentBody | None:
        """The Vision Transformer that encodes images."""
        return lend_encoder(run)

    def with_options(self, options: Any) -> AutoencoderRecipe:
        return AutoencoderRecipe(options)

    def defaults(self, data: Any = None, model: str | None = None, early: Mapping[str, Any] | None = None) -> Settings:
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
        out = NEXT[run.section(InputsInfo, "corpus").form]
        return f"regard generate {run.quoted} --count 64 --out {out}"

    def take_inputs(self, given: Sequence[Any]) -> AbstractContextManager[Mapping[str, str]] | None:
        """Pillow's images, and arrays of bytes."""
        if given and all(map(is_object, given)):
            return temporary_files(given)
        return None

    def predict(self, run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
        return predict(run, inputs, self.options)

    def check_output(self, run: Run, inputs: Sequence[str], out: Output) -> None:
        check_output(run, inputs, out)

    def draw(
        self, run: Run, inputs: Sequence[str], predictions: Iterator[Prediction], out: Output
    ) -> Iterator[Prediction]:
        return draw(run, predictions, out)

    def evaluate(self, run: Run, data: str | None, context: DataContext) -> CodeEvaluation:
        model = self.load(run)
        if data is not None:
            task, split = other_split(run, data, context)
            return evaluate_codes(model, task, split, self.options.samples)
        job = self.prepare(read_settings(self.settings_class(run.config), run), context)
        check_same_data(run, job, "Give the data to evaluate on with --data")
        assert isinstance(job.task, Reconstruct)
        return evaluate_codes(model, job.task, job.best_split, self.options.samples)

    def generate(self, run: Run, options: Any, note: Callable[[str], None]) -> Iterator[str]:
        return generate(run, options, note)

    def finish(self, run: Run, job: Job, model: nn.Module) -> None:
        write_pictures(run, job, model)

    def other_split(self, run: Run, data: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
        task, split = other_split(run, data, context)
        return task, split, None

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return RunInputReader(run, model)


RECIPE = AutoencoderRecipe()
