"""The recipe for images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar

from torch import nn

from regard.look.reader import Reader
from regard.pretrained.weights import Pretrained
from regard.recipes.base import ExportFiles, Output, Recipe
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.images.adopt import adopt
from regard.recipes.images.dataset import ImagesConfig, ImagesInfo
from regard.recipes.images.defaults import KINDS, defaults
from regard.recipes.images.draw import check_output, draw
from regard.recipes.images.export import export_files
from regard.recipes.images.foreign_reader import foreign_reader
from regard.recipes.images.given_images import paths_of
from regard.recipes.images.in_memory import is_array_or_pil, temporary_files
from regard.recipes.images.job import other_split, prepare_job
from regard.recipes.images.predict import expand_inputs, predict
from regard.recipes.images.run_reader import RunImageReader
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.processors import ForeignModel
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.tasks import Task


class ImagesRecipe(Recipe):
    """Images: a classifier, or a regression of a number."""

    name = "images"
    title = (
        "Images: a folder of images, idx files, arrays or a table of paths, and seven kinds of classifiers."
    )
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "one folder of images a class, idx files, .npz, a table of paths; without it: scikit-learn's digits",
        "--model KIND": "resnet9 (the default: 74 % of CIFAR-10 after a minute of one core, vit 53 %), vit, swin,\n"
        "                lenet, resnet, densenet or groupcnn (equivariant to quarter turns)",
    }
    examples = (
        "regard train images",
        "regard train images --data photos --data.size 96 --data.augment.flip --train.minutes 20",
        "regard train images --data mnist --model lenet",
        "regard train images --data photos.csv --data.image path --data.label kind --data.balanced",
        "regard train images --data faces.csv --data.label age --data.asks numbers",
    )
    models = tuple(KINDS)
    reading_options = ("image", "label", "damaged")
    in_memory = "pillow's images or arrays of bytes"
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.classes": "",
        "model.colours": "give --data.channels",
        "model.size": "give --data.size",
    }
    not_inherited = frozenset({"classes", "colours", "size", "dropout", "drop_path"})
    early_options = (
        "data.size",
        "data.image",
        "data.label",
        "data.asks",
    )  # the model is sized for the images as they will be

    def defaults(
        self, data: Any = None, model: str | None = None, early: Mapping[str, Any] | None = None
    ) -> Settings:
        known = {name.removeprefix("data."): value for name, value in (early or {}).items()}
        return defaults(data, model, **known)

    def settings_class(self, config: RunConfig) -> type[Settings]:
        return KINDS[str(config.kind)]

    def adopt(self, found: Pretrained) -> Mapping[str, Any] | None:
        return adopt(found)

    def export_files(self, run: Run) -> ExportFiles:
        return export_files(run)

    def refine_start(self, settings: Settings, start: Run) -> Settings:
        """Images of the size that the model knows."""
        settings = super().refine_start(settings, start)
        if start.config.imported is None:
            return settings
        body = start.config.model or {}
        channels = "grey" if body["colours"] == 1 else "colour"
        data = replace(settings.data, size=body["size"], channels=channels)
        return replace(settings, data=data, model=replace(settings.model, size=body["size"]))

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        return prepare_job(settings, context)

    def describe(self, job: Job) -> str:
        info: ImagesInfo = job.info
        patch = getattr(job.model, "patch", None)
        side = f"{info.size} × {info.size} pixels" + ("" if patch is None else f" in patches of {patch}")
        splits = format_splits(info.train, info.validation, info.test)
        if info.numbers is None:
            classes = format_count(len(info.labels), "classes")
        else:
            classes = f"to predict: {info.numbers.name}"
        return describe_data(info.path, format_count(info.pictures, "images"), side, splits, classes)

    def next_command(self, run: Run) -> str:
        return f"regard predict {run.quoted} image.png"

    def take_inputs(self, given: Sequence[Any]) -> AbstractContextManager[Mapping[str, str]] | None:
        """Pillow's images, and arrays of bytes."""
        if given and all(map(is_array_or_pil, given)):
            return temporary_files(given)
        return None

    def expand_inputs(self, given: Sequence[str]) -> list[str]:
        return expand_inputs(given)

    def predict(self, run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
        return predict(run, inputs)

    def check_output(self, run: Run, inputs: Sequence[str], out: Output) -> None:
        images = list(paths_of(inputs, run.section(ImagesConfig, "data")))
        check_output([*inputs, *images], len(images), out)

    def draw(
        self, run: Run, inputs: Sequence[str], predictions: Iterator[Prediction], out: Output
    ) -> Iterator[Prediction]:
        return draw(run, paths_of(inputs, run.section(ImagesConfig, "data")), predictions, out)

    def other_split(
        self, run: Run, data: str, context: DataContext
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        return other_split(run, data, context)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return RunImageReader(run, model)

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        return foreign_reader(foreign)


RECIPE = ImagesRecipe()
