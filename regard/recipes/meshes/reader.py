"""A file, or a mesh of the data, as a mesh to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.meshes import READERS, read_mesh
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.look.reader import Control, Reader, at_path
from regard.recipes.meshes.model_input import MeshInput
from regard.recipes.meshes.predict import one_mesh
from regard.recipes.meshes.view import MeshView
from regard.symmetry.roles import Roles

ENDINGS = ",".join(READERS)
FILE = Control(
    name="file",
    type="file",
    label=f"Another mesh, from a file ({ENDINGS.replace(',', ', ')})",
    accept=ENDINGS,
)


@dataclass(frozen=True, eq=False)
class MeshExample:
    """A mesh of the data, its name, its target (if the whole mesh has one), and a sentence about it."""

    inputs: Mapping[str, Any]
    name: str | None = None
    truth: str | None = None
    notes: tuple[str, ...] = ()


class MeshReader(Reader):
    """A mesh with its vertices and triangles.

    example  returns a mesh to show if no input is given (None), or one of the data by its name
    classes  names of the classes, for a classifier
    number   what a regression predicts
    each     is there a prediction for each vertex?
    """

    views = (MeshView(),)
    controls = (FILE,)

    def __init__(
        self,
        roles: Roles,
        example: Callable[[str | None], MeshExample],
        *,
        classes: tuple[str, ...] | None = None,
        number: Numbers | None = None,
        each: bool = False,
        introduce: Callable[[MeshExample], MeshExample] | None = None,
    ) -> None:
        assert roles.nodes is not None and roles.edges is not None
        self.points, self.faces, self.frames = roles.nodes, roles.edges, roles.frames
        self.example, self.classes, self.number, self.each = example, classes, number, each
        self.introduce = introduce or (lambda found: found)

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> MeshInput:
        if given is None or (isinstance(given, str) and not Path(given).exists()):
            found = self.example(given if isinstance(given, str) else None)
        else:
            with at_path(given, _ending_of) as path:
                mesh, repairs = read_mesh(str(path))
            notes = (f"Repairs: {repairs.sentence}.",) if repairs.sentence else ()
            name = Path(given).name if isinstance(given, str) else None
            found = MeshExample(self.named(one_mesh(mesh)), name, notes=notes)
        found = self.introduce(found)
        answers: Any = None
        if self.classes is not None:
            answers = "classes"
        elif self.number is not None:
            answers = "numbers"
        return MeshInput(
            inputs=dict(found.inputs),
            points=self.points,
            faces=self.faces,
            frames=self.frames,
            text=Path(given).name if isinstance(given, str) else None,
            name=found.name,
            truth=found.truth if self.classes is not None else None,
            answers=answers,
            number=self.number,
            called=None if self.classes is None else self.classes.__getitem__,
            notes=found.notes,
            read_numbers=None if self.number is None else self.in_units,
        )

    def named(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The inputs by the names that the model has for them."""
        return {self.points: inputs["points"], self.faces: inputs["faces"]}

    def in_units(self, out: Tensor) -> list[tuple[str, float]]:
        assert self.number is not None
        return [(self.number.name, self.number.restore(float(out[0])))]


def _ending_of(data: bytes) -> str:
    """Which kind of mesh begins like this."""
    if data.startswith(b"glTF"):
        return ".glb"
    if data.startswith(b"ply"):
        return ".ply"
    if data.lstrip()[:3].upper() == b"OFF":
        return ".off"
    if data.startswith(b"solid") or (
        len(data) >= 84 and len(data) == 84 + 50 * int.from_bytes(data[80:84], "little")
    ):
        return ".stl"
    return ".obj"


def is_mesh(roles: Roles, inputs: Mapping[str, Any]) -> bool:
    """Are these inputs points n 3 and triangles 3 f?"""
    if roles.nodes is None or roles.edges is None:
        return False
    points, faces = inputs.get(roles.nodes), inputs.get(roles.edges)
    if not isinstance(points, Tensor) or not isinstance(faces, Tensor):
        return False
    return points.shape[1:] == torch.Size([3]) and faces.dim() == 2 and faces.shape[0] == 3


def foreign_input(roles: Roles, inputs: Mapping[str, Any]) -> Reader:
    """The reader for a model that no recipe trained."""

    def example(name: str | None) -> MeshExample:
        if name is not None:
            raise RegardError(
                f"there is no file {name!r}; give the path of one ({ENDINGS.replace(',', ', ')})"
            )
        return MeshExample(inputs)

    return MeshReader(roles, example)
