"""Meshes: how they are read and put side by side, for training, predictions and pages alike."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import Natural, config
from regard.data.array import Array
from regard.data.batch import Batch
from regard.data.meshes import find_meshes
from regard.data.slices import slice_graphs
from regard.data.surface import Mesh
from regard.errors import RegardError
from regard.look.model_input import ModelInput
from regard.look.redact_paths import without_folders
from regard.models.mesh_net import MeshNet
from regard.recipes.evidence import Evidence, sum_evidence
from regard.recipes.example import Example, Examples
from regard.recipes.job import ShownExample
from regard.recipes.meshes.config import MeshesConfig
from regard.recipes.meshes.made_meshes import draw_one, read_made
from regard.recipes.meshes.model_input import MeshInput
from regard.recipes.meshes.read_meshes import is_mesh, read_folder, read_meshes
from regard.recipes.meshes.reader import find_ending
from regard.recipes.processor import Encoded, Processor, Want


@config
class MeshesFitted:
    """How large the meshes are; the model needs to know nothing of them."""

    smallest: Natural  # vertices
    largest: Natural
    made: bool = False  # are they synthetic, and in no file?


@dataclass(frozen=True, eq=False)
class MeshesProcessor(Processor[MeshesConfig, MeshesFitted]):
    """An example is a mesh. A batch is one surface of several pieces: points n 3, faces 3 f, of n."""

    Fitted: ClassVar[type] = MeshesFitted
    introduces_files: ClassVar[bool] = True

    # ── reading

    def read(self, data: Any, *, want: Want) -> Examples:
        if data is None:
            return read_made(self.config)
        if want == "judge" and self.config.path is None and self.fitted.made and self.target.numbers:
            raise RegardError(
                f"the task {self.config.task} is synthetic, so no file holds its targets; leave --data out"
            )
        return read_meshes(data, self.config, want, each=self._each)

    @property
    def _each(self) -> bool | None:
        """Does the model predict a class for each vertex? None: not known yet."""
        return None if self.fitted is None else self.target.each is not None

    def is_one(self, given: Any) -> bool:
        return is_mesh(given)

    def is_readable(self) -> bool:
        return self.config.path is not None or self.fitted.made

    # ── fitting

    def fit(self, examples: Examples, train: Array, model: Any, start: Self | None) -> Self:
        sizes = [len(examples.inputs(i)["mesh"].points) for i in examples.readable()]
        made = bool(examples.about.get("made"))
        return replace(self, fitted=MeshesFitted(smallest=min(sizes), largest=max(sizes), made=made))

    def describe(self) -> str:
        return f"{self.fitted.smallest:,} to {self.fitted.largest:,} vertices"

    def model_config(self, model: Any) -> Any:
        level = "mesh" if self.target.each is None else "vertex"
        return replace(model, outputs=self.target.outputs, level=level)

    # ── one batch

    def encode(self, example: Example) -> Encoded:
        """Points about the origin, in float32: far away from it, digits would be lost."""
        mesh: Mesh = example.inputs["mesh"]
        points = (mesh.points - mesh.points.mean(0)).astype(np.float32)
        repairs = example.inputs.get("repairs")
        notes = (f"{example.name}: {repairs}",) if repairs else ()
        return {"points": points, "faces": mesh.faces, "notes": notes}

    def collate(self, rows: Sequence[Encoded], random: np.random.Generator | None = None) -> Batch:
        return join_meshes([(row["points"], row["faces"]) for row in rows])

    def answers(self, out: Tensor, batch: Batch, rows: Sequence[Encoded]) -> Sequence[Tensor]:
        if self.target.each is None:
            return list(out)
        return out.split([len(row["points"]) for row in rows])

    def explain(self, model: nn.Module, encoded: Encoded) -> Evidence | None:
        """The output is linear in the mean over the area, so each vertex adds its own share."""
        if self.target.each is not None or not isinstance(model, MeshNet):
            return None
        batch = self.collate([encoded])
        each = model.contributions(batch["points"], batch["faces"])
        rest = model(batch["points"], batch["faces"])[0] - each.sum(0)
        names = [f"vertex {i + 1}" for i in range(len(each))]
        return sum_evidence(each, rest, names, self.target.classes, self.target.numbers)

    # ── showing

    def draw_example(self, name: str | None, seed: int) -> Examples | None:
        if self.fitted.made:
            return draw_one(self.config, name or "1", seed)
        if name is None and self.config.path is not None:
            folder = os.path.expanduser(self.config.path)
            return read_folder(find_meshes(folder)[:1], folder, self.config, each=self._each)
        return None

    def introduce(self, examples: Examples, i: int) -> str:
        if self.fitted.made:
            return f"Mesh {int(examples.names(i)):,} of the synthetic task {self.config.task}"
        return Path(examples.names(i)).name

    def show(self, example: Example) -> ShownExample:
        mesh: Mesh = example.inputs["mesh"]
        name = f"mesh {int(example.name):,}" if self.fitted.made else without_folders(example.name)
        return ShownExample(name=name, text=f"{len(mesh.points):,} vertices, {len(mesh.faces):,} triangles")

    def from_inputs(self, inputs: Mapping[str, Any]) -> Example | None:
        points, faces = inputs["points"].double().numpy(), inputs["faces"].T.numpy()
        return Example({"mesh": Mesh(points, faces)})

    def ending_of(self, data: bytes) -> str:
        return find_ending(data)

    def model_input(
        self, example: Example, encoded: Encoded, batch: Batch, model: nn.Module, file: str | None
    ) -> ModelInput:
        roles: Any = model.roles
        repairs = example.inputs.get("repairs")
        return MeshInput(
            inputs={roles.nodes: batch["points"], roles.edges: batch["faces"]},
            points=roles.nodes,
            faces=roles.edges,
            frames=roles.frames,
            text=file,
            notes=(f"Repairs: {repairs}.",) if repairs else (),
        )


def join_meshes(meshes: Sequence[tuple[Array, Array]]) -> Batch:
    """Points and triangles of several meshes as one, side by side.   n 3, f 3"""
    sizes = np.array([len(points) for points, _ in meshes])
    starts = np.concatenate(([0], np.cumsum(sizes[:-1])))
    faces = np.concatenate([own + start for (_, own), start in zip(meshes, starts, strict=True)])
    inputs = {
        "points": torch.from_numpy(np.concatenate([points for points, _ in meshes])),
        "faces": torch.from_numpy(np.ascontiguousarray(faces.T)),
        "of": torch.from_numpy(np.repeat(np.arange(len(meshes)), sizes)),
    }
    return Batch(inputs, rows=len(meshes), size=int(sizes.sum()), cut=slice_graphs)
