"""Graph networks: names of nodes do not matter, graphs side by side do not see each other, and the numbers of others."""

import pytest
import torch

from regard.models.graph_net import GraphNet, GraphNetConfig, spread
from regard.nn.graph import Graph
from regard.nn.graph_pool import pool_nodes
from regard.symmetry.check import check

SIZES = {"features": 4, "outputs": 3, "hidden": 8, "heads": 2}
VARIANTS = {
    **{
        f"{layer} {level}": {"layer": layer, "level": level}
        for layer in ("conv", "gcn", "gat", "gatv2")
        for level in ("node", "edge", "graph")
    },
    "deep": {"layer": "gcn", "depth": 4, "norm": "layernorm", "residual": True, "activation": "elu"},
    "spread alone": {"layer": "alone", "spread": 2},
    "spread": {"layer": "conv", "gather": "max", "spread": 3},
    "sum of a graph": {"layer": "conv", "gather": "sum", "level": "graph", "pool": "sum"},
    "asked of a graph": {"layer": "gcn", "level": "graph", "pool": "attention"},
    "ordered pairs": {"layer": "conv", "level": "edge", "ordered": True},
    "batch norm": {"layer": "conv", "gather": "sum", "level": "graph", "norm": "batchnorm"},
    "largest of a graph": {"layer": "gcn", "level": "graph", "pool": "max", "norm": "rmsnorm"},
}


def test_batch_norm_of_one_node_can_be_trained():
    model = made("batch norm").train()
    x = torch.randn(1, 4, dtype=torch.float64)
    assert model(x, torch.zeros(2, 0, dtype=torch.long)).isfinite().all()


def made(name, **more):
    torch.manual_seed(0)
    return GraphNet(GraphNetConfig(**SIZES, **VARIANTS[name], **more)).double().eval()


def graph(n=9, e=24, seed=0):
    draw = torch.Generator().manual_seed(seed)
    x, edges = (torch.randn(n, 4, generator=draw, dtype=torch.float64), torch.randint(n - 1, (2, e), generator=draw))
    return x, edges  # the last node is alone


@pytest.mark.parametrize("name", VARIANTS)
def test_names_of_nodes_do_not_matter(name):
    model = made(name)
    x, edges = graph()
    report = check(model, {"x": x, "edges": edges})
    assert report.ok and report["relabelling"].error < 1e-9, str(report)
    assert report["relabelling"].declared == ("invariant" if model.head is not None else "equivariant")


@pytest.mark.parametrize("name", VARIANTS)
def test_graphs_side_by_side_do_not_see_each_other(name):
    model = made(name)
    parts = [graph(9, 24, 0), graph(5, 6, 1), graph(2, 0, 2)]
    starts = torch.tensor([0, 9, 14])
    x = torch.cat([part[0] for part in parts])
    edges = torch.cat([part[1] + start for part, start in zip(parts, starts, strict=True)], 1)
    out = model(x, edges, of=torch.tensor([0] * 9 + [1] * 5 + [2] * 2))
    torch.testing.assert_close(out, torch.cat([model(*part) for part in parts]))


def test_the_same_network_as_pytorch_geometric():
    geometric = pytest.importorskip("torch_geometric.nn")
    mine, theirs = made("gcn node"), geometric.GCN(4, 8, 2, 3).double().eval()
    for layer, other in zip(mine.layers, theirs.convs, strict=True):
        other.lin.weight, other.bias = layer.project.weight, layer.offset
    x, edges = graph()
    torch.testing.assert_close(mine(x, edges), theirs(x, edges))
    appnp = geometric.APPNP(3, 0.2)
    torch.testing.assert_close(spread(x, Graph(edges, 9), 3, 0.2), appnp(x, edges))


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_pools_are_those_of_pytorch_geometric(how):
    geometric = pytest.importorskip("torch_geometric.nn")
    x, of = graph()[0].requires_grad_(), torch.tensor([2, 0, 0, 2, 1, 1, 2, 0, 2])
    theirs = {"sum": geometric.global_add_pool, "mean": geometric.global_mean_pool, "max": geometric.global_max_pool}[
        how
    ]
    mine = pool_nodes(x, of, how)
    torch.testing.assert_close(mine, theirs(x, of))
    got, true = (torch.autograd.grad(out.sin().sum(), x)[0] for out in (mine, theirs(x, of)))
    torch.testing.assert_close(got, true)
    assert (pool_nodes(x, of + 1, how)[0] == 0).all()  # a graph without nodes


@pytest.mark.parametrize("name", VARIANTS)
def test_nothing_has_a_defined_answer(name):
    out = made(name)(torch.zeros(0, 4, dtype=torch.float64), torch.zeros(2, 0, dtype=torch.long))
    assert out.shape == ((1, 3) if made(name).config.level == "graph" else (0, 3)) and out.isfinite().all()


@pytest.mark.parametrize(
    "config, words",
    [({"hidden": 9, "layer": "gat", "heads": 2}, "hidden.*heads=2.*9"), ({"layer": "gin"}, "layer.*gatv2.*'gin'")],
)
def test_what_does_not_fit(config, words):
    with pytest.raises(ValueError, match=words):
        GraphNetConfig(**({"features": 4, "outputs": 3} | config))


def test_an_edge_to_a_node_that_does_not_exist():
    with pytest.raises(ValueError, match="edge.*target 9.*4"):
        made("gcn node")(torch.zeros(4, 4, dtype=torch.float64), torch.tensor([[0], [9]]))
