"""The recipe for meshes."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from regard.data.meshes import find_meshes
from regard.look.reader import Reader
from regard.recipes.base import Recipe
from regard.recipes.example import Examples
from regard.recipes.meshes.config import KINDS, MeshesConfig, choose_defaults, data_section
from regard.recipes.meshes.processor import MeshesProcessor
from regard.recipes.meshes.reader import FILE, MeshReader, is_mesh
from regard.recipes.meshes.view import MeshView
from regard.recipes.problem import Problem
from regard.recipes.processors import ForeignModel
from regard.recipes.settings import Settings
from regard.recipes.supervised import Supervised
from regard.runs.run import Run
from regard.symmetry.roles import Roles


class LearnMeshes(Supervised):
    """Supervised learning from meshes."""

    def next_command(self, run: Run) -> str:
        path = run.section(MeshesConfig, "data").path
        if path is None:  # synthetic meshes are in no file
            return f"regard look {run.quoted}"
        return f"regard predict {run.quoted} {shlex.quote(find_meshes(path)[0].path)}"


class MeshesRecipe(Recipe):
    """Meshes: a class or a number for each surface, or a class for each of its vertices."""

    name = "meshes"
    title = "Meshes: surfaces made of triangles, from files or synthetic."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "meshes (.ply .off .obj .stl .glb), a folder per class; or synthetic: shapes, screws, roundness",
        "--model KIND": "meshnet: convolution with parallel transport (--model.orders 0: without directions)",
    }
    examples = (
        "regard train meshes",
        "regard train meshes --data scans",
        "regard train meshes --data parts --data.targets weights.csv --data.target grams --model.sized",
    )
    models = KINDS
    data_config = MeshesConfig
    data_derived: ClassVar[Mapping[str, str]] = {"model.outputs": "", "model.level": "label the vertices of .ply files"}
    not_inherited = frozenset({"outputs", "level"})
    reading_options = ("targets", "target", "damaged")

    supervised = LearnMeshes(
        processor=MeshesProcessor,
        config=MeshesConfig,
        unit="meshes",
        speed="vertices",
        views=(MeshView(),),
        controls=(FILE,),
    )
    problems: ClassVar[Mapping[str, Problem]] = {supervised.name: supervised}

    def data_section(self, data: Any, kind: str | None = None, given: Collection[str] = ()) -> MeshesConfig:
        return data_section(data)

    def choose_defaults(self, data: MeshesConfig, examples: Examples | None, kind: str | None) -> Settings:
        return choose_defaults(data, examples, kind)

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        declared = foreign.roles or getattr(foreign.model, "roles", None)
        if not isinstance(declared, Roles) or not is_mesh(declared, foreign.inputs):
            return None
        return MeshReader(declared, foreign.inputs)


RECIPE = MeshesRecipe()
