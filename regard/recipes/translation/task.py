"""Predict each token of a target from the source and from the target's tokens before it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch
from regard.errors import RegardError
from regard.models.seq2seq import Seq2Seq
from regard.recipes.translation.evaluation import BLEU, EXACT, MISSING, has_bleu, has_sacrebleu, score_translations
from regard.recipes.translation.pairs import pair_of
from regard.recipes.translation.search import SearchOptions, translate
from regard.recipes.translation.source import PairSource, take_evenly
from regard.training.scores import Count, ScoreList, Scores
from regard.training.tasks import Classify


class TranslationTask(Classify):
    """−log p(target_i | source, target before i), over all real target tokens.   source b m, target b n

    The decoder reads `begin` and the target without its last token. smoothing: as in Classify
    judge: of whole translations, by whose measures weights may be kept; None: there is none
    """

    best_by = "loss"  # a search reads the probabilities, not only the most likely token

    def __init__(self, begin: int, smoothing: float = 0.0, judge: Judge | None = None) -> None:
        super().__init__(smoothing)
        self.begin, self.judge = begin, judge
        if judge is not None:
            self.measures = (*judge.measures, *Classify.measures)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Count]:
        target = batch.target
        given, real = shift_right(target, self.begin)
        total = model(batch["source"], given, batch.get("real"), real, labels=target, smoothing=self.smoothing)
        count = (target != IGNORE).sum()
        return total / count.clamp(min=1), count

    def score(self, model: nn.Module, batches: Iterable[Batch]) -> Scores:
        """The numbers of each pair: the cross-entropy without smoothing is the one that says how good it is."""
        found = ScoreList(self.cross_entropy)
        for batch in batches:
            found.add_classes(*self._ask(model, batch), self.cross_entropy)
        return found.scores()

    def _ask(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        target = batch.target
        given, real = shift_right(target, self.begin)
        logits: Tensor = model(batch["source"], given, batch.get("real"), real)
        return logits, target


def shift_right(target: Tensor, begin: int) -> tuple[Tensor, Tensor | None]:
    """What the decoder reads when it has to predict the target, and which of it is real; None: all.   b n"""
    real = target != IGNORE
    first = torch.full_like(target[:, :1], begin)
    given = torch.cat((first, target[:, :-1].clamp(min=0)), 1)
    return given, None if bool(real.all()) else real


class Judge:
    """model -> measures of some validation pairs, translated greedily: asked at each evaluation in training.

    most: pairs that are translated, taken evenly
    """

    def __init__(self, source: PairSource, most: int) -> None:
        rows = source.rows("validation")
        self.count, self.most, self.processor = len(rows), most, source.processor
        rows = take_evenly(rows, most)
        self.sources = [source.pairs[row]["source"] for row in rows]
        self.references = [pair_of(source.examples, row)[1] for row in rows.tolist()]
        self.measures: tuple[str, ...] = ()
        if self.references:
            self.measures = (EXACT,) if self._why_no_bleu() else (BLEU, EXACT)

    def __call__(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Seq2Seq)
        if not self.measures:
            return {}
        found = translate([model], self.processor, self.sources, SearchOptions(beams=1))
        scores = score_translations([several[0].text for several in found], self.references)
        return {name: scores[name].value for name in self.measures}

    def notes(self) -> tuple[str, ...]:
        """A note if only a part of the validation pairs is translated."""
        if not 0 < self.most < self.count:
            return ()
        return (
            f"{' and '.join(self.measures)} in training {'are those' if len(self.measures) > 1 else 'is that'} of "
            f"{self.most:,} of the {self.count:,} validation pairs, translated greedily (--data.bleu-pairs)",
        )

    def check_keep(self, keep: str) -> None:
        """Raise if weights are to be kept by a measure that is not there."""
        wanted = next((name for name in (BLEU, EXACT) if name.lower() == keep.lower()), None)
        if wanted is None or wanted in self.measures:
            return
        why = self._why_none() or self._why_no_bleu()
        raise RegardError(f"weights cannot be kept by {wanted}: {why}, or use --train.keep loss")

    def _why_none(self) -> str | None:
        """Why nothing is measured, and what to do; None: something is."""
        if self.most == 0:
            return "no pair is translated; give --data.bleu-pairs 200"
        if not self.references:
            return "there are no validation pairs; give --data.validation 0.1"
        return None

    def _why_no_bleu(self) -> str | None:
        if not has_sacrebleu():
            return MISSING
        if not has_bleu(self.references):
            return "it counts four words in a row, and no translation has so many; give longer pairs"
        return None
