"""The decoder, a causal LM: predicts the next token at every place. GPT and Llama are choices of its
parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.attention.cache import Cache, WindowCache
from regard.attention.masks import Documents
from regard.config import config
from regard.errors import RegardError
from regard.models.attentions import APPROXIMATE, window_of
from regard.models.caches import Caches, Memories, step_with_caches
from regard.models.registered_model import Options
from regard.models.sequence_model import Head, SequenceConfig, SequenceModel, check_memory, count_places
from regard.nn.lora import freeze_others
from regard.shapes import expect
from regard.symmetry.groups import Shifts
from regard.symmetry.roles import Roles


@config
class DecoderConfig(SequenceConfig):
    """A decoder (causal LM). The defaults suit small models; other settings give GPT-2 and Llama."""

    # tokens before a segment that it sees without gradients, as Transformer-XL: segments of `context` tokens are
    # then read in order; 0: none, windows are drawn at random
    memory: Annotated[int, Field(ge=0, le=2**22)] = 0

    causal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_memory(self)


def check_documents(config: DecoderConfig) -> None:
    """Raise for a model in which texts in one row would see each other."""
    if config.attention.kind in APPROXIMATE:
        raise RegardError(
            f"attention={config.attention.kind} has no mask that keeps several texts in one row apart; use --model.attention "
            "full, window or bigbird"
        )
    if config.memory:
        raise RegardError(
            f"a memory of {config.memory} tokens goes on from row to row, and packed rows hold several texts; leave "
            "--model.memory out"
        )


def count_places_of_documents(documents: Tensor) -> Tensor:
    """Places that begin at 0 in each document.   b n -> b n"""
    slots = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    begins = F.pad(documents[:, 1:] != documents[:, :-1], (1, 0), value=True)
    return slots - slots.masked_fill(~begins, 0).cummax(1).values


class Decoder(SequenceModel):
    """Logits of the next token at every place, from this one and those before it.   ids b n -> b n vocab

    Causal by places: output i depends on tokens at places ≤ i only. It keeps shifts of all places unless its
    position knows where the sequence begins; `symmetry` says so.
    """

    Config = DecoderConfig
    TINY: ClassVar[Options] = dict(vocab=13, context=64, dim=32, depth=2, heads=4, kv_heads=2, ngrams=3)
    TINY_INPUTS: ClassVar[Options] = {"rows": 2}
    config: DecoderConfig

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config)
        self.config = config
        self.head = Head(config)
        if config.lora:
            freeze_others(self)

    def forward(
        self,
        tokens: Tensor,
        *,
        where: Tensor | None = None,
        real: Tensor | None = None,
        caches: Caches | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """where: places n or b n, None: consecutive; real: bool b n, False for padding, which may hold any
        id.

        With caches (see `caches`) the tokens are new ones that go on from those given before.
        documents: b n, equal numbers for the tokens of one text, which lie side by side. Several texts in one row
        do not see each other: each has the logits that it has alone.
        """
        x = self.features(tokens, where=where, real=real, caches=caches, documents=documents)
        return self.head(x, self.embed.weight)

    def features(
        self,
        tokens: Tensor,
        *,
        where: Tensor | None = None,
        real: Tensor | None = None,
        caches: Caches | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """What the head reads.   b n -> b n d"""
        expect(tokens, "b n", name="tokens")
        if documents is not None:
            return self._features_of_documents(tokens, documents, where, real, caches)
        if caches is None:
            if where is None:
                where = count_places(real)
        elif not isinstance(caches, Caches):
            raise RegardError(f"caches must be what model.caches() gives, got {type(caches).__name__}")
        else:
            caches.begin()
        x = self.embedded(tokens, where, real, caches)
        return self.stack(x, mask=self.mask, where=where, real=real, caches=caches)

    def _features_of_documents(
        self, tokens: Tensor, documents: Tensor, where: Tensor | None, real: Tensor | None, caches: Caches | None
    ) -> Tensor:
        """The same for several texts in each row; the places of each begin at 0 unless they are given."""
        expect(documents, "b n", name="documents", b=tokens.shape[0], n=tokens.shape[1])
        check_documents(self.config)
        if caches is not None:
            raise RegardError("caches hold one text in each row; leave out either caches or documents")
        if where is None:
            where = count_places_of_documents(documents)
        same = Documents(documents)
        mask = same if self.mask is None else self.mask & same
        x = self.embedded(tokens, where, real, None, documents)
        return self.stack(x, mask=mask, where=where, real=real, caches=None)

    @property
    def roles(self) -> Roles:
        return replace(super().roles, step=step_with_caches)

    def caches(self, length: int | None = None) -> Caches:
        """Empty caches, one for each block. A windowed model forgets what is out of reach, a performer keeps a
        sum; others hold `length` tokens, in memory that is taken once, or grow (None).
        """
        window, approximate = window_of(self.config), self.stack.approximation
        if approximate is not None:
            return Caches(approximate.make_cache(length) for _ in self.stack.blocks)
        return Caches(Cache(length) if window is None else WindowCache(window - 1) for _ in self.stack.blocks)

    def memories(self, length: int | None = None) -> Memories:
        """Empty memories for a stream that is read segment by segment: model(segment, caches=memories), again
        and again. length: tokens that they hold, None: as many as in training."""
        if not Shifts() <= self.symmetry:
            raise RegardError(
                f"a memory needs places that are relative, and this model keeps {self.symmetry}; take position "
                "rotary or none"
            )
        return Memories(self.config.memory if length is None else length, len(self.stack.blocks))

    @property
    def limit(self) -> int | None:
        """How many tokens it should be shown at once: its context and its memory. None: a window over relative
        places has no end."""
        window = window_of(self.config)
        endless = window is not None and window <= self.config.context and Shifts() <= self.symmetry
        if endless:
            return None
        return self.config.context + self.config.memory
