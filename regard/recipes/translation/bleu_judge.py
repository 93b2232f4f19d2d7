"""BLEU of some validation pairs, at each evaluation in training."""

from __future__ import annotations

import numpy as np
from torch import nn

from regard.data.array import Array
from regard.data.splits import VALIDATION
from regard.errors import RegardError
from regard.models.seq2seq import Seq2Seq
from regard.recipes.translation.dataset import Corpus
from regard.recipes.translation.measures import BLEU, MISSING, has_bleu, has_sacrebleu, score_translations
from regard.recipes.translation.search import SearchOptions, translate
from regard.recipes.translation.task import Judge


def make_judge(corpus: Corpus, most: int) -> Judge | None:
    """model -> BLEU of validation pairs, translated greedily; None: they have none.

    most: pairs that are translated, taken evenly
    """
    rows = _rows(corpus, most)
    references = [corpus.texts[row].target for row in rows]
    if _why_none(references, most) is not None:
        return None
    sources = [corpus.sources[row] for row in rows]

    def judge(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Seq2Seq)
        found = translate([model], corpus.vocabulary, sources, SearchOptions(beams=1), corpus.info.ratio)
        scores = score_translations([several[0].text for several in found], references)
        return {BLEU: scores[BLEU].value}

    return judge


def tell_part(corpus: Corpus, most: int) -> tuple[str, ...]:
    """A note if only a part of the validation pairs is translated."""
    count = corpus.info.validation
    if not 0 < most < count:
        return ()
    return (
        f"BLEU in training is that of {most:,} of the {count:,} validation pairs, translated greedily "
        "(--data.bleu-pairs)",
    )


def check_keep(corpus: Corpus, most: int, keep: str) -> None:
    """Raise if weights are to be kept by a BLEU that cannot be computed."""
    if keep.lower() != BLEU.lower():
        return
    reason = _why_none([corpus.texts[row].target for row in _rows(corpus, most)], most)
    if reason is not None:
        raise RegardError(f"weights cannot be kept by BLEU: {reason}, or use --train.keep loss")


def _rows(corpus: Corpus, most: int) -> Array:
    rows = corpus.rows(VALIDATION)
    if len(rows) > most:
        return rows[np.linspace(0, len(rows) - 1, most).astype(int)]
    return rows


def _why_none(references: list[str], most: int) -> str | None:
    """Why there is no BLEU, and what to do; None: there is."""
    if most == 0:
        return "no pair is translated; give --data.bleu-pairs 200"
    if not references:
        return "there are no validation pairs; give --data.validation 0.1"
    if not has_sacrebleu():
        return MISSING
    if not has_bleu(references):
        return "it counts four words in a row, and no translation has so many; give longer pairs"
    return None
