"""Sampling of the next token: its options, and the draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Annotated, Any

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from regard.config import UNSPLIT, Amount, Rare, Size, Weight, config
from regard.errors import RegardError, nearest

HEAD = 1024  # of a large vocabulary, so many of the likeliest tokens are sorted first


def _in_a_tuple(given: Any) -> Any:
    """One text is as good as a list of one."""
    if isinstance(given, str):
        return (given,)
    return tuple(given) if isinstance(given, list) else given


Chance = Annotated[float, Field(gt=0, le=1)]
Stops = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_in_a_tuple), UNSPLIT]


@config
class Sampling:
    """How to choose the next token from its probabilities."""

    max_new: Size = 200  # largest number of new tokens
    temperature: Weight = 0.8  # divides the logits; 0: always the most probable token
    top_k: Size | None = None  # sample from the k most probable tokens; None: from all
    # sample from the smallest set of tokens with this total probability; None: from all
    top_p: Rare[Chance | None] = None
    # sample from tokens with at least this share of the highest probability; None: from all
    min_p: Rare[Chance | None] = None
    repetition: Rare[Amount] = 1.0  # above 1: makes tokens that occurred before less probable
    # the same seed gives the same text; None: another text each time
    seed: Annotated[int, Field(ge=-(2**32), le=2**32 - 1)] | None = None
    samples: Annotated[int, Field(ge=1, le=2**12)] = 1  # number of texts; with beams: of the best texts
    beams: Annotated[int, Field(ge=1, le=2**12)] = 1  # above 1: beam search instead of sampling
    # beams are compared by Σ log p / length^this: 1 is the mean, 0 prefers short texts
    length_penalty: Rare[Weight] = 1.0
    # texts that end the generation; they are not part of the output
    stop: Stops = ()

    def __post_init__(self) -> None:
        if self.beams == 1 and self.length_penalty != type(self).length_penalty:
            raise RegardError(
                f"is for a beam search, but beams=1 samples, got {self.length_penalty}; give beams too",
                option="length_penalty",
            )
        if self.beams > 1 and self.samples > self.beams:
            raise RegardError(
                f"{self.beams} beams cannot give {self.samples} samples; use beams={self.samples} or more"
            )
        if self.beams > 1:
            for name in ("temperature", "top_k", "top_p", "min_p", "seed"):
                if getattr(self, name) != getattr(type(self), name):
                    raise RegardError(
                        f"{name} is for sampling, but beams={self.beams} is a beam search, which does not "
                        "sample; leave out one of them"
                    )


def resolve_sampling(sampling: Sampling | None, options: dict[str, Any]) -> Sampling:
    known = [field.name for field in fields(Sampling)]
    for name in options:
        if name not in known:
            near = nearest(name, known)
            raise RegardError(
                f"unknown option '{name}'; {f'did you mean {near!r}? ' if near else ''}known: {', '.join(known)}"
            )
    return replace(sampling or Sampling(), **options)


def penalise_repeats(logits: Tensor, seen: Tensor, repetition: float) -> Tensor:
    """Logits of tokens that were there: divided by `repetition` where positive, multiplied where negative.
    r v, bool r v"""
    return torch.where(seen, torch.where(logits > 0, logits / repetition, logits * repetition), logits)


def candidates(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Probabilities of the tokens that may be drawn (0 for the others), and their ids.   r v -> r k, r k

    In this order: temperature, top-k, top-p (of what top-k left), min-p.
    """
    if sampling.temperature == 0:
        best = logits.argmax(-1, keepdim=True)
        return torch.ones_like(best, dtype=logits.dtype), best
    logits = logits.double() / sampling.temperature
    if sampling.top_k is not None:
        logits, ids = logits.topk(min(sampling.top_k, logits.shape[-1]), -1)
        probabilities = logits.softmax(-1)
    elif sampling.top_p is not None:
        probabilities, ids = _sorted(logits, sampling.top_p)
    else:
        ids = torch.arange(logits.shape[-1]).expand_as(logits)
        probabilities = logits.softmax(-1)
    keep = torch.ones_like(ids, dtype=torch.bool)
    if sampling.top_p is not None:  # up to and with the one that reaches it: what comes before has less
        keep &= probabilities.cumsum(-1) - probabilities < sampling.top_p
    if sampling.min_p is not None:
        keep &= probabilities >= sampling.min_p * probabilities.amax(-1, keepdim=True)
    probabilities = probabilities.masked_fill(~keep, 0)
    return probabilities / probabilities.sum(-1, keepdim=True), ids


def _sorted(logits: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Probabilities and ids, the likeliest first, of equals the lower id: of all tokens, or only of the first ones
    where these have more than the share.   r v -> r k, r k"""
    if logits.shape[-1] > 2 * HEAD:
        found = logits.topk(HEAD, -1)
        ids, order = found.indices.sort(-1)
        values, again = found.values.gather(-1, order).sort(dim=-1, descending=True, stable=True)
        probabilities = (values - logits.logsumexp(-1, keepdim=True)).exp()
        # (what is as likely as the last of them may also be among the others)
        safe = probabilities.masked_fill(values == values[:, -1:], 0).sum(-1) > share
        if bool(safe.all()):
            return probabilities, ids.gather(-1, again)
    logits, ids = logits.sort(dim=-1, descending=True, stable=True)
    return logits.softmax(-1), ids


def draw_tokens(probabilities: Tensor, ids: Tensor, numbers: Sequence[float]) -> list[int]:
    """One id a row, by the place of a uniform number in [0, 1) among the summed probabilities.
    r k, r k -> r"""
    sums = probabilities.cumsum(-1)
    at = torch.searchsorted(sums, torch.tensor(numbers, dtype=sums.dtype)[:, None] * sums[:, -1:], right=True)
    return ids.gather(-1, at.clamp(max=ids.shape[-1] - 1))[:, 0].tolist()


def seen_tokens(rows: list[list[int]], vocab: int) -> Tensor:
    """Which ids each row holds.   -> bool r v"""
    seen = torch.zeros(len(rows), vocab, dtype=torch.bool)
    for i, row in enumerate(rows):
        seen[i, row] = True
    return seen
