"""The recipe for sets."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from regard.data.point_clouds import find_clouds
from regard.look.reader import Reader
from regard.recipes.base import Recipe
from regard.recipes.example import Examples
from regard.recipes.problem import Problem
from regard.recipes.processors import ForeignModel
from regard.recipes.sets.cluster import Cluster, ClusterProcessor
from regard.recipes.sets.config import KINDS, SetsConfig, choose_defaults, data_section
from regard.recipes.sets.foreign_reader import FILE, foreign_reader
from regard.recipes.sets.processor import SetsProcessor
from regard.recipes.sets.views.points import PointsView
from regard.recipes.settings import Settings
from regard.recipes.supervised import Supervised
from regard.runs.run import Run

SHARED: dict[str, Any] = {"config": SetsConfig, "unit": "sets", "views": (PointsView(),), "controls": (FILE,)}


class LearnSets(Supervised):
    """Supervised learning from sets."""

    def next_command(self, run: Run) -> str:
        path = run.section(SetsConfig, "data").path
        if path is None or not Path(path).expanduser().is_dir():
            return super().next_command(run)
        return f"regard predict {run.quoted} {shlex.quote(find_clouds(path)[0].path)}"


class SetsRecipe(Recipe):
    """Sets: classes or numbers of sets or of their elements, and clusters of points."""

    name = "sets"
    title = "Sets: point clouds, tables in long form (one line per element), or synthetic tasks."
    help: ClassVar[Mapping[str, str]] = {
        "--data PATH": "point clouds, a folder per class; a long table; or synthetic: max, sum, statistics, clusters, solids",
        "--model KIND": "deepsets, pointnet, settransformer, additive (evidence of each element, which sums to\n"
        "                the logit), or mlp (baseline without permutation symmetry)",
    }
    examples = (
        "regard train sets",
        "regard train sets --data clouds --model pointnet",
        "regard train sets --data baskets.csv --data.id basket --data.target total",
    )
    models = KINDS
    data_derived: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            "model.features",
            "model.outputs",
            "model.size",
            "model.each",
            "model.usual",
            "model.contrast",
            "model.vocab",
            "model.context",
            "model.window",
            "model.bag",
        ),
        "",
    )
    not_inherited = frozenset({"features", "outputs", "size", "each", "seeds", "usual", "contrast"})
    reading_options = ("id", "target", "missing")
    supervised = LearnSets(processor=SetsProcessor, **SHARED)
    clusters = Cluster(name="clusters", processor=ClusterProcessor, **SHARED)
    problems: ClassVar[Mapping[str, Problem]] = {each.name: each for each in (supervised, clusters)}

    def data_section(self, data: Any, kind: str | None = None, given: Collection[str] = ()) -> SetsConfig:
        return data_section(data)

    def choose_defaults(self, data: SetsConfig, examples: Examples | None, kind: str | None) -> Settings:
        return choose_defaults(data, examples, kind)

    def problem_of(self, data: SetsConfig, kind: str | None) -> Problem:
        return self.clusters if data.path is None and data.task == "clusters" else self.supervised

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        return foreign_reader(foreign)


RECIPE = SetsRecipe()
