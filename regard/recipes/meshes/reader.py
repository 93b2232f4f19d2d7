"""A file as a mesh to look at, for models that no recipe trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.meshes import READERS, read_mesh
from regard.errors import RegardError
from regard.look.reader import Control, Reader, at_path
from regard.recipes.meshes.model_input import MeshInput
from regard.recipes.meshes.view import MeshView
from regard.symmetry.roles import Roles

ENDINGS = ",".join(READERS)
FILE = Control(
    name="file", type="file", label=f"Another mesh, from a file ({ENDINGS.replace(',', ', ')})", accept=ENDINGS
)


class MeshReader(Reader):
    """A mesh with its vertices and triangles. inputs: of the model, which are shown if no file is given"""

    views = (MeshView(),)
    controls = (FILE,)

    def __init__(self, roles: Roles, inputs: Mapping[str, Any]) -> None:
        self.roles, self.inputs = roles, inputs

    def read(self, given: str | bytes | None = None, target: str | bytes | None = None) -> MeshInput:
        points, faces = str(self.roles.nodes), str(self.roles.edges)
        inputs = dict(self.inputs)
        notes: tuple[str, ...] = ()
        name = given if isinstance(given, str) else None
        if given is not None:
            if name is not None and not Path(name).exists():
                raise RegardError(f"there is no file {name!r}; give the path of one ({ENDINGS.replace(',', ', ')})")
            with at_path(given, find_ending) as path:
                mesh, repairs = read_mesh(str(path))
            places = torch.from_numpy(mesh.points - mesh.points.mean(0)).float()
            inputs = {points: places, faces: torch.from_numpy(mesh.faces.T.copy())}
            notes = (f"Repairs: {repairs.sentence}.",) if repairs.sentence else ()
        return MeshInput(
            inputs=inputs,
            points=points,
            faces=faces,
            frames=self.roles.frames,
            text=None if name is None else Path(name).name,
            name=None if name is None else Path(name).name,
            notes=notes,
        )


def find_ending(data: bytes) -> str:
    """Which kind of mesh begins like this."""
    if data.startswith(b"glTF"):
        return ".glb"
    if data.startswith(b"ply"):
        return ".ply"
    if data.lstrip()[:3].upper() == b"OFF":
        return ".off"
    if data.startswith(b"solid") or (len(data) >= 84 and len(data) == 84 + 50 * int.from_bytes(data[80:84], "little")):
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
