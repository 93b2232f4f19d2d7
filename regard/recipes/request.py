"""What a training is asked for: a recipe, its data, which is read once, and settings that follow from what was read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.data.progress import Note
from regard.errors import RegardError
from regard.recipes.base import Recipe
from regard.recipes.example import Examples
from regard.recipes.settings import Settings, apply_settings, set_options, with_budget
from regard.recipes.start_from import lent_kind, with_body
from regard.runs.run import Run


@dataclass(eq=False, kw_only=True)
class TrainRequest:
    """The order is: options of the data, reading, defaults for what was read, options of the model and the training.

    data: a path, the name of a built-in task, an object, or None; kind: of model, None: the data decides; start: the run
    to start from
    """

    recipe: Recipe
    data: Any = None
    kind: str | None = None
    start: Run | None = None
    note: Note | None = None
    examples: Examples | None = None  # what was read; None: not yet, or the recipe reads later
    _read: Any = field(default=None, init=False)  # the data section that the examples were read by
    _early: tuple[Mapping[str, Any], Settings] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if isinstance(self.data, str) and not self.data.strip():
            raise RegardError(
                f"data must be a path, got {self.data!r}; leave --data out to train on the built-in data of "
                f"{self.recipe.name}"
            )
        if self.kind is None and self.start is not None:
            imported = self.start.config.imported is not None
            self.kind = self.start.config.kind if imported else lent_kind(self.recipe, self.start)

    def settings(self, options: Mapping[str, Any]) -> Settings:
        """The settings with these options, by dotted name."""
        return apply_settings(self.defaults(options), options)

    def defaults(self, options: Mapping[str, Any]) -> Settings:
        """The settings that options change: the recipe's for this data and kind of model, with the body of an earlier
        run. options: those that were given; of them only what the data is read by is set here."""
        early = {name: options[name] for name in self.recipe.early_options if name in options}
        section = self.recipe.data_section(self.data, self.kind, early)
        if section is None:
            settings = self._without_reading(options, early)
        else:
            data = {name: value for name, value in options.items() if name.startswith("data.")}
            section = set_options(section, data)
            settings = self.recipe.adjust_defaults(self._after_reading(section), self.examples, options)
        settings = with_budget(settings, options)
        return settings if self.start is None else with_body(self.recipe, settings, self.start)

    def _after_reading(self, section: Any) -> Settings:
        """The defaults for what is read by this section of the settings."""
        problem = self.recipe.problem_of(section, self.kind)
        if problem is not None and section != self._read:
            if self.note is not None:
                self.note("reading", None)
            self.examples = problem.read(section, None if self._is_path() else self.data)
            self._read = section
        return self.recipe.choose_defaults(section, self.examples, self.kind)

    def _without_reading(self, options: Mapping[str, Any], early: Mapping[str, Any]) -> Settings:
        """The defaults of a recipe that reads its data later."""
        if self._early is None or self._early[0] != early:
            self._early = early, self.recipe.defaults(self.data, self.kind, early)
        return self.recipe.refine_defaults(self._early[1], options, None if self._is_path() else self.data)

    def _is_path(self) -> bool:
        return self.data is None or isinstance(self.data, str | os.PathLike)
