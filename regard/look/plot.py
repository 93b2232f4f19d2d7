"""Pictures of a run, drawn with matplotlib from what metrics.jsonl says."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from regard import files
from regard.run import Run

TRAINING, VALIDATION, QUIET = "#9ecae1", "#d55e00", "#555555"  # told apart without colour vision, too


def curves(run: Run) -> None:
    """Write curves.png: loss against steps, in training and on the validation split."""
    files.write_bytes(run.path / "curves.png", drawn_curves(run.metrics(), title=run.path.name))


def drawn_curves(events: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """The picture as PNG bytes."""
    pyplot = plotter()
    steps = [event for event in events if event["event"] == "step"]
    looks = [event for event in events if event["event"] == "validation"]
    figure, axis = pyplot.subplots(figsize=(7, 4), layout="constrained")
    if steps:
        axis.plot(*columns(steps), color=TRAINING, linewidth=0.8, label="training, each step")
    if looks:
        axis.plot(*columns(looks), "o-", color=VALIDATION, markersize=4, label="validation")
        best = min(looks, key=lambda event: event["loss"])
        below = {"textcoords": "offset points", "xytext": (0, -14), "ha": "center", "color": QUIET}
        axis.annotate(f"{best['loss']:.3f}", (best["step"], best["loss"]), **below)
    axis.set(xlabel="step", ylabel="loss", title=title)
    axis.grid(alpha=0.3)
    if steps or looks:
        axis.legend()
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    pyplot.close(figure)
    return image.getvalue()


def columns(events: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[float]]:
    return [event["step"] for event in events], [event["loss"] for event in events]


def plotter() -> Any:
    """matplotlib's pyplot, drawing to memory; it is an extra, so it may be missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise ValueError("pictures need matplotlib; install it with: pip install 'regard[look]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
