"""What a run directory tells: how it learned, what it wrote meanwhile, and what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from regard.look.encode_arrays import round_digits
from regard.look.plot import smooth
from regard.look.redact_paths import PERSONAL, without_folders
from regard.look.view import View
from regard.nn.moe import count_active
from regard.runs.evaluations import LAST, best_evaluation, say_best
from regard.runs.number_format import say_value
from regard.runs.run import Run

if TYPE_CHECKING:
    from regard.look.scene import Scene


MOST = 1000  # points of a curve
DIGITS = 6  # of a value of a curve: as many as are read from it, and two more
LATEST = 8  # samples that are shown


class CurvesView(View):
    """How a run learned."""

    name, order = "curves", 70

    def build(self, scene: Scene) -> dict[str, Any] | None:
        return None if scene.run is None else curves(scene.run)


class SamplesView(View):
    """What a run wrote as it learned."""

    name, order = "samples", 72

    def build(self, scene: Scene) -> dict[str, Any] | None:
        return None if scene.run is None else samples(scene.run)


class AboutView(View):
    """What there is to know in a few lines."""

    name, order = "about", 90

    def build(self, scene: Scene) -> dict[str, Any]:
        return about(scene.model, scene.name, scene.run)


def curves(run: Run) -> dict[str, Any] | None:
    """Losses and measures against steps, or None before the first step."""
    events = run.metrics()
    steps = [event for event in events if event["event"] == "step"]
    evaluations = [event for event in events if event["event"] == "validation"]
    if not steps and not evaluations:
        return None
    losses = [(event["step"], event["loss"]) for event in steps]
    soft = list(zip([step for step, _ in losses], smooth([loss for _, loss in losses]), strict=True))
    measures = sorted(
        {name for event in evaluations for name, value in event.items() if _plain(value)} - {"step", "loss", "seconds"}
    )
    return {
        "view": "curves",
        "training": _thinned(losses),
        "smoothed": _thinned(soft),
        "validation": _thinned([(event["step"], event["loss"]) for event in evaluations]),
        "best": best(evaluations, run.config.keep),
        "measures": {
            name: _thinned([(e["step"], e[name]) for e in evaluations if _plain(e.get(name))]) for name in measures
        },
    }


def best(evaluations: Sequence[dict[str, Any]], by: str | None) -> dict[str, Any] | None:
    """The evaluation whose weights were kept, where it is in the curve and in words."""
    event = best_evaluation(evaluations, by)
    if event is None:
        return None
    return {
        "which": "last" if by == LAST else "best",
        "point": [event["step"], round_digits(float(event["loss"]), DIGITS)],
        "said": say_best(event, by),
    }


def _plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _thinned(points: Sequence[tuple[int, float]]) -> list[list[Any]]:
    """Few enough to draw, the last one always among them."""
    every = max(1, len(points) // MOST)
    kept = [*points[:-1][::every], *points[-1:]]
    return [[step, round_digits(float(value), DIGITS)] for step, value in kept]


def samples(run: Run) -> dict[str, Any] | None:
    """What it wrote as it learned, the newest first."""
    items = [{"step": step, "text": text} for step, text in reversed(run.samples()[-LATEST:])]
    if items:
        return {"view": "samples", "items": items}
    return None


def best_scores(run: Run) -> dict[str, dict[str, str]]:
    """How good it is: the measures of the test split if there was one, and the best ones of the validation
    split."""
    events = run.metrics()
    tests, evaluations = ([event for event in events if event["event"] == each] for each in ("test", "validation"))
    kept = best_evaluation(evaluations, run.config.keep)
    found: dict[str, list[Mapping[str, Any]]] = {"test": [*tests[-1:]], "validation": []}
    if kept is not None:
        found["validation"].append(kept)
    return {
        name: {
            key: say_value(key, value)
            for key, value in each[0].items()
            if key not in ("step", "seconds") and _plain(value)
        }
        for name, each in found.items()
        if each
    }


def about(model: nn.Module, name: str, run: Run | None = None) -> dict[str, Any]:
    """What there is to know in a few lines."""
    size, active = sum(parameter.numel() for parameter in model.parameters()), count_active(model)
    rows = [["model", type(model).__name__], ["name", name], ["parameters", f"{size:,}"]]
    if active != size:
        rows.append(["parameters that a token passes", f"{active:,}"])
    if run is not None:
        rows += [[f"{event}.{key}", value] for event, found in best_scores(run).items() for key, value in found.items()]
        for section in ("model", "data", "train", "processor", "counts"):
            values = getattr(run.config, section)
            if values is not None:
                rows += _flat(values, f"{section}.")
        rows += _flat(run.environment())
        if not (run.config.train or {}).get("provenance"):
            rows = [[key, without_folders(value)] for key, value in rows if key not in PERSONAL]
    return {"view": "about", "rows": [[key, value if len(value) < 300 else value[:300] + "…"] for key, value in rows]}


def _flat(values: Mapping[str, Any], before: str = "") -> list[list[str]]:
    """Names and values, those of parts by their whole name; what is not set is left out."""
    rows: list[list[str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{before}{key}.")
        elif value is not None:
            rows.append([f"{before}{key}", _in_words(value)])
    return rows


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        if value:
            return "yes"
        return "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value)) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
