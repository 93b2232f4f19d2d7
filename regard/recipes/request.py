"""What a training is asked for: a recipe, its data, which is read once, and settings that follow from what was read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from regard.data.progress import Note
from regard.errors import RegardError
from regard.recipes.base import Recipe
from regard.recipes.example import Examples
from regard.recipes.settings import Settings, apply_settings, data_alone, set_options, with_budget
from regard.recipes.start_from import lent_kind, with_body
from regard.runs.run import Run
from regard.training.progress import Observer

Place = str | os.PathLike[str]


@dataclass(eq=False, kw_only=True)
class TrainRequest:
    """One training, as Python or a command asks for it. The order of its settings is: options of the data, reading, defaults
    for what was read, options of the model and the training.

    data: a path, the name of a built-in task, an object, or None; model: a kind, None: the data decides; options: by dotted
    name. Of a command, which knows what its words mean only with the class of the settings, a function from that class
    to the options; for None it gives them as plain as they are
    """

    recipe: Recipe
    data: Any = None
    model: str | None = None
    task: str | None = None
    out: Place | None = None  # the folder of the run; None: a new one, or, to go on, the latest
    start: Place | None = None  # the run to start from
    resume: bool = False
    note: Note | None = None  # told what is being prepared, and the share that is done
    observers: Sequence[Observer] = ()
    report: bool = True  # at the end
    help: str | None = None  # the command that lists the options
    options: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] = field(default_factory=dict)
    origin: Run | None = None  # `start`, opened
    examples: Examples | None = None  # what was read of the data; None: not yet, or the recipe reads later

    def __post_init__(self) -> None:
        if isinstance(self.data, os.PathLike):
            self.data = os.fspath(self.data)
        if isinstance(self.data, str) and not self.data.strip():
            raise RegardError(
                f"data must be a path, got {self.data!r}; leave --data out to train on the built-in data of "
                f"{self.recipe.name}"
            )

    @property
    def given(self) -> Any:
        """Data that is not a path: an object, which only some recipes take; None: there is none."""
        return None if isinstance(self.data, str) else self.data

    def settings(self) -> Settings:
        """The settings of a new run. What was read for them is in `examples`."""
        recipe, kind = self.recipe, self._choose_kind()
        section: Any = recipe.data_section(self.data, kind, self._options(None).keys())
        given = self._options(data_alone(section.__class__))
        with self._naming_help():
            section = set_options(section, {name: each for name, each in given.items() if name.startswith("data.")})
        problem = recipe.problem_of(section, kind)
        if problem.reads_first:
            if self.note is not None:
                self.note("reading", None)
            self.examples = problem.read(section, self.given)
        settings = recipe.choose_defaults(section, self.examples, kind)
        settings = recipe.adjust_defaults(settings, self.examples, self._options(type(settings)))
        settings = with_budget(settings, self._options(type(settings)))
        if self.origin is not None:
            settings = with_body(recipe, settings, self.origin)
        return self.change(settings)

    def resumed(self, settings: Settings) -> Settings:
        """The settings of a run that goes on: its own, of which only what was given is changed. `data` says where its files
        are now; the name of its built-in task says nothing new."""
        known = settings.data.path is None and self.data == getattr(settings.data, "task", None)
        moved = {} if not isinstance(self.data, str) or known else {"data.path": self.data}
        return self.change(apply_settings(settings, moved))

    def change(self, settings: Settings) -> Settings:
        """The settings with the options that were given."""
        given = self._options(type(settings))
        for name, advice in self.recipe.data_derived.items():
            if name in given:
                instead = f"; {advice}" if advice else ""
                raise RegardError(f"follows from the data, so it cannot be set{instead}", option=name)
        with self._naming_help():
            return apply_settings(settings, given)

    @contextmanager
    def _naming_help(self) -> Iterator[None]:
        """What is wrong with an option says where they are explained."""
        try:
            yield
        except RegardError as error:
            if self.help is None:
                raise
            said = f"{error.text}{' ' if error.text.endswith('?') else '; '}see: {self.help}"
            raise RegardError(said, option=error.option) from None

    def _options(self, cls: Any) -> Mapping[str, Any]:
        return self.options(cls) if callable(self.options) else self.options

    def _choose_kind(self) -> str | None:
        kind = self.recipe.choose_kind(self.model, self.task, self.data)
        if kind is not None or self.origin is None:
            return kind
        imported = self.origin.config.imported is not None
        return self.origin.config.kind if imported else lent_kind(self.recipe, self.origin)
