"""How errors grow with the steps ahead, beside the linear part alone and a seasonal naive forecast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.look.encode_arrays import round_digits
from regard.look.model_input import ModelInput
from regard.look.view import View, web_files
from regard.models.series import SeriesModel
from regard.recipes.series.evaluation import RIVALS, SeriesEvaluation, evaluate_forecasts
from regard.recipes.series.reader import SeriesInput
from regard.recipes.series.time_splits import SplitSeries
from regard.recipes.series.windows import ForecastSource

if TYPE_CHECKING:
    from regard.look.scene import Scene

MOMENTS = 128  # from which forecasts are measured


class AheadView(View):
    """The error by steps ahead."""

    name, order, stands_alone = "ahead", 14, True
    files = web_files(Path(__file__).parents[1], "39-ahead.js", "series.css")

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, SeriesInput) and given.task == "forecast"

    def build(self, scene: Scene) -> dict[str, Any] | None:
        given, model = scene.given, scene.model
        assert isinstance(given, SeriesInput) and isinstance(model, SeriesModel)
        found = given.once(scene, "ahead", lambda: measure_ahead(model, given))
        if found is None:
            return None
        rivals = []
        for key, errors in found.by_step.items():
            points = [[k, round_digits(error)] for k, error in enumerate(errors, start=1) if error is not None]
            rivals.append({"name": RIVALS[key], "points": points})
        measures = {"this model": found.measures, **{RIVALS[key]: each for key, each in found.rivals.items()}}
        table = [[name, [[key, round_digits(value)] for key, value in each.items()]] for name, each in measures.items()]
        return {
            "view": self.name,
            "rivals": rivals,
            "measures": table,
            "forecasts": found.count,
            "season": found.season,
            "held": bool(given.held),
        }


def measure_ahead(model: SeriesModel, given: SeriesInput) -> SeriesEvaluation | None:
    """Errors of forecasts from the part that was held out; of other series from their second half."""
    parts, fitted = [], given.processor.fitted
    for number, series in enumerate(given.file.series):
        first = given.held[number] if given.held else len(series) // 2
        if first >= 1 and len(series) - first >= fitted.horizon:
            parts.append(SplitSeries(series=series, train=first, validation=first))
    if not parts:
        return None
    source = ForecastSource(parts, context=fitted.context, ahead=fitted.horizon)
    try:
        return evaluate_forecasts(model, source, "test", fitted.season, most=MOMENTS)
    except ValueError:  # nothing is known of what came
        return None
