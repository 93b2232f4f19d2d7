"""The page of a world in a real browser: played, pointed at, changed, by mouse and by keyboard, wide and narrow."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from regard.look import page as pages
from regard.look.reader import Reader
from regard.look.session import Session
from regard.recipes.world.problem import VIEWS
from regard.recipes.world.reader import EpisodeReader
from regard.recipes.world.views import episode as episode_view
from tests.look.asked import running
from tests.look.browser import PHONE, eventually, opened, plain, ready, three, watched
from tests.recipes.world.worlds import input_of, made_episodes, small_world

HORIZON = 8
# names of actions that lie on a dot of their plot
LEVELS_ON_DOTS = """[...document.querySelectorAll(".world-level")].filter((words) => {
  const one = words.getBoundingClientRect();
  return [...words.closest("svg").querySelectorAll("circle")].some((dot) => {
    const other = dot.getBoundingClientRect();
    return other.left < one.right && other.right > one.left && other.top < one.bottom && other.bottom > one.top;
  });
}).length"""


class MadeReader(Reader):
    """Made episodes of a cart, which can be changed as those of a run can."""

    views, controls = VIEWS, EpisodeReader.controls

    def __init__(self, episodes, **how):
        self.episodes, self.how = episodes, how

    def read(self, given=None, target=None):
        return input_of(self.episodes, environment="CartPole-v1", **self.how)

    def change(self, given, values: Mapping[str, Any]):
        return EpisodeReader.change(self, given, values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def live():
    """A world of 4 numbers, whose first episode has 12 steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episode_view, "HORIZON", HORIZON)
        torch.manual_seed(0)
        model = small_world(observations=4)
        yield Session(model, MadeReader(made_episodes((12, 9), observations=4)), "a cart", tsne=False)


@pytest.fixture(scope="module")
def cart(live, tmp_path_factory):
    data = live.show({}) | {"live": None}
    for view in data["views"]:
        if view["view"] == "horizons":  # over many powers of ten
            view["rivals"][0]["points"] = [[1, 2e-5], [5, 0.4]]
    return pages.write(data, tmp_path_factory.mktemp("world") / "cart.html", live.files)


def captions(shown):
    return shown.locator(".world-drawings figcaption").all_inner_texts()


def said(shown, name):
    """What is said above the plot of this name."""
    keys = shown.locator(".world-curve .keys").filter(has=shown.locator(f".axis-name:text-is('{name}')"))
    return plain(keys.inner_text())


def rod(shown, k):
    return shown.locator(".world-drawing").nth(k).locator("g:not(.ghost) .rod").get_attribute("x2")


def test_an_episode_is_pointed_at_and_played(browser, cart, live):
    episode = live.reader.read().episode
    with opened(browser, cart, "episode") as shown:
        ready(shown)
        shown.locator(".world-curve").first.wait_for()
        assert captions(shown) == ["real", "imagined from here on"]  # from the third step on
        assert shown.locator(".world-level").count() == 2 and shown.evaluate(LEVELS_ON_DOTS) == 0
        plot = shown.get_by_role("application", name="angle by step", exact=True)
        plot.press("ArrowRight")
        assert captions(shown)[1] == "imagined, 1 step ahead"
        assert said(shown, "angle").startswith(f"angle real {three(float(episode.observations[3, 2]))} imagined")
        plot.press("Home")
        assert captions(shown)[1] == "still real" and rod(shown, 0) == rod(shown, 1)
        shown.get_by_role("button", name="play").click()
        eventually(shown, lambda: captions(shown)[1], "imagined: it is over")
        eventually(shown, lambda: shown.locator(".play").inner_text(), "▶ play")
        assert said(shown, "value").startswith("value")  # no number: the last future ends before the episode


def test_every_axis_has_two_numbers(browser, live, tmp_path):
    """Of a number that goes from -8 to 8 only 0 is a multiple of 10."""
    data = deepcopy(live.show({}) | {"live": None})
    (view,) = (each for each in data["views"] if each["view"] == "episode")
    view["rewards"] = np.linspace(-8, 8, len(view["rewards"])).tolist()
    page = pages.write(data, tmp_path / "axes.html", live.files)
    with opened(browser, page, "episode") as shown:
        ready(shown)
        shown.locator(".world-curve").first.wait_for()
        plots = shown.locator(".world-curve:not(:has(.world-level))")
        assert plots.count() == 7  # four numbers, value, reward, goes on
        counts = [plot.locator(".tick[text-anchor=end]").count() for plot in plots.all()]
        assert min(counts) >= 2 and max(counts) <= 6


def test_it_is_imagined_from_another_step_and_with_the_policy(browser, cart):
    with opened(browser, cart, "episode") as shown:
        ready(shown)
        start = shown.get_by_label("imagined from step")
        start.press("End")
        assert start.get_attribute("aria-valuetext") == "12" and captions(shown)[1] == "imagined from here on"
        start.press("ArrowLeft")  # the slider is drawn anew, and keeps the focus
        assert start.get_attribute("aria-valuetext") == "11"
        before = said(shown, "action")
        shown.locator("label", has_text="the policy's actions").click()
        assert "imagined push" in said(shown, "action") and "imagined" not in before


def test_moments_follow_the_step_and_the_head(browser, cart, live):
    weights = live.latest().seen[0].weights[0]
    with opened(browser, cart, "moments") as shown:
        ready(shown)
        rows = shown.locator(".moments tbody tr")
        eventually(shown, rows.count, 4)
        shown.get_by_label("what comes after step").press("End")
        eventually(shown, lambda: plain(rows.first.locator("th").inner_text()), "12 itself")
        shown.get_by_label("attention of").select_option("1")
        wanted = three(float(weights[1, 11, 9]))
        eventually(shown, lambda: plain(rows.nth(2).locator("td").nth(1).inner_text()), wanted)
        assert plain(rows.nth(2).locator("th").inner_text()) == "10 2 back"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_has_everything_in_sight(browser, cart, scheme):
    with watched(browser, viewport=PHONE, color_scheme=scheme) as shown:
        shown.goto(cart.as_uri())
        ready(shown)
        for name in ("episode", "moments", "horizons"):
            shown.locator(f"#tab-{name}").click()
            shown.locator(f".view-{name} h2").wait_for()
            shown.wait_for_timeout(100)
            assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        cut = "[...document.querySelectorAll('.tick')].filter((tick) => tick.getBBox().x < 0).length"
        assert shown.locator(".tick").count() > 4 and shown.evaluate(cut) == 0


def test_a_changed_action_changes_the_future(browser, live, tmp_path):
    (tmp_path / "other.npz").write_bytes(b"PK")
    with running(live) as address, watched(browser, allowed=address.partition("?")[0]) as shown:
        shown.goto(f"{address}#view=episode")
        editor = shown.get_by_role("group", name="change the action")
        editor.wait_for()
        taken = int(live.reader.read().episode.actions[2].argmax())
        names = ["push left", "push right"]
        assert f"At step 3 the action was {names[taken]}." in editor.inner_text()
        other = editor.get_by_role("button", name=names[1 - taken])
        other.press("Enter")
        editor.get_by_role("button", name="take back the change").wait_for()
        assert live.latest().given.changes.keys() == {2}
        assert f"At step 3, instead of {names[taken]}:" in editor.inner_text()
        assert other.evaluate("button => button === document.activeElement")
        shown.get_by_role("application", name="position by step", exact=True).press("ArrowRight")
        texts = said(shown, "position").split()
        assert texts[texts.index("taken") + 1] != texts[texts.index("imagined") + 1]
        editor.get_by_role("button", name="take back the change").click()
        eventually(shown, lambda: live.latest().given.changes, {})
        eventually(shown, lambda: editor.get_by_role("button").count(), 2)
        other.click()
        editor.get_by_role("button", name="take back the change").wait_for()
        # another file is looked at as it is
        shown.locator("input[type=file]").set_input_files(tmp_path / "other.npz")
        eventually(shown, lambda: live.latest().given.changes, {})
        shown.locator(".view-episode .picker select").select_option("1")
        eventually(shown, lambda: plain(shown.locator(".answer").inner_text()), "episode 2")
