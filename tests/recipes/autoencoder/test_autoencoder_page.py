"""The latent space in a real browser: pointed at, dragged over and stepped through, as a file and with a server behind."""

import re
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from regard.look import page
from tests.look.asked import running
from tests.look.browser import PHONE, eventually, opened, plain, ready, three, watched
from tests.recipes.autoencoder.latent_pages import CENTRE, COLUMNS, SCALE, codes_of, part, session_of, shown_page

PICTURE = "document.querySelector('.decoded canvas').toDataURL()"
PATH = "document.querySelector('.decoded path').getAttribute('d')"


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """Writes the page of a model into a file."""
    folder = tmp_path_factory.mktemp("latent")

    def written(form, kind="vae", latent=2):
        session, data = shown_page(form, kind, latent)
        where = folder / f"{form}-{kind}-{latent}.html"
        page.write(data | {"live": None}, where, session.files)
        return where

    return written


def words(shown):
    return plain(shown.locator(".decoded .readout").inner_text())


def numbers(text):
    return [float(each.replace("−", "-")) for each in re.findall(r"−?\d+\.?\d*(?:e−?\d+)?", text)]


def fits(shown):
    return shown.evaluate("document.documentElement.scrollWidth <= innerWidth")


def spot(shown, latent, place):
    """Where a place of the map is seen."""
    frame = shown.locator(".latent-map")
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    low, high = latent["low"], latent["high"]
    scale = min(box["width"] / (high[0] - low[0]), box["height"] / (high[1] - low[1]))
    middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    x = box["x"] + box["width"] / 2 + (place[0] - middle[0]) * scale
    return x, box["y"] + box["height"] / 2 - (place[1] - middle[1]) * scale


# ---- a file


def test_a_file_decodes_the_nearest_of_what_was_decoded_for_it(browser, write):
    _, data = shown_page("images")
    latent = part(data, "latent")
    with opened(browser, write("images"), "latent") as shown:
        ready(shown)
        assert words(shown).startswith("z = (")
        assert shown.locator(".tabs button").all_inner_texts()[:3] == [
            "Latent space",
            "Reconstructions",
            "Rate and distortion",
        ]
        first = shown.evaluate(PICTURE)
        shown.mouse.click(*spot(shown, latent, [edge + 0.02 for edge in latent["low"]]))
        assert "nearest" in words(shown)
        far = shown.evaluate(PICTURE)
        assert far != first
        shown.locator(".latent-map").press("Home")
        assert shown.evaluate(PICTURE) == first
        for _ in range(12):
            shown.locator(".latent-map").press("Shift+ArrowLeft")
            shown.locator(".latent-map").press("Shift+ArrowDown")
        assert shown.evaluate(PICTURE) == far  # the same corner, by keys
        shown.locator(".latent-map").press("PageDown")
        assert "image 3, cat" in shown.locator(".decoded").inner_text()
        whole = "document.querySelector('.latent-map canvas').toDataURL()"
        seen = {shown.evaluate(whole)}
        for way in ("inputs", "what is decoded everywhere"):
            shown.get_by_role("radio", name=way, exact=True).check()
            seen.add(shown.evaluate(whole))
        assert len(seen) == 3
        before = shown.evaluate(whole)
        shown.get_by_role("button", name="dog </script>").click()
        assert shown.evaluate(whole) != before


def test_a_slider_of_a_file_shows_its_strip(browser, write):
    _, data = shown_page("images")
    number = part(data, "latent")["dimensions"][0]["number"]
    with opened(browser, write("images"), "latent") as shown:
        ready(shown)
        slider = shown.get_by_role("slider", name=f"z{number + 1}", exact=True)
        for key, value in (("Home", -3), ("End", 3)):
            slider.press(key)
            assert words(shown).startswith(f"z{number + 1} = {three(value)}")
            edge = 0 if value < 0 else 8
            cell = f"document.querySelectorAll('.dimension')[0].querySelectorAll('canvas')[{edge}].toDataURL()"
            assert shown.evaluate(PICTURE) == shown.evaluate(cell)


@pytest.mark.parametrize("form, latent", [("images", 1), ("rows", 5), ("points", 3)])
def test_every_tab_fits_a_telephone_in_the_dark(browser, write, form, latent):
    where = write(form, "denoising" if form == "rows" else "vae", latent)
    with opened(browser, where, viewport=PHONE, color_scheme="dark") as shown:
        for name in ("latent", "reconstructions", "rate"):
            shown.locator(f"#tab-{name}").click()
            shown.locator(".title-line").wait_for()
            ready(shown)
            assert fits(shown), name


def test_a_space_is_turned_and_its_inputs_are_stepped_through(browser, write):
    with opened(browser, write("points", "vae", 3), "latent") as shown:
        ready(shown)
        whole = "document.querySelector('.latent-map canvas').toDataURL()"
        before, cloud = shown.evaluate(whole), shown.evaluate(PATH)
        shown.locator(".latent-map").press("ArrowLeft")
        eventually(shown, lambda: shown.evaluate(whole) != before, True)
        shown.locator(".exhibit-space").first.press("ArrowLeft")
        assert shown.evaluate(PATH) != cloud
        shown.locator(".latent-map").press("PageDown")
        assert "point cloud 3, cat" in shown.locator(".decoded").inner_text()


def test_a_table_is_read_in_its_own_units(browser, write):
    session, _ = shown_page("rows", "autoencoder", 5)
    held = session.reader.codes.held_out
    worst = held.worst_first[0]
    expected = np.stack([held.x[worst], held.back[worst]]) * np.array(SCALE) + np.array(CENTRE)
    with opened(browser, write("rows", "autoencoder", 5), "reconstructions") as shown:
        ready(shown)
        first = shown.locator(".pairs li").first
        assert first.locator("tbody th").all_inner_texts() == list(COLUMNS)
        for i, line in enumerate(first.locator("tbody tr").all()):
            given, back, apart = (numbers(text)[0] for text in line.locator("td").all_inner_texts())
            assert [given, back] == pytest.approx(expected[:, i], rel=2e-3, abs=1e-6)
            assert apart == pytest.approx(expected[1, i] - expected[0, i], rel=2e-2, abs=1e-6)


# ---- with a server


@contextmanager
def served(browser, codes):
    """A page of a server, open at the latent space, and what it was asked."""
    session = session_of(codes)
    asked = []
    ask = session.ask
    session.ask = lambda question: asked.append(question) or ask(question)
    with running(session) as address, watched(browser, allowed=address.partition("?")[0]) as shown:
        shown.goto(f"{address}#view=latent")
        ready(shown)
        yield shown, asked, session


def test_what_is_pointed_at_is_decoded_at_once(browser):
    codes = codes_of("images", latent=2)
    with served(browser, codes) as (shown, asked, session):
        latent = part(session.latest().data, "latent")
        corner = [latent["low"][0] + 0.02, latent["high"][1] - 0.02]
        shown.mouse.move(*spot(shown, latent, corner))
        shown.mouse.down()
        eventually(shown, lambda: numbers(words(shown)), pytest.approx(corner, abs=0.02))
        x, y = spot(shown, latent, corner)
        for k in range(40):
            shown.mouse.move(x + 2 * k, y + k)
        shown.mouse.up()
        scale = (spot(shown, latent, [1, 0])[0] - spot(shown, latent, [0, 0])[0]) or 1
        end = [corner[0] + 78 / scale, corner[1] - 39 / scale]
        eventually(shown, lambda: numbers(words(shown)), pytest.approx(end, abs=0.03))
        assert len([each for each in asked if "place" in each]) < 40  # of all moves, only the newest counts
        # the strips follow the code
        eventually(shown, lambda: any("strips" in each for each in asked), True)
        assert next(each for each in asked if "strips" in each)["code"] == pytest.approx(end, abs=0.03)


def test_a_click_in_space_decodes_what_is_seen_there(browser):
    with served(browser, codes_of("points", latent=3)) as (shown, asked, session):
        latent = part(session.latest().data, "latent")
        low, high = np.array(latent["low"]), np.array(latent["high"])
        frame = shown.locator(".latent-map")
        frame.scroll_into_view_if_needed()
        box = frame.bounding_box()
        x, y = 0.08 * box["width"], 0.12 * box["height"]  # far from all codes
        shown.mouse.click(box["x"] + x, box["y"] + y)
        eventually(shown, lambda: any("place" in each for each in asked), True)
        a, b, c = (np.array(asked[0]["place"]) - (low + high) / 2) / ((high - low).max() / 2)
        yaw, pitch, eye = 0.6, 0.35, 3.2  # as the page begins
        right, deep = a * np.cos(yaw) - b * np.sin(yaw), a * np.sin(yaw) + b * np.cos(yaw)
        size = eye / (eye + deep * np.cos(pitch) - c * np.sin(pitch))
        scale = 0.46 * min(box["width"], box["height"]) * size
        seen = [
            box["width"] / 2 + right * scale,
            box["height"] / 2 - (c * np.cos(pitch) + deep * np.sin(pitch)) * scale,
        ]
        assert seen == pytest.approx([x, y], abs=1.0)


def test_sliders_change_one_number_each_and_are_paged(browser):
    codes = codes_of("rows", latent=11)
    with served(browser, codes) as (shown, asked, session):
        here = part(session.latest().data, "latent")["here"]["code"]
        third = codes.order[2]
        slider = shown.get_by_role("slider", name=f"z{third + 1}", exact=True)
        slider.press("ArrowRight")
        eventually(shown, lambda: any("code" in each and "strips" not in each for each in asked), True)
        code = [each for each in asked if "code" in each][-1]["code"]
        others = [i for i in range(11) if i != third]
        assert [code[i] for i in others] == [here[i] for i in others] and code[third] > here[third]
        assert shown.locator(".dimension").count() == 8
        shown.get_by_role("button", name="next").click()
        names = [f"z{i + 1}" for i in codes.order[8:]]
        assert shown.locator(".dimension-name strong").all_inner_texts() == names
        eventually(shown, lambda: asked[-1].get("strips"), codes.order[8:])
        eventually(shown, lambda: shown.locator(".dimension .exhibit-bars").count(), 27)
        with torch.no_grad():
            expected = codes.model.decode_mean(torch.tensor(code))
        value = float(expected[0]) * SCALE[0] + CENTRE[0]
        decoded = shown.locator(".decoded tbody tr").first.locator("td").last
        eventually(shown, lambda: numbers(decoded.inner_text()), pytest.approx([value], rel=2e-3))
