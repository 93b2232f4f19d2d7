"""The sequences of a beam search over slots: rows of ids that grow one by one, each in a slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from regard.generation.beam_search import Hypothesis, beam_search
from regard.generation.model_slots import make_slots
from regard.generation.sampling import Sampling, penalise_repeats, seen_tokens
from regard.generation.writer import Writer


def search_continuations(
    writer: Writer, prompt: Sequence[int], sampling: Sampling, ended: Callable[[list[int]], bool] | None = None
) -> list[Hypothesis]:
    """The best continuations of a prompt, by beam search. ended: is a text with these new ids over?"""
    reader = _SlotReader(writer, prompt, sampling)

    def penalised(logits: Tensor) -> Tensor:
        if sampling.repetition == 1.0:
            return logits
        return penalise_repeats(logits, seen_tokens(reader.rows, logits.shape[-1]), sampling.repetition)

    return beam_search(
        lambda: penalised(reader.start()),
        lambda tokens: penalised(reader.step(tokens.tolist())),
        lambda rows: reader.take(rows.tolist()),
        beams=sampling.beams,
        max_new=sampling.max_new,
        ended=ended,
        length_penalty=sampling.length_penalty,
        n_best=sampling.samples,
    )[0]


class _SlotReader:
    """The logits of what comes next in each row."""

    def __init__(self, writer: Writer, prompt: Sequence[int], sampling: Sampling) -> None:
        self.ids = writer.ids
        self.rows = [list(prompt)]  # all ids of each row, however old
        self.slots = make_slots(writer.model, sampling.beams, writer.room(len(prompt) + sampling.max_new))
        self.of = [0]  # the slot of each row

    def start(self) -> Tensor:
        """Logits after the prompt.   -> 1 vocab"""
        return self._read([self.rows[0][-self.slots.capacity :]])

    def step(self, tokens: Sequence[int]) -> Tensor:
        """Logits after one more token in each row.   -> rows vocab"""
        for row, token in zip(self.rows, tokens, strict=True):
            row.append(token)
        if self.slots.length(self.of[0]) < self.slots.capacity:
            return self._read([[token] for token in tokens])
        for slot in self.of:  # forget the older half, and read the rest again
            self.slots.truncate(slot, 0)
        return self._read([row[-max(1, self.slots.capacity // 2) :] for row in self.rows])

    def take(self, rows: Sequence[int]) -> None:
        """Row i goes on from row rows[i]. The first that goes on from a row has its slot, others a copy."""
        used = {self.of[i] for i in rows}
        free = [slot for slot in range(self.slots.count) if slot not in used]
        found: list[int] = []
        for i in rows:
            slot = self.of[i]
            if slot in found:
                target = free.pop()
                self.slots.copy(slot, target, self.slots.length(slot))
                slot = target
            found.append(slot)
        self.rows, self.of = [list(self.rows[i]) for i in rows], found

    def _read(self, tokens: list[list[int]]) -> Tensor:
        return self.slots.read(self.of, tokens)[:, : self.ids]
