"""Attention along edges is attention with the mask of those edges: same numbers, same gradients, memory for the edges only."""

import pytest
import torch

from regard.attention import kernels, tap
from regard.attention.additive_attention import mix
from regard.attention.attend import attend, explain
from regard.attention.biases import ALiBi
from regard.attention.edge_ops import Links, edge_dot, edge_softmax, edge_sum
from regard.attention.edges import Edges
from regard.attention.masks import Causal, Dense
from regard.look.record import record
from tests.attention.cases import random_inputs, results, worst_error

GRAPHS = {  # n, m, and how many edges
    "some": (9, 9, 30),
    "bipartite": (7, 12, 40),
    "one": (1, 1, 1),
    "repeated": (3, 3, 50),  # more than there are pairs
    "none": (4, 4, 0),
    "large": (70, 70, 300),
}


def random_edges(n, m, e, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.stack((torch.randint(m, (e,), generator=draw), torch.randint(n, (e,), generator=draw)))


def as_dense(edges, n, m):
    allowed = torch.zeros(n, m, dtype=torch.bool)
    allowed[edges[1], edges[0]] = True
    return Dense(allowed)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("kernel", ["reference", "fused", "tiled", "edges"])
def test_every_kernel_sees_the_same_edges(name, groups, kernel):
    n, m, e = GRAPHS[name]
    edges, inputs = random_edges(n, m, e), random_inputs(n, m, groups=groups, width=5)
    with kernels.only("reference"):
        true = results(inputs, mask=as_dense(edges, n, m))
    with kernels.only(kernel):
        found = results(inputs, mask=Edges(edges))
    assert worst_error(found, true) < 1e-10


@pytest.mark.parametrize("dtype, most", [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_other_dtypes(dtype, most):
    n, m, e = GRAPHS["large"]
    edges, inputs = random_edges(n, m, e), random_inputs(n, m, dtype=dtype)
    with kernels.only("reference"):
        true = results([x.detach().double().requires_grad_() for x in inputs], mask=as_dense(edges, n, m))
    with kernels.only("edges"):
        assert worst_error(results(inputs, mask=Edges(edges)), true) < most


def test_without_sampled_products(monkeypatch):
    monkeypatch.setattr("regard.attention.edge_ops.has_sampled_products", lambda: False)
    monkeypatch.setattr("regard.attention.edge_ops.CHUNK", 64)  # many pieces
    test_every_kernel_sees_the_same_edges("some", 2, "edges")


def test_gradients_of_each_part():
    links = Links(*random_edges(5, 6, 14), 5, 6)
    x, y, w = (torch.randn(2, *size, dtype=torch.float64, requires_grad=True) for size in ((5, 3), (6, 3), (14,)))
    assert torch.autograd.gradcheck(lambda x, y: edge_dot(x, y, links), (x, y))
    assert torch.autograd.gradcheck(lambda w, y: edge_sum(w, y, links), (w, y))
    assert torch.autograd.gradcheck(lambda w: edge_softmax(w, links), (w,))
    torch.testing.assert_close(edge_dot(x, y, links), (x[:, links.target] * y[:, links.source]).sum(-1))


def test_few_edges_are_computed_alone_and_many_are_not():
    inputs = random_inputs(500, 500)
    assert explain(*inputs, mask=Edges(random_edges(500, 500, 2000))).name == "edges"
    assert explain(*inputs, mask=Edges(random_edges(500, 500, 200_000))).name != "edges"
    assert explain(*inputs, mask=Edges(random_edges(500, 500, 2000)) & Causal()).name != "edges"


def test_what_the_kernel_cannot_do_is_told():
    inputs = random_inputs(5, 5)
    for how in ({"mask": Causal()}, {"mask": Edges(random_edges(5, 5, 4)), "bias": ALiBi(4)}):
        with kernels.only("edges"), pytest.raises(ValueError, match="edges kernel"):
            attend(*inputs, **how)


def test_nodes_without_edges_get_zeros_and_unseen_ones_may_hold_anything():
    q, k, v = (x.detach() for x in random_inputs(4, 4))
    k[:, :, 3] = v[:, :, 3] = torch.nan
    edges = torch.tensor([[0, 1, 2], [1, 1, 2]])
    for kernel in ("reference", "edges"):
        with kernels.only(kernel):
            out = attend(q, k, v, mask=Edges(edges))
        assert out.isfinite().all() and (out[:, :, [0, 3]] == 0).all() and (out[:, :, 1] != 0).any()


def test_edges_move_with_their_nodes():
    n, edges = 8, random_edges(8, 8, 20)
    q, k, v = (x.detach() for x in random_inputs(n, n))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(3))
    moved = attend(q[:, :, order], k[:, :, order], v[:, :, order], mask=Edges(edges).take(order))
    torch.testing.assert_close(moved, attend(q, k, v, mask=Edges(edges))[:, :, order])
    with pytest.raises(ValueError, match="one order for all rows"):
        Edges(edges).take(order[None])


def test_a_large_graph_takes_memory_for_its_edges_only():
    n, e = 200_000, 400_000  # all pairs would be 160 GB
    edges = random_edges(n, n, e)
    q, k, v = (torch.randn(1, 1, n, 2, requires_grad=True) for _ in range(3))
    attend(q, k, v, mask=Edges(edges)).sum().backward()
    assert q.grad.isfinite().all()


@pytest.mark.parametrize(
    "edges, words",
    [
        ([[0, 1]], "Edges.*2 e: sources.*list.*torch.tensor"),
        (torch.zeros(5, 2, dtype=torch.long), r"got torch.int64 \(5, 2\); use .T"),
        (torch.zeros(2, 5), r"got torch.float32 \(2, 5\)"),
        (torch.tensor([[0], [-1]]), "counted from 0, got -1"),
    ],
)
def test_what_are_no_edges(edges, words):
    with pytest.raises(ValueError, match=words):
        Edges(edges)


def test_an_edge_to_a_node_that_is_not_there():
    inputs = random_inputs(4, 6)
    with pytest.raises(ValueError, match="target 5.*4 queries, 0 … 3"):
        attend(*inputs, mask=Edges(torch.tensor([[0], [5]])))
    with pytest.raises(ValueError, match="edge.*source 6.*6 keys, 0 … 5"):
        attend(*inputs, mask=Edges(torch.tensor([[6], [0]])))


# ---- mix


def test_mixing_is_attention_with_scores_of_ones_own():
    q, k, v = random_inputs(6, 9)
    scores = (q @ k.mT) * q.shape[-1] ** -0.5
    for mask in (None, Causal(), as_dense(random_edges(6, 9, 20), 6, 9)):
        torch.testing.assert_close(mix(scores, v, mask), attend(q, k, v, mask=mask))


def test_mixing_along_edges_is_mixing_where_they_are():
    edges = torch.unique(random_edges(7, 7, 25), dim=1)
    edges = edges[:, torch.randperm(edges.shape[1], generator=torch.Generator().manual_seed(0))]
    _, _, v = random_inputs(7, 7, groups=2)
    scores = torch.randn(2, 4, 7, 7, dtype=torch.float64, requires_grad=True)
    along = scores[:, :, edges[1], edges[0]]
    torch.testing.assert_close(mix(along, v, Edges(edges)), mix(scores, v, as_dense(edges, 7, 7)))
    got = torch.autograd.grad(mix(along, v, Edges(edges)).sin().sum(), (scores, v))
    true = torch.autograd.grad(mix(scores, v, as_dense(edges, 7, 7)).sin().sum(), (scores, v))
    torch.testing.assert_close(got, true)


def test_an_edge_given_twice_counts_twice():
    v = torch.tensor([[1.0], [2.0]])[None, None]
    twice = torch.tensor([[0, 0, 1], [0, 0, 0]])
    out = mix(torch.zeros(1, 1, 3), v, Edges(twice))
    torch.testing.assert_close(out[0, 0, :, 0], torch.tensor([4 / 3, 0.0]))


@pytest.mark.parametrize(
    "scores, mask, words",
    [
        (torch.zeros(2, 3), None, "mix takes scores b h n m"),
        (torch.zeros(1, 3, 4, 5), None, "heads.*v.*scores.*b=1.*1, h=3.*g=2"),
        (torch.zeros(1, 2, 4, 6), None, "scores b h n m.*m=6.*v.*5"),
        (torch.zeros(1, 2, 4), None, "along.*edges.*Edges mask.*NoneType"),
        (torch.zeros(1, 2, 4), Edges(torch.zeros(2, 3, dtype=torch.long)), "score.*4 scores.*3 edges"),
        (torch.zeros(1, 2, 4, 5), torch.ones(4, 5), "wrap a bool tensor in Dense"),
    ],
)
def test_what_cannot_be_mixed(scores, mask, words):
    with pytest.raises(ValueError, match=words):
        mix(scores, torch.zeros(1, 2, 5, 3), mask)


# ---- the tap


class AlongEdges(torch.nn.Module):
    def __init__(self, edges, how):
        super().__init__()
        self.edges, self.how, self.project = edges, how, torch.nn.Linear(6, 18)

    def forward(self, x):
        q, k, v = self.project(x).unflatten(-1, (3, 2, 3)).permute(2, 0, 3, 1, 4)
        if self.how == "attend":
            with kernels.only("edges"):
                return attend(q, k, v, mask=Edges(self.edges))
        if self.how == "mix":
            return mix(q @ k.mT, v, Edges(self.edges))
        return mix((q[:, :, self.edges[1]] + k[:, :, self.edges[0]]).sum(-1), v, Edges(self.edges))


@pytest.mark.parametrize("how", ["attend", "mix", "mix along"])
def test_what_is_recorded_is_proved(how):
    torch.manual_seed(0)
    edges = torch.unique(random_edges(6, 6, 15), dim=1)
    model, x = AlongEdges(edges, how), torch.randn(1, 6, 6)
    plain = model(x)
    with record(model) as seen:
        out = model(x)
    assert torch.equal(out, plain)
    (entry,) = seen
    assert entry.proved and entry.error < 1e-6
    if how == "mix":
        assert entry.weights.shape == (1, 2, 6, 6) and entry.operator == "mix"
        return
    assert entry.kind == "edges" and entry.weights.shape == (2, edges.shape[1])
    assert {tuple(pair) for pair in entry.edges.T.tolist()} == {tuple(pair) for pair in edges.T.tolist()}
    total = torch.zeros(2, 6).index_add(1, entry.edges[1], entry.weights)
    linked = torch.zeros(6, dtype=torch.bool)
    linked[edges[1]] = True
    torch.testing.assert_close(total, linked.float().expand(2, -1))


def test_nobody_listens_nothing_is_told():
    heard = []
    with tap.listen(heard.append):
        mix(torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 1))
    mix(torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 1))
    assert len(heard) == 1 and isinstance(heard[0], tap.Mixed)
