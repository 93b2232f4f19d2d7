"""The other views of a page in a real browser: what they say is compared with the data."""

import re

import pytest
import torch

from regard.look import encode_arrays
from regard.runs.number_format import say_loss, say_percent
from tests.look import pages
from tests.look.browser import PHONE, eventually, hover, opened, plain, point, readout, ready, three
from tests.look.pages import level
from tests.look.scenes import write_page


def test_next_token(browser, example):
    at = pages.next_token()["at"]
    with opened(browser, example, "next") as shown:
        pieces = shown.locator(".piece")
        assert pieces.count() == 17
        pieces.nth(1).hover()
        assert plain(shown.locator(".at-token h2").inner_text()) == "After ·cat 2"
        assert shown.locator(".bar-figure").all_inner_texts() == [say_percent(p) for _, p in at[1]["likely"]]
        assert shown.locator(".bar-label").all_inner_texts() == [name.replace(" ", "·") for name, _ in at[1]["likely"]]
        said = plain(shown.locator(".at-token .facts").inner_text())
        assert said == f"What really follows: ·sat {say_percent(at[1]['p'])}, rank 2"
        widths = [each.bounding_box()["width"] for each in shown.locator(".fill").all()]
        first = at[1]["likely"][0][1]
        assert [w / widths[0] for w in widths] == pytest.approx([p / first for _, p in at[1]["likely"]], abs=0.02)
        shown.mouse.move(5, 5)
        shown.locator(".shaded-text").focus()
        shown.keyboard.press("Home")
        shown.keyboard.press("ArrowRight")
        shown.keyboard.press("ArrowRight")
        assert plain(shown.locator(".at-token h2").inner_text()) == "After ·sat 3"
        grounds = [piece.evaluate("node => node.style.background") for piece in pieces.all()]
        assert grounds[0] == "none" and len(set(grounds)) > 6  # nothing comes before the first token


def test_what_is_filled_in(browser, tmp_path):
    view = {**pages.next_token(), "what": "filled"}
    with opened(browser, write_page(pages.page_of([view]), tmp_path / "filled.html")) as shown:
        assert shown.get_by_role("tab").all_inner_texts() == ["Filled in"]
        shown.locator(".piece").nth(3).click()
        assert plain(shown.locator(".at-token h2").inner_text()) == "In place of ·on 4"


def test_classes(browser, example):
    with opened(browser, example, "classes") as shown:
        assert shown.locator(".bar-label").all_inner_texts() == ["golden retriever", "labrador", "<b>cat</b>", "teapot"]
        assert shown.locator(".bar-figure").all_inner_texts() == ["81.3%", "12.5%", "3.0%", "<0.01%"]


def test_contribution_as_text_and_as_bars(browser, example):
    columns = pages.contribution()["columns"]
    with opened(browser, example, "contribution") as shown:
        assert shown.locator("h3").all_inner_texts() == [column["name"] for column in columns]
        for column, bar in zip(columns, shown.locator("figure .colour-bar").all(), strict=True):
            lowest, *_, highest = bar.locator(".mark").all_inner_texts()
            sizes = [abs(value) for value in column["values"]]
            full = max(sizes) if column["signed"] else max(max(sizes), 3 * sum(sizes) / len(sizes))
            assert highest.removeprefix("+") == three(full) and lowest == (three(-full) if column["signed"] else "0")
        shown.locator(".shaded-text").nth(1).locator(".piece").nth(4).hover()
        said = readout(shown)
        for column in columns:
            value = column["values"][4]
            assert f"{column['name']} {'+' if column['signed'] and value > 0 else ''}{three(value)}" in said
        shown.locator("label", has_text="bars").click()
        cells = shown.locator("tbody tr").nth(4).locator(".number").all_inner_texts()
        assert [cell.replace("+", "") for cell in cells] == [three(column["values"][4]) for column in columns]
        boxes = [shown.locator("tbody tr").nth(4).locator(part).first.bounding_box() for part in (".fill", ".track")]
        middle = boxes[1]["x"] + boxes[1]["width"] / 2
        # what is positive goes right
        assert columns[0]["values"][4] > 0 and boxes[0]["x"] == pytest.approx(middle, abs=1)


def test_positions(browser, example):
    sinusoidal, learned = pages.positions()["items"]
    with opened(browser, example, "positions") as shown:
        shown.locator(".plot svg").wait_for()
        assert point(shown, 64, 48, 7, 3) == f"place 8, dimension 4 {three(level(sinusoidal['codes'], 7, 3))}"
        second = "figure:nth-of-type(2)"
        assert point(shown, 64, 64, 60, 2, second) == f"places 61 and 3 {three(level(sinusoidal['similarity'], 60, 2))}"
        shown.locator(".plot").focus()
        shown.keyboard.press("ArrowRight")
        shown.keyboard.press("ArrowRight")
        assert readout(shown, ".plot-figure") == f"distance 1 mean similarity {three(sinusoidal['by_distance'][1])}"
        shown.locator(".picker select").select_option("1")
        shown.get_by_text("found in training").wait_for()
        wanted = f"place 8, dimension 4 {three(level(learned['codes'], 7, 3))}"
        eventually(shown, lambda: point(shown, 64, 48, 7, 3), wanted)


def test_embeddings(browser, example):
    walk, cloud, _ = pages.embeddings()["items"]
    with opened(browser, example, "embeddings") as shown:
        assert "60.0% of the variance" in readout(shown)
        shown.locator(".scatter").focus()
        shown.keyboard.press("ArrowRight")
        shown.keyboard.press("ArrowRight")
        assert readout(shown) == f"·cat 2 ({three(walk['pca'][1][0])}, {three(walk['pca'][1][1])})"
        shown.locator("label", has_text="t-SNE").click()
        assert "far distances mean little" in readout(shown)
        shown.locator(".picker select").select_option("1")
        xs, ys = zip(*cloud["pca"], strict=True)
        box = shown.locator(".scatter canvas").bounding_box()
        middle = [(min(each) + max(each)) / 2 for each in (xs, ys)]
        reach = [(max(each) - min(each)) / 2 for each in (xs, ys)]
        scale = min((box["width"] / 2 - 56) / reach[0], (box["height"] / 2 - 28) / reach[1])
        x, y = cloud["pca"][10]
        centre = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        shown.mouse.move(centre[0] + (x - middle[0]) * scale, centre[1] - (y - middle[1]) * scale)
        assert readout(shown) == f"item·10 11 kind 2 ({three(x)}, {three(y)})"
        assert shown.locator(".legend .key").all_inner_texts() == [f"kind {k}" for k in range(4)]
        shown.locator(".legend .key").first.click()


def test_curves(browser, example):
    view = pages.curves()
    with opened(browser, example, "curves") as shown:
        assert f"best validation {view['best']['said']} at step 540" in shown.locator(".facts").inner_text()
        shown.locator(".plot").first.focus()
        shown.keyboard.press("End")
        said = readout(shown)
        last = [view[name][-1][1] for name in ("training", "smoothed", "validation")]
        assert said == "step 600 each step {} smoothed {} validation {}".format(*map(say_loss, last))
        hover(shown, ".plot", 0.5, 0.5)
        step = int(re.match(r"step (\d+) ", readout(shown))[1])
        assert f"each step {say_loss(view['training'][step - 1][1])}" in readout(shown)
        shown.locator("label", has_text="logarithmic").click()
        names = shown.locator(".keys .axis-name")
        eventually(shown, lambda: [each.split()[0] for each in names.all_inner_texts()], ["loss", "accuracy", "bits"])


def test_curves_with_few_numbers(browser, tmp_path):
    one = {"view": "curves", "training": [[1, 2.5]], "smoothed": [], "validation": [], "measures": {"nothing": []}}
    with opened(browser, write_page(pages.page_of([one]), tmp_path / "one.html")) as shown:
        shown.locator(".plot").first.focus()
        shown.keyboard.press("ArrowRight")
        assert readout(shown) == "step 1 each step 2.5000"
        assert "no numbers yet" in shown.locator(".small-plots").inner_text()


def test_samples(browser, example):
    items = pages.samples()["items"]
    with opened(browser, example, "samples") as shown:
        assert shown.locator(".samples .text").all_text_contents() == [item["text"] for item in items]
        assert plain(shown.locator(".samples .step").nth(1).inner_text()) == "step 6,000"


def test_laws(browser, example):
    with opened(browser, example, "laws") as shown:
        assert shown.locator(".verdict").inner_text() == "1 law not as declared: causality"
        rows = [plain(row.inner_text()) for row in shown.locator(".law-table tbody tr:not(.more)").all()]
        assert rows == [
            "permutation equivariant holds 1.1·10⁻⁷ 1.0·10⁻⁵", "causality holds broken blocks.1.attention 0.310 1.0·10⁻⁵",
            "shift broken broken, as declared in embed 0.0200 1.0·10⁻⁵", "padding nothing unknown – –",
        ]  # fmt: skip
        assert [each.get_attribute("class") for each in shown.locator(".law-table .badge").all()] == [
            "badge good", "badge bad", "badge plain", "badge unsure",
        ]  # fmt: skip
        shown.get_by_role("button", name="causality").click()
        assert "its mask lets a token see the next one" in shown.locator(".more:visible").inner_text()
        shown.get_by_role("button", name="causality").click()
        assert shown.locator(".more:visible").count() == 0


def test_an_element_of_the_group(browser, example):
    swaps, shifts = pages.laws()["actions"]
    with opened(browser, example, "laws", expected="willReadFrequently") as shown:
        shown.locator(".three .field").nth(2).wait_for()
        assert shown.locator(".element-name").inner_text() == "swap 0 and 1"
        assert readout(shown, ".action") == "equal largest relative difference 1.0·10⁻⁷"
        shown.get_by_role("button", name="next element").click()
        shown.get_by_role("button", name="next element").click()
        assert shown.locator(".element-name").inner_text() == "swap 0 and 3"
        element, first = swaps["elements"][2], shown.locator(".three figure").first
        eventually(shown, lambda: first.locator(".labels .label.row").all_text_contents(), element["order"])
        left = encode_arrays.unpack_array(element["left"], "u1", 9, 16)[3, 4] / 255 * 2 - 1
        said = point(shown, 9, 16, 3, 4, ".action")
        assert said == f"token0 4, component 5: f(g x) {three(left)}, g f(x) {three(left)}"
        colours = """node => {
            const all = node.getContext("2d").getImageData(0, 0, node.width, node.height).data;
            return new Set(new Uint32Array(all.buffer)).size > 1;
        }"""
        difference = shown.locator(".three .cells").nth(2)
        assert not difference.evaluate(colours)  # no difference is one colour
        shown.locator(".picker select").select_option("1")
        shown.get_by_text("not equal").wait_for()
        shown.locator(".action-section input[type=range]").fill("2")
        assert shown.locator(".element-name").inner_text() == "shift by 3"
        assert shifts["elements"][2]["holds"] is False
        eventually(shown, lambda: difference.evaluate(colours), True)


def test_classes_of_a_moved_input_have_their_names(browser, tmp_path):
    outputs = torch.tensor([[[0.2, 0.9, 0.1]], [[0.9, 0.2, 0.1]]])
    left, right = (encode_arrays.pack_array((x * 255).round().to(torch.uint8).numpy()) for x in outputs)
    element = {"label": "90°", "order": [], "left": left, "right": right, "n": 1, "c": 3, "error": 0.5, "holds": False,
               "taken": ["dog", "<b>cat</b>"]}  # fmt: skip
    names = ["<b>cat</b>", "dog", "owl"]
    action = {"name": "turn", "sentence": "", "scale": [0, 1], "components": names, "elements": [element]}
    data = pages.page_of([pages.laws() | {"actions": [action]}])
    with opened(browser, write_page(data, tmp_path / "classes.html"), "laws") as shown:
        said = shown.locator(".three figure p").all_inner_texts()
        assert said[:2] == ["first the change, then the model: dog", "first the model, then the change: <b>cat</b>"]
        first = shown.locator(".three figure").first
        eventually(shown, lambda: first.locator(".labels .label.column").all_text_contents(), names)
        assert point(shown, 1, 3, 0, 1, ".action") == "class dog: f(g x) 0.902, g f(x) 0.200"


def test_about(browser, example):
    with opened(browser, example, "about") as shown:
        rows = [
            [cell.inner_text() for cell in row.locator("th, td").all()]
            for row in shown.locator(".about-table tr").all()
        ]
        assert rows == pages.about()["rows"]


def test_the_confusion_matrix(browser, example, tmp_path):
    with opened(browser, example, "confusion") as shown:
        shown.locator(".confusion").wait_for()
        rows = shown.locator(".confusion tbody tr")
        written = [row.locator("th, td").all_inner_texts() for row in rows.all()]
        assert written == [["cat", "19", "1", ""], ["<b>dog</b>", "4", "15", "1"], ["teapot", "", "", "10"]]
        said = plain(shown.locator(".sentence").inner_text())
        assert said == "44 of 50 right (88.0%), on the test split. Rows are true classes, columns predicted ones."
        assert (
            readout(shown)
            == "Most often misclassified: <b>dog</b> as cat (4), cat as <b>dog</b> (1), <b>dog</b> as teapot (1)."
        )
        rows.nth(1).locator("td").nth(0).hover()
        assert readout(shown) == "<b>dog</b> is misclassified as cat: 4 of 20"
        grounds = [cell.evaluate("node => node.style.background") for cell in rows.nth(1).locator("td").all()]
        assert len(set(grounds)) == 3
    counts = torch.eye(40, dtype=torch.int32).numpy().astype("uint32") * 3
    labels = [f"class {k}" for k in range(40)]
    many = {"view": "confusion", "split": "validation", "labels": labels, "counts": encode_arrays.pack_array(counts)}
    with opened(browser, write_page(pages.page_of([many]), tmp_path / "many.html")) as shown:
        assert point(shown, 40, 40, 6, 6) == "class 6 is predicted correctly: 3 of 3"
        assert point(shown, 40, 40, 6, 7) == "class 6 is misclassified as class 7: 0 of 3"
        shown.mouse.move(5, 5)
        assert readout(shown) == "Nothing is misclassified."


def test_on_a_phone_words_stay_whole_and_what_scrolls_says_so(browser, example):
    heights = "nodes => nodes.map((node) => [node.innerText, node.getBoundingClientRect().height])"
    with opened(browser, example, "image", viewport=PHONE) as shown:
        shown.get_by_role("button", name="head 6").wait_for()
        buttons = shown.locator(".choice span").evaluate_all(heights)
        assert len(buttons) == 4 and max(height for _, height in buttons) < 30  # each on one line
        shown.locator("#tab-about").click()
        names = shown.locator(".about-table th").evaluate_all(heights)
        assert max(height for _, height in names) < 30
        shown.locator("#tab-laws").click()
        table = shown.locator(".law-table")
        assert table.evaluate("node => node.getBoundingClientRect().right <= innerWidth")
        assert table.evaluate("node => node.scrollWidth <= node.clientWidth")
        last = table.locator("tr").nth(1).locator("td").last
        # there is no head above it
        assert last.evaluate("node => getComputedStyle(node, '::before').content") == '"tolerance"'
        assert "broken, as declared in embed" in plain(table.inner_text())
        shown.locator("#tab-contribution").click()
        shown.locator("label", has_text="bars").click()
        scroll = shown.locator(".scroll")
        eventually(shown, lambda: scroll.get_attribute("class"), "scroll more-right")
        scroll.evaluate("node => { node.scrollLeft = 10000; }")
        eventually(shown, lambda: scroll.get_attribute("class"), "scroll more-left")


def test_views_in_the_dark(browser, example):
    """Turning the light off paints the open view again, whatever it is."""
    with opened(browser, example) as shown:
        ready(shown)
        for name in [view["view"] for view in pages.example()["views"]]:
            shown.locator(f"#tab-{name}").click()
            shown.locator(".theme").click()
            assert shown.locator(".panel h2").first.is_visible()
