"""How good translations are: BLEU, chrF and TER, all by sacrebleu, which says how in a signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

BLEU = "BLEU"
NGRAM = 4  # words in a row that BLEU counts at most
PERFECT = 99.9
MISSING = (
    "BLEU, chrF and TER are computed by the package sacrebleu, which is not installed; use "
    "pip install 'regard[translate]'"
)


class Score(NamedTuple):
    """A measure and how it was computed, as sacrebleu says it."""

    value: float
    signature: str


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


def score_translations(
    translations: Sequence[str], references: Sequence[str], *, all: bool = False
) -> dict[str, Score]:
    """BLEU and chrF; with `all` also in lower case, and TER. There is no BLEU where no reference has four words:
    it would be 0 for perfect translations, too."""
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
    return found


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
