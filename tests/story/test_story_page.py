"""The page in a real browser: every widget by mouse, touch and keyboard; light, dark, narrow; audited; offline."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image

from tests.look.browser import PHONE, opened, ready

FIGURES = [
    "guests", "sum", "fading", "forgetting", "gates", "softmax", "keys", "heads", "masks", "positions", "rotary", "depth",
    "convolution", "birkhoff", "sets", "latent",
]  # fmt: skip
# all that a figure shows: its elements, and the pixels of its pictures
STATE = """(figure) => {
    const canvases = [...figure.querySelectorAll("canvas")].map((each) => each.toDataURL());
    return figure.innerHTML + canvases.join();
}"""


def figure(page, name):
    return page.locator(f'[data-figure="{name}"]')


def spoken(page, name):
    return figure(page, name).locator(".spoken").last.inner_text()


def centre(node):
    node.scroll_into_view_if_needed()
    box = node.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page, node, dx, dy):
    x, y = centre(node)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + dx, y + dy, steps=3)
    page.mouse.up()


def touch_drag(page, node, dx, dy):
    x, y = centre(node)
    session = page.context.new_cdp_session(page)

    def send(kind, *points):
        touches = [{"x": a, "y": b} for a, b in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})

    send("touchStart", (x, y))
    send("touchMove", (x + dx / 2, y + dy / 2))
    send("touchMove", (x + dx, y + dy))
    send("touchEnd")
    session.detach()


# ── every control does something, by keyboard


def test_all_figures_are_drawn(window):
    assert window.locator("[data-figure]").evaluate_all("all => all.map((each) => each.dataset.figure)") == FIGURES
    assert all(window.locator("[data-figure]").evaluate_all("all => all.map((each) => each.childElementCount > 0)"))


@pytest.mark.parametrize("name", FIGURES[1:])
def test_every_control_changes_its_figure_by_keyboard(window, name):
    shown = figure(window, name)
    for control in shown.locator('input[type="range"]:visible, .handle, .seat-card, select').all():
        before = shown.evaluate(STATE)
        control.focus()
        for key in ("ArrowRight", "ArrowDown", "ArrowLeft"):  # one of them may be at an end, or not a way to go
            control.press(key)
            if shown.evaluate(STATE) != before:
                break
        assert shown.evaluate(STATE) != before, f"{name}: {control.evaluate('node => node.outerHTML')[:200]}"
    for control in shown.locator("button:visible:not(.seat-card, [aria-disabled=true])").all():
        before = shown.evaluate(STATE)
        control.focus()
        control.press("Enter")
        assert shown.evaluate(STATE) != before, f"{name}: {control.inner_text()}"
    for group in shown.locator("fieldset").all():
        before = shown.evaluate(STATE)
        group.locator("input:checked").press("ArrowRight")
        assert shown.evaluate(STATE) != before, f"{name}: {group.inner_text()}"


# ── by mouse and touch


@pytest.mark.parametrize("by", [drag, touch_drag])
def test_the_query_is_dragged(fresh, by):
    handle = fresh.get_by_role("slider", name="your query")
    assert handle.get_attribute("aria-valuetext") == "music 0.00, science 4.00"
    width = figure(fresh, "keys").locator("svg").first.bounding_box()["width"]
    by(fresh, handle, width * 4 / 10.6, width * 4 / 10.6)  # 4 to the right and 4 down: from science to music
    music, science = map(float, re.findall(r"[−\d.]+", handle.get_attribute("aria-valuetext")))
    assert (music, science) == (pytest.approx(4, abs=0.1), pytest.approx(0, abs=0.1))
    assert "musician" in spoken(fresh, "keys")


@pytest.mark.parametrize("by", [drag, touch_drag])
def test_a_seat_is_dragged_and_bare_attention_does_not_notice(fresh, by):
    seats = figure(fresh, "positions").locator(".seat-card")
    first = seats.first.get_attribute("aria-label")
    heard = sorted(figure(fresh, "positions").locator(".hears").all_inner_texts())
    by(fresh, seats.first, 2 * seats.first.bounding_box()["width"], 0)
    assert seats.nth(2).get_attribute("aria-label") == first
    assert sorted(figure(fresh, "positions").locator(".hears").all_inner_texts()) == heard
    assert figure(fresh, "positions").locator(".change").all_inner_texts() == ["same"] * 5
    figure(fresh, "positions").get_by_label("sines added").check()
    assert "same" not in figure(fresh, "positions").locator(".change").all_inner_texts()
    assert "their mean by" in spoken(fresh, "positions")


@pytest.mark.parametrize("by", [drag, touch_drag])
def test_the_other_handles_are_dragged(fresh, by):
    for name in ("rotary", "convolution", "birkhoff", "latent"):
        handle = figure(fresh, name).locator(".handle").first
        before = handle.get_attribute("aria-valuetext")
        by(fresh, handle, 12, -14)
        assert handle.get_attribute("aria-valuetext") != before, name


# ── what the figures say


def test_which_memories_know_order(fresh):
    found = {}
    for name in ("sum", "fading", "forgetting", "gates", "softmax"):
        figure(fresh, name).get_by_role("button", name="Another order").click()
        found[name] = "the same memory" in spoken(fresh, name)
    assert found == {"sum": True, "fading": False, "forgetting": False, "gates": True, "softmax": True}


def test_whom_a_sixth_guest_changes(fresh):
    for name, others_stay in (("gates", True), ("softmax", False)):
        shown = figure(fresh, name).locator(".arrival:visible .value")
        before = shown.all_inner_texts()
        figure(fresh, name).get_by_role("button", name="A sixth guest").click()
        after = shown.all_inner_texts()
        assert len(after) == 6
        assert (after[:5] == before) == others_stay
    assert "sum to 1.00" in figure(fresh, "softmax").locator(".total").inner_text()


def test_a_broken_entry_breaks_the_law(fresh):
    assert "both ways give the same" in spoken(fresh, "convolution")
    figure(fresh, "convolution").get_by_role("button", name="Break one entry").click()
    assert "differ by up to" in spoken(fresh, "convolution")


def test_four_copies_are_too_many_for_base_4(fresh):
    more = figure(fresh, "sets").get_by_role("button", name="one lawyer more")
    for _ in range(4):
        more.click()
    assert "too much for base 4" in spoken(fresh, "sets")
    figure(fresh, "sets").get_by_label("base 5").check()
    assert "4 × lawyer" in spoken(fresh, "sets")


def test_photos_take_the_place_of_portraits_and_stay_here(fresh, tmp_path):
    """A red and a blue photo: their composite is purple. What is no image is named."""
    for name, colour in (("red", (255, 0, 0)), ("blue", (0, 0, 255))):
        Image.new("RGB", (30, 20), colour).save(tmp_path / f"{name}.png")
    (tmp_path / "notes.txt").write_text("no image")
    files = [tmp_path / "red.png", tmp_path / "notes.txt", tmp_path / "blue.png"]
    fresh.locator("#photos").set_input_files(files)
    told = figure(fresh, "sum").locator(".controls .spoken")
    told.filter(has_text="2 of your photos").wait_for()
    assert "notes.txt cannot be read" in told.inner_text()
    pixel = """(canvas) => {
        const copy = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
        copy.drawImage(canvas, 0, 0);
        return [...copy.getImageData(5, 5, 1, 1).data].slice(0, 3);
    }"""
    kept = figure(fresh, "sum").locator(".arrival canvas:last-child").nth(1)  # after two guests
    assert kept.evaluate(pixel) == [pytest.approx(127, abs=1), 0, pytest.approx(127, abs=1)]
    figure(fresh, "sum").get_by_role("button", name="Portraits again").click()
    assert kept.evaluate(pixel) != [127, 0, 127]


# ── light, dark, narrow, audited


def audit(page, part=None):
    found = Axe().run(page, part).response["violations"]
    return [(each["id"], each["nodes"][0]["html"][:160]) for each in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_audit_finds_nothing(fresh, scheme):
    fresh.emulate_media(color_scheme=scheme)
    fresh.locator('[data-figure="keys"]').get_by_role("button", name="A sixth guest").click()
    ground = fresh.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(253, 253, 252)", "dark": "rgb(19, 21, 25)"}[scheme]
    assert audit(fresh) == []
    fresh.emulate_media(color_scheme="light")


def test_the_theme_is_chosen_and_pictures_follow(fresh):
    pictures = """() => [...document.querySelectorAll("canvas")]
        .filter((each) => each.offsetParent).map((each) => each.toDataURL())"""
    before = fresh.evaluate(pictures)
    fresh.get_by_role("button", name="show the page dark").click()
    assert fresh.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 21, 25)"
    assert all(a != b for a, b in zip(before, fresh.evaluate(pictures), strict=True))
    fresh.evaluate("localStorage.clear()")


def test_a_planted_barrier_is_found(fresh):
    fresh.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert [name for name, _ in audit(fresh, "main > button")] == ["button-name"]


def test_on_a_telephone_nothing_scrolls_sideways(browser, written):
    with opened(browser, written, viewport=PHONE, has_touch=True) as page:
        ready(page)
        for name in ("keys", "gates", "softmax"):
            figure(page, name).get_by_role("button", name="A sixth guest").click()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        wide = """() => [...document.querySelectorAll("figure *, .equation math")]
            .filter((each) => !each.closest(".hidden") && each.getBoundingClientRect().right > innerWidth + 1)
            .map((each) => each.outerHTML.slice(0, 120))"""
        assert page.evaluate(wide) == []
        small = """() => [...document.querySelectorAll("figure button, figure label.dial input")]
            .filter((each) => each.offsetParent && each.getBoundingClientRect().height < 24)
            .map((each) => each.outerHTML.slice(0, 120))"""
        assert page.evaluate(small) == []  # large enough for a finger


def test_focus_is_seen(fresh):
    """Whatever the Tab key reaches has an outline, or is a handle with a ring."""
    fresh.keyboard.press("Tab")
    assert fresh.evaluate("document.activeElement.className") == "skip"
    for selector in (".toggle", ".seat-card", 'input[type="range"]', ".contents a"):
        node = fresh.locator(selector).first
        node.focus()
        fresh.keyboard.press("Shift")  # focus by keyboard
        assert node.evaluate("node => getComputedStyle(node).outlineStyle") != "none", selector
    handle = fresh.locator(".handle .hit").first
    assert handle.evaluate("node => getComputedStyle(node).stroke") == "none"
    fresh.get_by_role("slider", name="your query").focus()
    assert handle.evaluate("node => getComputedStyle(node).stroke") != "none"


def test_without_scripts_the_text_is_there(browser, written):
    with opened(browser, written, java_script_enabled=False, expected="policy") as page:
        assert "Residuals and norms" in page.locator("main").inner_text()
        assert "switched off" in page.locator("noscript").inner_text()
