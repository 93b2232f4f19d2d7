"""What came of a training, before everything else: what was trained on what, the figure, the curve, examples,
and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from regard.look.encode_arrays import pack_array
from regard.look.redact_paths import without_folders
from regard.look.view import View
from regard.look.views.history import best_scores
from regard.runs.evaluations import advise, main_measure
from regard.runs.number_format import say_number, say_percent, say_value
from regard.runs.report_examples import kept_examples, read_outcome
from regard.runs.run import Run

if TYPE_CHECKING:
    from regard.look.scene import Scene


LONGEST = 1_200  # characters of a sample
CONFUSION_FILE = (
    "confusion.json"  # written by verbs/finish.py: {"split", "labels", "classes", "counts": true × predicted}
)


class OutcomeView(View):
    """What came of a training."""

    name, order = "outcome", 0

    def build(self, scene: Scene) -> dict[str, Any] | None:
        return None if scene.run is None else outcome(scene.run, scene.model)


def outcome(run: Run, model: nn.Module | None = None) -> dict[str, Any] | None:
    """The view, or None before the first step."""
    events = run.metrics()
    if not events:
        return None
    known = read_outcome(run)
    return {
        "view": "outcome",
        "sentence": _sentence(run, model, known, events),
        "figures": _figures(run, known),
        "advice": advise(run),
        "examples": _examples(run, known),
        "sample": _sample(run),
        "next": _next(run, known),
    }


def _sentence(run: Run, model: nn.Module | None, known: Mapping[str, Any], events: list[dict[str, Any]]) -> str:
    """An encoder with 1,566,226 parameters, trained for 60 steps in 7 seconds on reviews.csv: ..."""
    if model is None:
        kind = run.config.kind or run.config.module or "model"
    else:
        kind = type(model).__name__
    article = "An" if kind[:1].lower() in "aeiou" else "A"
    parts = [f"{article} {kind}"]
    if model is not None:
        parts.append(f"with {sum(parameter.numel() for parameter in model.parameters()):,} parameters,")
    last = max(event["step"] for event in events)
    seconds = max(float(event.get("seconds", 0.0)) for event in events)
    parts.append(f"trained for {last:,} step{'s' * (last != 1)} in {_time(seconds)}")
    about = known.get("data") or (run.config.data or {}).get("path")
    if about:
        parts.append(f"on {without_folders(str(about))}")
    ended = "." if run.config.steps is None or last >= run.config.steps else f" (of {run.config.steps:,} steps)."
    return " ".join(parts) + ended


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{say_number(seconds, 2)} seconds"
    return f"{say_number(seconds / 60, 2)} minutes"


def _figures(run: Run, known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each measure with its split, count and interval: those of the test split, or of the validation split."""
    tests = [event for event in run.metrics() if event["event"] == "test"]
    intervals = tests[-1].get("intervals", {}) if tests else {}
    for split, found in best_scores(run).items():
        count = found.pop("count", None)
        if count is None and split == "validation" and isinstance(known.get("validation"), int):
            count = f"{known['validation']:,}"
        of = None if count is None else f"of {count} {known.get('unit') or 'examples'}"
        classes = bool(run.config.labels)
        first = main_measure(found, run.config.keep, classes=classes)
        names = sorted(found, key=lambda name: name != first)
        figures = []
        for name in names:
            figure = {"measure": name, "said": found[name], "split": split, "of": of}
            if split == "test" and name in intervals:
                low, high = (say_value(name, end) for end in intervals[name])
                figure["of"] = f"{of or ''}, 95 % interval {low} to {high}".removeprefix(", ")
            figures.append(figure)
        return figures
    return []


def _examples(run: Run, known: Mapping[str, Any]) -> dict[str, Any] | None:
    """Examples with their predictions, in words."""
    items = [_example(each) for each in kept_examples(run)]
    if not items:
        return None
    found = known["examples"]
    return {"split": found.get("split"), "chosen": found.get("chosen"), "items": items}


def _example(kept: Mapping[str, Any]) -> dict[str, Any]:
    words = {name: str(kept.get(name, "")) for name in ("name", "truth", "predicted")}
    share, error = kept.get("share"), kept.get("error")
    if isinstance(share, int | float):
        said = say_percent(share)
    elif isinstance(error, int | float):
        said = f"off by {say_number(error)}"
    else:
        said = ""
    shown = {name: kept.get(name) for name in ("text", "picture")}
    classes = isinstance(share, int | float)
    return words | shown | {"said": said, "right": bool(kept.get("right")), "classes": classes}


def _sample(run: Run) -> dict[str, Any] | None:
    """The last text that a language model generated while it was trained."""
    written = run.samples()
    if not written:
        return None
    step, text = written[-1]
    return {"step": step, "text": text[:LONGEST] + "…" * (len(text) > LONGEST)}


def _next(run: Run, known: Mapping[str, Any]) -> list[list[str]]:
    """Commands, each with what it is for."""
    if run.config.recipe is None:
        return []
    where = without_folders(run.quoted)
    found = [
        [f"regard look {where}", "this page for inputs of your own"],
        [f"regard evaluate {where} --data PATH", "how good it is on other data"],
        [f"regard compare {where} OTHER", "against another run, on the same examples"],
    ]
    own = known.get("next")
    if not isinstance(own, str) or own == "regard look {run}":
        return found
    return [[without_folders(own.replace("{run}", where)), "use it"], *found]


# ── how a classifier confuses the classes, on what it did not learn from


class ConfusionView(View):
    """The confusion matrix of a run."""

    name, order = "confusion", 60

    def build(self, scene: Scene) -> dict[str, Any] | None:
        return None if scene.run is None else confusion(scene.run)


def confusion(run: Run) -> dict[str, Any] | None:
    """The view, or None for a run that tells no classes apart, or has not ended."""
    found = run.read(CONFUSION_FILE)
    if found is None:
        return None
    counts = np.array(found["counts"], dtype=np.uint32)
    told = {"split": found["split"], "labels": found["labels"], "classes": found.get("classes", [])}
    return {"view": "confusion", **told, "counts": pack_array(counts)}
