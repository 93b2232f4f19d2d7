"""The permutation language model (XLNet): predicts tokens in any order, by two streams over the same blocks.

The *content* of a token says what it is and where. A *query* knows only where: it is the mask token at the place
of the token that it asks for. In an order of the tokens a content sees what comes up to itself, a query what comes
before; nobody sees a query. Both pass through the blocks together, as one sequence under one `Order` mask.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field
from torch import Tensor

from regard.attention.cache import Cache
from regard.attention.mask import Mask
from regard.attention.masks import Order
from regard.config import config
from regard.errors import RegardError
from regard.models.caches import Caches, step_with_caches
from regard.models.experts import promises_of_experts
from regard.models.registered_model import Options
from regard.models.sequence_model import Head, SequenceConfig, SequenceModel, count_places
from regard.shapes import expect
from regard.symmetry.groups import Group, Shifts
from regard.symmetry.roles import Roles


@config
class PermutationConfig(SequenceConfig):
    """A permutation LM (XLNet). The last id of its vocabulary is the mask token."""

    # share of the tokens, the last ones in the order of each row, that training predicts
    predicted: Annotated[float, Field(gt=0, le=1)] = 1 / 6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ngrams > 1:
            raise RegardError(
                f"ngrams={self.ngrams} would show a token those before it, whatever the order; a permutation LM takes "
                "ngrams=1"
            )
        if self.attention.kind not in ("full", "window"):
            raise RegardError(
                f"a permutation LM goes with attention=full or window, because each token has its own past, got "
                f"attention={self.attention.kind}; change one"
            )
        if self.position == "learned":
            raise RegardError(
                "a permutation LM asks for the token after the last place, for which position learned has no vector; "
                "take rotary, sinusoidal or a bias"
            )


class PermutationLM(SequenceModel):
    """Logits of tokens, each from those before it in an order.   ids b n -> b n vocab−1, or b p vocab−1

    Without `rank` the order is that of the places, and each output is the next token, as of a decoder. With
    `rank` and `asked` an output is the token in that slot itself. It keeps shifts of all places unless its
    position knows where the sequence begins. The blocks are those of an encoder, and can be used as one.
    """

    Config = PermutationConfig
    TINY_INPUTS: ClassVar[Options] = {"rows": 2}
    TINY: ClassVar[Options] = dict(vocab=14, context=64, dim=32, depth=2, heads=4)
    config: PermutationConfig

    def __init__(self, config: PermutationConfig) -> None:
        if config.vocab < 2:
            raise RegardError(f"vocab must be 2 or more, because one id is the mask token, got {config.vocab}")
        super().__init__(config)
        self.config = config
        self.head = Head(config)

    def forward(
        self,
        tokens: Tensor,
        *,
        where: Tensor | None = None,
        real: Tensor | None = None,
        rank: Tensor | None = None,
        asked: Tensor | None = None,
        caches: Caches | None = None,
    ) -> Tensor:
        """where: places n or b n, None: consecutive; real: bool b n, False for padding, which may hold any id.

        rank: when each token comes, b n; asked: slots of the tokens to predict, b p, None: all. With caches (see
        `caches`) the tokens are new ones that go on from those given before, in the order of the places.
        """
        b, n = expect(tokens, "b n", name="tokens")
        here = self._places(tokens, where, real, caches)
        if rank is None:
            if asked is not None:
                raise RegardError("asked needs rank: without it, the token after each place is predicted")
            rank, places, when = here, here + 1, here + 1
        elif caches is not None:
            raise RegardError("caches are for the order of the places; leave rank out")
        else:
            slots = torch.arange(n, device=tokens.device).expand(b, n) if asked is None else asked
            expect(rank, "b n", name="rank", b=b, n=n)
            places, when = here.gather(1, slots), rank.gather(1, slots)
        x = torch.cat((self.embed(tokens, real), self._queries(places)), 1)
        if real is not None:
            real = torch.cat((real, torch.ones_like(places, dtype=torch.bool)), 1)
        asks = places.shape[1]
        mask = self._mask(rank, when, caches)
        out = self.stack(x, mask=mask, where=torch.cat((here, places), 1), real=real, caches=caches, asks=asks)
        return self.head(out[:, n:], self.embed.weight)[..., :-1]  # nobody predicts the mask

    def _places(self, tokens: Tensor, where: Tensor | None, real: Tensor | None, caches: Caches | None) -> Tensor:
        """One number for each token.   b n"""
        b, n = tokens.shape
        first = 0
        if caches is not None:
            if not isinstance(caches, Caches):
                raise RegardError(f"caches must be what model.caches() gives, got {type(caches).__name__}")
            first, where = caches[0].count, caches[0].upcoming(b, n, tokens.device, where, real)
        elif where is None:
            where = count_places(real)
        if where is None:
            where = torch.arange(first, first + n, device=tokens.device)
        if where.dim() == 3:
            where = where[..., 0]
        return where.expand(b, n)

    def _queries(self, places: Tensor) -> Tensor:
        """The mask token for each place that is asked for.   b p -> b p d"""
        return self.embed(torch.full(places.shape, self.config.vocab - 1, device=places.device), None)

    def _mask(self, rank: Tensor, when: Tensor, caches: Caches | None) -> Mask:
        """A content sees ranks up to its own, a query those below; `Order` is inclusive, so ranks count twice."""
        keys = 2 * rank
        if caches is not None and caches[0].count:
            keys = torch.cat((2 * caches[0].held("where")[..., 0], keys), 1)
        order = Order((torch.cat((2 * rank, 2 * when - 1), 1), keys))
        if self.mask is None:
            return order
        return order & self.mask

    def caches(self, length: int | None = None) -> Caches:
        """Empty caches, one for each block, for `length` tokens, or they grow (None)."""
        return Caches(Cache(length) for _ in self.stack.blocks)

    @property
    def limit(self) -> int:
        """How many tokens it should be shown at once: its context."""
        return self.config.context

    @property
    def symmetry(self) -> Group:
        """In order it is causal, so permutations are not kept."""
        return super().symmetry & Shifts()

    @property
    def roles(self) -> Roles:
        return replace(
            super().roles,
            promises={"reordering": "holds", "causality": "holds"} | promises_of_experts(self.config),
            step=step_with_caches,
        )

    @classmethod
    def tiny(cls) -> tuple[Self, dict[str, Tensor]]:
        model, inputs = super().tiny()
        return model, {"tokens": inputs["tokens"].clamp(max=model.config.vocab - 2)}  # nobody writes the mask
