"""The protocol of a recipe: one object for each kind of data. Nothing outside its folder names a kind.

To add a kind, write a folder with such an object, `RECIPE`, in its `recipe.py`, and add a line to the
registry; or offer it from another package by an entry point of the group `regard.recipes`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, cast

from torch import Tensor, nn

from regard import registry
from regard.data.array import Array
from regard.data.dialect import TableConfig
from regard.data.progress import Note
from regard.errors import RegardError
from regard.generation.writer import Writer
from regard.look.reader import Reader
from regard.pretrained.weights import Pretrained
from regard.recipes.evaluation import Evaluation
from regard.recipes.example import Examples
from regard.recipes.job import DataContext, Job, Split
from regard.recipes.prediction import Prediction
from regard.recipes.problem import Output, Problem
from regard.recipes.processors import ForeignModel
from regard.recipes.settings import Settings, check_choice, kind_of, path_of, read_settings
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.tasks import Task

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
    early_options: ClassVar[tuple[str, ...]] = ()  # such as "data.size": read first, because defaults depend on them
    # settings of the data that predict and evaluate take for other data: names of columns, a table of nodes
    reading_options: ClassVar[tuple[str, ...]] = ()
    # other names of kinds of model -> their names in the registry
    aliases: ClassVar[Mapping[str, str]] = {}
    # options of `regard predict` and `regard evaluate`, besides those of the data; None: there are none
    predict_options: ClassVar[type[Any] | None] = None
    # options of `regard generate`; None: it generates nothing
    generate_options: ClassVar[type[Any] | None] = None

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

    def data_section(self, data: Any, kind: str | None = None, early: Mapping[str, Any] | None = None) -> Any:
        """The data section of the settings for a path, the name of a built-in task, an object or None: what is read
        first, and once.

        kind: of model, if it was named; early: those of `early_options` that were given
        """
        (only,) = self.problems.values()
        return only.config(path=path_of(data, self.name))

    def choose_defaults(self, data: Any, examples: Examples | None, kind: str | None) -> Settings:
        """Good settings for this data section, what was read by it, and a kind of model. examples: None if nothing was
        read, as for the help"""
        raise NotImplementedError(f"{self.name} has a data section and needs defaults for it")

    def adjust_defaults(self, settings: Settings, examples: Examples | None, options: Mapping[str, Any]) -> Settings:
        """The defaults where they depend on options beside those of the data, such as the layer of a network."""
        return settings

    def problem_of(self, data: Any, kind: str | None) -> Problem:
        """What is learned from the data of this section by a kind of model; None: the usual kind. The only place that asks
        it: a run keeps the answer."""
        return next(iter(self.problems.values()))

    def problem_of_run(self, run: Run) -> Problem:
        """What a run has learned."""
        found = self.problems.get(str(run.config.problem))
        if found is None:
            raise RegardError(f"{run.path} has nothing that {self.name} knows to use; train it again")
        return found

    def defaults(self, data: Any = None, model: str | None = None, early: Mapping[str, Any] | None = None) -> Settings:
        """Good settings for this data (a path, None, or an object) and kind of model, before anything is read."""
        return self.choose_defaults(self.data_section(data, model, early), None, model)

    def settings_class(self, config: RunConfig) -> type[Settings]:
        """The class of the settings of a run with this config.json."""
        return self.problems[str(config.problem)].settings_class(str(config.kind))

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

    def describe(self, job: Job) -> str:
        """The data in one line: its name and its numbers."""
        return self.problems[str(job.problem)].describe(job)

    def next_command(self, run: Run) -> str:
        """The command to type after training."""
        return self.problem_of_run(run).next_command(run)

    def finish(self, run: Run, job: Job, model: nn.Module) -> None:
        """Write files of this kind of data at the end of a training, before the report. A run is not lost over
        them."""
        self.problem_of_run(run).finish(run, job, model)

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

    # ── using a run

    def load(self, run: Run) -> nn.Module:
        """The model of a run, ready for use."""
        return self.problem_of_run(run).load(run)

    def load_to_write(self, run: Run, weights: str, note: Callable[[str], None]) -> Any:
        """The model of a run with weights of a kind (see docs/generation.md), for writing text only."""
        return self.problem_of_run(run).load_to_write(run, weights, note)

    def lend_body(self, run: Run) -> LentBody | None:
        """What runs of other recipes can start from, beside runs of the same kind of model; None: nothing."""
        return None

    options: Any = None  # of predict and evaluate, an object of `predict_options`

    def with_options(self, options: Any) -> Recipe:
        """The recipe that predicts and evaluates with these options, of the class `predict_options`."""
        found = copy(self)
        found.options = options
        return found

    def predict(self, run: Run, inputs: Sequence[Any]) -> Iterator[Prediction]:
        """The prediction for each input, as soon as it is ready."""
        return self.problem_of_run(run).predict(run, inputs, self.options)

    def embed(
        self, run: Run, inputs: Sequence[str], column: str | None, tables: TableConfig, note: Callable[[str], None]
    ) -> tuple[list[str], Array]:
        """The name of each input, and a vector for each.   n d"""
        return self.problem_of_run(run).embed(run, inputs, column, tables, note)

    def check_output(self, run: Run, inputs: Sequence[str], out: Output) -> None:
        """Raise a ValueError if `draw` cannot draw these inputs, or not to `out`; before any work."""
        self.problem_of_run(run).check_output(run, inputs, out)

    def draw(
        self, run: Run, inputs: Sequence[str], predictions: Iterator[Prediction], out: Output
    ) -> Iterator[Prediction]:
        """Draw each input with its prediction."""
        return self.problem_of_run(run).draw(run, inputs, predictions, out)

    def evaluate(self, run: Run, data: Any, context: DataContext) -> Evaluation:
        """Measures on the test split (the validation split without one), or on other data."""
        return self.problem_of_run(run).evaluate(run, data, context, self.options)

    def other_split(self, run: Run, data: str, context: DataContext) -> tuple[Task, Split, tuple[str, ...] | None]:
        """Other data of the same kind, read as the run reads its own data: the task, the split, and the class
        labels."""
        return self.problem_of_run(run).read_other(run, data, context, self.options)

    def generate(self, run: Run, options: Any, note: Callable[[str], None]) -> Iterator[str]:
        """Generated text, piece by piece. `note` gets what the user should know."""
        return self.problem_of_run(run).generate(run, options, note)

    def open_writer(self, run: Run, weights: str, note: Callable[[str], None]) -> Writer:
        """What writes texts as a run does: for many of them at once, and for a server. weights: as in
        `load_to_write`"""
        return self.problem_of_run(run).open_writer(run, weights, note)

    # ── looking

    def reader(self, run: Run, model: nn.Module) -> Reader:
        """The reader of a run: it reads inputs, and names the views that show them."""
        return self.problem_of_run(run).reader(run, model)

    def foreign_reader(self, foreign: ForeignModel) -> Reader | None:
        """The same for a model that no recipe trained; None: its inputs are of another kind."""
        return None

    def sample_inputs(
        self, model: Any, *, seed: int = 0, tokens: int | None = None, rows: int | None = None
    ) -> dict[str, Any]:
        """Random inputs for `check` that fit the model."""
        found: dict[str, Any] = model.sample_inputs(seed, tokens, rows)
        return found


def get_recipe(name: str) -> Recipe:
    """The recipe of this name, ours or another package's."""
    check_choice("recipe", name, tuple(registry.entries("recipes")))
    return cast(Recipe, registry.find("recipes", name))


def _how_to_load(run: Run) -> str:
    """The Python that gives the trained model of a run that no recipe made."""
    if run.config.kind is not None:
        return f"regard.load({str(run.path)!r})"
    return (
        f"build it, then load_weights(Run.open({str(run.path)!r}), module), from regard.runs.load and regard.runs.run"
    )


def recipe_of(run: Run) -> Recipe:
    """The recipe of a run, as named in its config.json."""
    if run.config.recipe is None:
        raise RegardError(
            f"{run.path} was not made by a recipe, so regard does not know how to read its inputs; "
            f"call the model itself: {_how_to_load(run)}"
        )
    if run.config.recipe not in registry.entries("recipes"):
        raise RegardError(
            f"{run.path} was made by the recipe '{run.config.recipe}', which is not installed; install the "
            "package it came from"
        )
    return get_recipe(run.config.recipe)


def settings_of(run: Run) -> Settings:
    """The settings of a run."""
    return read_settings(recipe_of(run).settings_class(run.config), run)


def foreign_reader(foreign: ForeignModel) -> Reader | None:
    """The reader of the first recipe that knows the inputs of a model that no recipe trained."""
    readers = (get_recipe(name).foreign_reader(foreign) for name in registry.entries("recipes"))
    return next((reader for reader in readers if reader is not None), None)
