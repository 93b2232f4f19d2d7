"""Classes or numbers of texts, as a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from regard.data.array import Array
from regard.data.dialect import TableConfig
from regard.errors import RegardError
from regard.look.model_input import ModelInput
from regard.look.reader import GONE, Reader
from regard.models.attentions import note_attention
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.settings import Settings
from regard.recipes.supervised import Supervised
from regard.recipes.supervised_reader import SupervisedReader
from regard.recipes.text.config import TextEvaluateOptions
from regard.recipes.text.defaults import is_labelled
from regard.recipes.text.embed import embed
from regard.recipes.text.processor import TextsFitted, TextsProcessor
from regard.recipes.text.reader import move_tokens
from regard.recipes.text.tokenizer import attach_tokenizer, fit_sizes, inherit_tokenizer
from regard.runs.run import Run
from regard.training.tasks import Task

HELD_OUT = "This text is from the data and was held out from training; --input shows one of yours."
OF_THE_DATA = "This text is from the data, and the model may have learned from it; --input shows one of yours."


@dataclass(frozen=True, kw_only=True)
class LabelledText(Supervised):
    """Supervised learning with the tokenizer and the tables of the run that it starts from."""

    def read(self, config: Any, given: Any = None) -> Examples:
        if given is None and not is_labelled(config.path):
            raise RegardError(
                "an additive model predicts the label of a text, and plain text has none; give a table of texts and "
                "labels, such as --data reviews.csv"
            )
        return super().read(config, given)

    def inherit(self, start: Run | None, config: Any) -> TextsProcessor | None:
        tokenizer = inherit_tokenizer(start, config)
        if tokenizer is None:
            return None
        return TextsProcessor(config, TextsFitted.of(tokenizer))

    def prepare(self, settings: Settings, kind: str, context: DataContext) -> Job:
        job = super().prepare(settings, kind, context)
        model = job.model
        if kind == "encoder":
            model = fit_sizes(model, model.vocab, model.context, context.old)
        return replace(job, model=model, notes=(*job.notes, *note_attention(model, settings.data.context)))

    def describe(self, job: Job) -> str:
        return f"{super().describe(job)}, {job.processor.fitted.describe()}"

    def settings_of(self, run: Run, options: TextEvaluateOptions | None = None) -> Settings:
        settings = super().settings_of(run)
        return settings if options is None else options.apply(settings)

    def predict(
        self, run: Run, inputs: Sequence[Any], options: TextEvaluateOptions | None = None
    ) -> Iterator[Prediction]:
        self.settings_of(run, options)
        return super().predict(run, inputs)

    def read_other(
        self, run: Run, data: Any, context: DataContext, options: TextEvaluateOptions | None = None
    ) -> tuple[Task, Split, tuple[str, ...] | None]:
        self.settings_of(run, options)
        return super().read_other(run, data, context)

    def next_command(self, run: Run) -> str:
        return f'regard predict {run.quoted} "..."'

    def load(self, run: Run) -> nn.Module:
        return attach_tokenizer(run, super().load(run))

    def embed(
        self, run: Run, inputs: Sequence[str], column: str | None, tables: TableConfig, note: Callable[[str], None]
    ) -> tuple[list[str], Array]:
        return embed(run, inputs, column, tables, note)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return LabelledTextReader(self, run, model)


class LabelledTextReader(SupervisedReader):
    """The user can move the tokens of a text."""

    def change(self, given: ModelInput, values: Mapping[str, Any]) -> ModelInput:
        return move_tokens(given, values)

    def _of_the_run(self) -> ModelInput:
        """With a note that says whether the model may have learned from the text that is shown."""
        found = super()._of_the_run()
        if GONE in found.notes:
            return found
        return replace(found, notes=(*found.notes, OF_THE_DATA if self._kept() is None else HELD_OUT))

    def _of_data(self, name: str | None) -> ModelInput:
        if not (self.run.config.train or {}).get("examples", True):
            raise FileNotFoundError(f"{self.run.path} was asked to keep no examples, so none is shown")
        return super()._of_data(name)
