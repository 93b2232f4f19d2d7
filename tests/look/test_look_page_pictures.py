"""What a page shows of images, in a real browser: what it says is compared with the data."""

import re

import pytest
import torch

from regard.look import colours, encode_arrays
from tests.look import pages
from tests.look.browser import eventually, hover, opened, plain, point, readout, ready, three
from tests.look.pages import level, number
from tests.look.scenes import write_page


def test_an_image_without_maps_is_shown_as_it_is(browser, tmp_path):
    nothing = {"grid": {"rows": 0, "columns": 0}, "query": None, "layers": [], "rollout": None}
    view = {"view": "image", "picture": pages.image_url(), **nothing}
    with opened(browser, write_page(pages.page_of([view]), tmp_path / "alone.html")) as shown:
        assert shown.locator("h2").first.inner_text() == "The image"
        assert shown.locator(".picture img").bounding_box()["width"] > 200 and shown.locator(".readout").count() == 0


def test_contribution_of_patches_is_a_map(browser, tmp_path):
    labels = ["class", *(f"{i},{j}" for i in range(3) for j in range(4))]
    stream = {"name": "patches", "kind": "patches", "labels": labels, "grid": {"rows": 3, "columns": 4, "before": 1}}
    view = pages.contribution(labels)
    with opened(browser, write_page(pages.page_of([view], labels, streams=[stream]), tmp_path / "map.html")) as shown:
        assert shown.locator(".matrix").count() == 3
        hover(shown, ".field", 0.6, 0.5)
        assert readout(shown).startswith("1,2 leave one out ")
        assert three(view["columns"][2]["values"][7]) in readout(shown)


def test_heads_over_the_image(browser, example):
    view = pages.image()
    maps = view["layers"][2]["maps"]
    with opened(browser, example, "image") as shown:
        shown.get_by_role("button", name="head 6").wait_for()
        hover(shown, ".picture", 9.5 / 14, 8.5 / 14)
        values = sorted(((number(maps, head, 8, 9), head) for head in range(6)), key=lambda pair: -pair[0])[:4]
        assert readout(shown) == "row 9, column 10 " + " ".join(
            f"head {head + 1} {three(value)}" for value, head in values
        )
        shown.get_by_role("button", name=f"head {values[0][1] + 1}").click()  # that head is not looked at any more
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


def test_what_matters_over_the_image(browser, example, tmp_path):
    matters = pages.image()["matters"][0]["values"]
    pick = "(node, [x, y]) => [...node.getContext('2d').getImageData(x, y, 1, 1).data]"
    with opened(browser, example, "image", expected="willReadFrequently") as shown:
        shown.get_by_role("button", name="head 6").wait_for()
        shown.locator("label", has_text="leave one out").click()
        hover(shown, ".picture", 9.5 / 14, 2.5 / 14)
        assert readout(shown) == f"row 3, column 10 +{three(matters[2 * 14 + 9])}"
        assert "What is lost. Orange supports the prediction" in shown.locator(".sentence").first.inner_text()
        speaks_for, against = (shown.locator(".over").evaluate(pick, place) for place in ([13, 0], [0, 13]))
        assert speaks_for[0] > speaks_for[2] and against[2] > against[0] and speaks_for[3] == against[3] == 255
        assert shown.locator(".head-map:visible").count() == 0
        assert shown.locator("h2").first.inner_text() == "What matters to the prediction"
        marks = shown.locator(".view-image .colour-bar .mark").all_inner_texts()
        assert marks == ["−1.00", "0", "+1.00"]
        shown.locator("label", has_text="rollout").click()
        assert shown.locator("h2").first.inner_text() == "Where the class token looks"
    alone = pages.image() | {"layers": [], "rollout": None, "query": None}  # as of a convolutional network
    with opened(browser, write_page(pages.page_of([alone]), tmp_path / "matters.html")) as shown:
        assert shown.locator("h2").first.inner_text() == "What matters to the prediction"
        assert shown.locator(".choice span").all_inner_texts() == ["leave one out"]


def test_layers_may_have_merged_patches(browser, tmp_path):
    view = pages.image()
    maps = encode_arrays.floats(torch.rand(6, 7, 7))
    view["layers"][1] |= {"maps": maps}
    with opened(browser, write_page(pages.page_of([view]), tmp_path / "merged.html"), "image") as shown:
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
        assert (
            point(shown, 4, 4, 1, 2)
            == f"channel 2, turned by 90°, row 2, column 3 {three(level(turned['maps'], 5, 1, 2))}"
        )
        shown.mouse.move(5, 5)
        assert "2 channels, each in 4 poses, 32 × 32, drawn at 4 × 4" in readout(shown)


def test_thumbnails_on_hover(browser, example):
    with opened(browser, example, "embeddings") as shown:
        shown.locator(".picker select").select_option("2")
        assert "Each point is an image" in readout(shown) and shown.locator(".thumb:visible").count() == 0
        shown.locator(".scatter").focus()
        shown.keyboard.press("ArrowRight")
        assert readout(shown) == "this image, predicted as cat (0, 0)"
        shown.keyboard.press("ArrowRight")
        assert readout(shown) == "a.png cat (1.00, 1.00)" and shown.locator(".thumb").inner_text() == "a.png"
        cell, image = (shown.locator(f".thumb {part}").bounding_box() for part in (".cell", "img"))
        assert image["width"] == pytest.approx(2 * cell["width"], abs=1)
        where = image["x"] + cell["width"], image["y"] + cell["height"]
        assert where == pytest.approx((cell["x"], cell["y"]), abs=1)  # the last of four
        shown.keyboard.press("ArrowRight")
        assert (
            readout(shown).startswith("b.png dog, misclassified as cat")
            and shown.locator(".thumb:visible").count() == 0
        )


def test_filters(browser, example):
    layers = pages.filters()["layers"]
    with opened(browser, example, "filters") as shown:
        shown.locator(".filter").nth(47).wait_for()
        for number, (figure, layer) in enumerate(zip(shown.locator("figure").all(), layers, strict=True)):
            figure.locator(".filter").nth(5).hover()
            low, high = level(layer["filters"], 5).min(), level(layer["filters"], 5).max()
            assert (
                readout(shown, f"figure:nth-of-type({number + 1})") == f"filter 6: from {three(low)} to {three(high)}"
            )
        pick = "node => [...node.getContext('2d').getImageData(3, 2, 1, 1).data]"
        pixel = shown.locator(".filter canvas").first.evaluate(pick)
        assert pixel == [
            *encode_arrays.unpack_array(layers[0]["filters"]["data"], "u1", 24, 7, 7, 3)[0, 2, 3].tolist(),
            255,
        ]


def test_the_answer_stands_above_all_tabs(browser, tmp_path):
    """Name, class, probability and label, on the first tab and on every other; text is only text."""
    asked = {"kind": "image", "text": None, "target": None, "name": "<i>dog</i>.png", "truth": "labrador"}
    asked |= {"views": "5 views (shifts)"}
    views = [pages.image(), pages.classes()]
    with opened(browser, write_page(pages.page_of(views, input=asked), tmp_path / "answer.html")) as shown:
        said = "<i>dog</i>.png: predicted as golden retriever, 81.3%, of 5 views (shifts) together labelled labrador"
        assert plain(shown.locator(".answer").inner_text()) == said
        assert shown.locator(".answer .badge.bad").count() == 1  # it is not what the label says
        assert "the image as it stands" in shown.locator(".view-image").inner_text()
        assert shown.locator(".as-seen img").evaluate("node => getComputedStyle(node).filter") == "none"
        assert shown.locator(".view-image > .controls .name").inner_text() == "blocks.2"
        assert shown.locator(".layer-picker option").all_inner_texts() == ["1", "2", "3"]
        shown.locator("#tab-classes").click()
        assert "The mean of 5 views (shifts) of the image" in shown.locator(".panel").inner_text()
    views = [pages.image(), {"view": "classes", "likely": [["labrador", 1.0]]}]
    known = asked | {"views": None}
    with opened(browser, write_page(pages.page_of(views, input=known), tmp_path / "right.html")) as shown:
        assert (
            plain(shown.locator(".answer").inner_text())
            == "<i>dog</i>.png: predicted as labrador, 100% labelled labrador"
        )
        assert (
            shown.locator(".answer .badge.bad").count() == 0
            and "as it stands" not in shown.locator(".panel").inner_text()
        )


def test_stills_have_the_colours_of_the_page(browser, tmp_path):
    view = pages.image(heads=8)
    for layer in view["layers"]:
        layer["heads"] = [0, 1, 2, 3, 7, 8, 17, 25]
    pick = "(node, [x, y]) => [...node.getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3)"
    rollout = torch.from_numpy(encode_arrays.unpack_array(view["rollout"]["data"], "f4", 14, 14).copy())
    row, column = divmod(int(rollout.argmax()), 14)
    where = write_page(pages.page_of([view]), tmp_path / "colours.html")
    with opened(browser, where, expected="willReadFrequently") as shown:
        shown.get_by_role("button", name="head 26").wait_for()
        found = [
            each.evaluate("node => node.style.getPropertyValue('--colour')")
            for each in shown.locator(".head-map").all()
        ]
        wanted = [[round(255 * part) for part in colours.of_head(head)] for head in view["layers"][0]["heads"]]
        assert [[int(part) for part in re.findall(r"\d+", each)] for each in found] == wanted
        shown.locator("label", has_text="rollout").click()
        painted = [part / 255 for part in shown.locator(".over").evaluate(pick, [column, row])]
        # a canvas rounds what is half transparent
        assert painted == pytest.approx(colours.SPEAKS_FOR, abs=0.02)
        marks = shown.locator(".view-image .colour-bar .mark").all_inner_texts()
        assert marks == [three(each) for each in colours.scale_of(rollout)]


def test_the_image_itself_is_no_class_in_the_legend(browser, example):
    with opened(browser, example, "embeddings") as shown:
        shown.locator(".picker select").select_option("2")
        assert shown.locator(".legend button.key").all_inner_texts() == ["cat", "dog"]
        assert shown.locator(".legend .key.itself").inner_text() == "this image"


def test_another_window_is_chosen_and_tokens_are_called_by_their_places(browser, tmp_path):
    torch.manual_seed(0)
    weights = torch.rand(2, 3, 4, 4).softmax(-1)
    places = [["row 1, column 1", "row 1, column 2", "row 2, column 1", "row 2, column 2"],
              ["row 1, column 3", "row 1, column 4", "row 2, column 3", "beyond the edge"]]  # fmt: skip
    streams = [{"name": "tokens of the window", "kind": "patches", "labels": labels, "grid": None} for labels in places]
    one, other = (pages.layer_of(each, 0) for each in weights)
    other["largest"] = encode_arrays.largest(weights[1], 4, exact=True)
    kept = ("small", "largest", "entropy", "distance")
    known = [{name: each[name] for name in kept} for each in (one, other)]
    windows = [{"name": f"window {k}", "rows": k, "columns": k} | each for k, each in enumerate(known)]
    layer = one | dict.fromkeys(kept) | {"windows": windows}
    where = write_page(
        pages.page_of([{"view": "attention", "layers": [layer]}], streams=streams), tmp_path / "windows.html"
    )
    with opened(browser, where) as shown:
        ready(shown)
        labels = shown.locator(".labels .label.row")
        assert labels.all_inner_texts() == ["r1 c1", "r1 c2", "r2 c1", "r2 c2"]
        wanted = f"query row 2, column 1 → key row 1, column 2 {three(float(weights[0, 0, 2, 1].half()))}"
        assert point(shown, 4, 4, 2, 1) == wanted
        shown.mouse.move(5, 5)
        shown.locator(".picker select").select_option(label="window 1")
        eventually(shown, labels.all_inner_texts, ["r1 c3", "r1 c4", "r2 c3", "beyond the edge"])
        wanted = f"query row 2, column 3 → key row 1, column 4 {three(float(weights[1, 0, 2, 1]))}"
        eventually(shown, lambda: point(shown, 4, 4, 2, 1), wanted)
