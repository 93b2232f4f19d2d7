"""Sets and graphs on a page: what it says of points and edges is what the model did."""

import base64
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from regard.look.encode_arrays import unpack_array
from regard.look.plot import save
from regard.look.record import record
from regard.look.session import Session
from regard.look.views import contribution
from regard.models.deep_sets import DeepSets, DeepSetsConfig
from regard.models.graph_net import GraphNet, GraphNetConfig
from regard.models.point_net import PointNet
from regard.models.set_transformer import SetTransformer, SetTransformerConfig
from regard.recipes.graphs.layout import around, laid_out
from regard.recipes.graphs.view import graph
from regard.recipes.sets.views import points as view_of_points
from regard.recipes.sets.views.max_pool import enough, maxima
from regard.recipes.sets.views.points import place_points
from tests.look.scenes import gather, html_page, reader_for, still


def points_of(n, d=3, seed=0):
    return torch.randn(1, n, d, generator=torch.Generator().manual_seed(seed))


def set_transformer(**how):
    torch.manual_seed(0)
    sizes = {"features": 3, "outputs": 2, "hidden": 16, "heads": 2, "depth": 1}
    model = SetTransformer(SetTransformerConfig(**sizes | how)).eval()
    for parameter in model.parameters():
        parameter.data *= 3 if parameter.dim() > 1 else 1  # or attention is almost even
    return model


def given_to(model, inputs):
    return reader_for(model, inputs).read()


def scene_of(model, inputs):
    return gather(model, given_to(model, inputs), name="things", tsne=False)


def view(scene, name):
    return next(each for each in scene.data["views"] if each["view"] == name)


def heard(model, inputs):
    with torch.no_grad(), record(model) as seen:
        model(**inputs)
    return seen


def weights_in(layer, shown):
    shape = len(layer["heads"]), layer["count"], shown
    return unpack_array(layer["weights"], "f2", *shape).astype(np.float64) * layer["scale"]


# ---- points


def test_seeds_and_inducing_points_look_as_they_did():
    model, x = set_transformer(points=5, seeds=3), points_of(12)
    layers = view(scene_of(model, {"x": x}), "points")["layers"]
    said = [(layer["kind"], layer["title"]) for layer in layers]
    assert said == [
        ("asked", "5 inducing points look at the points"),
        ("asks", "points look at 5 inducing points"),
        ("asked", "3 seeds look at the points"),
    ]
    for layer, entry, turned in zip(layers, heard(model, {"x": x}), (False, True, False), strict=True):
        real = entry.weights[0].mT if turned else entry.weights[0]
        np.testing.assert_allclose(weights_in(layer, 12), real, rtol=2e-3, atol=1e-7)
        assert layer["proved"] and layer["error"] < 1e-5


def test_what_looks_at_points_has_a_name_in_the_matrices_too():
    scene = scene_of(set_transformer(points=5, seeds=3), {"x": points_of(12)})
    names = [stream["name"] for stream in scene.data["streams"]]
    called = [(names[layer["rows"]], names[layer["columns"]]) for layer in view(scene, "attention")["layers"]]
    assert called == [("inducing points", "points"), ("points", "inducing points"), ("seeds", "points")]


def test_as_many_inducing_points_as_points_are_still_told_apart():
    layers = view(scene_of(set_transformer(points=6, seeds=6), {"x": points_of(6)}), "points")["layers"]
    assert [(layer["kind"], layer["what"]) for layer in layers] == [
        ("asked", "inducing point"), ("asks", "inducing point"), ("asked", "seed"),
    ]  # fmt: skip


def test_points_among_points_get_the_mean_of_a_column():
    model, x = set_transformer(), points_of(9)
    layer = view(scene_of(model, {"x": x}), "points")["layers"][0]
    assert layer["kind"] == "among" and layer["count"] == 1
    np.testing.assert_allclose(weights_in(layer, 9)[:, 0], heard(model, {"x": x})[0].weights[0].mean(1), rtol=2e-3)


def test_padding_is_no_point():
    model, x = set_transformer(seeds=2), points_of(7)
    real = torch.tensor([[True] * 5 + [False] * 2])
    shown = view(scene_of(model, {"x": x, "real": real}), "points")
    assert shown["count"] == 5
    np.testing.assert_allclose(unpack_array(shown["places"], "f4", 5, 3), x[0, :5])


def test_what_is_not_proved_is_not_shown():
    model, x = set_transformer(), points_of(6)
    given = given_to(model, {"x": x})
    doubted = [replace(entry, reason="planted") for entry in heard(model, {"x": x})]
    for layer in view_of_points.points(model, doubted, model(x), given).layers:
        assert not layer["proved"] and layer["reason"] == "planted" and layer["weights"] is None


def test_where_points_are_drawn():
    x = torch.arange(24.0).view(4, 6)
    places, axes, note = place_points(x, ("r", "z", "x", "g", "y", "b"))
    assert axes == ["x", "y", "z"] and note is None and places[1].tolist() == [8, 10, 7]
    places, axes, note = place_points(torch.randn(30, 6), tuple("abcdef"))
    assert places.shape == (30, 3) and axes == ["PC1", "PC2", "PC3"] and "first three principal components" in note
    places, axes, note = place_points(torch.ones(3, 1), ("x",))
    assert places.tolist() == [[1, 0]] * 3 and note is None


def test_of_very_many_points_an_even_sample_is_drawn():
    model = SetTransformer(
        SetTransformerConfig(features=3, outputs=1, hidden=8, heads=2, depth=1, points=2, seeds=2)
    ).eval()
    x = points_of(100_000)
    scene = scene_of(model, {"x": x})
    shown = view(scene, "points")
    numbers = unpack_array(shown["shown"], "u4", -1)
    assert shown["count"] == 100_000 and len(numbers) == 20_000 and set(np.diff(numbers)) <= {4, 5, 6}
    assert any("20,000 of 100,000 points are drawn" in note for note in scene.data["notes"])
    real = heard(model, {"x": x})[2].weights[0, :, :, torch.from_numpy(numbers.astype(np.int64))]
    np.testing.assert_allclose(weights_in(shown["layers"][2], 20_000), real, rtol=2e-3)
    assert len(html_page(scene.data)) < 6e6
    # no matrix of 100,000 columns
    assert not any(each["view"] == "attention" for each in scene.data["views"])


def test_the_points_that_decide_every_maximum_are_enough():
    model, _ = PointNet.tiny()
    model, x = model.eval(), points_of(200)
    with torch.no_grad():
        for module in (model.turn_points, model.turn_features):  # as they are made, they turn nothing
            module.decide.weight.normal_(std=0.1)
    scene = scene_of(model, {"x": x})
    measures = view(scene, "points")["measures"]
    assert [measure["name"] for measure in measures] == [
        "maximum in pool", "maximum in turn_features.pool", "maximum in turn_points.pool",
    ]  # fmt: skip
    with torch.no_grad(), maxima(model) as found:
        whole = model(x)
    few = enough(found)
    assert f"{len(few)} of all points are enough" in measures[0]["sentence"] and len(few) < 120
    with torch.no_grad():
        np.testing.assert_allclose(model(x[:, few]), whole, rtol=1e-5, atol=1e-6)
        near = model.turn_features(model.first(model.turn_points(x, None)), None)
        seen = model.second(near)[0]  # n c
    first, second = seen.topk(2, dim=0)  # values, and whose they are
    # what several share is decided by nobody
    wanted = torch.bincount(second[0][first[0] > first[1]], minlength=200)
    assert unpack_array(measures[0]["values"], "f4", 200).tolist() == wanted.tolist() and 0 < wanted.sum() < 32


def test_without_attention_one_point_after_the_other_is_left_out():
    torch.manual_seed(0)
    model, x = DeepSets(DeepSetsConfig(features=3, outputs=4, hidden=16, pool="mean")).eval(), points_of(8)
    (measure,) = view(scene_of(model, {"x": x, "real": torch.ones(1, 8, dtype=torch.bool)}), "points")["measures"]
    with torch.no_grad():
        whole = model(x)[0]
        lost = [
            float(whole.max() - model(torch.cat((x[:, :i], x[:, i + 1 :]), 1))[0, whole.argmax()]) for i in range(8)
        ]
    assert measure["signed"] and unpack_array(measure["values"], "f4", 8).tolist() == pytest.approx(
        lost, rel=1e-3, abs=1e-6
    )


def test_why_no_point_was_left_out_is_said(monkeypatch):
    model, x = DeepSets(DeepSetsConfig(features=3, outputs=4, hidden=16, pool="mean")).eval(), points_of(8)
    inputs = {"x": x, "real": torch.ones(1, 8, dtype=torch.bool)}
    for wait, why in ((61.0, "would take about 61 seconds here, so it was not done."), (None, "cannot be done here.")):
        for module in (view_of_points, contribution):
            monkeypatch.setattr(module, "seconds", lambda *given, wait=wait: wait)
        found = view(scene_of(model, inputs), "points")
        assert found["note"] == f"The model has no attention. Leaving out one point after the other {why}"


# ---- graphs


def graph_net(layer="gat", **how):
    torch.manual_seed(0)
    return GraphNet(
        GraphNetConfig(**{"features": 4, "outputs": 3, "hidden": 8, "layer": layer, "heads": 2} | how)
    ).eval()


def places_of(figure):
    """Where the things of a figure are drawn."""
    return unpack_array(figure["places"], "f4", -1, len(figure["axes"])).tolist()


def numbers_of(figure):
    """The numbers of those that are drawn."""
    return unpack_array(figure["shown"], "u4", -1).tolist()


def groups_of(figure):
    """The group of each thing, for each way to group them; None: not known."""
    codes = [unpack_array(each["of"], "i4", -1).tolist() for each in figure["groups"]]
    names = [each["names"] for each in figure["groups"]]
    return [[None if k < 0 else of[k] for k in some] for some, of in zip(codes, names, strict=True)]


# 0→1 is there twice, 3 has a loop, 4 has nothing
SMALL = torch.tensor([[0, 1, 1, 2, 3, 3, 0], [1, 0, 2, 1, 0, 3, 1]])


def test_edges_are_as_strong_as_they_were():
    model, x = graph_net(), torch.randn(5, 4)
    scene = scene_of(model, {"x": x, "edges": SMALL})
    shown = view(scene, "graph")
    assert shown["shown"] is None and shown["centre"] is None and len(places_of(shown)) == 5
    for layer, entry in zip(shown["layers"], heard(model, {"x": x, "edges": SMALL}), strict=True):
        assert layer["keys"] == [3, 3, 2, 1, 1]  # neighbours, and itself
        edges = unpack_array(shown["edges"][layer["list"]], "u2", 2, -1).astype(int)
        found = unpack_array(layer["weights"], "f2", len(layer["heads"]), edges.shape[1]).astype(float) * layer["scale"]
        dense = torch.zeros(len(layer["heads"]), 5, 5)
        dense.index_put_(
            (torch.arange(len(dense))[:, None], entry.edges[1], entry.edges[0]), entry.weights, accumulate=True
        )
        np.testing.assert_allclose(found, dense[:, edges[1], edges[0]], rtol=2e-3, atol=1e-7)
        assert len(set(map(tuple, edges.T.tolist()))) == edges.shape[1]  # each once
        total = np.zeros((len(dense), 5))
        np.add.at(total, (slice(None), edges[1]), found)
        # loops that the layer added are among them, so every node has some
        np.testing.assert_allclose(total, 1, rtol=5e-3)
    assert groups_of(shown)[0] == [f"output {k}" for k in model(x, SMALL).argmax(-1).tolist()]


def test_an_even_share_is_of_all_neighbours_also_of_those_not_drawn():
    hub = torch.stack((torch.arange(1, 500), torch.zeros(499, dtype=torch.long)))
    edges = torch.cat((hub, torch.tensor([[0, 0], [1, 2]]), hub[:, :1]), 1)
    model, x = graph_net(), torch.randn(500, 4)
    found = view(gather(model, given_to(model, {"x": x, "edges": edges}), name="hub", tsne=False), "graph")
    keys = dict(zip(numbers_of(found), found["layers"][0]["keys"], strict=True))
    assert len(keys) == 300 and keys[0] == 500 and keys[1] == 2 and keys[5] == 1


def test_classes_have_their_colours_by_name_whichever_are_there():
    model = graph_net(outputs=12)
    inputs = {"x": torch.randn(5, 4), "edges": SMALL}
    names = [f"class {k}" for k in range(12)]
    given = replace(
        given_to(model, inputs),
        answers="classes",
        called=names[::-1].__getitem__,
        classes=("class 10", None, "class 9", "class 9", "elsewhere"),
        kinds=("N", "C", "C", "C", "C"),
        kind_names=("C", "H", "N"),
    )
    shown = view(gather(model, given, name="x", tsne=False), "graph")
    predicted, true, kind = shown["groups"]
    assert predicted["names"] == true["names"] == [*names, "elsewhere"]  # 9 before 10
    assert groups_of(shown)[1:] == [["class 10", None, "class 9", "class 9", "elsewhere"], list("NCCCC")]
    assert kind["name"] == "node label" and kind["names"] == list("CHN")


def test_of_a_large_graph_what_lies_around_one_node():
    draw = torch.Generator().manual_seed(0)
    edges = torch.randint(900, (2, 1400), generator=draw)
    model, x = graph_net(), torch.randn(900, 4, generator=draw)
    given = given_to(model, {"x": x, "edges": edges}).centre_on(17)
    scene = gather(model, given, name="large", tsne=False)
    shown = view(scene, "graph")
    assert shown["count"] == 900 and numbers_of(shown)[shown["centre"]] == 17
    near = {17}
    for _ in range(2):
        near |= {b for pair in edges.T.tolist() for a, b in (pair, pair[::-1]) if a in near}
    assert set(numbers_of(shown)) == near
    assert any("nearest to node '17' are drawn, at most 2 edges away" in note for note in scene.data["notes"])
    with pytest.raises(ValueError, match="nodes are numbered 0 … 899, got 900"):
        given.centre_on(900)


def test_messages_without_attention_are_drawn_alike():
    scene = scene_of(graph_net("gcn"), {"x": torch.randn(5, 4), "edges": SMALL})
    assert view(scene, "graph")["layers"] == [] and any("without attention" in note for note in scene.data["notes"])


def test_of_full_attention_the_largest_weights_are_drawn():
    class Full(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x, edge_index):
            return self.attention(x[None], x[None], x[None], need_weights=False)[0][0]

    model, inputs = Full().eval(), {"x": torch.randn(9, 4), "edge_index": SMALL}
    seen = heard(model, inputs)
    shown = graph(seen, model(**inputs), given_to(model, inputs)).to_json()
    edges = unpack_array(shown["edges"][shown["layers"][0]["list"]], "u2", 2, -1).astype(int)
    wanted = {(int(j), i) for head in seen[0].weights[0] for i, row in enumerate(head) for j in row.topk(4).indices}
    assert shown["layers"][0]["full"] and set(map(tuple, edges.T.tolist())) == wanted


def test_a_layout_keeps_neighbours_near_and_is_always_the_same():
    cliques = [(a + 6 * c, b + 6 * c) for c in range(4) for a in range(6) for b in range(6) if a != b]
    edges = torch.tensor([*cliques, (0, 6), (6, 12), (12, 18)]).T
    places = laid_out(edges, 24)
    away = torch.cdist(places, places) + torch.eye(24) * 9
    inside = torch.block_diag(*[torch.ones(6, 6)] * 4).bool() & ~torch.eye(24, dtype=torch.bool)
    assert away[inside].mean() < 0.4 * away[~inside & ~torch.eye(24, dtype=torch.bool)].mean()
    assert away.min() > 0.02 and float(places.abs().max()) == pytest.approx(1)
    assert torch.equal(places, laid_out(edges, 24))
    assert laid_out(torch.zeros(2, 0, dtype=torch.long), 1).tolist() == [[0, 0]]
    assert laid_out(torch.zeros(2, 0, dtype=torch.long), 3).unique(dim=0).shape == (3, 2)


def test_the_nearest_come_first_and_most_linked_before_others():
    edges = torch.tensor([[0, 0, 0, 1, 2, 1, 4], [1, 2, 3, 4, 4, 5, 6]])
    assert around(edges, 7, 0, 2, 7).tolist() == [0, 1, 2, 3, 4, 5]
    assert around(edges, 7, 0, 2, 5).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["set", "graph"])
def test_embeddings_of_sets_and_graphs_have_no_order(kind):
    class Blocks(nn.Module):
        """Attention among all nodes, in a list of blocks."""

        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
            self.blocks = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

        def forward(self, x, edge_index):
            return self.blocks(x[None])[0]

    if kind == "set":
        model, inputs, more = set_transformer(), {"x": points_of(6)}, {}
    else:
        model, inputs = Blocks().eval(), {"x": torch.randn(5, 4), "edge_index": SMALL}
        more = {"kinds": ("N", "C", "C", "C", "C"), "kind_names": ("C", "H", "N")}
    given = replace(given_to(model, inputs), **more)
    items = view(gather(model, given, name="things", tsne=False), "embeddings")["items"]
    assert items and not any(item["ordered"] for item in items)
    if kind == "graph":
        assert items[0]["groups"] == list("NCCCC") and items[0]["classes"] == list("CHN")


# ---- another order, stills, another file


@pytest.mark.parametrize("each", [False, True])
def test_another_order_of_a_set_is_shown_to_change_nothing(each):
    scene = scene_of(set_transformer(each=each), {"x": points_of(7)})
    (action,) = view(scene, "laws")["actions"]
    assert [element["label"] for element in action["elements"]] == ["backwards", "roll by 1", "mixed"]
    assert all(element["holds"] and element["n"] == (7 if each else 1) for element in action["elements"])
    assert action["elements"][0]["order"] == list("7654321")


def test_other_names_of_nodes_are_shown_to_move_along():
    (action,) = view(scene_of(graph_net(), {"x": torch.randn(5, 4), "edges": SMALL}), "laws")["actions"]
    assert action["name"] == "other names of the nodes" and all(element["holds"] for element in action["elements"])

    class Ordered(GraphNet):
        def forward(self, x, edges):
            return super().forward(x * torch.arange(len(x))[:, None], edges)

    torch.manual_seed(0)
    model = Ordered(GraphNetConfig(features=4, outputs=3, hidden=8)).eval()
    (action,) = view(scene_of(model, {"x": torch.randn(5, 4), "edges": SMALL}), "laws")["actions"]
    assert not any(element["holds"] for element in action["elements"])  # seen to fail


def test_stills(tmp_path):
    figure = still(scene_of(set_transformer(points=5, seeds=3), {"x": points_of(12)}), title="a set")
    assert [len(axis.collections) for axis in figure.axes] == [1] * 6  # three layers of two heads
    assert figure.legends[0].get_title().get_text() == "inducing point or seed"
    assert [text.get_text() for text in figure.legends[0].texts] == list("12345")
    save(figure, tmp_path / "set.png")
    figure = still(scene_of(set_transformer(), {"x": points_of(12)}))  # points look at points, too
    assert figure.axes[-1].get_xlabel() == "from nothing to the largest of each picture" and figure.axes[-1].collections
    save(figure, tmp_path / "among.png")
    figure = still(scene_of(graph_net(), {"x": torch.randn(5, 4), "edges": SMALL}))
    assert len(figure.axes[0].lines) == 4  # 0–1, 1–2, 3–0 and a loop: each pair once, in grey
    assert all(len(axis.patches) <= 8 for axis in figure.axes)  # attention: what stands out
    save(figure, tmp_path / "graph.svg")
    doubted = scene_of(set_transformer(), {"x": points_of(4)})
    for layer in view(doubted, "points")["layers"]:
        layer["proved"] = False
    with pytest.raises(ValueError, match="nothing proved to draw"):
        still(doubted)


def data_url(content):
    return "data:application/octet-stream;base64," + base64.b64encode(content).decode()


def test_another_file_and_another_node():
    model = set_transformer(seeds=2)
    reader = reader_for(model, {"x": points_of(6)})
    live = Session(model, reader, "a set", tsne=False)
    offered = live.show({})["live"]
    assert [each["name"] for each in offered["controls"]] == ["file"] and offered["silence"] is True
    data = live.show({"file": data_url(b"x,y,z\n1,2,3\n4,5,6\n"), "silence": [[0, 1]]})
    assert data["views"][0]["count"] == 2 and data["silenced"] == [[0, 1]]
    for file, words in ((b"1,2\n", "3 numbers, got 2"), (b"x,y,z\n1,2,x\n", "the file: column 'z' .*'x'")):
        with pytest.raises(ValueError, match=words):
            live.show({"file": data_url(file)})
    for other in ({"node": 1}, {"text": "x"}):
        with pytest.raises(ValueError, match=f"a set takes no '{next(iter(other))}'; known: file, silence"):
            live.show(other)

    draw = torch.Generator().manual_seed(0)
    model, inputs = (graph_net(), {"x": torch.randn(500, 4), "edges": torch.randint(500, (2, 900), generator=draw)})
    reader = reader_for(model, inputs)
    live = Session(model, reader, "a graph", tsne=False)
    assert [each["name"] for each in live.show({})["live"]["controls"]] == ["file", "node"]
    shown = live.show({"node": 33})["views"][0]
    assert numbers_of(shown)[shown["centre"]] == 33
    with pytest.raises(ValueError, match="node must be a whole number"):
        live.show({"node": "x"})
