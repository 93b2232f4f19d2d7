"""The page of series in a real browser: pointed at, explained, changed; wide and narrow."""

import pytest
import torch

from regard.look import page as pages
from regard.look.session import Session
from regard.models.sample_inputs import build_seeded
from regard.models.series import TransformerSeries, TransformerSeriesConfig
from regard.recipes.series.clock import Clock
from regard.recipes.series.config import ForecastConfig
from regard.recipes.series.problems import VIEWS
from regard.recipes.series.processor import TimeFitted, TimeProcessor
from regard.recipes.series.reader import SeriesInput, SeriesReader
from regard.recipes.series.series import Series, SeriesFile
from tests.look.asked import running
from tests.look.browser import PHONE, eventually, opened, plain, ready, watched
from tests.recipes.series.made import waves

N, HORIZON, CONTEXT = 80, 6, 30


class MadeReader(SeriesReader):
    """One made series, which can be changed as that of a run can."""

    def __init__(self, model):
        fitted = TimeFitted(channels=("sold",), clock=Clock(), horizon=HORIZON, season=12, context=CONTEXT, lags=12)
        super().__init__(None, model, TimeProcessor(ForecastConfig(), fitted), "forecast", VIEWS)
        values = waves(N)[:, None]
        values[60] = float("nan")
        series = Series(name="made", times=torch.arange(N).double().numpy(), values=values)
        file = SeriesFile(path="made.csv", channels=("sold",), series=(series,), clock=Clock())
        made = SeriesInput(inputs={}, file=file, processor=self.processor, task="forecast", held=(70,))
        self.given = made.choose(0)

    def read(self, given=None, target=None):
        return self.given


@pytest.fixture(scope="module")
def live():
    config = TransformerSeriesConfig(
        channels=1, horizon=HORIZON, quantiles=(0.1, 0.5, 0.9), lags=12, patch=3, dim=16, depth=1
    )
    model = build_seeded(TransformerSeries, config)
    return Session(model, MadeReader(model), "a series", tsne=False)


def said(shown, k=0):
    """What is said above a plot."""
    return plain(shown.locator(".series-curve .keys").nth(k).inner_text())


def test_a_written_page_shows_the_forecast_on_a_phone(browser, live, tmp_path):
    where = pages.write(live.show({}) | {"live": None}, tmp_path / "page.html", live.files)
    with opened(browser, where, "series", viewport=PHONE, color_scheme="dark") as shown:
        ready(shown)
        shown.locator(".series-curve svg").nth(2).wait_for()  # the forecast, moments, attention
        assert shown.locator(".series-editor").count() == 0
        assert "It did not learn from what came" in plain(shown.locator(".sentence").first.inner_text())
        assert shown.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        plot = shown.get_by_role("application", name="sold over time", exact=True)
        plot.press("ArrowRight")  # the last step ahead
        assert "median" in said(shown) and "80.0% band" in said(shown)
        plot.press("Home")
        assert said(shown).startswith("sold past ")
        shown.get_by_label("steps ahead").select_option("2")
        eventually(shown, lambda: shown.locator(".series-curve svg").count(), 3)


def test_a_changed_value_changes_the_forecast_of_a_served_page(browser, live):
    with running(live) as address, watched(browser, allowed="http://127.0.0.1") as shown:
        shown.goto(address + "#view=series")
        ready(shown)
        plot = shown.get_by_role("application", name="sold over time", exact=True)
        plot.press("Home")
        value = shown.get_by_label("sold at this step")
        before = shown.locator(".series-curve").first.inner_html()
        value.fill("60")
        value.press("Enter")
        shown.get_by_role("button", name="take back the change").wait_for()
        assert shown.locator(".series-curve").first.inner_html() != before
        eventually(shown, lambda: "as you changed it 60" in said(shown), True)
        shown.get_by_role("button", name="take back the change").click()
        eventually(shown, lambda: shown.get_by_role("button", name="take back the change").count(), 0)
        slider = shown.get_by_label("forecast after")
        slider.press("Home")
        eventually(shown, lambda: shown.get_by_label("forecast after").input_value(), "2")
        eventually(shown, lambda: "It learned from this part" in shown.locator(".sentence").first.inner_text(), True)
