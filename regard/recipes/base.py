"""The protocol of a recipe: one object for each kind of data. Nothing outside its folder names a kind.

To add a kind, write a folder with such an object, `RECIPE`, in its `recipe.py`, and add a line to the
registry; or offer it from another package by an entry point of the group `regard.recipes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, cast

from torch import Tensor

from regard import registry
from regard.data.progress import Note
from regard.errors import RegardError
from regard.look.reader import Reader
from regard.pretrained.weights import Pretrained
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job
from regard.recipes.problem import Problem
from regard.recipes.processors import ForeignModel
from regard.recipes.settings import Settings, check_choice, kind_of, path_of, read_settings
from regard.runs.load import how_to_load
from regard.runs.run import Run

FINE_LR = 5e-5  # the peak learning rate for weights of others


@dataclass(frozen=True)
class ExportFiles:
    """What goes along with exported weights: names of classes, files of JSON, and what a reader should know."""

    labels: tuple[str, ...] = ()
    files: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class LentBody(NamedTuple):
    """A model inside that of a run, which a run of another recipe can start from, with a head of its own."""

    kind: str  # its name in the registry
    config: Mapping[str, Any]
    weights: Callable[[], Mapping[str, Tensor]]  # without those of a head


class Recipe(ABC):
    """One kind of data: its settings and defaults, how to read it, its predictions, and its pages."""

    name: ClassVar[str]
    title: ClassVar[str]  # one line, for --help
    help: ClassVar[Mapping[str, str]]  # what --data PATH and --model KIND may be
    examples: ClassVar[tuple[str, ...]]  # commands that --help shows
    models: ClassVar[tuple[str, ...]]  # kinds of model, by their names in the registry
    data_derived: ClassVar[
        Mapping[str, str]
    ] = {}  # options that only the data decides -> the option to give instead, or ""
    problems: ClassVar[Mapping[str, Problem]]  # what can be learned from this data, by name; a run keeps the name
    # what a model learns (--task) -> the kinds of model that can, the default first; empty: the model says it
    tasks: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # kind of model -> other kinds whose blocks it can start from (--from)
    bodies: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # fields of a model config that a run with --from does not take over
    not_inherited: ClassVar[frozenset[str]] = frozenset()
    # settings of the data that predict and evaluate take for other data: names of columns, a table of nodes
    reading_options: ClassVar[tuple[str, ...]] = ()
    # other names of kinds of model -> their names in the registry
    aliases: ClassVar[Mapping[str, str]] = {}

    # ── training

    def choose_kind(self, kind: str | None, task: str | None, data: Any = None) -> str | None:
        """The kind of model for a task; None: the data decides. A ValueError if the two contradict each other."""
        if task is None:
            return kind
        if not self.tasks:
            raise RegardError(f"--task is not for {self.name}, whose data says the task; leave it out")
        check_choice(f"task of {self.name}", task, tuple(self.tasks))
        known = self.tasks[task]
        if kind is None:
            return known[0]
        if self.aliases.get(kind, kind) not in known:
            raise RegardError(
                f"--task {task} is learned by {' or '.join(known)}, got --model {kind}; leave one of them out"
            )
        return kind

    def data_section(self, data: Any, kind: str | None = None, given: Collection[str] = ()) -> Any:
        """The data section of the settings for a path, the name of a built-in task, an object or None: what is read
        first, and once. kind: of model, if it was named; given: the names of all options that were given
        """
        (only,) = self.problems.values()
        return only.config(path=path_of(data, self.name))

    @abstractmethod
    def choose_defaults(self, data: Any, examples: Examples | None, kind: str | None) -> Settings:
        """Good settings for this data section, what was read by it, and a kind of model. examples: None if nothing was
        read, as for the help"""

    def adjust_defaults(self, settings: Settings, examples: Examples | None, options: Mapping[str, Any]) -> Settings:
        """The defaults where they depend on options beside those of the data, such as the layer of a network."""
        return settings

    def problem_of(self, data: Any, kind: str | None) -> Problem:
        """What is learned from the data of this section by a kind of model; None: the usual kind. The only place that asks
        it: a run keeps the answer."""
        return next(iter(self.problems.values()))

    def defaults(self, data: Any = None, model: str | None = None, given: Collection[str] = ()) -> Settings:
        """Good settings for this data (a path, None, or an object) and kind of model, before anything is read."""
        return self.choose_defaults(self.data_section(data, model, given), None, model)

    # options of regard tokenize, if this recipe's data can be made ready once for many runs
    shard_options: type[Any] | None = None

    def write_shards(self, options: Any, note: Note | None = None) -> str:
        """Make data ready on disk; returns a line that says what is there."""
        raise RegardError(f"the data of {self.name} is read as it is; there is nothing to tokenize")

    def prepare(self, settings: Settings, context: DataContext) -> Job:
        """Read the data, then make the task, the source and a model config that fits it."""
        kind = kind_of(self.models, settings)
        problem = self.problem_of(settings.data, kind)
        return replace(problem.prepare(settings, kind, context), problem=problem.name)

    # ── weights of others

    def adopt(self, found: Pretrained) -> Mapping[str, Any] | None:
        """The sections of config.json for a run that holds weights of others; None: they read other data."""
        return None

    def refine_start(self, settings: Settings, start: Run) -> Settings:
        """Settings to start from an earlier run. What others trained for long is changed in small steps."""
        if start.config.imported is None:
            return settings
        careful: dict[str, Any] = {"optimiser": "adamw", "lr": FINE_LR, "adam_lr": None, "momentum": None}
        return replace(settings, train=replace(settings.train, **careful))

    def export_files(self, run: Run) -> ExportFiles:
        """What goes along when the model of a run is exported: labels, a tokenizer, preprocessing."""
        return ExportFiles()

    def lend_body(self, run: Run) -> LentBody | None:
        """What runs of other recipes can start from, beside runs of the same kind of model; None: nothing."""
        return None

    # ── looking

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        """The same for a model that no recipe trained; None: its inputs are of another kind."""
        return None


def get_recipe(name: str) -> Recipe:
    """The recipe of this name, ours or another package's."""
    check_choice("recipe", name, tuple(registry.entries("recipes")))
    return cast(Recipe, registry.find("recipes", name))


def recipe_of(run: Run) -> Recipe:
    """The recipe of a run, as named in its config.json."""
    if run.config.recipe is None:
        raise RegardError(
            f"{run.path} was not made by a recipe, so regard does not know how to read its inputs; "
            f"call the model itself: {how_to_load(run)}"
        )
    if run.config.recipe not in registry.entries("recipes"):
        raise RegardError(
            f"{run.path} was made by the recipe '{run.config.recipe}', which is not installed; install the "
            "package it came from"
        )
    return get_recipe(run.config.recipe)


def problem_of_run(run: Run) -> Problem:
    """What a run of a recipe has learned, with the verbs of using it."""
    recipe = recipe_of(run)
    found = recipe.problems.get(str(run.config.problem))
    if found is None:
        raise RegardError(f"{run.path} has nothing that {recipe.name} knows to use; train it again")
    return found


def settings_of(run: Run) -> Settings:
    """The settings of a run."""
    return read_settings(problem_of_run(run).settings_class(str(run.config.kind)), run)


def foreign_reader(foreign: ForeignModel) -> Reader | None:
    """The reader of the first recipe that knows the inputs of a model that no recipe trained."""
    readers = (get_recipe(name).foreign_reader(foreign) for name in registry.entries("recipes"))
    return next((reader for reader in readers if reader is not None), None)
