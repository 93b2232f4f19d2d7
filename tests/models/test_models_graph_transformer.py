"""The transformer of graphs: names of nodes do not matter, not even where the Laplacian leaves its eigenvectors open."""

import pytest
import torch

from regard.models.graph_transformer import GraphTransformer, GraphTransformerConfig
from regard.nn.graph import Graph
from regard.nn.node_attention import adjacency, returns, spectrum, steps_apart
from regard.symmetry.check import check

SIZES = {"features": 3, "outputs": 4, "dim": 8, "depth": 2, "heads": 2, "places": 3, "farthest": 2}
NONE = torch.zeros(2, 0, dtype=torch.long)
VARIANTS = {
    "distance": {"position": "none"},
    "laplacian": {"bias": "none"},
    "walk": {"position": "walk"},
    "everything, graph": {"level": "graph", "pool": "attention"},
    "everything, pairs": {"level": "edge", "ordered": True},
    "edges": {"attention": "edges", "bias": "none", "position": "none"},
    "edges, laplacian": {"attention": "edges", "bias": "none", "norm": "rmsnorm", "mlp": "swiglu"},
    "edges, walk, graph": {"attention": "edges", "bias": "none", "position": "walk", "level": "graph", "pool": "sum"},
}


def made(name):
    torch.manual_seed(0)
    return GraphTransformer(GraphTransformerConfig(**SIZES, **VARIANTS[name])).double().eval()


def both(*pairs):
    edges = torch.tensor(pairs).T
    return torch.cat((edges, edges.flip(0)), 1)


def ring(n):
    return both(*[(i, (i + 1) % n) for i in range(n)])


def star(n):
    return both(*[(0, i) for i in range(1, n)])


# directed, with loops and repetitions
RANDOM = torch.randint(7, (2, 20), generator=torch.Generator().manual_seed(1))
GRAPHS = {
    "ring": (ring(8), 8),
    "star": (star(7), 7),
    "two rings and a node": (torch.cat((ring(4), ring(4) + 4), 1), 9),
    "no edges": (NONE, 5),
    "random": (RANDOM, 8),
    "one node": (NONE, 1),
}


def features(n, seed=0):
    return torch.randn(n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", VARIANTS)
def test_names_of_nodes_do_not_matter(name, graph):
    """Rings, stars and parts that are alike have repeated eigenvalues, through which three eigenvectors cut."""
    model, (edges, n) = made(name), GRAPHS[graph]
    x, order = features(n), torch.randperm(n, generator=torch.Generator().manual_seed(2))
    place = torch.empty_like(order)
    place[order] = torch.arange(n)
    out, other = model(x, edges), model(x[order], place[edges])
    torch.testing.assert_close(other, out[order] if model.config.level == "node" else out, atol=1e-9, rtol=1e-9)


def test_a_single_eigenvector_as_a_feature_would_break_it():
    """The same check fails for what is often done: eigenvectors themselves as features."""
    linked = adjacency(ring(8), torch.zeros(8, dtype=torch.long), torch.arange(8), (1, 8))
    order = torch.randperm(8, generator=torch.Generator().manual_seed(2))
    one, other = (torch.linalg.eigh(each.double())[1][0] for each in (linked, linked[:, order][:, :, order]))
    assert (one[order] - other).abs().max() > 0.1


@pytest.mark.parametrize("name", VARIANTS)
def test_graphs_side_by_side_do_not_see_each_other(name):
    model = made(name)
    nothing = (features(0), NONE)
    parts = [(features(5, 1), ring(5)), nothing, (features(8, 2), star(8)), (features(1), NONE), nothing]
    starts = torch.tensor([0, 5, 5, 13, 14])
    x = torch.cat([part[0] for part in parts])
    edges = torch.cat([part[1] + start for part, start in zip(parts, starts, strict=True)], 1)
    of = torch.repeat_interleave(torch.arange(5), torch.tensor([len(part[0]) for part in parts]))
    together = model(x, edges, of=of, graphs=5)
    torch.testing.assert_close(together, torch.cat([model(*part) for part in parts]))
    graph = Graph(edges, len(x))  # what was found out about a graph is used again, and not for another `of`
    torch.testing.assert_close(model(x, graph, of=of, graphs=5), together)
    torch.testing.assert_close(model(x, graph), model(x, edges))


@pytest.mark.parametrize("name", ["everything, graph", "edges, laplacian"])
def test_declared_is_measured(name):
    report = check(made(name), {"x": features(8), "edges": RANDOM})
    assert report.ok and report["relabelling"].error < 1e-9, str(report)
    assert report["relabelling"].declared == ("invariant" if "graph" in name else "equivariant")


def test_places_see_what_neighbours_alone_do_not():
    """Two triangles and a ring of six: without features every node has two neighbours that look like itself.

    A bias of distance does not help: a mean of things that are all alike is the same with any weights.
    """
    x = torch.ones(6, 3, dtype=torch.float64)
    apart = {}
    for name in ("edges", "distance", "laplacian", "walk"):
        model = made(name)
        one, other = model(x, torch.cat((ring(3), ring(3) + 3), 1)), model(x, ring(6))
        apart[name] = (one - other).abs().max().item()
    assert max(apart["edges"], apart["distance"]) < 1e-12 < 1e-4 < min(apart["laplacian"], apart["walk"]), apart


def test_steps_walks_and_spectrum_are_those_of_networkx():
    networkx = pytest.importorskip("networkx")
    edges = torch.cat((ring(6), both((0, 3), (6, 7))), 1)
    linked = adjacency(edges, torch.zeros(9, dtype=torch.long), torch.arange(9), (1, 9))
    graph = networkx.Graph(edges.T.tolist())
    graph.add_node(8)
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    true = torch.tensor([[min(lengths[i].get(j, 3), 3) for j in range(9)] for i in range(9)])
    assert torch.equal(steps_apart(linked, 2)[0], true)
    normal = torch.from_numpy(networkx.normalized_laplacian_matrix(graph, nodelist=range(9)).toarray())
    vectors, values, factor = spectrum(linked, torch.ones(1, 9, dtype=torch.bool), 9, torch.float64)
    torch.testing.assert_close(values[0], torch.linalg.eigvalsh(normal))
    rebuilt = (vectors[0] * values[0]) @ vectors[0].T / 9
    torch.testing.assert_close(rebuilt, normal, atol=1e-12, rtol=0)
    torch.testing.assert_close(factor, 1 - values / 3)
    walk = linked[0].double() / linked[0].sum(-1, keepdim=True).clamp_min(1)
    torch.testing.assert_close(
        returns(linked, 2, torch.float64)[0],
        torch.stack([(walk @ walk).diagonal(), (walk @ walk @ walk).diagonal()], -1),
    )


def test_directed_edges_lead_one_way():
    linked = adjacency(torch.tensor([[0, 1], [1, 2]]), torch.zeros(3, dtype=torch.long), torch.arange(3), (1, 3))
    assert steps_apart(linked, 3)[0].tolist() == [[0, 4, 4], [1, 0, 4], [2, 1, 0]]  # [to, from]


@pytest.mark.parametrize(
    "config, words",
    [
        ({"attention": "edges"}, "bias.*distance.*attention='full'"),
        ({"dim": 9}, "dim.*heads=4.*9"),
        ({"position": "learned"}, "position.*'learned'"),
    ],
)
def test_what_does_not_fit(config, words):
    with pytest.raises(ValueError, match=words):
        GraphTransformerConfig(features=3, outputs=2, **config)
