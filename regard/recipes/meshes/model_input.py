"""A mesh as the input of a model: points and the triangles between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.look.model_input import Action, ModelInput, Moved

FRAMES = "every vertex gets another frame, by an angle of its own; predictions stay the same"
TURNS = "the whole mesh is turned in space; predictions stay the same"


@dataclass(frozen=True, kw_only=True)
class MeshInput(ModelInput):
    """One mesh."""

    kind: ClassVar[str] = "mesh"
    ordered: ClassVar[bool] = False
    part: ClassVar[str] = "vertex"

    points: str = "points"  # the input that holds the vertices, n 3
    faces: str = "faces"  # 3 f
    frames: str | None = "frames"  # n; None: the model has none
    text: str | None = None  # the file that was given

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"text": self.text}

    @property
    def places(self) -> Tensor:
        """n 3"""
        found: Tensor = self.inputs[self.points]
        return found

    @property
    def triangles(self) -> Tensor:
        """3 f"""
        found = self.inputs[self.faces]
        triangles: Tensor = getattr(found, "faces", found)
        return triangles

    def actions(self, model: nn.Module) -> Iterator[Action]:
        """Other frames, and turns of space."""
        n, draw = len(self.places), torch.Generator().manual_seed(0)
        if self.frames is not None:
            moved = []
            for label in ("mixed", "mixed otherwise"):
                angles = (2 * math.pi * torch.rand(n, generator=draw)).to(self.places)
                moved.append(Moved(label, self.with_inputs(self.frames, angles), None))
            yield Action("other frames", FRAMES, moved)
        turns = []
        for degrees in (90, 37):
            a = math.radians(degrees)
            turn = torch.tensor([[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]])
            label = f"by {degrees}° about y"
            turns.append(Moved(label, self.with_inputs(self.points, self.places @ turn.to(self.places).T), None))
        yield Action("turned in space", TURNS, turns)

    def with_inputs(self, name: str, x: Tensor) -> MeshInput:
        return replace(self, inputs={**self.inputs, name: x})
