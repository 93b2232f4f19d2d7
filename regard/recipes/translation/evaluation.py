"""Evaluation of translations: measures of a whole split, and what single ones look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from regard.data.array import Array
from regard.models.seq2seq import Seq2Seq
from regard.recipes.describe import format_count
from regard.recipes.evaluation import Evaluation, evaluate_split
from regard.recipes.job import Split
from regard.recipes.translation.dataset import Corpus
from regard.recipes.translation.measures import MISSING, Score, has_sacrebleu, score_each, score_translations
from regard.recipes.translation.search import SearchOptions, translate
from regard.runs.number_format import say_number, say_percent
from regard.training.tasks import Task

SHOWN = 5  # translations of a kind that are printed
EXACT = "exact"  # share of translations that are their references, letter by letter


class Shown(NamedTuple):
    """A translation beside its reference. chrf: None without sacrebleu"""

    source: str
    translation: str
    reference: str
    chrf: float | None = None

    def format(self) -> str:
        return f"  {self.source}\n    = {self.translation}\n    ~ {self.reference}"


@dataclass(frozen=True, eq=False, kw_only=True)
class TranslationEvaluation(Evaluation):
    """Measures of translations, with some of them."""

    beams: int
    signatures: Mapping[str, str] = field(default_factory=dict)  # of sacrebleu, by measure
    shown: Mapping[str, tuple[Shown, ...]] = field(default_factory=dict)  # heading -> translations

    def to_json(self) -> dict[str, Any]:
        shown = {title: [each._asdict() for each in some] for title, some in self.shown.items()}
        return super().to_json() | {"beams": self.beams, "signatures": dict(self.signatures), "translations": shown}

    def format(self) -> str:
        """The measures, how they were computed, and some translations."""
        return "\n".join([super().format(), *self._lines()])

    def details(self) -> str:
        """The measures of whole translations, and some of them."""
        figures = [f"exactly right {say_percent(self.measures[EXACT])}"]
        named = [name for name in self.signatures if name in self.measures]
        figures += [f"{name} {say_number(self.measures[name])}" for name in named]
        return "\n".join([f"{self.split}, {format_count(self.beams, 'beams')}: {'  '.join(figures)}", *self._lines()])

    def _lines(self) -> list[str]:
        """How the measures were computed, and translations under their headings."""
        lines = [f"  {name}: {signature}" for name, signature in self.signatures.items()]
        for title, some in self.shown.items():
            lines += [f"{title}:", *(each.format() for each in some)]
        return lines


def evaluate_pairs(
    model: nn.Module,
    task: Task,
    corpus: Corpus,
    split: Split,
    rows: Array,
    options: SearchOptions,
    *,
    others: Sequence[Seq2Seq] = (),
    most: int | None = None,
    all: bool = False,
) -> TranslationEvaluation:
    """Loss and accuracy of each next token, then whole translations against their references.

    rows: numbers of the pairs of the split   others: models of an ensemble
    most: pairs that are translated, None: all   all: all measures, the worst and the best
    """
    assert isinstance(model, Seq2Seq)
    plain = evaluate_split(model, task, split)
    notes = plain.notes
    if most is not None and len(rows) > most:
        notes = (*notes, f"{most:,} of the {len(rows):,} pairs of the {split.name} split were translated")
        rows = rows[np.linspace(0, len(rows) - 1, most).astype(int)]
    sources = [corpus.sources[row] for row in rows]
    found = translate([model, *others], corpus.vocabulary, sources, options, corpus.info.ratio)
    texts = [several[0].text for several in found]
    pairs = [corpus.texts[row] for row in rows]
    references = [pair.target for pair in pairs]
    exact = float(np.mean([text == reference for text, reference in zip(texts, references, strict=True)]))
    scores: dict[str, Score] = {}
    each: list[float] | None = None
    if has_sacrebleu():
        scores = score_translations(texts, references, all=all)
        each = score_each(texts, references) if all else None
    else:
        notes = (*notes, MISSING)
    none: list[float | None] = [None] * len(texts)
    made = zip(pairs, texts, each or none, strict=True)
    shown = [Shown(pair.source, text, pair.target, chrf) for pair, text, chrf in made]
    return TranslationEvaluation(
        split=plain.split,
        count=plain.count,
        unit=plain.unit,
        measures=plain.measures | {EXACT: exact} | {name: score.value for name, score in scores.items()},
        notes=notes,
        beams=options.beams,
        signatures={name: score.signature for name, score in scores.items()},
        shown=_choose(shown),
    )


def _choose(shown: Sequence[Shown]) -> dict[str, tuple[Shown, ...]]:
    """Some, taken evenly; of those with a chrF the worst and the best."""
    if all(each.chrf is None for each in shown):
        places = np.linspace(0, len(shown) - 1, min(SHOWN, len(shown))).astype(int)
        return {"some translations (= the model, ~ the reference)": tuple(shown[i] for i in places)}
    order = sorted(shown, key=lambda each: each.chrf or 0.0)
    few = min(SHOWN, len(order) // 2)
    worst = "worst by chrF (= the model, ~ the reference)"
    if not few:
        return {worst: tuple(order)}
    return {worst: tuple(order[:few]), "best by chrF": tuple(order[::-1][:few])}
