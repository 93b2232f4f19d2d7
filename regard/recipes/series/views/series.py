"""A series and what the model says of it: what comes, with a band; what is missing; and which moments that rests on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.data.array import Array
from regard.look.encode_arrays import floats, round_digits
from regard.look.model_input import ModelInput
from regard.look.recording.entry import Entry
from regard.look.view import View, web_files
from regard.models.series import SeriesModel
from regard.recipes.series.evaluation import seasonal_naive
from regard.recipes.series.reader import SeriesInput
from regard.recipes.series.views.still import draw_series

if TYPE_CHECKING:
    from regard.look.scene import Scene

CHANNELS = 8  # that are shown
TOGETHER = 32  # rows that the model reads at once
LISTED = 500  # series that can be chosen
MOST = 400  # steps of the window whose effect is measured


class SeriesView(View):
    """The past, the forecast with its band, and what each moment of the past contributes."""

    name, order, stands_alone = "series", 10, True
    files = web_files(Path(__file__).parents[1], "37-series.js", "38-series-view.js", "series.css")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, SeriesInput)

    def build(self, scene: Scene) -> dict[str, Any]:
        given, model = scene.given, scene.model
        assert isinstance(given, SeriesInput) and isinstance(model, SeriesModel)
        window, task = given.window, given.task
        shown = min(CHANNELS, window.values.shape[1])
        n, ahead = len(window), given.ahead
        steps = np.concatenate((window.times, window.times[-1] + 1 + np.arange(ahead)))
        scale = given.scale
        found: dict[str, Any] = {
            "view": self.name,
            "task": task,
            "count": n,
            "ahead": ahead,
            "season": given.season,
            "times": [given.file.clock.write(step * given.every) for step in steps],
            "places": round_digits(torch.from_numpy(steps - window.times[0])),
            "channels": list(given.file.channels[:shown]),
            "of": len(given.file.channels),
            "centre": round_digits(torch.from_numpy(scale.centre[:shown])),
            "deviation": round_digits(torch.from_numpy(scale.scale[:shown])),
            "values": _numbers(window.values[:, :shown]),
            "read": _numbers(given.values[:, :shown]),
            "changes": [[step, channel, round(1000 * value)] for (step, channel), value in given.changes.items()],
            "series": [each.name for each in given.file.series[:LISTED]],
            "number": given.chosen,
            "origin": given.origin,
            "length": len(given.series),
            "held": given.held[given.chosen] if given.held else None,
            "attention": mean_attention(scene.seen, _asking(window.values, task)),
        }
        effects = hide_each(model, given)
        if effects is not None:
            found["effects"] = floats(effects[..., :shown] if task == "forecast" else effects)
        if task == "classify":
            number = given.number
            return (
                found
                if given.answers == "classes"
                else found | {"adds": "the score" if number is None else number.name}
            )
        found["quantiles"] = list(model.config.quantiles)
        out = scale.restore(scene.out[0].float().cpu().numpy())  # n h q c, or n q c
        if task == "fill":
            return found | {"answer": _numbers(out[..., :shown])}
        found["answer"] = _numbers(out[-1][..., :shown])
        found["truth"] = _truth(given, shown)
        naive = seasonal_naive(window, given.season, np.arange(1, ahead + 1))
        return found | {"naive": _numbers(naive[:, :shown])}

    def still(self, scene: Scene, title: str) -> Any:
        found = scene.view(self.name)
        assert found is not None and isinstance(scene.given, SeriesInput)
        ahead = scene.view("ahead")
        return draw_series(found, ahead, title)


def _numbers(x: Array) -> Any:
    """Rounded, with null where it is missing."""
    flat = [None if not np.isfinite(each) else float(f"{each:.6g}") for each in np.asarray(x, np.float64).reshape(-1)]
    return {"shape": list(x.shape), "numbers": flat}


def _truth(given: SeriesInput, shown: int) -> list[list[Any]]:
    """What came: its place after the first step of the window, and its numbers."""
    future, first = given.future, given.window.times[0]
    rows = []
    for time, values in zip(future.times, future.values[:, :shown], strict=True):
        if time - given.window.times[-1] <= given.ahead + 1e-6:
            rows.append([float(time - first), *_numbers(values)["numbers"]])
    return rows


def _asking(values: Array, task: str) -> Array:
    """Whose attention is shown: the last step's before a forecast, that of steps with gaps, or of all steps.
    bool n"""
    n = len(values)
    if task == "forecast":
        return np.isin(np.arange(n), n - 1)
    gaps: Any = np.isnan(values).any(1)
    if task == "fill" and gaps.any():
        return np.asarray(gaps)
    return np.ones(n, dtype=bool)


def mean_attention(seen: Any, asking: Array) -> list[dict[str, Any]]:
    """How much some steps attend to each step, on average, by layer and head."""
    found = []
    n = len(asking)
    for entry in seen:
        if not _over_steps(entry, n):
            continue
        weights = entry.weights[0].float().cpu()  # h n n
        rows = weights[:, torch.from_numpy(asking)].mean(1)
        found.append({"layer": entry.layer, "heads": list(entry.heads), "weights": round_digits(rows)})
    return found


def _over_steps(entry: Entry, n: int) -> bool:
    return bool(entry.proved and tuple(entry.shape[2:]) == (n, n))


@torch.no_grad()
def hide_each(model: SeriesModel, given: SeriesInput) -> Tensor | None:
    """How the answer changes if one step is missing: of a forecast the median of each step ahead, in deviations; of a
    label the log-odds of its class, or the number.   -> n h c, or n; None: nothing is asked, or the past is too long

    Positive: with the step, the answer is higher.
    """
    x, where = given.inputs["x"], given.inputs.get("where")
    n = x.shape[1]
    if given.task == "fill" or n < 2 or n > MOST:
        return None
    like = next(model.parameters())
    chosen = 0
    if given.task == "classify":
        chosen = int(model(**given.inputs)[0].argmax())

    def ask(rows: Tensor) -> Tensor:
        more = {} if where is None else {"where": where.expand(len(rows), -1)}
        if given.task == "forecast":
            last = torch.full((len(rows), 1), n - 1)
            return model(rows.to(like), asked=last, **more)[:, 0, :, model.config.quantiles.index(0.5)]
        out = model(rows.to(like), **more)
        if given.answers == "classes":
            return _log_odds(out, chosen)
        return out[:, chosen] * (1.0 if given.number is None else given.number.scale)

    whole = ask(x)
    parts = []
    for steps in torch.arange(n).split(TOGETHER):
        rows = x.repeat(len(steps), 1, 1)
        rows[torch.arange(len(steps)), steps] = torch.nan
        parts.append(whole - ask(rows))
    return torch.cat(parts).float().cpu()


def _log_odds(logits: Tensor, chosen: int) -> Tensor:
    """log p / (1 − p) of one class.   b k -> b"""
    others = [k for k in range(logits.shape[-1]) if k != chosen]
    return logits[:, chosen] - logits[:, others].logsumexp(-1)
