"""Parts of graph models: features that are mostly zero, graphs that are known again, pools, pairs, a bias held by slot."""

import gc

import pytest
import torch

from regard.attention import kernels
from regard.attention.attend import attend
from regard.attention.biases import Distance
from regard.attention.masks import Padding
from regard.models.graph_net import GraphNet, GraphNetConfig
from regard.nn import graph as graphs
from regard.nn.graph import Graph
from regard.nn.graph_pool import AskingPool, Pairs
from regard.nn.pool import AttentionPool
from regard.nn.sparse import Sparse, sparse_dropout

EDGES = torch.randint(9, (2, 30), generator=torch.Generator().manual_seed(0))


def mostly_zero(seed=0):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(9, 12, generator=draw, dtype=torch.float64)
    return x * (torch.rand(9, 12, generator=draw) < 0.2)


@pytest.mark.parametrize("layer", ["conv", "gcn", "gat", "gatv2", "alone"])
@pytest.mark.parametrize("gather", ["mean", "max"])
def test_sparse_features_give_what_dense_ones_give(layer, gather):
    if gather == "max" and layer != "conv":
        return
    torch.manual_seed(0)
    model = GraphNet(GraphNetConfig(features=12, outputs=3, hidden=16, layer=layer, gather=gather, heads=2)).double()
    x = mostly_zero()
    results = []
    for given in (x, x.to_sparse_coo()):
        out = model(given, EDGES)
        results.append([out, *torch.autograd.grad(out.sin().sum(), list(model.parameters()))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("layer", ["conv", "gcn", "gat", "gatv2", "alone"])
def test_half_precision_stays_near(layer):
    """The whole model in bfloat16, and autocast around it."""
    torch.manual_seed(0)
    model = GraphNet(GraphNetConfig(features=12, outputs=3, hidden=16, layer=layer, heads=2, spread=1, level="graph"))
    x = mostly_zero().float()
    true = model(x, EDGES)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model(x, EDGES).float(), true, atol=0.03, rtol=0.03)
    torch.testing.assert_close(model.bfloat16()(x.bfloat16(), EDGES).float(), true, atol=0.03, rtol=0.03)


def test_sparse_is_a_matrix():
    x, weight = mostly_zero(), torch.randn(12, 4, dtype=torch.float64, requires_grad=True)
    held = Sparse.of(x)
    torch.testing.assert_close(held.dense(), x)
    torch.testing.assert_close(held @ weight, x @ weight)
    assert held.shape == x.shape and len(held) == 9 and held.share == pytest.approx((x != 0).double().mean().item())
    torch.manual_seed(0)
    kept = sparse_dropout(held, 0.5, True).dense()
    assert set((kept / x)[x != 0].round(decimals=6).tolist()) == {0.0, 2.0}
    assert torch.equal(sparse_dropout(held, 0.5, False).dense(), x)
    twice = Sparse(torch.tensor([0, 0]), torch.tensor([1, 1]), torch.tensor([1.0, 2.0]), (2, 3))
    assert twice.dense()[0].tolist() == [0, 3, 0] and (twice @ torch.eye(3))[0].tolist() == [0, 3, 0]
    with pytest.raises(ValueError, match="a column is one of 0 … 2, got 1 … 5"):
        Sparse(torch.tensor([0, 0]), torch.tensor([1, 5]), torch.ones(2), (2, 3))


def test_a_graph_is_found_out_once_and_forgotten_with_its_edges():
    edges = EDGES.clone()
    first = Graph.of(edges, 9)
    assert Graph.of(edges, 9) is first and Graph.of(first, 9) is first
    assert Graph.of(edges, 10) is not first
    edges[0, 0] = (edges[0, 0] + 1) % 9
    assert torch.equal(Graph.of(edges, 9).edges, edges)  # changed in place: found out again
    gc.collect()  # graphs of other tests may be waiting to be forgotten
    before = len(graphs.seen)
    assert Graph.of(edges, 9).looped.links.turned.count
    del edges, first
    gc.collect()
    assert len(graphs.seen) == before - 1
    with pytest.raises(ValueError, match="graph.*9 nodes.*features.*8"):
        Graph.of(Graph(EDGES, 9), 8)


def test_the_asking_pool_is_the_attention_pool_of_each_graph():
    torch.manual_seed(0)
    mine, true = AskingPool(8, 2).double(), AttentionPool(8, 2).double()
    true.seeds.data, true.to_k, true.to_v, true.mix = mine.seed.data[None], mine.to_k, mine.to_v, mine.mix
    h, of = torch.randn(9, 8, dtype=torch.float64), torch.tensor([2, 0, 0, 2, 4, 4, 2, 0, 2])
    out = mine(h, of, 6)
    for g in range(6):
        torch.testing.assert_close(out[g : g + 1], true(h[None, of == g]))
    with pytest.raises(ValueError, match="node.*graph 4.*3 graphs"):
        mine(h, of, 3)


def test_pairs_know_their_order_only_if_asked_to():
    h, pairs = torch.randn(5, 4), torch.tensor([[0, 1], [3, 4]])
    for ordered in (False, True):
        read = Pairs(4, 2, ordered=ordered)
        assert torch.allclose(read(h, pairs), read(h, pairs.flip(0))) is not ordered
    with pytest.raises(ValueError, match="pairs are of nodes 0 … 4, got 0 … 7"):
        read(h, torch.tensor([[0], [7]]))


# ── the bias of distance ────────────────────────────────────────────────────────────────────────────────────


def inputs(n, heads=2, b=2):
    draw = torch.Generator().manual_seed(n)
    return [torch.randn(b, heads, n, 4, generator=draw, dtype=torch.float64, requires_grad=True) for _ in range(3)]


def test_distance_is_straight_between_its_knots():
    bias = Distance(1, farthest=4.0, steps=2).double()
    bias.table.data[:, 0] = torch.tensor([0.0, 1.0, 5.0])
    apart = torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0, 9.0]], dtype=torch.float64)
    assert bias.read(apart[None])[0, 0, 0].tolist() == [0, 0.5, 1, 3, 5, 5]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_distance_keeps_shifts_turns_and_mirrors_of_places(axes):
    torch.manual_seed(0)
    bias, (q, k, v) = Distance(2, farthest=3.0, steps=4).double(), inputs(7)
    where = torch.randn(2, 7, axes, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(axes, axes, dtype=torch.float64))[0]
    out = attend(q, k, v, bias=bias, where=where)
    torch.testing.assert_close(attend(q, k, v, bias=bias, where=where @ turn + 5), out)
    assert (attend(q, k, v, bias=bias, where=where * 2) - out).abs().max() > 1e-4  # and it does read them
    lost = where.clone()
    lost[:, 2] = torch.nan
    scores = bias.scores(q, *(side for side in sides_of(lost)))
    assert (scores[:, :, 2] == 0).all() and (scores[..., 2] == 0).all() and scores.isfinite().all()


def sides_of(where):
    from regard.attention.places import sides

    return sides(where, where.shape[1], where.shape[1], where.shape[0], where.device)


@pytest.mark.parametrize("n", [7, 150])
def test_distances_held_by_slot(n):
    """The tiled kernel gives what the reference gives, padding included, and what is held moves with the tokens."""
    torch.manual_seed(0)
    table, (q, k, v) = Distance(2, farthest=4, steps=4).double(), inputs(n)
    apart = torch.randint(0, 6, (2, n, n))
    bias, found = table.over(apart), []
    for kernel in ("reference", "tiled"):
        with kernels.only(kernel):
            out = attend(q, k, v, bias=bias, mask=Padding([n, n - 3]))
        found.append([out, *torch.autograd.grad(out.sin().sum(), [q, k, v, table.table])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    order = torch.randperm(n)
    moved = attend(q[:, :, order], k[:, :, order], v[:, :, order], bias=bias.take(order))
    torch.testing.assert_close(moved, attend(q, k, v, bias=bias)[:, :, order])
    with pytest.raises(ValueError, match=rf"distances.*\({n}, {n}\).*5 queries.*{n} keys"):
        attend(q[:, :, :5], k, v, bias=bias)
    with pytest.raises(ValueError, match="distances must be numbers n m or b n m"):
        table.over(apart > 2)
    with pytest.raises(ValueError, match="Distance.*2 heads.*queries.*1"):
        attend(q[:, :1], k[:, :1], v[:, :1], bias=bias)
