"""Features of edges in graph models: they count, they move with their edges, and names of nodes do not matter."""

import pytest
import torch

from regard.models.graph_net import GraphNet, GraphNetConfig
from regard.models.graph_transformer import GraphTransformer, GraphTransformerConfig
from regard.nn.graph import EdgeMessages, Graph
from regard.symmetry.check import check

SIZES = {"features": 3, "outputs": 2, "edge_features": 4}
NETS = {
    **{layer: {"layer": layer} for layer in ("conv", "gcn", "gat", "gatv2")},
    "conv sum": {"layer": "conv", "gather": "sum"},
    "conv max": {"layer": "conv", "gather": "max", "level": "graph"},
}
TRANSFORMERS = {
    "full": {},
    "along edges": {"attention": "edges", "bias": "none", "position": "none"},
    "of graphs": {"level": "graph", "position": "walk"},
}


def made(kind):
    torch.manual_seed(0)
    if kind in NETS:
        return GraphNet(GraphNetConfig(hidden=16, heads=2, **SIZES, **NETS[kind])).eval()
    config = GraphTransformerConfig(dim=16, depth=2, heads=2, places=3, **SIZES, **TRANSFORMERS[kind])
    return GraphTransformer(config).eval()


@pytest.mark.parametrize("kind", [*NETS, *TRANSFORMERS])
def test_laws_hold_and_features_count(kind):
    model = made(kind)
    inputs = model.sample_inputs()
    report = check(model, inputs, laws=["relabelling", "edge_order", "determinism"], trials=4)
    assert report.ok and report["relabelling"].measured == report["edge_order"].measured == "holds"
    out = model(**inputs)
    other = model(**inputs | {"edge_features": inputs["edge_features"].flip(0)})  # those of other edges
    assert (out - other).abs().max() > 1e-4
    # two graphs side by side are each as if alone
    n, e = inputs["x"].shape[0], inputs["edges"].shape[1]
    both = {
        "x": inputs["x"].repeat(2, 1),
        "edges": torch.cat((inputs["edges"], inputs["edges"] + n), 1),
        "edge_features": torch.cat((inputs["edge_features"], inputs["edge_features"].flip(0))),
        "of": torch.arange(2).repeat_interleave(n),
    }
    assert len(both["edge_features"]) == 2 * e
    torch.testing.assert_close(model(**both), torch.cat((out, other)), atol=1e-5, rtol=1e-4)


def test_messages_are_as_their_equation_says():
    torch.manual_seed(0)
    x, edges, features = torch.randn(4, 3), torch.tensor([[0, 1, 1, 2], [2, 2, 0, 2]]), torch.randn(4, 2)
    for gather in ("sum", "mean", "max"):
        layer = EdgeMessages(3, 5, 2, gather)
        each = torch.relu(layer.others(x)[edges[0]] + layer.along(features))
        into = each[edges[1] == 2]
        wanted = {"sum": into.sum(0), "mean": into.mean(0), "max": into.amax(0)}[gather]
        found = layer(x, Graph.of(edges, 4), features)
        torch.testing.assert_close(found[2], wanted)
        assert not found[[1, 3]].any()


@pytest.mark.parametrize("kind", ["gcn", "full"])
def test_what_does_not_fit_is_said(kind):
    model = made(kind)
    inputs = model.sample_inputs()
    with pytest.raises(ValueError, match="4 numbers of each edge"):
        model(inputs["x"], inputs["edges"])
    with pytest.raises(ValueError, match=r"edge_features.*e k"):
        model(**inputs | {"edge_features": inputs["edge_features"][:, :3]})
    plain = type(model)(type(model.config)(features=3, outputs=2))
    with pytest.raises(ValueError, match="without features of edges"):
        plain(**inputs)
    with pytest.raises(ValueError, match="alone.*edges"):
        GraphNetConfig(layer="alone", **SIZES)
    with pytest.raises(ValueError, match="edge_features.*-1"):
        GraphNetConfig(features=3, outputs=2, edge_features=-1)
