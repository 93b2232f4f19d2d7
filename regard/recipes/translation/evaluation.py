"""How good translations are: BLEU, chrF and TER, all by sacrebleu, which says how in a signature; the share that is
exactly right; and what single ones look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from regard.data.array import Array
from regard.models.seq2seq import Seq2Seq
from regard.recipes.describe import format_count
from regard.recipes.evaluation import Evaluation, evaluate_split
from regard.recipes.job import Split
from regard.recipes.translation.pairs import pair_of
from regard.recipes.translation.search import SearchOptions, translate
from regard.recipes.translation.source import PairSource, take_evenly
from regard.runs.number_format import say_measure
from regard.training.tasks import Task

SHOWN = 5  # translations of a kind that are printed
EXACT = "exact"  # share of translations that are their references, letter by letter
BLEU = "BLEU"
NGRAM = 4  # words in a row that BLEU counts at most
PERFECT = 99.9
MISSING = (
    "BLEU, chrF and TER are computed by the package sacrebleu, which is not installed; use "
    "pip install 'regard[translate]'"
)


# ── measures


def import_sacrebleu() -> Any:
    """Its metrics, or one line that says how to install it."""
    try:
        from sacrebleu import metrics  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError(MISSING) from error
    return metrics


def has_sacrebleu() -> bool:
    try:
        import_sacrebleu()
    except ImportError:
        return False
    return True


class Score(NamedTuple):
    """A measure and how it was computed, as sacrebleu says it; it says nothing of exact ones."""

    value: float
    signature: str | None = None


def score_translations(
    translations: Sequence[str], references: Sequence[str], *, all: bool = False
) -> dict[str, Score]:
    """The measures of whole translations, the first the one to tell first: BLEU, the share that is exact, chrF; with `all`
    also in lower case, and TER. There is no BLEU where no reference has four words: it would be 0 for perfect
    translations, too. Without sacrebleu only the share that is exact."""
    right = [text == reference for text, reference in zip(translations, references, strict=True)]
    exact = {EXACT: Score(float(np.mean(right)))}
    if not has_sacrebleu():
        return exact
    metrics = import_sacrebleu()
    wanted: dict[str, Any] = {BLEU: metrics.BLEU(), "chrF": metrics.CHRF()}
    if all:
        wanted |= {
            "TER": metrics.TER(case_sensitive=True),
            "BLEU lower-cased": metrics.BLEU(lowercase=True),
            "chrF lower-cased": metrics.CHRF(lowercase=True),
            "TER lower-cased": metrics.TER(),
        }
    if not has_bleu(references):
        wanted = {name: metric for name, metric in wanted.items() if not name.startswith(BLEU)}
    found: dict[str, Score] = {}
    for name, metric in wanted.items():
        value = metric.corpus_score(list(translations), [list(references)]).score
        found[name] = Score(float(value), str(metric.get_signature()))
    first = {BLEU: found.pop(BLEU)} if BLEU in found else {}
    return first | exact | found


def has_bleu(references: Sequence[str]) -> bool:
    """Would references get a BLEU of 100 against themselves?"""
    metrics = import_sacrebleu()
    if any(len(reference.split()) >= NGRAM for reference in references):
        return True
    return float(metrics.BLEU().corpus_score(list(references), [list(references)]).score) > PERFECT


def score_each(translations: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF of each sentence: BLEU of one sentence says little."""
    metric = import_sacrebleu().CHRF()
    pairs = zip(translations, references, strict=True)
    return [float(metric.sentence_score(translation, [reference]).score) for translation, reference in pairs]


# ── a split


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
        figures = [
            say_measure(name, self.measures[name]) for name in self.measures if name in (EXACT, *self.signatures)
        ]
        return "\n".join([f"{self.split}, {format_count(self.beams, 'beams')}: {'  '.join(figures)}", *self._lines()])

    def _lines(self) -> list[str]:
        """How the measures were computed, and translations under their headings."""
        lines = [f"  {name}: {signature}" for name, signature in self.signatures.items()]
        for title, some in self.shown.items():
            lines += [f"{title}:", *(each.format() for each in some)]
        return lines


def evaluate_pairs(
    models: Sequence[Seq2Seq],
    task: Task,
    source: PairSource,
    split: Split,
    rows: Array,
    options: SearchOptions,
    *,
    most: int | None = None,
    all: bool = False,
) -> TranslationEvaluation:
    """Measures of whole translations against their references, then the loss and the accuracy of each next token.

    models: those after the first are an ensemble with it   rows: numbers of the pairs of the split
    most: pairs that are translated, None: all   all: all measures, the worst and the best
    """
    plain = evaluate_split(models[0], task, split)
    notes = plain.notes
    if most is not None and len(rows) > most:
        notes = (*notes, f"{most:,} of the {len(rows):,} pairs of the {split.name} split were translated")
        rows = take_evenly(rows, most)
    found = translate(models, source.processor, [source.pairs[row]["source"] for row in rows], options)
    texts = [several[0].text for several in found]
    pairs = [pair_of(source.examples, row) for row in rows.tolist()]
    references = [target for _, target in pairs]
    scores = score_translations(texts, references, all=all)
    each: list[float | None] = [None] * len(texts)
    if all and has_sacrebleu():
        each = [*score_each(texts, references)]
    if not has_sacrebleu():
        notes = (*notes, MISSING)
    made = zip(pairs, texts, each, strict=True)
    shown = [Shown(original, text, reference, chrf) for (original, reference), text, chrf in made]
    return TranslationEvaluation(
        split=plain.split,
        count=plain.count,
        unit=plain.unit,
        measures={name: score.value for name, score in scores.items()} | plain.measures,
        notes=notes,
        beams=options.beams,
        signatures={name: score.signature for name, score in scores.items() if score.signature is not None},
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
