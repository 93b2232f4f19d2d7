"""Targets that an encoder-decoder writes step by step: what a beam search asks of it.

reader = SourceReader(model, source, source_real, begin=1)
found = beam_search(reader.start, reader.step, reader.reorder, beams=5, max_new=60, end=2)
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from regard.generation.beam_search import Hypothesis, beam_search
from regard.models.seq2seq import Memory, Seq2Seq
from regard.nn.eval_mode import eval_mode
from regard.nn.linear import prepacked


class SourceReader:
    """Targets of encoder-decoders that grow token by token. Several models are an ensemble: the mean of their
    probabilities counts.

    source: b m   real: bool b m, False for padding   begin: the id that every target begins with
    """

    def __init__(
        self,
        models: Seq2Seq | Sequence[Seq2Seq],
        source: Tensor,
        real: Tensor | None = None,
        *,
        begin: int,
        length: int | None = None,
    ) -> None:
        self.models = [models] if isinstance(models, nn.Module) else list(models)
        self.source, self.real, self.begin, self.length = source, real, begin, length
        self.memories: list[Memory] = []
        self.caches: list[Any] = []
        self.of = torch.arange(len(source))  # the source of each sequence, in the order of the sources
        self.held = [self.of] * len(self.models)  # the source of each row of a memory

    @torch.inference_mode()
    def start(self) -> Tensor:
        """Logits of the first token.   -> b v"""
        self.caches = [model.caches(self.length) for model in self.models]
        self.of = torch.arange(len(self.source))
        self.held = [self.of] * len(self.models)
        self.memories = []
        for model in self.models:
            with _evaluating(model):
                self.memories.append(model.encode(self.source, self.real))
        return self.step(torch.full((len(self.source),), self.begin))

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Logits after one more token in each sequence.   r -> r v"""
        given = tokens[:, None].to(self.source.device)
        logits = []
        for model, memory, caches in zip(self.models, self.memories, self.caches, strict=True):
            with _evaluating(model):
                logits.append(_widen(model.decode(given, memory, caches)[:, -1]))
        if len(logits) == 1:
            return logits[0]
        return torch.stack([each.log_softmax(-1) for each in logits]).logsumexp(0)

    @torch.inference_mode()
    def reorder(self, rows: Tensor) -> None:
        """Sequence i goes on from sequence rows[i]. The memory stays where sequences of one source change places,
        and is not repeated for those of one source if each has as many."""
        self.of = self.of[rows]
        rows = rows.to(self.source.device)
        for caches in self.caches:
            caches.take(rows)
        sources, counts = self.of.unique_consecutive(return_counts=True)
        even = bool((counts == counts[:1]).all())
        for i, model in enumerate(self.models):
            wanted = sources if even and model.shares_memory else self.of
            if torch.equal(wanted, self.held[i]):
                continue
            there = torch.searchsorted(self.held[i], wanted)
            self.memories[i] = self.memories[i].take(there.to(self.source.device))
            self.held[i] = wanted


def generate_targets(
    models: Seq2Seq | Sequence[Seq2Seq],
    source: Tensor,
    real: Tensor | None = None,
    *,
    begin: int,
    end: int,
    max_new: int | Sequence[int],
    beams: int = 5,
    length_penalty: float = 1.0,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """The `n_best` targets of each source, the best first, by beam search (see `beam_search`).

    source: b m   real: bool b m, False for padding   begin, end: ids around a target; the ids that are found hold
    the end, not the beginning. max_new: the most tokens with the end, for all or for each source.
    """
    longest = max_new if isinstance(max_new, int) else max(max_new, default=1)
    reader = SourceReader(models, source, real, begin=begin, length=longest)
    with ExitStack() as fixed:
        for model in reader.models:
            fixed.enter_context(prepacked(model))
        return beam_search(
            reader.start,
            reader.step,
            reader.reorder,
            beams=beams,
            max_new=max_new,
            end=end,
            length_penalty=length_penalty,
            n_best=n_best,
        )


def _evaluating(model: nn.Module) -> AbstractContextManager[None]:
    """Eval mode for a while; nothing to do where a model is in it."""
    return eval_mode(model) if model.training else nullcontext()


def _widen(logits: Tensor) -> Tensor:
    """In float32 at least."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
