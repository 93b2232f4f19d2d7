"""Forecasts of real series: the transformer and its rivals beside seasonal naive, ETS and a linear model.

    pip install statsmodels
    python benchmarks/series.py [--only co2] [--models transformer lstm gru conv] [--steps N] [--seeds 1]

Four series that statsmodels carries: CO2 at Mauna Loa (monthly means of weeks, with gaps), sea surface temperatures of
El Niño (monthly), production of electrical equipment (monthly) and sunspots (yearly). Every model has its defaults; the
last tenth of a series is its test split, the tenth before it chooses the weights. All forecast a season ahead from every
month of the test split. ETS (additive error, damped trend, seasonal where there are seasons; the best of these by AIC) is
fitted again at every third of these moments, on everything before it, and its last fit forecasts in between; the linear
model is the ridge regression under the network, alone.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from alternate import keep, table

import regard
from regard.recipes.series.config import ForecastConfig
from regard.recipes.series.evaluation import naive_errors, point_measures
from regard.recipes.series.read_series import read_series
from regard.recipes.series.time_splits import split_by_time

RESULTS = Path(__file__).parent / "results.md"
WORDS = (
    "`python benchmarks/series.py --keep`: forecasts a season ahead (12 months, 11 years) from every moment of the last "
    "tenth of each series, one thread. MAE is in the units of the data, MASE in those of the seasonal naive error before; the "
    "models have their defaults and one seed, the linear model is the ridge regression under the network, ETS is that of "
    "statsmodels."
)
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


def co2() -> list[tuple[str, float | str]]:
    """Monthly means of the weeks of each month; a month without any is missing."""
    from statsmodels.datasets import co2 as package

    frame = package.load_pandas().data["co2"].resample("MS").mean()
    return [(f"{time:%Y-%m-%d}", "" if np.isnan(value) else value) for time, value in frame.items()]


def elnino() -> list[tuple[str, float | str]]:
    from statsmodels.datasets import elnino as package

    frame = package.load_pandas().data.set_index("YEAR")
    return [
        (f"{int(year)}-{MONTHS.index(month) + 1:02d}-01", value)
        for year, row in frame.iterrows()
        for month, value in row.items()
    ]


def equipment() -> list[tuple[str, float | str]]:
    from statsmodels.datasets import elec_equip as package

    frame = package.load_pandas().data
    return [(f"{time:%Y-%m-%d}", float(value)) for time, value in frame.iloc[:, 0].items()]


def sunspots() -> list[tuple[str, float | str]]:
    from statsmodels.datasets import sunspots as package

    frame = package.load_pandas().data
    return [(str(int(year)), value) for year, value in frame.values]


SERIES = {
    "co2": (co2, 12, 12),
    "elnino": (elnino, 12, 12),
    "equipment": (equipment, 12, 12),
    "sunspots": (sunspots, 11, 11),
}


def write(folder: Path, name: str) -> str:
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("time", name), *SERIES[name][0]()])
    return str(path)


def ets(path: str, season: int, horizon: int) -> tuple[dict[str, float], float]:
    """Measures of ETS from the moments that the models are tested from, and the seconds it takes."""
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    config = ForecastConfig(horizon=horizon, season=season)
    held = split_by_time(read_series(path, config), config).parts[0]
    values = held.series.values[:, 0]
    known = np.flatnonzero(~np.isnan(values))
    filled = np.interp(np.arange(len(values)), known, values[known])
    start = time.perf_counter()
    truth, found, last, shape = [], [], None, None
    for number, origin in enumerate(range(held.validation - 1, len(values) - horizon)):
        past = filled[: origin + 1]
        if shape is None:
            shapes = [(trend, seasonal) for trend in (None, "add") for seasonal in (None, "add")]
            shape = min(shapes, key=lambda each: fit(ETSModel, past, each, season).aic)
        if number % 3 == 0:
            last = fit(ETSModel, past, shape, season)
        else:
            last = model_of(ETSModel, past, shape, season).smooth(last.params)
        found.append(np.asarray(last.forecast(horizon)))
        truth.append(values[origin + 1 : origin + 1 + horizon])
    scaled = naive_errors(held.series.part(0, held.train), season)
    judged = point_measures(np.array(truth)[..., None], np.array(found)[..., None], np.tile(scaled, (len(truth), 1)))
    return judged, time.perf_counter() - start


def model_of(make, past, shape, season):
    trend, seasonal = shape
    return make(
        past,
        error="add",
        trend=trend,
        damped_trend=trend is not None,
        seasonal=seasonal,
        seasonal_periods=season if seasonal else None,
    )


def fit(make, past, shape, season):
    return model_of(make, past, shape, season).fit(disp=False, maxiter=200)


def learn(path: str, kind: str, season: int, horizon: int, seed: int, steps: int | None, out: Path):
    options = {"data.horizon": horizon, "data.season": season, "train.seed": seed}
    if steps is not None:
        options["train.steps"] = steps
    start = time.perf_counter()
    run = regard.train("series", data=path, model=kind, out=out, options=options, observers=[], report=False)
    return regard.evaluate(run.path), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=list(SERIES))
    parser.add_argument("--models", nargs="*", default=["transformer", "lstm", "gru", "conv"])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="write the table into results.md")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.only:
            _, season, horizon = SERIES[name]
            path = write(Path(folder), name)
            judged, seconds = ets(path, season, horizon)
            rows.append([name, "ETS", f"{judged['MAE']:.3f}", f"{judged['MASE']:.3f}", "–", "–", f"{seconds:.0f} s"])
            print(*rows[-1], flush=True)
            first = None
            for kind in asked.models:
                found = [
                    learn(path, kind, season, horizon, seed, asked.steps, Path(folder) / f"{name}-{kind}-{seed}")
                    for seed in range(asked.seeds)
                ]
                if first is None:
                    first = found[0][0]
                    for rival in ("naive", "linear"):
                        m = first.rivals[rival]
                        said = "seasonal naive" if rival == "naive" else "linear (ridge)"
                        rows.append([name, said, f"{m['MAE']:.3f}", f"{m['MASE']:.3f}", "–", "–", "–"])
                        print(*rows[-1], flush=True)
                mean = {key: statistics.fmean(each.measures[key] for each, _ in found) for key in found[0][0].measures}
                band = next(key for key in mean if "band" in key)
                rows.append([
                    name, kind, f"{mean['MAE']:.3f}", f"{mean['MASE']:.3f}", f"{mean['weighted quantile loss']:.4f}",
                    f"{mean[band]:.2f}", f"{statistics.fmean(s for _, s in found):.0f} s",
                ])  # fmt: skip
                print(*rows[-1], flush=True)
    head = ["series", "forecast by", "MAE", "MASE", "weighted quantile loss", "90% band covers", "time"]
    found = table(head, rows)
    print(found)
    if asked.keep:
        keep(RESULTS, "Series", f"{WORDS}\n\n{found}")


if __name__ == "__main__":
    main()
