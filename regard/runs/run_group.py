"""A folder of runs that differ in the seed or in the fold: what they are called, and what they give together.

summary.json   what was asked for, the figures of each finished run, and their means and standard deviations
seed-0/ …      or fold-01/ …: runs, each of them complete
report.html    all of them on one page
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from regard import files
from regard.errors import RegardError
from regard.runs.environment import version
from regard.runs.evaluations import best_evaluation, main_measure
from regard.runs.number_format import say_value
from regard.runs.run import SUMMARY, Run, is_run_group

FORMAT = 1  # of summary.json; raised when older files can no longer be read
Over = Literal["seed", "fold"]  # in what the runs differ
Figures = dict[str, Any]  # of one finished run


class Repeats:
    """The runs of a folder. `create` makes it, `open` finds it."""

    def __init__(self, path: files.PathLike, facts: Mapping[str, Any]) -> None:
        self.path, self.facts = Path(path), dict(facts)

    def __repr__(self) -> str:
        """<Repeats runs/text: 3 of 5 seeds>"""
        return f"<Repeats {self.path}: {len(self.figures)} of {len(self.names)} {self.over}s>"

    def __fspath__(self) -> str:
        return str(self.path)

    # ── making and finding

    @classmethod
    def create(cls, path: files.PathLike, over: Over, names: Sequence[str], facts: Mapping[str, Any]) -> Repeats:
        """Runs of these names, none of them trained yet. facts: what a resumed training must know"""
        about = {"regard": version(), "format": FORMAT, "over": over, "names": list(names), "runs": {}}
        made = cls(path, {**about, **facts})
        made.write()
        return made

    @classmethod
    def open(cls, path: files.PathLike) -> Repeats:
        found = files.read_sealed(Path(path) / SUMMARY)
        if found.get("format") != FORMAT:
            raise RegardError(
                f"{Path(path) / SUMMARY} has format {found.get('format')}, and this version reads {FORMAT}"
            )
        return cls(path, found)

    @staticmethod
    def exists(path: files.PathLike) -> bool:
        return is_run_group(path)

    def write(self) -> None:
        """Write summary.json, with the means of all runs that are finished."""
        self.facts |= {"test": self.summarise("test"), "validation": self.summarise("validation")}
        files.write_sealed(self.path / SUMMARY, self.facts)

    # ── the runs

    @property
    def over(self) -> Over:
        found: Over = self.facts["over"]
        return found

    @property
    def names(self) -> list[str]:
        return list(self.facts["names"])

    @property
    def recipe(self) -> str:
        return str(self.facts["recipe"])

    @property
    def quoted(self) -> str:
        """Its folder as a shell reads it."""
        return shlex.quote(str(self.path))

    @property
    def figures(self) -> dict[str, Figures]:
        """The figures of each run that is finished, by its name."""
        return dict(self.facts["runs"])

    @property
    def runs(self) -> list[Run]:
        """The runs that were started."""
        return [Run.open(self.path / name) for name in self.names if Run.exists(self.path / name)]

    def add(self, run: Run) -> None:
        """Note the figures of a finished run."""
        found = self.figures | {run.path.name: figures_of(run)}
        self.facts["runs"] = {name: found[name] for name in self.names if name in found}
        self.write()

    # ── together

    @property
    def split(self) -> Literal["test", "validation"]:
        """The split whose figures are cited: test, if each finished run has one."""
        found = self.figures.values()
        if found and all(each["test"] for each in found):
            return "test"
        return "validation"

    @property
    def main(self) -> str | None:
        """The measure that is told first."""
        return next((each["main"] for each in self.figures.values()), None)

    def say(self) -> str:
        """accuracy 87.2% ± 0.4%  loss 0.4106 ± 0.0098: mean ± standard deviation of 5 seeds, test split"""
        found = self.facts[self.split]
        measures = sorted(found, key=lambda name: name != self.main)
        said = "  ".join(f"{name} {say_spread(name, found[name])}" for name in measures)
        done = len(self.figures)
        if done == 1:
            what = f"of one {self.over}"
        else:
            what = f"mean ± standard deviation of {done} {self.over}s"
        return f"{said or 'no measures'}: {what}, {self.split} split"

    def summarise(self, split: Literal["test", "validation"]) -> dict[str, dict[str, Any]]:
        """Mean and standard deviation of each measure over the finished runs."""
        found = [each[split] for each in self.figures.values() if each[split]]
        shared = [name for name in (found[0] if found else ()) if all(name in each for each in found)]
        return {name: spread([each[name] for each in found]) for name in shared}


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean and standard deviation (of a sample: divided by one less); None where there is none."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return {"mean": None, "deviation": None, "runs": 0}
    deviation = statistics.stdev(finite) if len(finite) > 1 else None
    return {"mean": statistics.fmean(finite), "deviation": deviation, "runs": len(finite)}


def say_spread(measure: str, found: Mapping[str, Any]) -> str:
    """87.2% ± 0.4%, 1.8532 ± 0.0113; the mean alone if it is of one run."""
    if found["mean"] is None:
        return "no number"
    mean, deviation = found["mean"], found["deviation"]
    if deviation is None:
        return say_value(measure, mean)
    if measure == "loss" and abs(mean) >= 0.01:
        return f"{say_value(measure, mean)} ± {deviation:.4f}"  # as many digits as the mean has
    return f"{say_value(measure, mean)} ± {say_value(measure, deviation)}"


def figures_of(run: Run) -> Figures:
    """Measures of a finished run, with the numbers of their examples."""
    events = run.metrics()
    evaluations = [event for event in events if event["event"] == "validation"]
    tests = [event for event in events if event["event"] == "test"]
    best = best_evaluation(evaluations, run.config.keep)
    steps = [event for event in events if event["event"] == "step"]
    return {
        "test": _measures(tests[-1]) if tests else {},
        "count": tests[-1].get("count") if tests else None,
        "validation": {} if best is None else _measures(best),
        "main": main_measure(evaluations[-1] if evaluations else (), run.config.keep, classes=bool(run.config.labels)),
        "steps": steps[-1]["step"] if steps else 0,
        "seconds": max((event.get("seconds", 0.0) for event in events), default=0.0),
    }


def _measures(event: Mapping[str, Any]) -> dict[str, float]:
    """The measures among the facts of an event."""
    others = ("step", "seconds", "count")
    return {
        name: float(value)
        for name, value in event.items()
        if name not in others and isinstance(value, int | float) and not isinstance(value, bool)
    }


def name_runs(over: Over, numbers: Sequence[int]) -> list[str]:
    """seed-0, seed-1, … or fold-01, fold-02, …: as many digits as the largest number of folds has."""
    width = max(2, len(str(max(numbers)))) if over == "fold" else 1
    return [f"{over}-{number:0{width}}" for number in numbers]


def number_of(name: str) -> int:
    """The seed, or the fold, in the name of a run."""
    return int(name.rpartition("-")[2])
