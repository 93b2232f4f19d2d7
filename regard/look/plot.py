"""Pictures of a run, drawn with matplotlib from what metrics.jsonl says."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from regard import files
from regard.run import Run

TRAINING, SMOOTHED, VALIDATION = "#c6dbef", "#2171b5", "#d55e00"  # told apart without colour vision, too
REACH = 0.02  # share of all steps that a smoothed loss is the mean of, to either side


def curves(run: Run) -> None:
    """Write curves.png: loss against steps, in training and on the validation split."""
    files.write_bytes(run.path / "curves.png", drawn_curves(run.metrics(), title=run.path.name))


def drawn_curves(events: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """The picture as PNG bytes."""
    pyplot = plotter()
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    steps = [event for event in events if event["event"] == "step"]
    looks = [event for event in events if event["event"] == "validation"]
    figure, axis = pyplot.subplots(figsize=(7, 4), layout="constrained")
    if steps:
        at, losses = columns(steps)
        axis.plot(at, losses, color=TRAINING, linewidth=0.8, marker="." if len(at) == 1 else None, label="training, each step")
        axis.plot(at, smoothed(losses), color=SMOOTHED, linewidth=1.6, label="training, smoothed")
    if looks:
        best = min(looks, key=lambda event: event["loss"])
        said = f"validation, best {best['loss']:.3f} at step {best['step']:,}"
        axis.plot(*columns(looks), "o-", color=VALIDATION, markersize=4, linewidth=1.6, label=said)
        axis.plot([best["step"]], [best["loss"]], "o", color=VALIDATION, markersize=10, fillstyle="none", clip_on=False)
    axis.set_title(title, loc="left")
    axis.set(xlabel="step", ylabel="loss")
    axis.xaxis.set_major_locator(MaxNLocator(7, integer=True, steps=[1, 2, 5, 10]))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3)
    if steps or looks:
        axis.legend(frameon=False)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    pyplot.close(figure)
    return image.getvalue()


def columns(events: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[float]]:
    return [event["step"] for event in events], [event["loss"] for event in events]


def smoothed(losses: Sequence[float]) -> list[float]:
    """The mean of each loss and of as many before as after it, so that the line does not lag; at the end, of what there is."""
    reach, sums = round(REACH * len(losses)), [0.0, *accumulate(losses)]
    found = []
    for i in range(len(losses)):
        near = min(reach, i)  # at the start losses fall so fast that only a few are alike
        start, stop = i - near, min(len(losses), i + near + 1)
        found.append((sums[stop] - sums[start]) / (stop - start))
    return found


def plotter() -> Any:
    """matplotlib's pyplot, drawing to memory; it is an extra, so it may be missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise ValueError("pictures need matplotlib; install it with: pip install 'regard[look]'") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
