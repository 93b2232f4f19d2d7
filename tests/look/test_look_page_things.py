"""Sets and graphs in a real browser: turned, zoomed, chosen, by mouse and by keyboard, alone and with a server behind."""

import numpy as np
import pytest
import torch

from regard.look.session import Session
from tests.look.asked import running
from tests.look.browser import PHONE, eventually, opened, plain, readout, ready, three, watched
from tests.look.scenes import reader_for, write_page
from tests.look.test_look_things import (
    SMALL,
    graph_net,
    groups_of,
    heard,
    places_of,
    points_of,
    scene_of,
    set_transformer,
    view,
)

PICTURE = "[...document.querySelectorAll('.space canvas')].map((canvas) => canvas.toDataURL()).join()"
FLAT = torch.tensor([[[-1.0, 0], [1, 0], [0, 0.5], [0.2, -0.5]]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("things")


@pytest.fixture(scope="module")
def cloud(folder):
    model, x = set_transformer(points=3, seeds=4, heads=2), points_of(60)
    return write_page(scene_of(model, {"x": x}).data, folder / "cloud.html"), heard(model, {"x": x}), x


@pytest.fixture(scope="module")
def network(folder):
    model, inputs = (graph_net(), {"x": torch.randn(5, 4, generator=torch.Generator().manual_seed(3)), "edges": SMALL})
    scene = scene_of(model, inputs)
    return write_page(scene.data, folder / "network.html"), heard(model, inputs), view(scene, "graph")


def drawn(shown):
    return shown.evaluate(PICTURE)


def changed(shown, act):
    """Does the picture change when something is done?"""
    before = drawn(shown)
    act()
    # a picture is painted when the browser next paints
    eventually(shown, lambda: drawn(shown) != before, True)
    return True


def spot(shown, x, y):
    """Where a place is seen that lies x, y from the middle, as the page begins."""
    box = shown.locator(".space").bounding_box()
    scale = 0.46 * min(box["width"], box["height"])
    return box["x"] + box["width"] / 2 + x * scale, box["y"] + box["height"] / 2 - y * scale


def test_a_cloud_is_turned_and_its_seeds_are_switched(browser, cloud):
    where, seen, x = cloud
    with opened(browser, where) as shown:
        ready(shown)
        assert shown.locator(".picker select").first.locator("option").all_inner_texts() == [
            "1 · 3 inducing points look at the points",
            "2 · points look at 3 inducing points",
            "3 · 4 seeds look at the points",
        ]
        space = shown.locator(".space")
        assert changed(shown, lambda: space.press("ArrowLeft")) and changed(shown, lambda: space.press("+"))
        left, top = spot(shown, 0.1, 0.1)
        shown.mouse.move(left, top)
        shown.mouse.down()
        assert changed(shown, lambda: shown.mouse.move(left + 60, top + 10))
        shown.mouse.up()
        assert changed(shown, lambda: shown.mouse.wheel(0, -300))
        seeds = shown.locator(".legend button")
        assert seeds.all_inner_texts() == [f"seed {k}" for k in range(1, 5)]
        assert changed(shown, lambda: seeds.nth(2).click()) and seeds.nth(2).get_attribute("aria-pressed") == "false"
        field = shown.locator("input[type=number]")
        field.fill("18")
        field.press("Enter")
        weights = seen[2].weights[0, :, :, 17].mean(0)  # of the two heads together
        best = weights.argsort(descending=True).tolist()
        numbers = ", ".join(f"{axis} {three(value)}" for axis, value in zip("xyz", x[0, 17].tolist(), strict=True))
        said = " ".join(f"seed {k + 1} {three(float(weights[k]))}" for k in best)
        eventually(shown, lambda: near(readout(shown), f"point 18 ({numbers}) {said}"), True)
        space.press("PageDown")
        assert field.input_value() == "19"
        space.press("Escape")
        assert field.input_value() == ""


def near(said, wanted):
    """The same words, and numbers that differ by the rounding of half precision."""
    said, wanted = ([word.strip("(),").replace("−", "-") for word in text.split()] for text in (said, wanted))

    def alike(a, b):
        try:
            return abs(float(a) - float(b)) <= 2e-3 * abs(float(b)) + 1e-9
        except ValueError:
            return a == b

    return len(said) == len(wanted) and all(map(alike, said, wanted))


def test_a_point_of_the_plane_is_pointed_at(browser, folder):
    model = set_transformer(features=2)
    where = write_page(scene_of(model, {"x": FLAT}).data, folder / "plane.html")
    with opened(browser, where) as shown:
        ready(shown)
        shown.locator(".picker select").first.select_option(label="1 · points look at points")
        shown.mouse.move(*spot(shown, 0.98, 0.01))
        eventually(shown, lambda: readout(shown).startswith("point 2 (x 1.00, y 0) gets"), True)
        shown.mouse.click(*spot(shown, 0.98, 0.01))
        row = heard(model, {"x": FLAT})[0].weights[0].mean(0)[1]
        first = int(row.argmax())
        eventually(shown, lambda: f"and looks at {first + 1} {three(float(row[first]))}" in readout(shown), True)
        shown.mouse.move(*spot(shown, -0.98, 0.01))
        eventually(shown, lambda: readout(shown).endswith(f"point 2 looks at it with {three(float(row[0]))}"), True)


def test_rows_stand_beside_the_picture_with_their_weights(browser, cloud, folder):
    where, seen, x = cloud
    with opened(browser, where) as shown:
        ready(shown)
        rows = shown.locator(".rows tbody tr")
        eventually(shown, rows.count, 60)
        weights = seen[2].weights[0].mean(0)  # seeds × points, of the two heads together
        first = int(weights.max(0).values.argmax())
        cells = [plain(text).replace("−", "-") for text in rows.first.locator("th, td").all_inner_texts()]
        assert cells[0] == str(first + 1)
        np.testing.assert_allclose(np.array(cells[1:4], dtype=float), x[0, first], rtol=1e-4)
        np.testing.assert_allclose(np.array(cells[4:], dtype=float), weights[:, first], rtol=6e-3)
        shown.get_by_label("by number").check()
        eventually(shown, lambda: rows.nth(1).locator("button").inner_text(), "2")
        rows.nth(1).locator("button").press("Enter")
        eventually(shown, lambda: rows.nth(1).get_attribute("aria-selected"), "true")
        assert shown.locator(".picker input[type=number]").input_value() == "2"
    many = scene_of(set_transformer(points=2), {"x": points_of(250)})
    with opened(browser, write_page(many.data, folder / "many.html")) as shown:  # a cloud of many is no table
        ready(shown)
        assert shown.locator(".point-rows").is_hidden()


def test_edges_and_neighbours(browser, network):
    where, seen, shown_graph = network
    entry = seen[1]
    with opened(browser, where, reduced_motion="reduce") as shown:
        ready(shown)
        assert "a ring is a node that looks at itself" in plain(shown.locator(".space-side .sentence").inner_text())
        assert "edge, to its target attention" in plain(shown.locator(".legend").inner_text())  # 3 → 0
        shown.mouse.move(*spot(shown, *places_of(shown_graph)[1]))
        weight = {}
        for (source, target), value in zip(entry.edges.T.tolist(), entry.weights[0].tolist(), strict=True):
            if target == 1:
                weight[source] = weight.get(source, 0) + value
        order = sorted(weight, key=weight.get, reverse=True)
        said = " ".join(f"{'itself' if k == 1 else k} {three(weight[k])}" for k in order)
        wanted = f"node 1 largest output {groups_of(shown_graph)[0][1]} looks at {said}"
        eventually(shown, lambda: near(readout(shown).partition(" is looked")[0], wanted), True)
        shown.mouse.click(*spot(shown, *places_of(shown_graph)[1]))  # it comes to the middle, at once
        shown.mouse.move(*spot(shown, 0.01, 0.01))
        eventually(shown, lambda: readout(shown).startswith("node 1 "), True)
        space = shown.locator(".space")
        space.press("Escape")
        space.press("Home")
        space.press("ArrowRight")
        space.press("ArrowRight")
        assert readout(shown).startswith("node ") and changed(shown, lambda: space.press("-"))


def test_a_slider_chooses_what_stands_out(browser, network):
    where, seen, _ = network
    entry = seen[1]
    n = 5
    dense = torch.zeros(n, n).index_put_((entry.edges[1], entry.edges[0]), entry.weights.mean(0), accumulate=True)
    ratios = (dense * (dense > 0).sum(1, keepdim=True))[dense > 0]
    with opened(browser, where) as shown:
        ready(shown)
        slider = shown.locator(".slider input")
        slider.focus()
        slider.press("Home")
        assert slider.get_attribute("aria-valuetext") == f"all {len(ratios)}"
        slider.press("End")
        words = slider.get_attribute("aria-valuetext")
        assert words.startswith(f"1 of {len(ratios)}: from ")
        assert abs(float(words.split()[4]) - float(ratios.max())) < 6e-3
        assert changed(shown, lambda: slider.press("Home"))


def test_undirected_edges_without_attention_are_neighbours(browser, folder):
    both = torch.cat((SMALL, SMALL.flip(0)), 1)
    scene = scene_of(graph_net("gcn"), {"x": torch.randn(5, 4), "edges": both})
    with opened(browser, write_page(scene.data, folder / "gcn.html"), "graph") as shown:
        ready(shown)
        assert plain(shown.locator(".legend .line").first.locator("..").inner_text()) == "edge"
        assert not shown.locator(".slider").count()
        shown.mouse.move(*spot(shown, *places_of(view(scene, "graph"))[1]))
        eventually(shown, lambda: readout(shown).endswith("neighbours 0 2"), True)


@pytest.mark.parametrize("which, look", [("cloud", {"color_scheme": "dark"}), ("network", {"viewport": PHONE})])
def test_in_the_dark_and_on_a_phone(request, browser, which, look):
    where = request.getfixturevalue(which)[0]
    with opened(browser, where, **look) as shown:
        ready(shown)
        corner = "document.querySelector('.space canvas').getContext('2d').getImageData(2, 2, 1, 1).data"
        if which == "cloud":
            assert max(list(shown.evaluate(f"[...{corner}]"))[:3]) < 60
        wide = look.get("viewport", {"width": 1280})["width"]
        assert shown.evaluate("document.documentElement.scrollWidth") <= wide
        assert shown.locator(".space").bounding_box()["width"] > 0.5 * min(wide, 700)


def test_the_plane_of_a_set_has_no_line_and_no_first_and_last(browser, folder):
    data = scene_of(set_transformer(), {"x": points_of(6)}).data
    with opened(browser, write_page(data, folder / "plane-of-set.html"), "embeddings") as shown:
        shown.locator(".scatter").wait_for()
        assert "first" not in shown.locator(".scatter-figure .legend").inner_text()
        shown.locator(".scatter").press("ArrowRight")
        assert readout(shown).startswith("1 (")  # and no place beside its name
        without = drawn_plane(shown)
    for item in view_in(data, "embeddings")["items"]:
        item["ordered"] = True
    with opened(browser, write_page(data, folder / "plane-in-order.html"), "embeddings") as shown:
        shown.locator(".scatter").wait_for()
        assert "first" in shown.locator(".scatter-figure .legend").inner_text()
        shown.locator(".scatter").press("ArrowRight")
        assert drawn_plane(shown) != without


def drawn_plane(shown):
    return shown.evaluate("document.querySelector('.scatter canvas').toDataURL()")


def view_in(data, name):
    return next(each for each in data["views"] if each["view"] == name)


def test_a_layer_that_is_not_proved_says_why(browser, folder):
    scene = scene_of(set_transformer(), {"x": points_of(5)})
    for layer in view(scene, "points")["layers"]:
        layer |= {"proved": False, "reason": "planted", "weights": None}
    with opened(browser, write_page(scene.data, folder / "unproved.html"), "points") as shown:
        words = "These weights are not shown, because they are not proved. planted"
        eventually(shown, lambda: plain(shown.locator(".reason").inner_text()), words)
        assert not shown.locator(".space").is_visible()


def live_of(model, inputs):
    reader = reader_for(model, inputs)
    return Session(model, reader, "things", tsne=False)


def test_another_file_and_a_silenced_head(browser, tmp_path):
    np.save(tmp_path / "other.npy", points_of(9, seed=5)[0].numpy())
    with (
        running(live_of(set_transformer(seeds=2), {"x": points_of(6)})) as address,
        watched(browser, allowed=address.partition("?")[0]) as shown,
    ):
        shown.goto(address)
        ready(shown)
        assert plain(shown.locator(".title-line .facts").inner_text()) == "6 points"
        shown.locator("input[type=file]").set_input_files(tmp_path / "other.npy")
        eventually(shown, lambda: plain(shown.locator(".title-line .facts").inner_text()), "9 points")
        shown.locator(".picker select").nth(1).select_option(label="head 2")
        shown.get_by_role("button", name="silence this head").click()
        eventually(
            shown, lambda: shown.get_by_role("button", name="silence this head").get_attribute("aria-pressed"), "true"
        )
        assert plain(shown.locator(".title-line .facts").inner_text()) == "9 points"


def test_another_node_of_a_large_graph(browser):
    draw = torch.Generator().manual_seed(0)
    inputs = {"x": torch.randn(500, 4, generator=draw), "edges": torch.randint(500, (2, 900), generator=draw)}
    with running(live_of(graph_net(), inputs)) as address, watched(browser, allowed=address.partition("?")[0]) as shown:
        shown.goto(address)
        ready(shown)
        first = readout(shown).split()[1]
        shown.locator(".space").press("ArrowRight")
        other = readout(shown).split()[1]
        assert other != first
        shown.locator(".space").press("Enter")
        note = f"nearest to node '{other}' are drawn"
        eventually(shown, lambda: note in plain(shown.locator(".notes").inner_text()), True)
        eventually(shown, lambda: readout(shown).split()[:2], ["node", other])
