"""The recipe for pairs of sequences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from regard.recipes.base import Recipe
from regard.recipes.example import Examples
from regard.recipes.problem import Problem
from regard.recipes.settings import Settings
from regard.recipes.translation.config import KINDS, PairsConfig, choose_defaults, data_section
from regard.recipes.translation.problem import Translate


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
    problems: ClassVar[Mapping[str, Problem]] = {Translate.name: Translate()}

    def data_section(self, data: Any, kind: str | None = None, given: Collection[str] = ()) -> PairsConfig:
        return data_section(data)

    def choose_defaults(self, data: PairsConfig, examples: Examples | None, kind: str | None) -> Settings:
        return choose_defaults(data, examples, kind)


RECIPE = TranslationRecipe()
