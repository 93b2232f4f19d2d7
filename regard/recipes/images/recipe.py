"""The recipe for images."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from torch import nn

from regard.errors import RegardError
from regard.look.reader import Reader
from regard.pretrained.weights import Pretrained
from regard.recipes.base import ExportFiles, Recipe
from regard.recipes.example import Example, Examples
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.defaults import MODELS, choose_defaults, data_section
from regard.recipes.images.draw import check_output, draw
from regard.recipes.images.foreign_reader import foreign_reader
from regard.recipes.images.processor import ImagesFitted, ImagesProcessor
from regard.recipes.images.reader import ImageReader, RunImageReader
from regard.recipes.job import DataContext, Job
from regard.recipes.predict import gather_inputs
from regard.recipes.prediction import Prediction
from regard.recipes.problem import Output, Problem
from regard.recipes.processors import ForeignModel
from regard.recipes.settings import Settings
from regard.recipes.supervised import Supervised
from regard.recipes.target import Target
from regard.runs.run import Run
from regard.training.config import TrainConfig

BILINEAR = 2  # the number of the filter, as pillow counts them


def export_files(processor: ImagesProcessor, path: str) -> ExportFiles:
    """preprocessor_config.json, and labels. path: of the run"""
    fitted, labels = processor.fitted, processor.target.labels
    if labels is None:
        raise RegardError(
            f"{path} predicts no single class, and Hugging Face's classifiers know nothing else; only one class of "
            "each image is exported"
        )
    side = {"height": fitted.size, "width": fitted.size}
    settings: dict[str, Any] = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": side,
        "resample": BILINEAR,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(fitted.mean),
        "image_std": list(fitted.deviation),
    }
    notes = []
    if fitted.fit == "crop":
        settings |= {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": fitted.size},
            "do_center_crop": True,
            "crop_size": side,
            "do_convert_rgb": fitted.channels == 3,
        }
    if fitted.fit == "pad":
        notes.append("their preprocessing stretches images to a square; this run filled them up with black")
    return ExportFiles(labels, {"preprocessor_config.json": settings}, tuple(notes))


def adopt(found: Pretrained) -> Mapping[str, Any] | None:
    """The sections of config.json; None: it reads no images, or has no classes."""
    if found.kind not in ("vit", "swin") or found.predicts != "classes":
        return None
    config, light = found.config, found.images or {}
    half = (0.5,) * config.colours
    data = ImagesConfig(size=config.size, channels="grey" if config.colours == 1 else "colour", fit="stretch")
    fitted = ImagesFitted(
        size=config.size,
        channels=config.colours,
        fit=data.fit,
        mean=light.get("mean", half),
        deviation=light.get("deviation", half),
    )
    processor = ImagesProcessor(data, fitted, Target(classes=found.labels))
    return {
        "problem": "supervised",
        "data": data,
        "train": TrainConfig(),
        "processor": processor.store(),
        "unit": "images",
    }


class SupervisedImages(Supervised):
    """Supervised learning whose pages show images beside others, and whose predictions are drawn."""

    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        job = super().prepare(settings, kind, context)
        return replace(job, notes=(*job.notes, *_explain_patches(job.model)))

    def describe(self, job: Job) -> str:
        patch = getattr(job.model, "patch", None)
        return super().describe(job) + ("" if patch is None else f", in patches of {patch} pixels")

    def next_command(self, run: Run) -> str:
        return f"regard predict {run.quoted} image.png"

    def check_output(self, run: Run, inputs: Sequence[Any], out: Output) -> None:
        names = [name for name, example in self._examples(run, inputs) if example is not None]
        paths = [each for each in (*inputs, *names) if isinstance(each, str)]
        check_output(paths, len(names), out)

    def draw(
        self, run: Run, inputs: Sequence[Any], predictions: Iterator[Prediction], out: Output
    ) -> Iterator[Prediction]:
        return draw(self.open(run), self.load(run), self._examples(run, inputs), predictions, out)

    def _examples(self, run: Run, inputs: Sequence[Any]) -> Iterator[tuple[str, Example | None]]:
        """The name of what each prediction is for, and the image; None: it has none."""
        processor = self.open(run)
        for given in gather_inputs(processor, inputs):
            try:
                examples = processor.read(given, want="use")
            except (ValueError, OSError):
                yield str(given), None
                continue
            for i in range(len(examples)):
                yield examples.names(i), None if i in examples.errors else examples[i]

    def open(self, run: Run) -> ImagesProcessor:
        found = super().open(run)
        assert isinstance(found, ImagesProcessor)
        return found

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return RunImageReader(self, run, model)


class ImagesRecipe(Recipe):
    """Images: a classifier, or a regression of a number."""

    name = "images"
    title = "Images: a folder of images, idx files, arrays or a table of paths, and seven kinds of classifiers."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "one folder of images a class, idx files, .npz, a table of paths; without it: scikit-learn's digits",
        "--model KIND": "resnet9 (the default: 74 % of CIFAR-10 after a minute of one core, vit 53 %), vit, swin,\n"
        "                lenet, resnet, densenet or groupcnn (equivariant to quarter turns)",
    }
    examples = (
        "regard train images",
        "regard train images --data photos --data.size 96 --data.augment.flip --train.minutes 20",
        "regard train images --data mnist --model lenet",
        "regard train images --data photos.csv --data.image path --data.label kind --data.class-weights auto",
        "regard train images --data faces.csv --data.label age --data.asks numbers",
    )
    models = tuple(MODELS)
    reading_options = ("image", "label", "damaged")
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.classes": "",
        "model.colours": "give --data.channels",
        "model.size": "give --data.size",
    }
    not_inherited = frozenset({"classes", "colours", "size", "dropout", "drop_path"})
    supervised = SupervisedImages(
        processor=ImagesProcessor,
        config=ImagesConfig,
        unit="images",
        speed="images",
        views=ImageReader.views,
        controls=ImageReader.controls,
    )
    problems: ClassVar[Mapping[str, Problem]] = {supervised.name: supervised}

    def data_section(self, data: Any, kind: str | None = None, given: Collection[str] = ()) -> ImagesConfig:
        return data_section(data)

    def choose_defaults(self, data: ImagesConfig, examples: Examples | None, kind: str | None) -> Settings:
        return choose_defaults(data, examples, kind)

    def adopt(self, found: Pretrained) -> Mapping[str, Any] | None:
        return adopt(found)

    def export_files(self, run: Run) -> ExportFiles:
        return export_files(self.supervised.open(run), str(run.path))

    def refine_start(self, settings: Settings, start: Run) -> Settings:
        """Images of the size that the model knows."""
        settings = super().refine_start(settings, start)
        if start.config.imported is None:
            return settings
        body = start.config.model or {}
        channels = "grey" if body["colours"] == 1 else "colour"
        data = replace(settings.data, size=body["size"], channels=channels)
        return replace(settings, data=data, model=replace(settings.model, size=body["size"]))

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        return foreign_reader(foreign)


def _explain_patches(config: Any) -> tuple[str, ...]:
    """What a model of patches does with images that are no whole number of patches wide."""
    patch = getattr(config, "patch", None)
    if patch is None or config.size % patch == 0:
        return ()
    less, more = (config.size // patch * patch, -(-config.size // patch) * patch)
    sizes = f"{less} or {more}" if less else str(more)
    return (
        f"patches of {patch} pixels do not divide images of {config.size}: the last ones are filled up with "
        f"{-config.size % patch} pixels of zeros. With --data.size {sizes} --model.patch {patch} they fit",
    )


RECIPE = ImagesRecipe()
