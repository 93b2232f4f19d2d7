"""The other views of a page in a real browser: what they say is compared with the data."""

import re

import pytest
import torch

from regard.look import colours, pack, page
from tests.look import pages
from tests.look.browser import PHONE, eventually, opened, plain, point, readout, ready, three


def level(levels, *place):
    """A number as the page knows it: in 8 bits."""
    return levels["low"] + pack.unpacked(levels["data"], "u1", *levels["shape"])[place] / 255 * (levels["high"] - levels["low"])


def number(floats, *place):
    """A number of a map that is also read: in float32."""
    return float(pack.unpacked(floats["data"], "f4", *floats["shape"])[place])


def hover(shown, selector, x, y):
    """The pointer goes to a part of an element, measured in its width and height."""
    box = shown.locator(selector).first.bounding_box()
    shown.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])


def percent(p):
    return f"{100 * p:.1f} %" if p >= 0.01 else f"{100 * p:.2f} %"


def test_next_token(browser, example):
    at = pages.next_token()["at"]
    with opened(browser, example, "next") as shown:
        pieces = shown.locator(".piece")
        assert pieces.count() == 17
        pieces.nth(1).hover()
        assert plain(shown.locator(".at-token h2").inner_text()) == "After ·cat 2"
        assert shown.locator(".bar-figure").all_inner_texts() == [percent(p) for _, p in at[1]["likely"]]
        assert shown.locator(".bar-label").all_inner_texts() == [name.replace(" ", "·") for name, _ in at[1]["likely"]]
        said = plain(shown.locator(".at-token .facts").inner_text())
        assert said == f"What really follows: ·sat {percent(at[1]['p'])}, rank 2"
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
        assert grounds[0] == "none" and len(set(grounds)) > 6                 # nothing comes before the first token


def test_what_is_filled_in(browser, tmp_path):
    view = {**pages.next_token(), "what": "filled"}
    with opened(browser, page.write(pages.page_of([view]), tmp_path / "filled.html")) as shown:
        assert shown.get_by_role("tab").all_inner_texts() == ["Filled in"]
        shown.locator(".piece").nth(3).click()
        assert plain(shown.locator(".at-token h2").inner_text()) == "In place of ·on 4"


def test_a_picture_without_maps_is_shown_as_it_is(browser, tmp_path):
    nothing = {"grid": {"rows": 0, "columns": 0}, "query": None, "layers": [], "rollout": None}
    view = {"view": "image", "picture": pages.picture(), **nothing}
    with opened(browser, page.write(pages.page_of([view]), tmp_path / "alone.html")) as shown:
        assert shown.locator("h2").first.inner_text() == "The picture"
        assert shown.locator(".picture img").bounding_box()["width"] > 200 and shown.locator(".readout").count() == 0


def test_classes(browser, example):
    with opened(browser, example, "classes") as shown:
        assert shown.locator(".bar-label").all_inner_texts() == ["golden retriever", "labrador", "<b>cat</b>", "teapot"]
        assert shown.locator(".bar-figure").all_inner_texts() == ["81.3 %", "12.5 %", "3.0 %", "<0.01 %"]


def test_contribution_as_text_and_as_bars(browser, example):
    columns = pages.contribution()["columns"]
    with opened(browser, example, "contribution") as shown:
        assert shown.locator("h3").all_inner_texts() == [column["name"] for column in columns]
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
        assert columns[0]["values"][4] > 0 and boxes[0]["x"] == pytest.approx(middle, abs=1)   # what is positive goes right


def test_contribution_of_patches_is_a_map(browser, tmp_path):
    labels = ["class", *(f"{i},{j}" for i in range(3) for j in range(4))]
    stream = {"name": "patches", "kind": "patches", "labels": labels, "grid": {"rows": 3, "columns": 4, "before": 1}}
    view = pages.contribution(labels)
    with opened(browser, page.write(pages.page_of([view], labels, streams=[stream]), tmp_path / "map.html")) as shown:
        assert shown.locator(".matrix").count() == 3
        hover(shown, ".field", 0.6, 0.5)
        assert readout(shown).startswith("1,2 leave one out ")
        assert three(view["columns"][2]["values"][7]) in readout(shown)


def test_heads_over_the_picture(browser, example):
    view = pages.image()
    maps = view["layers"][2]["maps"]
    with opened(browser, example, "image") as shown:
        shown.get_by_role("button", name="head 6").wait_for()
        hover(shown, ".picture", 9.5 / 14, 8.5 / 14)
        values = sorted(((number(maps, head, 8, 9), head) for head in range(6)), key=lambda pair: -pair[0])[:4]
        assert readout(shown) == "row 9, column 10 " + " ".join(f"head {head + 1} {three(value)}" for value, head in values)
        shown.get_by_role("button", name=f"head {values[0][1] + 1}").click()       # that head is not looked at any more
        hover(shown, ".picture", 9.5 / 14, 8.5 / 14)
        assert readout(shown).startswith(f"row 9, column 10 head {values[1][1] + 1} ")
        shown.locator("label", has_text="one head").click()
        shown.get_by_role("button", name="head 3").click()
        assert shown.locator(".head-map[aria-pressed=true]").all_inner_texts() == ["head 3"]
        hover(shown, ".picture", 9.5 / 14, 8.5 / 14)
        assert readout(shown) == f"row 9, column 10 head 3 {three(number(maps, 2, 8, 9))}"
        shown.locator("label", has_text="rollout").click()
        hover(shown, ".picture", 3.5 / 14, 2.5 / 14)
        assert readout(shown) == f"row 3, column 4 {three(number(view['rollout'], 2, 3))}"
        shown.locator(".slider input").fill("0.3")
        assert shown.locator(".over").evaluate("node => node.style.opacity") == "0.3"
        shown.locator("label", has_text="heads together").click()
        shown.locator(".picker select").select_option(index=0)
        shown.get_by_role("application", name="patches").focus()
        shown.mouse.move(5, 5)
        shown.keyboard.press("ArrowDown")
        assert readout(shown).startswith("row 1, column 1 head ")


def test_what_matters_over_the_picture(browser, example, tmp_path):
    matters = pages.image()["matters"][0]["values"]
    pick = "(node, [x, y]) => [...node.getContext('2d').getImageData(x, y, 1, 1).data]"
    with opened(browser, example, "image", expected="willReadFrequently") as shown:
        shown.get_by_role("button", name="head 6").wait_for()
        shown.locator("label", has_text="leave one out").click()
        hover(shown, ".picture", 9.5 / 14, 2.5 / 14)
        assert readout(shown) == f"row 3, column 10 +{three(matters[2 * 14 + 9])}"
        assert "What is lost. Orange speaks for the answer" in shown.locator(".sentence").first.inner_text()
        speaks_for, against = (shown.locator(".over").evaluate(pick, place) for place in ([13, 0], [0, 13]))
        assert speaks_for[0] > speaks_for[2] and against[2] > against[0] and speaks_for[3] == against[3] == 255
        assert shown.locator(".head-map:visible").count() == 0
        assert shown.locator("h2").first.inner_text() == "What matters to the answer"
        marks = shown.locator(".view-image .colour-bar .mark").all_inner_texts()
        assert marks == ["−1.00", "0", "+1.00"]
        shown.locator("label", has_text="rollout").click()
        assert shown.locator("h2").first.inner_text() == "Where the class token looks"
    alone = pages.image() | {"layers": [], "rollout": None, "query": None}  # as of a convolutional network
    with opened(browser, page.write(pages.page_of([alone]), tmp_path / "matters.html")) as shown:
        assert shown.locator("h2").first.inner_text() == "What matters to the answer"
        assert shown.locator(".choice span").all_inner_texts() == ["leave one out"]


def test_layers_may_have_merged_patches(browser, tmp_path):
    view = pages.image()
    maps = pack.floats(torch.rand(6, 7, 7))
    view["layers"][1] |= {"maps": maps}
    with opened(browser, page.write(pages.page_of([view]), tmp_path / "merged.html"), "image") as shown:
        shown.locator(".picker select").select_option(index=1)
        eventually(shown, lambda: shown.locator(".over").evaluate("node => node.width"), 7)
        shown.locator("label", has_text="one head").click()
        shown.get_by_role("button", name="head 3").click()
        hover(shown, ".picture", 3.5 / 7, 6.5 / 7)
        assert readout(shown) == f"row 7, column 4 head 3 {three(number(maps, 2, 6, 3))}"


def test_feature_maps(browser, example):
    plain_layer, turned = pages.features()["layers"]
    with opened(browser, example, "features") as shown:
        shown.get_by_role("button", name="channel 8").click()
        assert "3 of 9 channels, those that vary most, 8 × 6" in readout(shown)
        assert point(shown, 8, 6, 5, 2) == f"channel 8, row 6, column 3 {three(level(plain_layer['maps'], 2, 5, 2))}"
        pick = "node => [...node.getContext('2d').getImageData(3, 2, 1, 1).data]"
        pixel = shown.locator(".feature-colours canvas").evaluate(pick)
        assert pixel == [*(255 * level(plain_layer["colours"], 2, 3)).round().astype(int).tolist(), 255]
        shown.locator(".picker select").select_option("1")
        shown.get_by_role("button", name="channel 2, turned by 90°").wait_for()
        shown.mouse.move(5, 5)
        shown.locator(".feature[aria-pressed=true]").focus()
        for _ in range(3):
            shown.keyboard.press("ArrowRight")
        assert shown.locator(".feature-figure h3").first.inner_text() == "channel 2, turned by 90°"
        assert point(shown, 4, 4, 1, 2) == f"channel 2, turned by 90°, row 2, column 3 {three(level(turned['maps'], 5, 1, 2))}"
        shown.mouse.move(5, 5)
        assert "2 channels, each in 4 poses, 32 × 32, drawn at 4 × 4" in readout(shown)


def test_thumbnails_on_hover(browser, example):
    with opened(browser, example, "embeddings") as shown:
        shown.locator(".picker select").select_option("2")
        assert "Each point is a picture" in readout(shown) and shown.locator(".thumb:visible").count() == 0
        shown.locator(".scatter").focus()
        shown.keyboard.press("ArrowRight")
        assert readout(shown) == "this picture, looks like cat (0, 0)"
        shown.keyboard.press("ArrowRight")
        assert readout(shown) == "a.png cat (1.00, 1.00)" and shown.locator(".thumb").inner_text() == "a.png"
        cell, image = (shown.locator(f".thumb {part}").bounding_box() for part in (".cell", "img"))
        assert image["width"] == pytest.approx(2 * cell["width"], abs=1)
        where = image["x"] + cell["width"], image["y"] + cell["height"]
        assert where == pytest.approx((cell["x"], cell["y"]), abs=1)  # the last of four
        shown.keyboard.press("ArrowRight")
        assert readout(shown).startswith("b.png dog, taken for cat") and shown.locator(".thumb:visible").count() == 0


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


def test_filters(browser, example):
    layers = pages.filters()["layers"]
    with opened(browser, example, "filters") as shown:
        shown.locator(".filter").nth(47).wait_for()
        for number, (figure, layer) in enumerate(zip(shown.locator("figure").all(), layers, strict=True)):
            figure.locator(".filter").nth(5).hover()
            low, high = level(layer["filters"], 5).min(), level(layer["filters"], 5).max()
            assert readout(shown, f"figure:nth-of-type({number + 1})") == f"filter 6: from {three(low)} to {three(high)}"
        pick = "node => [...node.getContext('2d').getImageData(3, 2, 1, 1).data]"
        pixel = shown.locator(".filter canvas").first.evaluate(pick)
        assert pixel == [*pack.unpacked(layers[0]["filters"]["data"], "u1", 24, 7, 7, 3)[0, 2, 3].tolist(), 255]


def test_embeddings(browser, example):
    walk, cloud, _ = pages.embeddings()["items"]
    with opened(browser, example, "embeddings") as shown:
        assert "60.0 % of the variance" in readout(shown)
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
        assert "best validation loss 1.54 at step 540" in shown.locator(".facts").inner_text()
        shown.locator(".plot").first.focus()
        shown.keyboard.press("End")
        said = readout(shown)
        last = [view[name][-1][1] for name in ("training", "smoothed", "validation")]
        assert said == "step 600 each step {} smoothed {} validation {}".format(*map(three, last))
        hover(shown, ".plot", 0.5, 0.5)
        step = int(re.match(r"step (\d+) ", readout(shown))[1])
        assert f"each step {three(view['training'][step - 1][1])}" in readout(shown)
        shown.locator("label", has_text="logarithmic").click()
        names = shown.locator(".keys .axis-name")
        eventually(shown, lambda: [each.split()[0] for each in names.all_inner_texts()], ["loss", "accuracy", "bits"])


def test_curves_with_few_numbers(browser, tmp_path):
    one = {"view": "curves", "training": [[1, 2.5]], "smoothed": [], "validation": [], "measures": {"nothing": []}}
    with opened(browser, page.write(pages.page_of([one]), tmp_path / "one.html")) as shown:
        shown.locator(".plot").first.focus()
        shown.keyboard.press("ArrowRight")
        assert readout(shown) == "step 1 each step 2.50"
        assert "no numbers yet" in shown.locator(".small-plots").inner_text()


def test_samples(browser, example):
    items = pages.samples()["items"]
    with opened(browser, example, "samples") as shown:
        assert shown.locator(".samples .text").all_text_contents() == [item["text"] for item in items]
        assert plain(shown.locator(".samples .step").nth(1).inner_text()).replace("\u202f", "") in ("step 6000", "step 6 000")


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
        left = pack.unpacked(element["left"], "u1", 9, 16)[3, 4] / 255 * 2 - 1
        said = point(shown, 9, 16, 3, 4, ".action")
        assert said == f"token0 4, component 5: f(g x) {three(left)}, g f(x) {three(left)}"
        colours = """node => {
            const all = node.getContext("2d").getImageData(0, 0, node.width, node.height).data;
            return new Set(new Uint32Array(all.buffer)).size > 1;
        }"""
        difference = shown.locator(".three .cells").nth(2)
        assert not difference.evaluate(colours)                                 # no difference is one colour
        shown.locator(".picker select").select_option("1")
        shown.get_by_text("not equal").wait_for()
        shown.locator(".action-section input[type=range]").fill("2")
        assert shown.locator(".element-name").inner_text() == "shift by 3"
        assert shifts["elements"][2]["holds"] is False
        eventually(shown, lambda: difference.evaluate(colours), True)


def test_about(browser, example):
    with opened(browser, example, "about") as shown:
        rows = [[cell.inner_text() for cell in row.locator("th, td").all()] for row in shown.locator(".about-table tr").all()]
        assert rows == pages.about()["rows"]


def test_the_answer_stands_above_all_tabs(browser, tmp_path):
    """Name, class, probability and label, on the first tab and on every other; text is only text."""
    asked = {"kind": "image", "text": None, "target": None, "name": "<i>dog</i>.png", "truth": "labrador"}
    asked |= {"views": "5 views (shifts)"}
    views = [pages.image(), pages.classes()]
    with opened(browser, page.write(pages.page_of(views, input=asked), tmp_path / "answer.html")) as shown:
        said = "<i>dog</i>.png: taken for golden retriever, 81.3 %, of 5 views (shifts) together labelled labrador"
        assert plain(shown.locator(".answer").inner_text()) == said
        assert shown.locator(".answer .badge.bad").count() == 1                 # it is not what the label says
        assert "the picture as it stands" in shown.locator(".view-image").inner_text()
        assert shown.locator(".as-seen img").evaluate("node => getComputedStyle(node).filter") == "none"
        assert shown.locator(".view-image > .controls .name").inner_text() == "blocks.2"
        assert shown.locator(".layer-picker option").all_inner_texts() == ["1", "2", "3"]
        shown.locator("#tab-classes").click()
        assert "The mean of 5 views (shifts) of the picture" in shown.locator(".panel").inner_text()
    views = [pages.image(), {"view": "classes", "likely": [["labrador", 1.0]]}]
    known = asked | {"views": None}
    with opened(browser, page.write(pages.page_of(views, input=known), tmp_path / "right.html")) as shown:
        assert plain(shown.locator(".answer").inner_text()) == "<i>dog</i>.png: taken for labrador, 100 % labelled labrador"
        assert shown.locator(".answer .badge.bad").count() == 0 and "as it stands" not in shown.locator(".panel").inner_text()


def test_stills_have_the_colours_of_the_page(browser, tmp_path):
    view = pages.image(heads=8)
    for layer in view["layers"]:
        layer["heads"] = [0, 1, 2, 3, 7, 8, 17, 25]
    pick = "(node, [x, y]) => [...node.getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3)"
    rollout = torch.from_numpy(pack.unpacked(view["rollout"]["data"], "f4", 14, 14).copy())
    row, column = divmod(int(rollout.argmax()), 14)
    where = page.write(pages.page_of([view]), tmp_path / "colours.html")
    with opened(browser, where, expected="willReadFrequently") as shown:
        shown.get_by_role("button", name="head 26").wait_for()
        found = [each.evaluate("node => node.style.getPropertyValue('--colour')") for each in shown.locator(".head-map").all()]
        wanted = [[round(255 * part) for part in colours.of_head(head)] for head in view["layers"][0]["heads"]]
        assert [[int(part) for part in re.findall(r"\d+", each)] for each in found] == wanted
        shown.locator("label", has_text="rollout").click()
        painted = [part / 255 for part in shown.locator(".over").evaluate(pick, [column, row])]
        assert painted == pytest.approx(colours.SPEAKS_FOR, abs=0.02)           # a canvas rounds what is half transparent
        marks = shown.locator(".view-image .colour-bar .mark").all_inner_texts()
        assert marks == [three(each) for each in colours.scale_of(rollout)]


def test_what_is_taken_for_what(browser, example, tmp_path):
    with opened(browser, example, "confusion") as shown:
        shown.locator(".confusion").wait_for()
        rows = shown.locator(".confusion tbody tr")
        written = [row.locator("th, td").all_inner_texts() for row in rows.all()]
        assert written == [["cat", "19", "1", ""], ["<b>dog</b>", "4", "15", "1"], ["teapot", "", "", "10"]]
        said = plain(shown.locator(".sentence").inner_text())
        assert said == "44 of 50 right (88.0 %), on the test split. A row is what it is, a column what it is taken for."
        assert readout(shown) == "Most often taken: <b>dog</b> for cat (4), cat for <b>dog</b> (1), <b>dog</b> for teapot (1)."
        rows.nth(1).locator("td").nth(0).hover()
        assert readout(shown) == "<b>dog</b> is taken for cat: 4 of 20"
        grounds = [cell.evaluate("node => node.style.background") for cell in rows.nth(1).locator("td").all()]
        assert len(set(grounds)) == 3
    counts = torch.eye(40, dtype=torch.int32).numpy().astype("uint32") * 3
    labels = [f"class {k}" for k in range(40)]
    many = {"view": "confusion", "split": "validation", "labels": labels, "counts": pack.packed(counts)}
    with opened(browser, page.write(pages.page_of([many]), tmp_path / "many.html")) as shown:
        assert point(shown, 40, 40, 6, 6) == "class 6 is known: 3 of 3"
        assert point(shown, 40, 40, 6, 7) == "class 6 is taken for class 7: 0 of 3"
        shown.mouse.move(5, 5)
        assert readout(shown) == "Nothing is taken for anything else."


def test_on_a_phone_words_stay_whole_and_what_scrolls_says_so(browser, example):
    heights = "nodes => nodes.map((node) => [node.innerText, node.getBoundingClientRect().height])"
    with opened(browser, example, "image", viewport=PHONE) as shown:
        shown.get_by_role("button", name="head 6").wait_for()
        buttons = shown.locator(".choice span").evaluate_all(heights)
        assert len(buttons) == 4 and len({height for _, height in buttons}) == 1 # each on one line
        shown.locator("#tab-about").click()
        names = shown.locator(".about-table th").evaluate_all(heights)
        assert max(height for _, height in names) < 30
        shown.locator("#tab-laws").click()
        table = shown.locator(".law-table")
        assert table.evaluate("node => node.getBoundingClientRect().right <= innerWidth")
        assert table.evaluate("node => node.scrollWidth <= node.clientWidth")
        last = table.locator("tr").nth(1).locator("td").last
        assert last.evaluate("node => getComputedStyle(node, '::before').content") == '"tolerance"'  # there is no head above it
        assert "broken, as declared in embed" in plain(table.inner_text())
        shown.locator("#tab-contribution").click()
        shown.locator("label", has_text="bars").click()
        scroll = shown.locator(".scroll")
        eventually(shown, lambda: scroll.get_attribute("class"), "scroll more-right")
        scroll.evaluate("node => { node.scrollLeft = 10000; }")
        eventually(shown, lambda: scroll.get_attribute("class"), "scroll more-left")


def test_the_picture_itself_is_no_class_in_the_legend(browser, example):
    with opened(browser, example, "embeddings") as shown:
        shown.locator(".picker select").select_option("2")
        assert shown.locator(".legend button.key").all_inner_texts() == ["cat", "dog"]
        assert shown.locator(".legend .key.itself").inner_text() == "this picture"


def test_another_window_is_chosen_and_tokens_are_called_by_their_places(browser, tmp_path):
    torch.manual_seed(0)
    weights = torch.rand(2, 3, 4, 4).softmax(-1)
    places = [["row 1, column 1", "row 1, column 2", "row 2, column 1", "row 2, column 2"],
              ["row 1, column 3", "row 1, column 4", "row 2, column 3", "beyond the edge"]]  # fmt: skip
    streams = [{"name": "tokens of the window", "kind": "patches", "labels": labels, "grid": None} for labels in places]
    one, other = (pages.layer_of(each, 0) for each in weights)
    kept = ("small", "largest", "entropy", "distance")
    known = [{name: each[name] for name in kept} for each in (one, other)]
    windows = [{"name": f"window {k}", "rows": k, "columns": k} | each for k, each in enumerate(known)]
    layer = one | dict.fromkeys(kept) | {"windows": windows}
    where = page.write(pages.page_of([{"view": "attention", "layers": [layer]}], streams=streams), tmp_path / "windows.html")
    with opened(browser, where) as shown:
        ready(shown)
        labels = shown.locator(".labels .label.row")
        assert labels.all_inner_texts() == ["r1 c1", "r1 c2", "r2 c1", "r2 c2"]
        wanted = f"query row 2, column 1 → key row 1, column 2 {three(float(weights[0, 0, 2, 1].half()))}"
        assert point(shown, 4, 4, 2, 1) == wanted
        shown.mouse.move(5, 5)
        shown.locator(".picker select").select_option(label="window 1")
        eventually(shown, labels.all_inner_texts, ["r1 c3", "r1 c4", "r2 c3", "beyond the edge"])
        wanted = f"query row 2, column 3 → key row 1, column 4 {three(float(weights[1, 0, 2, 1].half()))}"
        eventually(shown, lambda: point(shown, 4, 4, 2, 1), wanted)


def test_views_in_the_dark(browser, example):
    """Turning the light off paints the open view again, whatever it is."""
    with opened(browser, example) as shown:
        ready(shown)
        for name in [view["view"] for view in pages.example()["views"]]:
            shown.locator(f"#tab-{name}").click()
            shown.locator(".theme").click()
            assert shown.locator(".panel h2").first.is_visible()
