"""Attention along edges: the weights that PyTorch Geometric's own layers give, with the edges they used, proved."""

import sys

import pytest
import torch
from torch import nn

from regard.look.record import record

geometric = pytest.importorskip("torch_geometric.nn")
NODES, WIDTH = 11, 6


def graph():
    torch.manual_seed(0)
    return torch.randn(NODES, WIDTH), torch.randint(NODES, (2, 26))


@pytest.mark.parametrize(
    "kind, options, edges",
    [
        ("GATConv", {"heads": 2}, 35),
        ("GATConv", {"heads": 3, "concat": False, "add_self_loops": False}, 26),
        ("GATConv", {"heads": 1}, 35),
        ("GATv2Conv", {"heads": 2}, 35),
        ("TransformerConv", {"heads": 2}, 26),
    ],
)
def test_weights_are_those_the_layer_gives(kind, options, edges):
    x, index = graph()
    layer = getattr(geometric, kind)(WIDTH, 8, **options).eval()
    before = layer(x, index)
    with record(layer) as seen:
        after = layer(x, index)
    _, (used, theirs) = layer(x, index, return_attention_weights=True)
    assert torch.equal(before, after)
    (entry,) = seen
    assert entry.proved and entry.kind == "edges" and entry.name == ""
    assert entry.shape == (options["heads"], used.shape[1])
    assert torch.equal(entry.edges, used)
    assert abs(used.shape[1] - edges) <= 3  # loops that were there already are not added again
    torch.testing.assert_close(entry.weights, theirs.T, atol=1e-6, rtol=0)
    total = torch.zeros(NODES).index_add(0, used[1], entry.weights[0])
    assert set(total.detach().round(decimals=4).tolist()) <= {0.0, 1.0}


def test_edge_features_and_two_kinds_of_nodes():
    torch.manual_seed(0)
    layer = geometric.GATv2Conv((6, 4), 5, heads=2, edge_dim=3, add_self_loops=False).eval()
    here, there, index = (
        torch.randn(7, 6),
        torch.randn(3, 4),
        torch.stack((torch.randint(7, (9,)), torch.randint(3, (9,)))),
    )
    with record(layer) as seen:
        layer((here, there), index, torch.randn(9, 3))
    assert seen[0].proved and torch.equal(seen[0].edges, index)


def test_a_network_its_layers_and_its_dropout():
    x, index = graph()
    model = geometric.GAT(WIDTH, 16, 3, 4, heads=2, dropout=0.3)
    with record(model.eval(), heads=[1], layers=[1, 2]) as seen:
        model(x, index)
    assert [(e.name, e.layer, e.heads, e.proved) for e in seen] == [
        ("convs.1", 1, (1,), True),
        ("convs.2", 2, (1,), True),
    ]
    assert seen[0].weights.shape == (1, seen[0].edges.shape[1])
    with record(model.train()) as seen:
        model(x, index)
    with pytest.raises(ValueError, match="convs.0 .*attention dropout was on"):
        seen[0].weights  # noqa: B018
    assert seen[0].get_weights(unproved=True).shape[0] == 2


def test_summaries_are_for_matrices_only():
    x, index = graph()
    layer = geometric.GATConv(WIDTH, 8)
    with record(layer, keep="summary") as seen:
        layer(x, index)
    with pytest.raises(ValueError, match=r"along edges.*weights \(h e\)"):
        seen[0].summary  # noqa: B018


class Halved(geometric.GATConv):
    """Halves its weights after the softmax."""

    def message(self, x_j, alpha):
        return super().message(x_j, alpha * 0.5)


class Largest(geometric.GATConv):
    """Takes the largest message instead of their sum."""

    def __init__(self):
        super().__init__(WIDTH, 8, aggr="max")


@pytest.mark.parametrize("layer", [Halved(WIDTH, 8), Largest()])
def test_what_is_no_sum_of_these_weights_is_not_proved(layer):
    x, index = graph()
    with record(layer) as seen:
        layer(x, index)
    (entry,) = seen
    assert not entry.proved and entry.error > 0.1
    with pytest.raises(ValueError, match="not proved"):
        entry.weights  # noqa: B018


class Attributed(geometric.MessagePassing):
    """Keeps the library's softmax as an attribute."""

    def __init__(self):
        super().__init__(aggr="add", node_dim=0)
        self.scores, self.normalise = nn.Linear(2 * WIDTH, 1), sys.modules["torch_geometric.utils"].softmax

    def forward(self, x, index):
        return self.propagate(index, x=x)

    def message(self, x_i, x_j, index):
        return self.normalise(self.scores(torch.cat((x_i, x_j), -1)), index) * x_j


def test_a_softmax_that_is_an_attribute_of_the_layer_is_heard():
    x, index = graph()
    layer = Attributed()
    own = layer.normalise
    with record(layer) as seen:
        layer(x, index)
    (entry,) = seen
    assert entry.proved and layer.normalise is own


def test_layers_without_attention_are_silent():
    x, index = graph()
    model = geometric.GCN(WIDTH, 16, 2, 4)
    with record(model) as seen:
        model(x, index)
    assert len(seen) == 0


class ByHand(nn.Module):
    """A softmax over edges without any library."""

    def __init__(self):
        super().__init__()
        self.score, self.value = nn.Linear(2 * WIDTH, 2), nn.Linear(WIDTH, 8)

    def forward(self, x, index, scatter, flat=False):
        here, there = index[1], index[0]
        e = self.score(torch.cat((x[here], x[there]), -1)).exp()
        w = e / torch.zeros(NODES, 2).index_add(0, here, e)[here]
        messages = w[..., None] * self.value(x).unflatten(-1, (2, 4))[there]
        if flat:  # heads side by side before the sum
            return torch.zeros(NODES, 8).index_add(0, here, messages.flatten(1))
        if scatter:
            return torch.zeros(NODES, 2, 4).scatter_add(0, here[:, None, None].expand(-1, 2, 4), messages)
        return torch.zeros(NODES, 2, 4).index_add_(0, here, messages)


@pytest.mark.parametrize("way", [{"scatter": False}, {"scatter": True}, {"scatter": False, "flat": True}], ids=str)
def test_written_out_it_is_said_and_not_proved(way):
    x, index = graph()
    layer = ByHand()
    with record(layer) as seen:
        layer(x, index, **way)
    (entry,) = seen
    assert entry.kind == "edges" and "from where" in entry.reason and entry.error < 1e-5
    weights = entry.get_weights(unproved=True)
    assert weights.shape == (2, 26)
    total = torch.zeros(NODES).index_add(0, index[1], weights[0])
    assert set(total.detach().round(decimals=4).tolist()) <= {0.0, 1.0}


def test_nothing_is_left_behind():
    x, index = graph()
    layer = geometric.GATConv(WIDTH, 8)
    softmax = sys.modules["torch_geometric.utils"].softmax
    names = [
        (m, n) for m in list(sys.modules.values()) for n, v in list(getattr(m, "__dict__", {}).items()) if v is softmax
    ]
    assert len(names) > 5

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self):
            assert names[0][0].__dict__[names[0][1]] is not softmax
            self.layer(x, index)
            raise KeyError("planted")

    around = Around()
    with pytest.raises(KeyError), record(around) as seen:
        around()
    assert len(seen) == 1
    assert all(module.__dict__[name] is softmax for module, name in names)
    hooks = ("_propagate_forward_pre_hooks", "_message_forward_hooks", "_aggregate_forward_hooks")
    assert not any(getattr(layer, name) for name in hooks)
