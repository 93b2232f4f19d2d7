"""The recipe for text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from regard.data.cache import cache_folder
from regard.data.progress import Note
from regard.errors import RegardError
from regard.look.reader import Reader
from regard.models.encoder import EncoderConfig
from regard.pretrained.weights import Pretrained
from regard.recipes.base import ExportFiles, Recipe
from regard.recipes.describe import format_count
from regard.recipes.example import Examples
from regard.recipes.problem import Problem
from regard.recipes.processors import ForeignModel
from regard.recipes.settings import Settings
from regard.recipes.text.chat import Chat
from regard.recipes.text.chats import looks_like_chats
from regard.recipes.text.config import LabelledTextConfig
from regard.recipes.text.dataset import make_shards
from regard.recipes.text.defaults import DEFAULTS, MODELS, TASKS, data_section, is_labelled
from regard.recipes.text.labelled_text import LabelledText
from regard.recipes.text.language_model import LanguageModel, MaskedLM, PermutationLM
from regard.recipes.text.pretrained import adopt, export_files
from regard.recipes.text.processor import TextsProcessor
from regard.recipes.text.reader import ForeignTextReader, TextReader
from regard.recipes.text.shards import ShardOptions
from regard.runs.run import Run


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
    reading_options = ("text", "label", "missing")

    problems: ClassVar[Mapping[str, Problem]] = {
        each.name: each
        for each in (
            LanguageModel(),
            MaskedLM(),
            PermutationLM(),
            Chat(),
            LabelledText(
                processor=TextsProcessor,
                config=LabelledTextConfig,
                unit="rows",
                speed="tokens",
                controls=TextReader.controls,
            ),
        )
    }

    def data_section(self, data: Any, kind: str | None = None, given: Collection[str] = ()) -> Any:
        return data_section(data, kind, columns=not {"data.text", "data.label"}.isdisjoint(given))

    def problem_of(self, data: Any, kind: str | None) -> Problem:
        """What the data says; of plain text, what this kind of model learns."""
        found = [each for each in self.problems.values() if each.config is type(data)]
        if len(found) == 1:
            return found[0]
        return self.problems[next(task for task, kinds in TASKS.items() if (kind or "decoder") in kinds)]

    def choose_defaults(self, data: Any, examples: Examples | None, kind: str | None) -> Settings:
        return DEFAULTS[type(data)](data, examples, kind)

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

    shard_options = ShardOptions

    def write_shards(self, options: Any, note: Note | None = None) -> str:
        about = make_shards(options, cache=cache_folder(), note=note)
        each = f"{about['bytes'] / about['tokens']:.2f} bytes a token"
        count = format_count(len(about["shards"]), "shards")
        return f"{options.out}: {about['tokens']:,} tokens in {count}, {each}"

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

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        return None if foreign.text is None else ForeignTextReader(foreign.text)


RECIPE = TextRecipe()
