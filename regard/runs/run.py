"""The run directory: everything about one training, in open formats.

config.json        what was asked for, in sections, each decoded by the dataclass of its owner; "steps" once
                   it is decided
model.safetensors  the best weights so far; with config.json, manifest.json (and tokenizer.json) all that
                   using the model needs (of a model of conversations also chat_template.json)
manifest.json      sizes and checksums of all files that later commands read; opening verifies them
state/             checkpoints to go on from          metrics.jsonl     one line an event, each with its step
samples/           what the model wrote as it learned  environment.json  on what, and if asked by whom and how
"""

from __future__ import annotations

import copy
import json
import math
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from regard import config as configs
from regard import files
from regard.errors import RegardError
from regard.runs.environment import environment, start_folder, version
from regard.runs.manifest import FILE as MANIFEST
from regard.runs.manifest import Manifest
from regard.runs.run_config import FORMAT, RunConfig, read_run_config

C = TypeVar("C")
SUMMARY = "summary.json"  # of a folder of several runs
# files that later commands read, each with a checksum; the most needed first
VERIFIED = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "environment.json",
    "laws.json",
    "confusion.json",
    "outcome.json",
    "codes.json",
    "chat_template.json",
)
# files of the folder itself that only a training writes, or its end
WRITTEN = (*VERIFIED, MANIFEST, "metrics.jsonl", "confusion.png", "curves.png", "report.html")


class Run:
    """One run directory. `new_run` makes it, `open` finds it; training and every later command meet only
    here."""

    def __init__(self, path: files.PathLike, config: RunConfig) -> None:
        self.path, self.config = Path(path), config
        self.manifest = Manifest(self.path)
        self.asked: frozenset[str] = frozenset()  # settings of the data that are not its own, see `reading`
        self.source: Path | None = None  # weights of others that a command was pointed at, and that this run is made of

    def __repr__(self) -> str:
        """<Run runs/text: text, decoder>"""
        names = (self.config.recipe, self.config.kind, self.config.module)
        what = ", ".join(name for name in names if name is not None)
        return f"<Run {self.path}{what and f': {what}'}>"

    # ── making and finding

    @classmethod
    def begin(cls, path: files.PathLike, sections: Mapping[str, Any]) -> Run:
        """Write a new run into a folder that was claimed (see new_run.py)."""
        path = Path(path)
        found = {"regard": version(), "format": FORMAT}
        found |= {name: _plain(value) for name, value in sections.items()}
        if _has_relative_paths(sections.get("data")):
            found["folder"] = start_folder(path)
        run = cls(path, read_run_config(found, str(path)))
        about = environment(bool((run.config.train or {}).get("provenance")))
        # config.json comes last: it is what makes the folder a run
        contents = {"environment.json": about, "config.json": run.config.to_json()}
        run.manifest.write({name: _json_file(value) for name, value in contents.items()}, new=True)
        return run

    @classmethod
    def open(cls, path: files.PathLike) -> Run:
        """The run in this folder."""
        path = Path(path)
        if not path.is_dir():
            what = "is a file" if path.exists() else "does not exist"
            raise FileNotFoundError(f"{path} {what}; give the folder of a run, as made by regard train")
        if is_run_group(path):
            raise RegardError(say_which_runs(path))
        if not (path / "config.json").exists():
            raise FileNotFoundError(
                f"{path} is not a run of regard: it has no config.json; give the folder of a run, as made "
                "by regard train"
            )
        manifest = Manifest(path)
        if not manifest.path.exists():  # of another program, or of another format?
            read_run_config(files.read_json(path / "config.json"), str(path))
        found = files.parse_json(manifest.read_bytes("config.json"), path / "config.json")
        return cls(path, read_run_config(found, str(path)))

    @staticmethod
    def exists(path: files.PathLike) -> bool:
        """Is there a run, of any format?"""
        try:
            return "regard" in files.read_json(Path(path) / "config.json")
        except (OSError, ValueError, TypeError):
            return False

    def __fspath__(self) -> str:
        """A run stands for its folder wherever a path is asked for."""
        return str(self.path)

    @property
    def quoted(self) -> str:
        """Its folder as a shell reads it, for commands that are advised."""
        return shlex.quote(str(self.path))

    @property
    def start_advice(self) -> str:
        """How to start anew with its weights."""
        if self.config.recipe is None and self.config.imported is None:
            return (
                f"start a new run with a module into which load_weights({str(self.path)!r}, module) has put its weights "
                "(from regard.runs.load import load_weights)"
            )
        return f"start a new run with --from {self.quoted}"

    # ── configuration

    def section(self, cls: type[C], name: Literal["model", "data", "train", "processor"]) -> C:
        """A part of config.json as the dataclass of its owner.

        A class may name fields that hold paths, in `paths`: those count from where the run was started if
        they are only there.
        """
        found = getattr(self.config, name)
        if found is None:
            raise RegardError(f"{self.path / 'config.json'} has no section '{name}'")
        try:
            again = self._found_again(found, getattr(cls, "paths", ()))
            return configs.from_dict(cls, found | again)
        except ValueError as error:
            raise RegardError(f"{self.path / 'config.json'}: section '{name}': {error}") from error

    def reading(self, data: Mapping[str, Any]) -> Run:
        """The same run, which reads its inputs with some settings of the data changed, such as the name of a
        column. Nothing is written."""
        run = copy.copy(self)
        run.config = replace(self.config, data={**(self.config.data or {}), **data})
        run.asked = frozenset(data)
        return run

    def _found_again(self, section: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
        """Paths that lead nowhere from here, and somewhere from where the run was started."""
        began = self.config.folder
        if isinstance(began, str):
            began = os.path.normpath(self.path.resolve() / began)
        found: dict[str, str] = {}
        for name in names:
            path = section.get(name)
            if isinstance(path, str) and isinstance(began, str) and not os.path.exists(os.path.expanduser(path)):
                there = os.path.join(began, path)
                found |= {name: there} if os.path.exists(there) else {}
        return found

    def update(self, **values: Any) -> None:
        """Write some keys of config.json anew."""
        config = replace(self.config, **{name: _plain(value) for name, value in values.items()})
        self.write("config.json", config.to_json())
        self.config = config

    def agree(self, name: Literal["model", "data", "train"], config: Any, but: Iterable[str] = ()) -> None:
        """Raise if a section differs from that at the start of the run. but: keys that may differ"""
        changed = configs.differences(self.section(type(config), name), config)
        changed = [each for each in changed if each[0] not in set(but)]
        if changed:
            said = "; ".join(f"{name}.{key} was {then!r} and is now {now!r}" for key, then, now in changed)
            raise RegardError(
                f"{self.path} was started with other options: {said}. Resume with the same, or start a new run"
            )

    # ── files

    @property
    def model_file(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def tokenizer_file(self) -> Path:
        return self.path / "tokenizer.json"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    def write(self, name: str, value: Any) -> None:
        """Write a file of JSON with its checksum."""
        self.manifest.write({name: _json_file(value)})

    def publish(self, data: bytes) -> None:
        """Write model.safetensors with its checksum."""
        self.manifest.write({self.model_file.name: data})

    def verify(self, name: str) -> Path:
        """The path of a file, once it is sure that it is as it was written."""
        return self.manifest.verify(name)

    def read(self, name: str) -> Any:
        """The value of a file of JSON, once it is sure that it is as it was written; None if there is
        none."""
        if not (self.path / name).exists():
            return None
        return files.parse_json(self.manifest.read_bytes(name), self.path / name)

    def sweep(self) -> list[Path]:
        """Remove what killed processes left half-written; returns it. For who holds the lock: nobody else
        writes these."""
        inside = (self.state, self.path / "samples")
        found = [files.sweep(folder, older=-math.inf) for folder in inside]
        return sum(found, files.sweep(self.path, names=WRITTEN))

    def environment(self) -> dict[str, Any]:
        """The content of environment.json; empty if there is none."""
        return dict(self.read("environment.json") or {})

    def write_sample(self, step: int, text: str) -> None:
        files.make_folder(self.path / "samples")
        files.write_text(self.path / "samples" / f"{step}.txt", text)

    def samples(self) -> list[tuple[int, str]]:
        """The samples of the training, each with its step, in order."""
        folder = self.path / "samples"
        found: dict[int, Path] = {}
        if folder.is_dir():
            found = {int(path.stem): path for path in folder.glob("*.txt") if path.stem.isdecimal()}
        return [(step, found[step].read_text("utf-8", errors="replace")) for step in sorted(found)]

    # ── metrics

    def append(self, events: Iterable[Mapping[str, Any]], sync: bool = False) -> None:
        """Add lines to metrics.jsonl; `sync`: and wait until the disk has them."""
        files.append_text(self.metrics_file, "".join(files.json_text(event) + "\n" for event in events), sync)

    def count_unreadable(self) -> int:
        """How many lines of metrics.jsonl are no events."""
        return sum(event is None for _, event in self._lines())

    def metrics(self) -> list[dict[str, Any]]:
        """All events so far, in order. A last line that was cut off in the middle is left out."""
        events = []
        for number, (line, event) in enumerate(self._lines(), 1):
            if event is None:
                raise RegardError(f"{self.metrics_file}: line {number} is not an event: {line[:60]!r}")
            events.append(event)
        return events

    def cut(self, step: int) -> int:
        """Forget what happened after a step, and lines that cannot be read; says how many of those there
        were."""
        lines = self._lines()
        if self.metrics_file.exists():
            kept = [line + "\n" for line, event in lines if event is not None and not _after(event, step)]
            files.write_text(self.metrics_file, "".join(kept))
        return sum(event is None for _, event in lines)

    def _lines(self) -> list[tuple[str, dict[str, Any] | None]]:
        """Each line that was finished, with its event, or None if it is none."""
        if not self.metrics_file.exists():
            return []
        lines = files.read_bytes(self.metrics_file).decode("utf-8", errors="replace").split("\n")[:-1]
        return [(line, _event(line)) for line in lines]


# ── a folder of several runs


def is_run_group(path: files.PathLike) -> bool:
    """Is this the folder of several runs, of any format?"""
    return _summary(path) is not None


def run_group_above(path: files.PathLike) -> Path | None:
    """The folder of several runs that this run is one of; None: it stands alone."""
    above = Path(path).parent
    found = _summary(above)
    if found is None or Path(path).name not in found["names"]:
        return None
    return above


def say_which_runs(path: files.PathLike) -> str:
    """The line for whoever gives the folder of several runs where one is expected."""
    names = (_summary(path) or {"names": ["?"]})["names"]
    return (
        f"{path} holds {len(names)} runs, {names[0]} … {names[-1]}; give one of them, such as "
        f"{Path(path) / names[0]} (the figures of all are in {SUMMARY} and report.html)"
    )


def _summary(path: files.PathLike) -> dict[str, Any] | None:
    try:
        found = files.read_json(Path(path) / SUMMARY)
    except (OSError, ValueError, TypeError):
        return None
    if isinstance(found, dict) and "regard" in found and isinstance(found.get("names"), list):
        return found if found["names"] else None
    return None


class SharedRun(Run):
    """A run that another process writes: what would be written here is not."""

    def write(self, name: str, value: Any) -> None: ...

    def publish(self, data: bytes) -> None: ...

    def write_sample(self, step: int, text: str) -> None: ...

    def append(self, events: Iterable[Mapping[str, Any]], sync: bool = False) -> None: ...

    def sweep(self) -> list[Path]:
        return []

    def cut(self, step: int) -> int:
        return 0


# ── words


def _json_file(value: Any) -> bytes:
    return (files.json_text(value, indent=2) + "\n").encode("utf-8")


def _after(event: dict[str, Any], step: int) -> bool:
    """Did it happen after a step? A test did, at any step: it is the last that happens, and happens again."""
    return event["step"] > step or event.get("event") == "test"


def _event(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    if isinstance(event, dict) and isinstance(event.get("step"), int):
        return event
    return None


def _has_relative_paths(data: Any) -> bool:
    """Does a section name files by paths that count from some folder?"""
    paths = [getattr(data, name) for name in getattr(type(data), "paths", ())]
    return any(isinstance(path, str) and not os.path.isabs(os.path.expanduser(path)) for path in paths)


def _plain(value: Any) -> Any:
    return configs.to_dict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")
