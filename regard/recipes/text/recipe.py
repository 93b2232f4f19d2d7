"""The recipe for text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from torch import nn

from regard.data.array import Array
from regard.data.cache import cache_folder
from regard.data.chat_template import FILE as CHAT_TEMPLATE
from regard.data.dialect import TableConfig
from regard.data.progress import Note
from regard.errors import RegardError
from regard.generation.generate import check_generates
from regard.generation.writer import Writer
from regard.look.reader import Reader
from regard.models.decoder import check_documents
from regard.models.encoder import EncoderConfig
from regard.pretrained.weights import Pretrained
from regard.recipes.base import ExportFiles, Recipe
from regard.recipes.describe import describe_data, format_count, format_splits
from regard.recipes.evaluation import Evaluation
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.problem import Problem
from regard.recipes.processors import ForeignModel
from regard.recipes.settings import Settings, read_settings
from regard.recipes.text.adopt import adopt
from regard.recipes.text.chat_job import load_template, other_chats, prepare_chat_job
from regard.recipes.text.chat_rows import looks_like_chats
from regard.recipes.text.config import ChatConfig, LabelledTextConfig
from regard.recipes.text.dataset import TextInfo, make_shards
from regard.recipes.text.defaults import (
    MODELS,
    TASKS,
    chat_defaults,
    data_section,
    is_chat,
    is_labelled,
    is_language_model,
    is_permutation,
    labelled_defaults,
    plain_defaults,
    settings_class_of,
)
from regard.recipes.text.embed import embed
from regard.recipes.text.evaluate_options import TextEvaluateOptions
from regard.recipes.text.export import export_files
from regard.recipes.text.fast_weights import load_to_write
from regard.recipes.text.foreign_reader import ForeignTextReader
from regard.recipes.text.generate import GenerateOptions, write
from regard.recipes.text.job import other_split, prepare_job, refuse_compiled_memory
from regard.recipes.text.labelled_text import LabelledText
from regard.recipes.text.many_texts import write_many
from regard.recipes.text.processor import TextsProcessor
from regard.recipes.text.reader import TextReader
from regard.recipes.text.run_reader import RunTextReader
from regard.recipes.text.shards import ShardOptions
from regard.recipes.text.tokenizer import attach_tokenizer
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.tasks import Task

LARGEST_LOSS = 700.0  # e to more than that is no float


class TextRecipe(Recipe):
    """Text: a language model, or a classifier (or regression) of texts with labels."""

    name = "text"
    title = "Text: a language model of plain text or conversations, or a classifier or regression of labelled text."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "a text file, a folder, a glob, a table with labels (.csv, .tsv, .jsonl, .parquet), or\n"
        "                conversations (.jsonl with messages, or with prompt and answer); default:\n"
        "                Python's own source (--data.text and --data.label name the columns of a table; see --data "
        "rows.csv --help)",
        "--model KIND": "decoder (causal LM), encoder (masked LM) or permutation (permutation LM, XLNet); a table with\n"
        "                labels trains an encoder as classifier;\n"
        "                lstm, gru or conv (without self-attention) for both;\n"
        "                additive (labelled only): evidence of each token, which sums to the logit",
        "--task TASK": "of plain text: next (the next token), masked, or permutation; it chooses the model unless --model\n"
        "                does",
    }
    examples = (
        "regard train text",
        "regard train text --data my.txt --out runs/mine --train.minutes 5",
        "regard train text --data reviews.csv",
        "regard train text --data my.txt --model lstm",
        "regard train text --data chats.jsonl --from runs/mine",
        "regard train text --data my.txt --model.memory 512",
        "regard train text --data my.txt --task permutation",
        "regard train text --data reviews.csv --data.label stars --data.asks numbers",
        "regard train text --data reviews.csv --model additive",
        "regard train text --data reviews.csv --data.test 0.2 --train.seeds 5",
    )
    models = MODELS
    tasks = TASKS
    bodies: ClassVar[Mapping[str, tuple[str, ...]]] = {"encoder": ("permutation",)}
    data_derived: ClassVar[Mapping[str, str]] = {
        "model.vocab": "",
        "model.context": "give --data.context",
        "model.classes": "",
        "model.outputs": "",
        "model.features": "",
        "model.contrast": "",
        "model.usual": "",
    }
    not_inherited = frozenset(
        {"vocab", "context", "classes", "outputs", "contrast", "pool", "bag", "dropout", "memory", "predicted", "lora"}
    )
    early_options = ("data.text", "data.label")  # whoever names these columns has a table with labels
    generate_options = GenerateOptions
    predict_options = TextEvaluateOptions
    reading_options = ("text", "label", "missing")

    labelled = LabelledText(
        processor=TextsProcessor, config=LabelledTextConfig, unit="rows", speed="tokens", controls=TextReader.controls
    )
    problems: ClassVar[Mapping[str, Problem]] = {labelled.name: labelled}

    def __init__(self, options: TextEvaluateOptions | None = None) -> None:
        self.options = TextEvaluateOptions() if options is None else options

    def with_options(self, options: Any) -> TextRecipe:
        return TextRecipe(options)

    def data_section(self, data: Any, kind: str | None = None, early: Mapping[str, Any] | None = None) -> Any:
        return data_section(data, kind, columns=bool(early))

    def problem_of(self, data: Any, kind: str | None) -> Problem | None:
        return self.labelled if isinstance(data, LabelledTextConfig) else None

    def choose_defaults(self, data: Any, examples: Examples | None, kind: str | None) -> Settings:
        if isinstance(data, LabelledTextConfig):
            return labelled_defaults(data, examples, kind)
        if isinstance(data, ChatConfig):
            return chat_defaults(data, examples, kind)
        return plain_defaults(data, examples, kind)

    def choose_kind(self, kind: str | None, task: str | None, data: Any = None) -> str | None:
        if task is not None and isinstance(data, str) and looks_like_chats(data):
            if task != "next":
                raise RegardError(
                    f"--task {task} is for plain text, and {data} holds conversations, whose answers are predicted; "
                    "leave it out"
                )
        elif task is not None and is_labelled(data):
            what = data if isinstance(data, str) else "the data"
            raise RegardError(
                f"--task {task} is for plain text, and {what} has labels, which are predicted; leave it out"
            )
        return super().choose_kind(kind, task)

    def settings_class(self, config: RunConfig) -> type[Settings]:
        if config.problem is not None:
            return super().settings_class(config)
        return settings_class_of(config)

    shard_options = ShardOptions

    def write_shards(self, options: Any, note: Note | None = None) -> str:
        about = make_shards(options, cache=cache_folder(), note=note)
        each = f"{about['bytes'] / about['tokens']:.2f} bytes a token"
        count = format_count(len(about["shards"]), "shards")
        return f"{options.out}: {about['tokens']:,} tokens in {count}, {each}"

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        if isinstance(settings.data, LabelledTextConfig):
            return super().prepare(settings, context)
        refuse_compiled_memory(settings)
        if isinstance(settings.data, ChatConfig):
            return prepare_chat_job(self.options.apply(settings), context)
        return prepare_job(self.options.apply(settings), context)

    def describe(self, job: Job) -> str:
        if job.problem is not None:
            return super().describe(job)
        info = job.info
        if isinstance(info, TextInfo):
            figures = [format_count(info.files, "files"), format_count(info.characters, "characters")]
        else:
            figures = [format_count(info.rows, "conversations"), f"{format_count(info.answers, 'tokens')} of answers"]
        splits = format_splits(info.train, info.validation, info.test)
        return describe_data(info.path, *figures, splits, f"tokens: {info.vocabulary:,} {info.kind}")

    def next_command(self, run: Run) -> str:
        if run.config.problem is not None:
            return super().next_command(run)
        if is_chat(run.config):
            return f'regard generate {run.quoted} --chat "..."'
        if is_language_model(run.config) or is_permutation(run.config):
            return f'regard generate {run.quoted} --prompt "..."'
        return f"regard train text --data labelled.csv --from {run.quoted}"

    def load(self, run: Run) -> nn.Module:
        """The model, with its tokenizer as `model.tokenizer`."""
        model: nn.Module = attach_tokenizer(run, load_model(run))
        return model

    def adopt(self, found: Pretrained) -> Mapping[str, Any] | None:
        return adopt(found)

    def export_files(self, run: Run) -> ExportFiles:
        return export_files(run)

    def refine_start(self, settings: Settings, start: Run) -> Settings:
        """No more places than a learned position has. A bag of words is for models that learn from nothing."""
        settings = super().refine_start(settings, start)
        body = start.config.model or {}
        if start.config.imported is None:
            return settings
        if body["position"] == "learned":
            context = min(settings.data.context, body["context"])
            settings = replace(settings, data=replace(settings.data, context=context))
        if not isinstance(settings.model, EncoderConfig):
            return settings
        # the pool of a sentence encoder is the mean, whatever its file brings along
        pool: Any = "mean" if body["head"] == "none" else body["pool"]
        return replace(settings, model=replace(settings.model, bag=False, pool=pool))

    def embed(
        self, run: Run, inputs: Sequence[str], column: str | None, tables: TableConfig, note: Callable[[str], None]
    ) -> tuple[list[str], Array]:
        return embed(run, inputs, column, tables, note)

    def predict(self, run: Run, inputs: Sequence[Any]) -> Iterator[Prediction]:
        if self.options.memory is not None:
            raise RegardError("--memory is for regard evaluate of a causal LM; leave it out")
        if run.config.problem is not None:
            return super().predict(run, inputs)
        instead = f", with --from {run.quoted} to start from this encoder"
        if is_language_model(run.config):
            instead = ", or use regard generate"
        raise RegardError(
            f"{run.path} is not a classifier; train a classifier on labelled text (.csv or .jsonl){instead}"
        )

    def evaluate(self, run: Run, data: str | None, context: DataContext) -> Evaluation:
        """Measures; for a causal LM also the perplexity, e^loss, for a permutation LM that from left to right."""
        if run.config.problem is not None:
            self.options.apply(read_settings(self.settings_class(run.config), run))
            return super().evaluate(run, data, context)
        if (run.config.model or {}).get("head") == "none":
            raise RegardError(f"{run.path} has no head: it predicts nothing that could be measured")
        found = super().evaluate(run, data, context)
        if is_permutation(run.config):
            return _with_perplexity(replace(found, unit="tokens, some of them predicted"), "loss in order")
        if not is_language_model(run.config):
            return replace(found, unit="tokens, some of them masked")
        return _with_perplexity(found, "loss")

    def other_split(self, run: Run, data: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
        if run.config.problem is not None:
            return super().other_split(run, data, context)
        settings = self.options.apply(read_settings(self.settings_class(run.config), run))
        if is_chat(run.config):
            check_documents(settings.model)
            return other_chats(run, data, context)
        return other_split(run, data, context, getattr(settings.model, "memory", 0))

    def generate(self, run: Run, options: Any, note: Callable[[str], None]) -> Iterator[str]:
        if options.prompts is not None:
            return write_many(self.open_writer(run, options.weights, note), options, note)
        _check_tokenizer(run)
        template = load_template(run) if options.chat else None
        return write(self.load_to_write(run, options.weights, note), options, note, template)

    def load_to_write(self, run: Run, weights: str, note: Callable[[str], None]) -> Any:
        model = load_to_write(run, weights, note, lambda: load_model(run))  # type: ignore[arg-type]
        return attach_tokenizer(run, model)

    def open_writer(self, run: Run, weights: str, note: Callable[[str], None]) -> Writer:
        _check_tokenizer(run)
        model = self.load_to_write(run, weights, note)
        check_generates(model)
        template = load_template(run) if (run.path / CHAT_TEMPLATE).exists() else None
        return Writer(model, model.tokenizer, template)

    def reader(self, run: Run, model: nn.Module) -> Reader:
        if run.config.problem is not None:
            return super().reader(run, model)
        return RunTextReader(run, model)

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        if foreign.text is None:
            return None
        return ForeignTextReader(foreign.text)


def _check_tokenizer(run: Run) -> None:
    if run.config.imported is not None and not run.tokenizer_file.exists():
        raise RegardError(
            f"{run.path} has no tokenizer, so it cannot read a prompt; import it again with a "
            f"tokenizer.json beside its config.json, or call the model on ids: regard.load(...)(ids)"
        )


def _with_perplexity(found: Evaluation, of: str) -> Evaluation:
    """The measures, and e to one of them."""
    loss = found.measures[of]
    if loss > LARGEST_LOSS:
        return found
    return replace(found, measures=found.measures | {of.replace("loss", "perplexity"): math.exp(loss)})


RECIPE = TextRecipe()
