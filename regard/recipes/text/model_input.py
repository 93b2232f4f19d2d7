"""A text as the input of a model: ids, and the inputs beside them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.look.model_input import Action, ModelInput, Moved, Parts, Removal, Tokens, fit_columns, kept_places
from regard.recipes.text.embed import TextVectors

LONGEST = 64  # the longest text whose tokens can be moved
PLACES = ("where", "position_ids")  # inputs that hold the place of each token
TAKEN_OUT = "The tokens are taken out, and the rest closes up."
MOVED = "tokens swap places; the outputs of a model without positions move along"
SHIFTED = (
    "every position grows by the same number; a model that uses only distances between tokens gives the same outputs"
)


@dataclass(frozen=True, kw_only=True)
class TextInput(ModelInput):
    """One text, or a text and the target text of a decoder."""

    kind: ClassVar[str] = "text"

    ids: str  # the input that holds the ids of the first stream
    along: tuple[str, ...] = ()  # inputs 1 n beside the ids: masks, types
    # an input 1 n g that says more of each token than its id
    spelling: str | None = None
    text: str | None = None
    target: str | None = None
    # each token is followed by a query for the one after it: the second stream of a permutation LM
    queries: bool = False
    # texts that can be searched for the nearest ones
    among: TextVectors | None = None

    def stream(self, size: int) -> Tokens | None:
        labels = self.streams[0].labels
        if not self.queries or size != 2 * len(labels):
            return None
        return Tokens("tokens, then queries for what follows each", (*labels, *(f"{each}→?" for each in labels)))

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"text": self.text, "target": self.target}

    def parts(self, model: nn.Module) -> Parts:
        gone = "taken out and the rest closes up"
        return Parts(model=OfTokens(model, self), x=self.inputs[self.ids], name="token", gone=gone)

    def removal(self) -> Removal | None:
        """A span of the text that one prediction follows."""
        if self.answers not in ("next", "classes"):
            return None
        return Removal("group", (self.inputs[self.ids].shape[1],), "token", TAKEN_OUT)

    def without(self, region: Sequence[int]) -> TextInput:
        kept = kept_places(region, self.inputs[self.ids].shape[1], "token")
        cut = [name for name in (self.ids, self.spelling, *self.along) if name is not None]
        return replace(self, inputs=self.inputs | {name: self.inputs[name][:, kept] for name in cut})

    def actions(self, model: nn.Module) -> Iterator[Action]:
        """Swaps, other orders, and places that grow."""
        n = self.inputs[self.ids].shape[1]
        if not 2 <= n <= LONGEST:
            return
        pairs = dict.fromkeys(((0, 1), (0, n - 1), (n // 3, 2 * n // 3), (n - 2, n - 1), (1, n // 2)))
        swaps = [_swap(n, i, j) for i, j in pairs if i != j]
        yield Action("swap two tokens", MOVED, [Moved(label, self.move(order), order) for label, order in swaps])
        steps = [k for k in dict.fromkeys((1, 2, n // 2)) if 0 < k < n]
        orders = [(f"roll by {k}", [(i - k) % n for i in range(n)]) for k in steps]
        orders.append(("backwards", list(range(n))[::-1]))
        yield Action("another order", MOVED, [Moved(label, self.move(order), order) for label, order in orders])
        name = next((each for each in PLACES if each in inspect.signature(model.forward).parameters), None)
        if name is not None:
            shifted = {k: self.inputs | {name: torch.arange(n)[None] + k} for k in (1, 2, 5, 10)}
            moved = [Moved(f"{k} places on", replace(self, inputs=inputs), None) for k, inputs in shifted.items()]
            yield Action("shift the places", SHIFTED, moved)

    def move(self, order: Sequence[int]) -> TextInput:
        """The tokens of the first stream in another order; places stay where they are."""
        n = self.inputs[self.ids].shape[1]
        if sorted(order) != list(range(n)):
            raise RegardError(f"an order of {n} tokens must hold each of 0 … {n - 1} once, got {list(order)[:8]}")
        first, *others = self.streams
        labels = tuple(first.labels[i] for i in order)
        moved = [name for name in (self.ids, self.spelling) if name is not None]
        inputs = self.inputs | {name: self.inputs[name][:, list(order)] for name in moved}
        return replace(self, inputs=inputs, streams=(replace(first, labels=labels), *others))

    def with_ids(self, ids: Tensor) -> dict[str, Any]:
        """The inputs with other ids of the first stream, perhaps more or fewer; what goes along with them
        fits itself, and nothing more is said of each than its id."""
        b, n = ids.shape
        beside = {name: fit_columns(self.inputs[name], b, n) for name in self.along}
        return self.for_rows(b) | beside | self._unspelled() | {self.ids: ids}

    def _unspelled(self) -> dict[str, None]:
        return {} if self.spelling is None else {self.spelling: None}


class OfTokens(nn.Module):
    """ids b n -> what the model returns."""

    def __init__(self, model: nn.Module, given: TextInput) -> None:
        super().__init__()
        self.model, self.given = model, given

    def forward(self, ids: Tensor) -> Any:
        return self.model(**self.given.with_ids(ids))


def _swap(n: int, i: int, j: int) -> tuple[str, list[int]]:
    order = list(range(n))
    order[i], order[j] = j, i
    return f"swap {i + 1} and {j + 1}", order
