"""What a run ends with: the split that was kept for it, what is taken for what, and the last lines that are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from regard import files
from regard.look import plot
from regard.recipes.job import Job
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.symmetry.report import titled
from regard.training.progress import Observer
from regard.training.tasks import Classify


def tested(run: Run, job: Job, observers: Sequence[Observer], step: int) -> None:
    """Measure the split that was kept for the end, with the weights that are published, and keep what was found."""
    assert job.test is not None
    count = job.about.get("test") if job.tested is None else job.tested
    model = load_model(run)
    with torch.no_grad():
        measures = job.task.measure(model, job.test())
    run.update(test=measures)
    run.append([{"step": step, "event": "test", **measures, "count": count}])
    for observer in observers:
        if (heard := getattr(observer, "tested", None)) is not None:
            heard(measures, count)


def write_confusion(run: Run, job: Job) -> None:
    """confusion.png of a classifier: what it takes for what, on the test split, or on the validation split without one."""
    labels = job.about.get("labels")
    if not isinstance(labels, list) or not isinstance(job.task, Classify) or not run.model_file.exists():
        return
    split, batches = ("test", job.test()) if job.test is not None else ("validation", job.source.validation())
    with torch.no_grad():
        counts = job.task.confusion(load_model(run), batches, len(labels))
    if counts.sum():
        files.write_json(
            run.path / "confusion.json", {"split": split, "labels": labels, "counts": counts.tolist()}
        )
        plot.save(
            plot.confusion(counts, labels, title=f"{run.path.name}, {split} split"),
            run.path / "confusion.png",
        )


# What a user may want of a run, in this order.
FILES = (
    "model.safetensors",
    "report.html",
    "curves.png",
    "confusion.png",
    "laws.json",
    "samples",
    "config.json",
    "metrics.jsonl",
)


def files_in_a_line(run: Run) -> str:
    """runs/text: model.safetensors, report.html, ...: those that are there."""
    there = [path for path in (run.path / name for name in FILES) if path.exists()]
    return f"{run.path}: {', '.join(path.name + '/' * path.is_dir() for path in there)}"


def laws_in_a_line(laws: list[dict[str, Any]]) -> str:
    """laws that hold: rotation by quarter turns, padding; broken: shift. What is not promised, and is not kept, is no news."""
    found: dict[str, list[str]] = {}
    for law in (
        law
        for law in laws
        if law["measured"] != "broken" or law["declared"] not in ("broken", "not promised")
    ):
        found.setdefault(str(law["measured"]), []).append(titled(law["law"], law.get("by")))
    hold = found.pop("holds", ["none"])
    return "; ".join(
        [f"laws that hold: {', '.join(hold)}", *(f"{how}: {', '.join(each)}" for how, each in found.items())]
    )
