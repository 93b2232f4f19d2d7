"""Beam search: the most probable continuations of a prompt."""

from __future__ import annotations

from collections.abc import Callable

import torch

from regard.generation.incremental import IncrementalDecoder
from regard.generation.sampling import Sampling, penalise_repeats, seen_tokens


def beam_search(
    reader: IncrementalDecoder, sampling: Sampling, ended: Callable[[list[int]], bool]
) -> list[tuple[float, list[int]]]:
    """(mean log-probability, new ids) of each continuation, the best first.

    Each step goes on with the `beams` likeliest of all continuations. Those that ended are set aside; the
    search is over when none that goes on can still become better: sums only fall, so sum / max_new is the
    most a mean can reach.
    """
    prompt, beams = len(reader.rows[0]), sampling.beams
    logits, sums = reader.start(), torch.zeros(1, dtype=torch.float64)
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, sampling.max_new + 1):
        if sampling.repetition != 1.0:
            logits = penalise_repeats(logits, seen_tokens(reader.rows, logits.shape[-1]), sampling.repetition)
        totals = sums[:, None] + logits.log_softmax(-1)  # rows vocab
        best = totals.flatten().topk(min(2 * beams, totals.numel()))
        parents: list[int] = []
        tokens: list[int] = []
        kept: list[float] = []
        for total, at in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            parent, token = divmod(at, totals.shape[-1])
            ids = [*reader.rows[parent][prompt:], token]
            if total == -torch.inf or len(kept) == beams:
                break
            if length == sampling.max_new or ended(ids):
                finished.append((total / length, ids))
            else:
                parents.append(parent)
                tokens.append(token)
                kept.append(total)
        finished = sorted(finished, key=lambda each: -each[0])[:beams]
        if not kept or (
            len(finished) >= sampling.samples
            and finished[sampling.samples - 1][0] >= kept[0] / sampling.max_new
        ):
            break
        reader.take(parents)
        logits, sums = reader.step(tokens), torch.tensor(kept, dtype=torch.float64)
    return finished
