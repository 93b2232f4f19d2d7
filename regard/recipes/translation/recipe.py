"""The recipe for pairs of sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from regard.data.splits import SPLITS, TEST
from regard.look.reader import Reader
from regard.recipes.base import Recipe
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.evaluation import Evaluation
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.problem import Output
from regard.recipes.same_data import check_same_data
from regard.recipes.settings import Settings, read_settings
from regard.recipes.translation.defaults import KINDS, defaults, settings_class_of
from regard.recipes.translation.evaluation import evaluate_pairs
from regard.recipes.translation.job import make_job, other_corpus, prepare_job, read_corpus, split_of
from regard.recipes.translation.predict import check_lines_file, load_models, predict, write_lines
from regard.recipes.translation.run_reader import RunPairReader
from regard.recipes.translation.search import SearchOptions
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.tasks import Task


class TranslationRecipe(Recipe):
    """Pairs of sequences: a translator of sentences, or of anything written."""

    name = "translation"
    title = "Translation: an encoder-decoder of pairs of sentences, or of anything written in two ways."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "a table with two columns (.tsv, .csv, .jsonl, .parquet; --data.source and --data.target name\n"
        "                them), a folder with train.en, train.de, val.*, test.* (gzip too), or a file and the one\n"
        "                beside it (--data.beside); dates (default: dates in 12 languages) or reverse: made pairs",
        "--model KIND": "transformer (default; lstm for reverse), lstm or gru (--model.score dot, general, additive or\n"
        "                none), conv",
    }
    examples = (
        "regard train translation",
        "regard train translation --data reverse --model lstm",
        "regard train translation --data pairs.tsv --out runs/mine --train.minutes 15",
        "regard train translation --data multi30k --data.source en --data.target de",
        "regard train translation --data train.en --data.beside train.de",
    )
    models = tuple(KINDS.values())
    aliases = KINDS
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.vocab": "",
        "model.source_vocab": "",
        "model.context": "give --data.context",
        "model.shared": "give --data.vocabularies",
    }
    not_inherited = frozenset({"vocab", "source_vocab", "context", "shared", "dropout"})
    reading_options = ("source", "target", "beside")
    predict_options = SearchOptions

    def __init__(self, search: SearchOptions | None = None) -> None:
        self.search = SearchOptions() if search is None else search

    def with_options(self, options: Any) -> TranslationRecipe:
        return TranslationRecipe(options)

    def defaults(self, data: Any = None, model: str | None = None, early: Mapping[str, Any] | None = None) -> Settings:
        return defaults(data, model)

    def settings_class(self, config: RunConfig) -> type[Settings]:
        return settings_class_of(config)

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        return prepare_job(settings, context)

    def describe(self, job: Job) -> str:
        info = job.info
        tokens = f"tokens: {info.vocabulary:,} {info.kind}"
        if info.source_vocabulary != info.vocabulary:
            tokens = f"tokens: {info.source_vocabulary:,} and {info.vocabulary:,} {info.kind}"
        sides = None if info.source == "source" else f"{info.source} → {info.target}"
        splits = format_splits(info.train, info.validation, info.test)
        return describe_data(info.path, format_count(info.pairs, "pairs"), sides, splits, tokens)

    def next_command(self, run: Run) -> str:
        return f'regard predict {run.quoted} "..."'

    def predict(self, run: Run, inputs: Sequence[str]) -> Iterator[Prediction]:
        return predict(run, inputs, self.search)

    def check_output(self, run: Run, inputs: Sequence[str], out: Output) -> None:
        check_lines_file(out, inputs)

    def draw(
        self, run: Run, inputs: Sequence[str], predictions: Iterator[Prediction], out: Output
    ) -> Iterator[Prediction]:
        """A line of text for each input."""
        return write_lines(predictions, out)

    def evaluate(self, run: Run, data: str | None, context: DataContext) -> Evaluation:
        """Measures of each next token, and of whole translations by beam search."""
        (model, *others), _ = load_models(run, self.search)
        how: dict[str, Any] = {"others": others, "all": True}
        if data is not None:
            corpus = other_corpus(run, data)
            task, split = split_of(run, corpus, data)
            return evaluate_pairs(model, task, corpus, split, corpus.rows(TEST), self.search, **how)
        settings = read_settings(self.settings_class(run.config), run)
        corpus = read_corpus(settings.data, settings.train, context)
        job = make_job(settings, corpus)
        check_same_data(run, job, "Give the data to evaluate on with --data")
        split = job.best_split
        rows = corpus.rows(SPLITS[split.name])
        return evaluate_pairs(model, job.task, corpus, split, rows, self.search, **how)

    def other_split(self, run: Run, data: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
        task, split = split_of(run, other_corpus(run, data), data)
        return task, split, None

    def reader(self, run: Run, model: nn.Module) -> Reader:
        return RunPairReader(run, model)


RECIPE = TranslationRecipe()
