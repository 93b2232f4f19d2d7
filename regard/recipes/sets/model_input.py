"""A set as the input of a model: one row of numbers for each element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.look.model_input import Action, ModelInput, Moved, Removal, fit_columns, kept_places, some_orders
from regard.look.recording.entry import Entry
from regard.recipes.sets.views.attention_roles import names_of_few

TAKEN_OUT = "The points are taken out, and the set is that much smaller."
REORDERED = "the elements come in another order; predictions for sets stay the same, those for elements move along"


@dataclass(frozen=True, kw_only=True)
class SetInput(ModelInput):
    """One set: which input holds its elements, and the names of their numbers."""

    kind: ClassVar[str] = "points"
    ordered: ClassVar[bool] = False
    part: ClassVar[str] = "element"

    points: str  # the input that holds the elements, 1 n d
    rows: Tensor  # n d: the numbers as read, perhaps before scaling
    columns: tuple[str, ...]  # of the d numbers
    mask: str | None = None  # an input 1 n beside them; all are real
    text: str | None = None  # the file that was given

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"text": self.text}

    def actions(self, model: nn.Module) -> Iterator[Action]:
        """Other orders."""
        x = self.inputs[self.points]
        moved = []
        for label, order in some_orders(x.shape[1]):
            inputs = self.with_points(x[:, order])
            moved.append(Moved(label, replace(self, inputs=inputs, streams=self.move_labels(order)), order))
        yield Action("another order", REORDERED, moved)

    def removal(self) -> Removal:
        return Removal("group", (self.inputs[self.points].shape[1],), "point", TAKEN_OUT)

    def without(self, region: Sequence[int]) -> SetInput:
        x = self.inputs[self.points]
        kept = kept_places(region, x.shape[1], "point")
        return replace(self, inputs=self.with_points(x[:, kept]))

    def learned_vectors(self, model: nn.Module, seen: Sequence[Entry]) -> Mapping[tuple[int, int], str]:
        return names_of_few(model, seen, len(self.rows))

    def with_points(self, x: Tensor) -> dict[str, Any]:
        """The inputs with other elements, perhaps more or fewer.   b n d"""
        if self.mask is None:
            mask = {}
        else:
            mask = {self.mask: fit_columns(self.inputs[self.mask], *x.shape[:2])}
        return self.for_rows(len(x)) | mask | {self.points: x}


class OfPoints(nn.Module):
    """Points b n d -> what the model returns for the set of them."""

    def __init__(self, model: nn.Module, given: SetInput) -> None:
        super().__init__()
        self.model, self.given = model, given

    def forward(self, x: Tensor) -> Any:
        return self.model(**self.given.with_points(x))
