"""Predict each token of a target from the source and from the target's tokens before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch
from regard.recipes.translation.measures import BLEU
from regard.training.scores import Count, ScoreList, Scores
from regard.training.tasks import Classify

Judge = Callable[[nn.Module], dict[str, float]]


class Translate(Classify):
    """−log p(target_i | source, target before i), over all real target tokens.   source b m, target b n

    The decoder reads `begin` and the target without its last token. smoothing: as in Classify
    judge: model -> BLEU of validation pairs, by which weights may be kept then; None: there is none
    """

    best_by = "loss"  # a search reads the probabilities, not only the most likely token

    def __init__(self, begin: int, smoothing: float = 0.0, judge: Judge | None = None) -> None:
        super().__init__(smoothing)
        self.begin, self.judge = begin, judge
        if judge is not None:
            self.measures = (*Classify.measures, BLEU)

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
