"""Graph layers give what PyTorch Geometric's give with the same weights, outputs and gradients, and do not care for names."""

import pytest
import torch

from regard.attention import tap
from regard.nn.graph import Graph
from regard.nn.graph_conv import GAT, GCN, GraphConv
from regard.symmetry.check import check
from regard.symmetry.roles import Roles

pyg = pytest.importorskip("torch_geometric.nn")
N, D, OUT = 12, 6, 8


def edges(kind="some", seed=0):
    draw = torch.Generator().manual_seed(seed)
    found = torch.randint(N - 2, (2, 30), generator=draw)  # the last two nodes are alone
    if kind == "loops":
        found = torch.cat((found, torch.tensor([[1, 4, 4], [1, 4, 4]])), 1)
    if kind == "none":
        found = found[:, :0]
    return found


def features(seed=1):
    return torch.randn(N, D, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def same(mine, theirs, x):
    """Outputs and gradients for the features."""
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
    got, true = (torch.autograd.grad(out.sin().sum(), x, retain_graph=True)[0] for out in (mine, theirs))
    torch.testing.assert_close(got, true, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["some", "loops", "none"])
@pytest.mark.parametrize("gather", ["sum", "mean", "max"])
@pytest.mark.parametrize("out", [3, 9])
def test_graph_conv(kind, gather, out):
    x, graph = features(), Graph(edges(kind), N)
    mine, theirs = (GraphConv(D, out, gather=gather), pyg.GraphConv(D, out, aggr={"sum": "add"}.get(gather, gather)))
    theirs.lin_rel.weight, theirs.lin_root.weight, theirs.lin_rel.bias = (
        mine.others.weight,
        mine.own.weight,
        mine.own.bias,
    )
    same(mine(x, graph), theirs(x, graph.edges), x)


@pytest.mark.parametrize("kind", ["some", "none"])
def test_sage_is_graph_conv_with_the_mean(kind):
    x, graph = features(), Graph(edges(kind), N)
    mine, theirs = GraphConv(D, OUT, gather="mean"), pyg.SAGEConv(D, OUT)
    theirs.lin_l.weight, theirs.lin_r.weight, theirs.lin_l.bias = (mine.others.weight, mine.own.weight, mine.own.bias)
    same(mine(x, graph), theirs(x, graph.edges), x)


@pytest.mark.parametrize("kind", ["some", "loops", "none"])
@pytest.mark.parametrize("out", [3, 9])
def test_gcn(kind, out):
    x, graph = features(), Graph(edges(kind), N)
    mine, theirs = GCN(D, out), pyg.GCNConv(D, out)
    theirs.lin.weight, theirs.bias = mine.project.weight, mine.offset
    same(mine(x, graph), theirs(x, graph.edges), x)


@pytest.mark.parametrize("kind", ["some", "loops", "none"])
@pytest.mark.parametrize("join", [True, False])
def test_gat(kind, join):
    x, graph = features(), Graph(edges(kind), N)
    mine = GAT(D, OUT, 4, join=join)
    theirs = pyg.GATConv(D, OUT // 4 if join else OUT, 4, concat=join)
    theirs.lin.weight, theirs.bias = mine.value.weight, mine.offset
    theirs.att_src.data, theirs.att_dst.data = mine.from_there.data[None], mine.from_here.data[None]
    same(mine(x, graph), theirs(x, graph.edges), x)


@pytest.mark.parametrize("kind", ["some", "loops"])
def test_gat_later(kind):
    x, graph = features(), Graph(edges(kind), N)
    mine, theirs = GAT(D, OUT, 2, later=True), pyg.GATv2Conv(D, OUT // 2, 2)
    theirs.lin_l.weight, theirs.lin_l.bias, theirs.lin_r.weight, theirs.lin_r.bias = (
        mine.value.weight,
        mine.value.bias,
        mine.query.weight,
        mine.query.bias,
    )
    theirs.att.data, theirs.bias = mine.from_there.data[None], mine.offset
    same(mine(x, graph), theirs(x, graph.edges), x)


class On(torch.nn.Module):
    """A layer with edges as a tensor, as models take them."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, edges):
        return self.layer(x, Graph(edges, len(x)))


LAYERS = {
    "sum": lambda: GraphConv(D, OUT),
    "mean": lambda: GraphConv(D, OUT, gather="mean"),
    "max": lambda: GraphConv(D, OUT, gather="max"),
    "gcn": lambda: GCN(D, OUT),
    "gat": lambda: GAT(D, OUT, 2),
    "gat later": lambda: GAT(D, OUT, 2, later=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_names_of_nodes_do_not_matter(name):
    torch.manual_seed(0)
    model = On(LAYERS[name]()).double()
    inputs = {"x": features().detach().double(), "edges": edges("loops")}
    report = check(model, inputs, laws=["relabelling"], roles=Roles(nodes="x", edges="edges"))
    assert report["relabelling"].measured == "holds" and report["relabelling"].error < 1e-9


def test_an_empty_graph_and_nodes_without_edges():
    for make in LAYERS.values():
        assert make()(torch.zeros(0, D), Graph(torch.zeros(2, 0, dtype=torch.long), 0)).shape == (0, OUT)
    conv = GraphConv(D, OUT)
    x = features()
    torch.testing.assert_close(conv(x, Graph(edges(), N))[-1], conv.own(x)[-1])


def test_weights_of_gat_are_told():
    heard = []
    with tap.listen(heard.append):
        GAT(D, OUT, 2)(features(), Graph(edges(), N))
    assert heard[0].scores.shape == (1, 2, heard[0].mask.edges.shape[1])


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: GraphConv(3, 4, gather="median"), "gather.*'median'"),
        (lambda: GAT(3, 5, 2), "width.*joined.*out=5.*heads=2"),
        (lambda: Graph(torch.tensor([[0], [9]]), 4), "target 9.*4 queries"),
        (lambda: GCN(3, 4)(torch.zeros(5, 3), Graph(torch.zeros(2, 1, dtype=torch.long), 4)), "n"),
    ],
)
def test_what_does_not_fit(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def ring(both_ways):
    """Node i is joined to i + 1, and the last to the first."""
    here = torch.arange(N)
    there = (here + 1) % N
    one_way = torch.stack((here, there))
    if both_ways:
        return Graph(torch.cat((one_way, one_way.flip(0)), 1), N)
    return Graph(one_way, N)


def convolve_ring(x, taps, bias):
    """Σ_k taps_k x_(j + k − 1) around the ring, by torch's convolution of images.   n d, three of o d -> n o"""
    kernel = torch.stack(taps, -1)  # o d 3
    wrapped = torch.cat((x[-1:], x, x[:1])).mT[None]
    return torch.nn.functional.conv1d(wrapped, kernel, bias)[0].mT


@pytest.mark.parametrize("both_ways", [True, False])
def test_on_a_ring_a_graph_convolution_is_a_convolution(both_ways):
    """Two taps that differ where edges have a direction; where they have none, a node cannot tell left from right."""
    x, layer = features(), GraphConv(D, OUT)
    after = layer.others.weight if both_ways else torch.zeros_like(layer.others.weight)
    taps = (layer.others.weight, layer.own.weight, after)
    same(layer(x, ring(both_ways)), convolve_ring(x, taps, layer.own.bias), x)


def test_on_a_ring_gcn_is_a_moving_average_of_three():
    x, layer = features(), GCN(D, OUT)
    third = layer.project.weight / 3
    same(layer(x, ring(True)), convolve_ring(x, (third, third, third), layer.offset), x)


def test_on_a_ring_with_one_more_edge_it_is_none():
    """The test can fail: a shortcut breaks the shifts that a convolution keeps."""
    x, layer = features(), GraphConv(D, OUT)
    plain = ring(True).edges
    graph = Graph(torch.cat((plain, torch.tensor([[0], [5]])), 1), N)
    taps = (layer.others.weight, layer.own.weight, layer.others.weight)
    assert not torch.allclose(layer(x, graph), convolve_ring(x, taps, layer.own.bias), atol=1e-3)
