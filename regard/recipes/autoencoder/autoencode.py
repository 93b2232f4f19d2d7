"""What an autoencoder does: to learn codes, and to use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.splits import NOWHERE, TEST, TRAIN, VALIDATION, complete_splits, note_missing
from regard.errors import RegardError
from regard.look.reader import Reader
from regard.recipes.autoencoder.cloud_inputs import CloudInputs
from regard.recipes.autoencoder.config import InputsConfig
from regard.recipes.autoencoder.evaluation import CodeEvaluation, evaluate_codes
from regard.recipes.autoencoder.generate import GenerateOptions, generate
from regard.recipes.autoencoder.image_inputs import ImageInputs
from regard.recipes.autoencoder.pictures import write_pictures
from regard.recipes.autoencoder.predict import (
    CodeOptions,
    Reconstruction,
    check_codes_file,
    check_output,
    draw,
    write_codes,
)
from regard.recipes.autoencoder.processor import InputsProcessor, find_form, number_labels
from regard.recipes.autoencoder.reader import InputReader
from regard.recipes.autoencoder.row_inputs import RowInputs
from regard.recipes.autoencoder.task import Reconstruct
from regard.recipes.dataset import Dataset, Encodings
from regard.recipes.describe import describe_data, format_count, format_splits, singular
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.predict import predict
from regard.recipes.prediction import Prediction
from regard.recipes.prepare import judge_splits
from regard.recipes.problem import Output, Problem
from regard.recipes.processor import Processor
from regard.recipes.settings import Settings
from regard.runs.run import Run
from regard.training.config import TrainConfig
from regard.training.tasks import Task

FORMS: dict[str, type[InputsProcessor[Any]]] = {each.form: each for each in (ImageInputs, RowInputs, CloudInputs)}
CHECKED = 256  # inputs that tell whether the likelihood suits them
ONE_OF_EACH = (
    "every class has one training image, so there is no validation split, and nothing tells how good the model is"
)


class Autoencode(Problem):
    """Inputs through a small code and back."""

    name = "autoencode"
    config = InputsConfig
    options: ClassVar[type[Any] | None] = CodeOptions
    generate_options: ClassVar[type[Any] | None] = GenerateOptions

    # ── training

    def read(self, config: InputsConfig, given: Any = None) -> Examples:
        data = config.path if given is None else given
        return FORMS[find_form(data, config)](config).read(data, want="learn")

    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        config, train = settings.data, settings.train
        note = context.note or (lambda what, share: None)
        examples = context.examples
        if examples is None:
            note("reading", None)
            examples = self.read(config, context.given)
        processor = FORMS[examples.about["form"]](config)
        processor = processor.fit(examples, np.arange(len(examples)), settings.model, None)
        encodings = Encodings(examples, processor, processor.keep(examples))
        encodings.prepare(context.cache, note)
        on_errors = processor.leave_out(encodings.errors) if encodings.errors else ()

        splits, on_splits = _draw_splits(examples, encodings, config, config.seed_of(train.seed), processor.unit)
        _, classes = number_labels(examples)
        learned = np.flatnonzero(splits == TRAIN)
        if len(learned) < 2:
            raise RegardError(f"{examples.what} has {len(learned)} {processor.unit} to train on; give at least two")
        processor, on_measured = processor.measure(encodings, learned, classes)
        encodings.processor = processor
        dataset = Dataset(examples, processor, classes, splits, encodings, train.batch, train.seed)
        model = processor.model_config(settings.model)
        check_likelihood(dataset, model)

        counts = {name: len(dataset.units(name)) for name in ("train", "validation", "test")}
        task = Reconstruct(processor, getattr(model, "warmup", 0))
        unit = processor.unit
        test = Split(name="test", count=counts["test"], unit=unit, batches=lambda: dataset.of("test"))
        notes = (*examples.notes, *on_splits, *on_errors, *on_measured, *processor.notes(examples, learned))
        return Job(
            kind=kind,
            model=model,
            task=task,
            source=dataset,
            processor=processor,
            counts=counts,
            source_name=examples.what,
            unit=unit,
            examples=unit,
            notes=notes,
            validation=counts["validation"],
            test=test if counts["test"] else None,
            rows=dataset.units,
            evaluate=lambda model, split: evaluate_codes(model, task, split),
        )

    def describe(self, job: Job) -> str:
        processor, counts = job.processor, job.counts
        count = format_count(sum(counts.values()), processor.unit)
        shape = " × ".join(map(str, processor.shape))
        return describe_data(job.source_name, count, shape, format_splits(**counts), f"codes of {job.model.latent}")

    def next_command(self, run: Run) -> str:
        return f"regard generate {run.quoted} --count 64 --out {self.open(run).example_file}"

    def finish(self, run: Run, job: Job, model: nn.Module) -> None:
        assert isinstance(job.source, Dataset)
        write_pictures(run, job.processor, job.source, model)

    # ── using a run

    def open(self, run: Run) -> InputsProcessor[Any]:
        """The processor of a run."""
        form = (run.config.processor or {}).get("form")
        if form not in FORMS:
            raise RegardError(f"{run.path / 'config.json'} does not say what the inputs are; train it again")
        return FORMS[form](run.section(InputsConfig, "data")).restore(run)

    def predict(self, run: Run, inputs: Sequence[Any], options: CodeOptions | None = None) -> Iterator[Prediction]:
        """Each input given back; what cannot be read has an error instead. Codes are written after the last."""
        out = None if options is None else options.codes
        if out is not None:
            check_codes_file(out, inputs)
        found = predict(self, run, inputs)
        return found if out is None else write_codes(found, Path(out))

    def decode(self, processor: Processor[Any, Any], name: str, out: Any, cell: Any) -> Reconstruction:
        """The answer of the processor for one input as a prediction."""
        assert isinstance(processor, InputsProcessor)
        given, code, made, error = out
        values = {"RMSE": float(error)}
        if processor.columns:
            values |= dict(zip(processor.columns, processor.in_units(made).tolist(), strict=True))
        return Reconstruction(input=name, values=values, code=tuple(code.tolist()), made=made, given=given)

    def evaluate(self, run: Run, data: Any, context: DataContext, options: CodeOptions | None = None) -> CodeEvaluation:
        samples = CodeOptions().samples if options is None else options.samples
        model = self.load(run)
        if data is not None:
            task, split, _ = self.read_other(run, data, context)
        else:
            job = self.prepare_again(run, context)
            task, split = job.task, job.best_split
        assert isinstance(task, Reconstruct)
        return evaluate_codes(model, task, split, samples)

    def read_other(
        self, run: Run, data: Any, context: DataContext, options: Any = None
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        """Other inputs: those for testing, or all where nothing says so."""
        processor = self.open(run)
        form = find_form(data, processor.config)
        if form != processor.form:
            raise RegardError(f"{data} holds {form}, and the run was trained on {processor.form}; give these")
        examples = processor.read(data, want="judge")
        encodings = Encodings(examples, processor, processor.keep(examples))
        encodings.prepare(context.cache, context.note or (lambda what, share: None))
        known = ~np.isin(np.arange(len(examples)), list(encodings.errors))
        splits, size = judge_splits(examples, known), run.section(TrainConfig, "train").batch
        dataset = Dataset(examples, processor, np.zeros(len(examples)), splits, encodings, size, 0)
        split = Split(
            name=str(data),
            count=len(dataset.units("test")),
            unit=processor.unit,
            batches=lambda: dataset.of("test"),
            rows=lambda: dataset.units("test"),
            notes=(*examples.notes, *(processor.leave_out(encodings.errors) if encodings.errors else ())),
        )
        return Reconstruct(processor), split, None

    def check_output(self, run: Run, inputs: Sequence[Any], out: Output) -> None:
        check_output(self.open(run), inputs, out)

    def draw(
        self, run: Run, inputs: Sequence[Any], predictions: Iterator[Prediction], out: Output
    ) -> Iterator[Prediction]:
        return draw(self.open(run), predictions, out)

    def generate(self, run: Run, options: GenerateOptions, note: Callable[[str], None]) -> Iterator[str]:
        return generate(run, self.open(run), options, note)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return InputReader(self, run, model)


def _draw_splits(
    examples: Examples, encodings: Encodings, config: InputsConfig, seed: int, unit: str
) -> tuple[Any, tuple[str, ...]]:
    """The split of each input that can be read, of each label the same share, and notes on it."""
    rows = np.array([i for i in examples.readable() if i not in encodings.errors], dtype=np.int64)
    own = np.zeros(len(rows), dtype=np.uint8) if examples.splits is None else examples.splits[rows]
    labels, classes = number_labels(examples)
    known = np.unique(classes[rows])
    labels, classes = tuple(labels[i] for i in known) if labels else (), np.searchsorted(known, classes[rows])
    of_images = examples.about["form"] == "images"
    strata = classes if labels or of_images else None  # (images without labels are all of one class)
    found = complete_splits(own, config, seed, what=examples.what, unit=unit, classes=strata, names=labels or ("",))
    notes: tuple[str, ...] = ()
    if of_images and config.validation and not (found == VALIDATION).any():
        notes = (ONE_OF_EACH,)
    if not (own == TEST).any():
        notes += note_missing(found, classes, labels, singular(unit))
    splits = np.full(len(examples), NOWHERE, dtype=np.uint8)
    splits[rows] = found
    return splits, notes


def check_likelihood(dataset: Dataset, model: Any) -> None:
    """Raise if the likelihood does not suit the numbers. model: its config"""
    processor, what = dataset.processor, dataset.examples.what
    assert isinstance(processor, InputsProcessor)
    form, binarise = processor.form, processor.config.binarise
    if model.likelihood == "discretised" and form != "images":
        raise RegardError(
            f"the likelihood discretised is of bytes, and {what} holds {form} of real numbers; use "
            "--model.likelihood gaussian"
        )
    if form != "images" and binarise != "none":
        raise RegardError(f"binarise is for images, and {what} holds {form}; leave --data.binarise out")
    if model.likelihood != "bernoulli" and binarise != "none":
        raise RegardError(
            f"with --data.binarise {binarise} pixels are 0 or 1, got --model.likelihood {model.likelihood}; use bernoulli"
        )
    odd = None
    if model.likelihood == "bernoulli" and binarise == "none":
        odd = _find_not_binary(processor, dataset)
    if odd is None:
        return
    ways = "--model.likelihood gaussian"
    if form == "images":
        ways = "--data.binarise dynamic (or threshold), or --model.likelihood discretised"
    raise RegardError(
        f"the likelihood bernoulli is of zeros and ones, and {what} has numbers such as {odd:.3g}; use {ways}"
    )


def _find_not_binary(processor: InputsProcessor[Any], dataset: Dataset) -> float | None:
    """A number that is neither 0 nor 1, in the units of the data; None: there is none."""
    rows = dataset.units("train")
    x: Tensor = processor.numbers(dataset.take(rows[:: max(1, len(rows) // CHECKED)])["x"])
    odd = (x != 0) & (x != 1)
    return float(processor.in_units(x)[odd][0]) if torch.any(odd) else None
