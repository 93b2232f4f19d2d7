"""Parts of the input left out in a real browser: with the pointer and with the keyboard, with and without a server."""

import torch

from tests.look.asked import running
from tests.look.browser import PHONE, eventually, opened, plain, ready, watched
from tests.look.scenes import Reads, reader_for, write_page
from tests.look.test_look_page_things import FLAT, spot
from tests.look.test_look_region import OfKinds, OneImage, read_ids, session, vit
from tests.look.test_look_things import SMALL, graph_net, places_of, scene_of, set_transformer, view

ASK = "what is lost without it?"


def rows(shown):
    return [plain(text) for text in shown.locator(".regions tbody tr").all_inner_texts()]


def percent(p):
    return f"{100 * p:.{1 if p >= 0.01 else 2}f}%"


def words_of(found):
    before, after = map(percent, found["shares"])
    return f"{found['label']} {before} → {after}"


def test_a_rectangle_is_drawn_and_typed(browser):
    model, x = vit()
    live = session(model, OneImage(x))
    with running(live) as address, watched(browser, allowed=address.partition("?")[0]) as shown:
        shown.goto(f"{address}#view=image")
        shown.locator(".head-map").first.wait_for()  # then nothing moves any more
        box = shown.locator(".picture").first.bounding_box()

        def at(row, column):
            return box["x"] + column / 16 * box["width"], box["y"] + row / 16 * box["height"]

        shown.mouse.move(*at(2.5, 3.5))
        shown.mouse.down()
        shown.mouse.move(*at(8.5, 9.5), steps=3)
        shown.mouse.up()  # it is asked at once: rows 3 to 9, columns 4 to 10
        eventually(shown, lambda: len(rows(shown)), 1)
        found = live.region({"record": 0, "region": [2, 3, 9, 10]})
        assert rows(shown)[0].startswith("1 rows 3–9, columns 4–10 (19.1% of the image)")
        assert words_of(found) in rows(shown)[0]
        field = shown.get_by_label("first row of the region")
        assert field.input_value() == "3"
        field.fill("1")
        field.press("Enter")
        eventually(shown, lambda: len(rows(shown)), 2)
        assert rows(shown)[1].startswith("2 rows 1–9, columns 4–10")
        assert words_of(live.region({"record": 0, "region": [0, 3, 9, 10]})) in rows(shown)[1]
        assert shown.locator(".region-boxes .region-box").count() == 2
        for words, value in (("first row", ""), ("last row", "16"), ("last column", ""), ("first column", "")):
            shown.get_by_label(f"{words} of the region").fill(value)  # what is empty is the first, or the last
        shown.get_by_role("button", name=ASK).click()
        eventually(shown, lambda: len(rows(shown)), 3)
        assert rows(shown)[2].startswith("3 rows 1–16, columns 1–16 (100% of the image)")
        shown.get_by_role("button", name="forget region 1").click()
        assert len(rows(shown)) == 2 and shown.locator(".region-boxes .region-box").count() == 2


def test_a_span_is_dragged_over_and_typed(browser):
    live = session(OfKinds(), Reads(read_ids))
    refused = "the server responded with a status of 400"
    with running(live) as address, watched(browser, allowed=address.partition("?")[0], expected=refused) as shown:
        shown.goto(f"{address}#view=contribution")
        pieces = shown.locator(".span-text .piece")
        pieces.nth(4).hover()
        shown.mouse.down()
        pieces.nth(2).hover()
        shown.mouse.up()
        assert shown.locator(".span-text .taken").all_inner_texts() == ["c", "d", "e"]
        shown.get_by_role("button", name=ASK).click()
        eventually(shown, lambda: len(rows(shown)), 1)
        assert rows(shown)[0].startswith("1 cde (tokens 3–5)")
        assert words_of(live.region({"record": 0, "region": [2, 3, 4]})) in rows(shown)[0]
        shown.get_by_label("last token of the span").fill("8")
        shown.get_by_label("last token of the span").press("Tab")
        shown.get_by_label("first token of the span").fill("1")
        shown.get_by_label("first token of the span").press("Tab")
        shown.get_by_role("button", name=ASK).click()
        words = "nothing is left without all 8 tokens; leave at least one"
        eventually(shown, lambda: plain(shown.locator(".region .error").inner_text()), words)


def test_points_are_chosen_with_a_rectangle(browser):
    model = set_transformer(features=2)
    live = session(model, reader_for(model, {"x": FLAT}))
    with running(live) as address, watched(browser, allowed=address.partition("?")[0]) as shown:
        shown.goto(f"{address}#view=points")
        ready(shown)
        shown.get_by_role("button", name="choose points").click()
        shown.mouse.move(*spot(shown, -0.2, 0.8))
        shown.mouse.down()
        shown.mouse.move(*spot(shown, 0.4, -0.8), steps=3)
        shown.mouse.up()
        field = shown.locator(".group-field")
        assert field.input_value() == "3–4"  # those between x −0.2 and 0.4
        shown.mouse.click(*spot(shown, 0.2, -0.5))
        assert field.input_value() == "3"
        shown.get_by_role("button", name=ASK).click()
        eventually(shown, lambda: len(rows(shown)), 1)
        assert rows(shown)[0].startswith("1 point 3")
        field.fill("1, x")
        field.press("Tab")
        assert field.get_attribute("aria-invalid") == "true"


def test_nodes_are_chosen_by_keyboard(browser):
    torch.manual_seed(0)
    inputs = {"x": torch.randn(5, 4), "edges": SMALL}
    model = graph_net()
    live = session(model, reader_for(model, inputs))
    with running(live) as address, watched(browser, allowed=address.partition("?")[0]) as shown:
        shown.goto(f"{address}#view=graph")
        ready(shown)
        field = shown.locator(".group-field")
        field.fill("0")
        field.press("Tab")
        shown.get_by_role("button", name=ASK).click()
        assert "click the one that you ask about" in shown.locator(".region .error").inner_text()
        shown.mouse.click(*spot(shown, *places_of(view(live.latest(), "graph"))[2]))
        shown.get_by_role("button", name=ASK).press("Enter")
        eventually(shown, lambda: len(rows(shown)), 1)
        assert rows(shown)[0].startswith("1 node 0; of node 2 output ")
        space = shown.locator(".space")
        space.press(" ")  # the one that is marked goes, too: then nothing can be said of it
        assert field.input_value() == "0, 2"


def test_a_file_says_how_to_ask(browser, tmp_path):
    scene = scene_of(set_transformer(), {"x": FLAT.repeat(1, 1, 2)[..., :3]})
    with opened(browser, write_page(scene.data, tmp_path / "still.html"), "points", viewport=PHONE) as shown:
        ready(shown)
        words = plain(shown.locator(".region").inner_text())
        assert "The points are taken out" in words and "run regard look things" in words
        assert not shown.locator(".region button, .region input").count()
        assert shown.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
