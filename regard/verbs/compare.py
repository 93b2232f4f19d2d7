"""regard compare: runs beside each other: settings that differ, outcomes, curves, differences example by example."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from regard.config import config
from regard.data.array import Array
from regard.data.cache import cache_folder
from regard.data.progress import Note
from regard.data.scan import scanning_once
from regard.data.tables import read_table, write_table
from regard.errors import RegardError, name_keywords
from regard.files import json_text
from regard.recipes.answers import AMONG, is_answers_file
from regard.recipes.base import problem_of_run, recipe_of, settings_of
from regard.recipes.job import DataContext
from regard.recipes.paired import Difference, differ
from regard.recipes.same_data import check_same_data
from regard.runs.run import Run
from regard.training.memory import retain_freed_memory
from regard.training.scores import Scores
from regard.verbs.compare_shown import print_comparison, write_page
from regard.verbs.compared_run import ComparedRun, differing, read_run, short_names
from regard.verbs.console import spinner
from regard.verbs.options import read_options
from regard.verbs.predict import as_given

Place = str | os.PathLike[str]
GIVE_DATA = "--data FILE judges both on one file"


@config
class CompareOptions:
    """RUN is the folder of a run, made by regard train: two or more, or a pattern in quotes ('runs/*').

    The output has the settings that differ, the outcome of each run, and for each run the difference to the
    first one on the same examples, with a 95 % interval. Both must have the same test split (or validation
    split, without one); otherwise give --data. Runs that have nothing in common are compared in their curves
    only, and a line says why.

    exit code: 0 it compared, 2 fewer than two runs can be read
    """

    data: str | None = None
    """another file or folder of the same kind, with labels, that no run was trained on: all runs are
    evaluated on it"""
    out: str | None = None
    """also write a page with the curves over each other (.html), or a table (.csv, .tsv, .parquet, .jsonl) with a row for
    each run and measure: the difference to the first run, and its interval"""
    by: Literal["steps", "seconds"] = "steps"  # the axis of the curves
    json: bool = False  # {"runs", "settings", "pairs", "notes"}: all that is printed, in full precision


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A run against another, example by example; or the reason why that cannot be."""

    run: str
    against: str
    split: str | None = None
    differences: tuple[Difference, ...] = ()  # the run minus the other, the main measure first
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"run": self.run, "against": self.against, "split": self.split}
        return found | {"differences": [each.to_json() for each in self.differences], "reason": self.reason}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Runs beside each other. `settings` are those that all have and that differ, with a value for each."""

    runs: tuple[ComparedRun, ...]
    names: tuple[str, ...]  # of the runs, short
    settings: dict[str, list[Any]]
    partly: tuple[str, ...]  # settings that only some of the runs have
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()

    def table(self) -> Any:
        """A row of Arrow for each run and measure."""
        rows = []
        for pair in self.pairs:
            names = {"run": pair.run, "against": pair.against, "split": pair.split, "reason": pair.reason}
            rows += [{**names, **each.to_json()} for each in pair.differences] or [names]
        return read_table(rows or [{"run": name} for name in self.names]).data

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "runs": [each.to_json() for each in self.runs],
            "settings": self.settings,
            "settings_of_some": list(self.partly),
            "pairs": [each.to_json() for each in self.pairs],
            "notes": list(self.notes),
        }


@name_keywords
def compare(runs: Sequence[Place], *, data: Any = None, note: Note | None = None) -> Comparison:
    """Runs beside each other, each against the first that can be evaluated.

        compare(["runs/a", "runs/b"]).pairs[0].differences[0].value
        compare(["runs/*"], data="other.csv")

    runs  folders of runs, two or more; a pattern stands for all runs that it matches
    data  other data of the same kind, with labels, on which all runs are evaluated: a path, or data in memory as
          `train` takes it; None: the test split of their own data (or the validation split without one), if that is the
          same for both
    note  told what is being prepared, and the share that is done
    """
    found, notes = _readable([read_run(path) for path in _expand(runs)])
    names = tuple(short_names([each.path for each in found]))
    judged: list[Judged | str] = []
    with scanning_once():
        for name, each in zip(names, found, strict=True):
            if note is not None:
                note(f"evaluating {name}", None)
            judged.append(_judge(each, data, note))
    if note is not None:
        note("evaluating", 1.0)
    first = next((place for place, one in enumerate(judged) if isinstance(one, Judged)), 0)
    pairs = [
        _pair(names[place], names[first], one, judged[first]) for place, one in enumerate(judged) if place != first
    ]
    settings, partly = differing(found)
    return Comparison(
        runs=tuple(found),
        names=names,
        settings=settings,
        partly=tuple(partly),
        pairs=tuple(pairs),
        notes=(*notes, *_seen_notes(found, data)),
    )


# ── which runs


def _expand(runs: Sequence[Place]) -> list[str]:
    """All folders, each once; a pattern stands for the runs that it matches."""
    given = [runs] if isinstance(runs, str | os.PathLike) else runs
    found: dict[Path, str] = {}
    for place in given:
        each = os.fspath(place)
        if glob.has_magic(each) and not os.path.exists(each):
            matched = [path for path in sorted(glob.glob(each)) if (Path(path) / "config.json").is_file()]
            if not matched:
                raise RegardError(f"no run matches {each!r}; give folders of runs, as made by regard train")
        else:
            matched = [each]
        for path in matched:
            found.setdefault(Path(path).resolve(), path)
    if len(found) < 2:
        got = ", ".join(found.values()) or "none"
        raise RegardError(f"compare takes two runs or more, got {got}; see: regard compare --help")
    return list(found.values())


def _readable(runs: Sequence[ComparedRun]) -> tuple[list[ComparedRun], list[str]]:
    """The runs that can be read; what is wrong with the others is told in a line each."""
    good = [each for each in runs if each.error is None]
    bad = [each for each in runs if each.error is not None]
    if len(good) < 2:
        raise RegardError(f"compare needs two runs that can be read, got {len(good)}: {bad[0].error}")
    return good, [f"left out: {each.error}" for each in bad]


# ── example by example


@dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """A run on the examples of a split."""

    recipe: str
    split: str
    data: str | None  # where the examples are from
    labels: tuple[str, ...] | None
    scores: Scores
    rows: Array | None


def _judge(found: ComparedRun, data: Any, note: Note | None) -> Judged | str:
    """The run on each example; or the reason why it cannot be asked."""
    run = found.run
    assert run is not None
    if run.config.recipe is None:
        return "a module of your own: regard does not know how to read its data"
    if not run.model_file.exists():
        return "it has no weights yet"
    try:
        return _scores_of(run, data, note)
    except (ValueError, OSError) as error:
        return " ".join(str(error).split())


@torch.no_grad()
def _scores_of(run: Run, data: Any, note: Note | None) -> Judged:
    problem = problem_of_run(run)
    context = DataContext(cache=cache_folder(), note=note, old=run)
    model = problem.load(run)
    if data is not None:
        task, split, labels = problem.read_other(run, as_given(data), context)
        path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
    else:
        if run.config.given is not None:
            raise RegardError(f"it was trained on a {run.config.given} in memory; {GIVE_DATA}")
        settings = settings_of(run)
        job = recipe_of(run).prepare(settings, context)
        check_same_data(run, job, GIVE_DATA)
        task, split, labels = job.task, job.best_split, job.labels
        path = getattr(settings.data, "path", None)
    score = getattr(task, "score", None)
    if score is None:
        raise RegardError(f"its task ({type(task).__name__}) has no measure of single examples")
    if split.count == 0:
        raise RegardError(f"its {split.name} split is empty; {GIVE_DATA}")
    scores: Scores = score(model, split.batches())
    rows = None if split.rows is None else np.asarray(split.rows())
    if rows is not None and len(rows) != len(scores):
        rows = None
    return Judged(
        recipe=str(run.config.recipe),
        split=split.name,
        data=None if path is None else os.path.realpath(os.path.expanduser(path)),
        labels=labels,
        scores=scores,
        rows=rows,
    )


def _pair(name: str, against: str, this: Judged | str, first: Judged | str) -> Pair:
    """The differences of two runs, or why they cannot be compared example by example."""
    if isinstance(this, str) or isinstance(first, str):
        who, why = (name, this) if isinstance(this, str) else (against, first)
        return Pair(run=name, against=against, reason=f"{who}: {why}")
    order = _differ_in(this, first) or _same_order(this, first)
    if isinstance(order, str):
        return Pair(run=name, against=against, reason=f"only curves are compared: {order}")
    mine = _in_order(this.scores, order)
    measures = [each for each in mine.sums if each in first.scores.sums]
    measures.sort(key=lambda each: each != first.scores.main)
    found = tuple(differ(mine, first.scores, each) for each in measures)
    return Pair(run=name, against=against, split=os.path.basename(first.split), differences=found)


def _differ_in(this: Judged, first: Judged) -> str | None:
    """Why two runs are asked different things; None: they are asked the same."""
    if this.recipe != first.recipe:
        return f"one was trained on {this.recipe}, the other on {first.recipe}"
    if this.labels != first.labels or this.scores.main != first.scores.main:
        return "they predict different things: other classes, or other numbers"
    if this.data != first.data:
        ours, theirs = (os.path.basename(str(each or "built-in data")) for each in (this.data, first.data))
        return f"they were trained on different data ({ours}, {theirs}); {GIVE_DATA}"
    if this.split != first.split:
        return f"one has a {this.split} split, the other a {first.split} split; {GIVE_DATA}"
    return None


def _same_order(this: Judged, first: Judged) -> Array | str:
    """Where each example of the first run is among those of the other; or why they are not the same."""
    if this.rows is not None and first.rows is not None:
        if not np.array_equal(np.sort(this.rows), np.sort(first.rows)):
            return (
                f"they hold out different examples as {first.split} split (it is drawn by --train.seed and "
                f"the shares of --data), so one was trained on what the other is judged on; {GIVE_DATA}"
            )
        place = {int(row): at for at, row in enumerate(this.rows)}
        return np.array([place[int(row)] for row in first.rows])
    same = len(this.scores) == len(first.scores) and torch.equal(this.scores.target, first.scores.target)
    if not same:
        return "their examples are not the same (other data, tokens, context or seed)"
    return np.arange(len(first.scores))


def _in_order(scores: Scores, order: Array) -> Scores:
    places = torch.from_numpy(order)
    moved: dict[str, Any] = {"counts": scores.counts[places]}
    moved["sums"] = {name: each[places] for name, each in scores.sums.items()}
    for name in ("predicted", "shares"):
        part = getattr(scores, name)
        moved[name] = None if part is None else part[places]
    return replace(scores, **moved)


def _seen_notes(runs: Sequence[ComparedRun], data: Any) -> list[str]:
    """A warning for runs that were trained on the file that they are judged on."""
    if not isinstance(data, str | os.PathLike):
        return []
    given = os.path.realpath(os.path.expanduser(os.fspath(data)))
    found = []
    for each in runs:
        path = each.settings.get("data.path")
        if isinstance(path, str) and os.path.realpath(os.path.expanduser(path)) == given:
            found.append(f"{each.path} was trained on {path}, so its figures there say little")
    return found


# ── the command


def run(words: list[str]) -> int:
    """regard compare RUN RUN..."""
    options, words = read_options(CompareOptions, words, "regard compare")
    if options.out is not None and not options.out.lower().endswith(".html") and not is_answers_file(options.out):
        raise RegardError(f"--out must be a page (.html) or a table ({AMONG}), got {options.out!r}")
    with spinner(f"comparing {len(words)} runs"), retain_freed_memory():
        found = compare(words, data=options.data)
    if options.json:
        print(json_text(found.to_json(), indent=2))
    else:
        print_comparison(found, seconds=options.by == "seconds")
    if options.out is not None and is_answers_file(options.out):
        write_table(options.out, found.table())
        if not options.json:
            print(f"\n{options.out}: a row for each run and measure")
    elif options.out is not None:
        path = write_page(found, options.out, seconds=options.by == "seconds")
        if not options.json:
            print(f"\n{path}: open it in a browser")
    return 0
