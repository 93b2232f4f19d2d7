"""config.json of a run: its recipe, its model, and the sections that their owners decode."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from regard.config import Positive, config, from_dict
from regard.errors import RegardError

FORMAT = 3  # of config.json; raised when older files can no longer be read
KEYS = {"origin": "from"}  # the name of a field in the file, where that is not a valid name in Python


@config
class RunConfig:
    """The content of config.json. Sections are plain values: `Run.section` decodes one by the dataclass of
    its owner."""

    regard: str  # the version that made it
    format: Positive = FORMAT
    recipe: str | None = None  # its recipe; None: a module of the user's own
    problem: str | None = None  # what it learns from its data, by its name in the recipe
    kind: str | None = None  # the model's name in the registry; None: a class that only its owner can make
    module: str | None = None  # the class of a module of the user's own
    build: dict[str, Any] | None = None  # its class and what makes it again, if that can be imported
    inputs: dict[str, Any] | None = None  # its inputs: name -> shape, dtype and largest id
    task: str | None = None  # what it learned, if that has a name
    model: dict[str, Any] | None = None  # sections
    data: dict[str, Any] | None = None
    train: dict[str, Any] | None = None
    processor: dict[str, Any] | None = None  # how its data is read, and what is predicted
    counts: dict[str, Any] | None = None  # how many examples each split has, and what else was counted
    unit: str = "tokens"  # the unit of the speed that training prints
    origin: str | None = None  # the run that it started from
    folder: str | None = None  # from which relative paths of data count, seen from the run's own folder
    given: str | None = None  # the type of the data, if it was an object; None: a path
    imported: str | None = None  # the type of others' model whose weights it began with: llama, bert
    steps: Positive | None = None  # the number of steps, once it is known
    evaluate_every: Positive | None = None
    keep: str | None = None  # the measure by which the best weights are chosen
    test: dict[str, float] | None = None  # measures on the test split

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes of a classifier; none for others."""
        target = (self.processor or {}).get("target") or {}
        return tuple(map(str, target.get("classes") or ()))

    def to_json(self) -> dict[str, Any]:
        """As it is written; what is not there is left out."""
        found = {KEYS.get(field.name, field.name): getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if value is not None}


def read_run_config(found: Any, where: str) -> RunConfig:
    """What a config.json says; a ValueError for one of another program or of another format. `where`: the
    folder of the run."""
    if not isinstance(found, dict) or "regard" not in found:
        raise RegardError(f"{where} is not a run of regard: its config.json is from another program")
    if found.get("format") != FORMAT:
        made = f"regard {found['regard']}, format {found.get('format', 'of before formats were counted')}"
        raise RegardError(f"{where} was made by {made}, and this version reads format {FORMAT}; train it again")
    names = {key: name for name, key in KEYS.items()}
    try:
        return from_dict(RunConfig, {names.get(key, key): value for key, value in found.items()})
    except RegardError as error:
        raise RegardError(f"{where}/config.json: {error}") from error
