"""config.json of a run: its recipe, its model, and the sections that their owners decode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from regard.errors import RegardError, nearest

SECTIONS = ("model", "data", "train", "corpus", "processor", "counts", "test")
TEXTS = ("regard", "recipe", "kind", "module", "unit", "from", "folder", "given", "imported")
KINDS: dict[str, Any] = {
    **dict.fromkeys(SECTIONS, dict | None),
    **dict.fromkeys(TEXTS, str | None),
    **dict.fromkeys(("steps", "evaluate_every"), int | None),
}  # what each key of the file holds
FORMAT = 3  # of config.json; raised when older files can no longer be read
KEYS = {"origin": "from"}  # the name of a field in the file, where that is not a valid name in Python


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The content of config.json. Sections are plain values: `Run.section` decodes one by the dataclass of
    its owner."""

    regard: str  # the version that made it
    format: int = FORMAT
    recipe: str | None = None  # its recipe; None: a module of the user's own
    kind: str | None = None  # the model's name in the registry; None: a class that only its owner can make
    module: str | None = None  # the class of a module of the user's own
    model: dict[str, Any] | None = None  # sections
    data: dict[str, Any] | None = None
    train: dict[str, Any] | None = None
    corpus: dict[str, Any] | None = None  # a summary of the data, for people and for later commands
    # of supervised data: how it is read and what is predicted, and how many examples each split has
    processor: dict[str, Any] | None = None
    counts: dict[str, Any] | None = None
    unit: str = "tokens"  # the unit of the speed that training prints
    origin: str | None = None  # the run that it started from
    folder: str | None = None  # from which relative paths of data count, seen from the run's own folder
    given: str | None = None  # the type of the data, if it was an object; None: a path
    imported: str | None = None  # the type of others' model whose weights it began with: llama, bert
    steps: int | None = None  # the number of steps, once it is known
    evaluate_every: int | None = None
    keep: str | None = None  # the measure by which the best weights are chosen
    test: dict[str, float] | None = None  # measures on the test split

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes of a classifier; none for others."""
        target = (self.processor or {}).get("target") or {}
        found = target.get("classes") or (self.corpus or {}).get("labels") or ()
        return tuple(map(str, found))

    def to_json(self) -> dict[str, Any]:
        """As it is written; what is not there is left out."""
        found = {KEYS.get(field.name, field.name): getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if value is not None}

    def changed(self, values: Mapping[str, Any]) -> RunConfig:
        """The same with some keys written anew."""
        return RunConfig(**{field.name: getattr(self, field.name) for field in fields(self)} | dict(values))


def read_run_config(found: Any, where: str) -> RunConfig:
    """What a config.json says; a ValueError for one of another program or of another format. `where`: the
    folder of the run."""
    if not isinstance(found, dict) or "regard" not in found:
        raise RegardError(f"{where} is not a run of regard: its config.json is from another program")
    if found.get("format") != FORMAT:
        made = f"regard {found['regard']}, format {found.get('format', 'of before formats were counted')}"
        raise RegardError(
            f"{where} was made by {made}, and this version reads format {FORMAT}; train it again"
        )
    names = {KEYS.get(field.name, field.name): field.name for field in fields(RunConfig)}
    for name in found:
        if name not in names:
            near = nearest(name, names)
            hint = f"; did you mean '{near}'?" if near else ""
            raise RegardError(f"{where}/config.json has a key '{name}' that this version does not know{hint}")
        if not isinstance(found[name], KINDS.get(name, object)):
            raise RegardError(
                f"{where}/config.json has '{name}' of the type {type(found[name]).__name__}, which no run has"
            )
    return RunConfig(**{names[name]: value for name, value in found.items()})
