"""An additive model: every token of a text, or element of a set, gives evidence, and the output is its sum."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.config import Depth, Length, Share, Size, Vocab, Width, config
from regard.errors import RegardError
from regard.models.registered_model import Options, RegisteredModel
from regard.models.sample_inputs import sample_sequences, sample_sets
from regard.models.sequence_model import count_places
from regard.nn.embed import TokenEmbedding, gather_neighbours
from regard.nn.ngram_logistic import BagOfNGrams
from regard.nn.padding import zero_padding
from regard.shapes import expect
from regard.symmetry.groups import EVERYTHING, Group, Permutations, Shifts
from regard.symmetry.roles import Roles, Stream


@config
class AdditiveConfig:
    """A sum of evidence: that of a token depends on the token alone (and on its neighbours, with `window`)."""

    outputs: Size  # logits of classes, or numbers
    vocab: Vocab | None = None  # number of token ids; None: elements are numbers
    features: Size | None = None  # numbers of each element; None: tokens are ids
    context: Length | None = None  # tokens of a text; None: any number
    hidden: Width = 64  # width of the embedding and of the hidden layers
    depth: Depth = 1  # hidden layers
    # texts: a token sees this many tokens on each side of it; 0: it is seen alone, and order does not matter
    window: Annotated[int, Field(ge=0, le=2**22)] = 0
    # texts: add a linear map of the words and of the character n-grams inside them
    bag: bool = False
    # the evidence of a token sums to 0 over the outputs: for classes, where only differences of logits count
    contrast: bool = False
    dropout: Share = 0.0  # share of hidden numbers dropped in training
    # mean number of elements per set: divides the evidence, so that its scale does not depend on the data
    usual: Size = 1

    causal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (self.vocab is None) == (self.features is None):
            raise RegardError(
                f"give vocab (ids of tokens) or features (numbers of elements), got vocab={self.vocab} and "
                f"features={self.features}"
            )
        if self.features is not None and (self.window or self.bag):
            raise RegardError("window and bag are for texts: elements of a set have no neighbours and no letters")
        if self.contrast and self.outputs < 2:
            raise RegardError(f"needs at least two outputs, got {self.outputs}", option="contrast")


class Additive(RegisteredModel):
    """bias + Σ_i e(x_i), where e is an MLP of the token or element i alone.   b n, or b n features -> b outputs

    `evidence` returns each e(x_i); padding gives none. With `window`, e sees the neighbours of a token, too.
    Permutations change nothing when it is 0; otherwise shifts of all places change nothing.
    """

    Config = AdditiveConfig
    TINY: ClassVar[Options] = dict(outputs=5, features=3, hidden=32)
    lengths: Tensor

    def __init__(self, config: AdditiveConfig) -> None:
        super().__init__()
        self.config = config
        self.embed: TokenEmbedding | None = None
        self.bag: BagOfNGrams | None = None
        if config.vocab is not None:
            self.embed = TokenEmbedding(config.vocab, config.hidden, scale=True)
        if config.vocab is not None and config.bag:
            self.bag = BagOfNGrams(config.vocab, config.outputs)
            # of the two vectors of features of a usual text, as the data says
            self.register_buffer("lengths", torch.ones(2))
        first = config.features or config.hidden * (2 * config.window + 1)
        widths = pairwise([first, *[config.hidden] * config.depth])
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in widths)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(config.hidden, config.outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(config.outputs))

    @property
    def symmetry(self) -> Group:
        """Any order of elements; of tokens any places at all, but with a window only shifts of all of them."""
        if self.embed is None:
            return Permutations()
        if self.config.window:
            return Shifts()
        return EVERYTHING

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        if self.embed is None:
            return Roles(streams=(Stream("tokens", mask="real"),))
        return Roles(
            streams=(Stream("tokens", mask="real", places="where", sides=("right", "left")),),
            promises={"reordering": "holds", "causality": "not promised"},
        )

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Any]:
        if self.embed is not None:
            return sample_sequences(self.config, seed, tokens, rows)
        return {"tokens": sample_sets(self.config, seed)["x"]}

    def forward(
        self, tokens: Tensor, *, where: Tensor | None = None, real: Tensor | None = None, spelling: Tensor | None = None
    ) -> Tensor:
        """where: places of the tokens of a text, n or b n, None: consecutive; real: bool b n, False for
        padding; spelling: for the bag of n-grams, see there."""
        return self.bias + self.evidence(tokens, where=where, real=real, spelling=spelling).sum(1)

    def evidence(
        self, tokens: Tensor, *, where: Tensor | None = None, real: Tensor | None = None, spelling: Tensor | None = None
    ) -> Tensor:
        """What each token or element adds to the outputs; zeros for padding.   b n outputs"""
        h = self._vectors(tokens, where, real)
        for layer in self.layers:
            h = self.dropout(F.gelu(layer(h)))
        found = self.head(h)
        if self.bag is not None:
            found = found + self.bag.evidence(tokens, self.lengths, real, spelling)
        if self.config.contrast:
            found = found - found.mean(-1, keepdim=True)
        return zero_padding(found / self.config.usual, real)

    def _vectors(self, tokens: Tensor, where: Tensor | None, real: Tensor | None) -> Tensor:
        """What the MLP sees of each token or element.   b n d"""
        if self.embed is None:
            expect(tokens, "b n d", name="tokens", d=self.layers[0].in_features)  # type: ignore[arg-type]
            return zero_padding(tokens, real)
        x = self.dropout(self.embed(tokens, real))
        if not self.config.window:
            return x
        if where is None:
            where = count_places(real)
        return gather_neighbours(x, self.config.window, where, real)
