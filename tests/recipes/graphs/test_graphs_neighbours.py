"""Neighbours drawn in mapped graphs: what plain Python finds, each as likely, the same for the same seed and step."""

import numpy as np
import pytest
import torch

from regard.data.batch import IGNORE, generator
from regard.models.graph_net import GraphNet, GraphNetConfig
from regard.recipes.graphs.neighbours import MappedGraph, different, looks_mapped, write_mapped
from tests.recipes.graphs.prepared import prepared

N, WIDTH = 40, 3


def graph(tmp_path, *, neighbours=4, edges=None, count=N):
    random = np.random.default_rng(3)
    edges = random.integers(0, count - 1, (2, 240)) if edges is None else edges  # the last node is alone
    x = random.standard_normal((count, WIDTH)).astype(np.float32)
    labels = (np.arange(count) % 3).astype(np.int8)
    write_mapped(tmp_path / "g", edges, x, labels, {"train": np.arange(20), "validation": np.arange(20, 30)})
    return (MappedGraph.open(str(tmp_path / "g"), neighbours), edges, x)


def sources_of(edges):
    """For each node the sources of its edges, in plain Python."""
    found = {i: [] for i in range(N)}
    for source, target in edges.T.tolist():
        found[target].append(source)
    return found


def test_all_neighbours_are_those_of_plain_python(tmp_path):
    mapped, edges, _ = graph(tmp_path, neighbours=100)
    into, seeds = sources_of(edges), [7, 0, N - 1, 31]
    nodes, found = mapped.around(np.array(seeds), 2, generator(0))
    assert nodes[:4].tolist() == seeds and len(set(nodes.tolist())) == len(nodes)
    asked, frontier, wanted = set(), set(seeds), []
    for _ in range(2):
        wanted += [(source, target) for target in frontier for source in into[target]]
        asked |= frontier
        frontier = {source for target in frontier for source in into[target]} - asked
    assert sorted((int(nodes[a]), int(nodes[b])) for a, b in found.T) == sorted(wanted)
    assert set(nodes.tolist()) == asked | frontier


def test_some_neighbours_are_different_true_ones_and_each_as_likely(tmp_path):
    mapped, edges, _ = graph(tmp_path, neighbours=2)
    into = sources_of(edges)
    for seed in range(20):
        nodes, found = mapped.around(np.array([5, 9]), 1, generator(seed))
        for place, node in enumerate((5, 9)):
            drawn = [int(nodes[a]) for a, b in found.T if b == place]
            assert len(drawn) == min(2, len(into[node]))
            assert all(drawn.count(each) <= into[node].count(each) for each in drawn)
    counts = np.zeros(5)
    picks = different(np.full(20_000, 5), 2, generator(0))
    assert (picks[:, 0] < picks[:, 1]).all()
    np.add.at(counts, picks.ravel(), 1)
    assert np.abs(counts / 40_000 - 0.2).max() < 0.01
    pairs, often = np.unique(picks, axis=0, return_counts=True)
    assert len(pairs) == 10 and np.abs(often / 20_000 - 0.1).max() < 0.01


def test_with_all_neighbours_the_answer_is_that_of_the_whole_graph(tmp_path):
    """Two layers see two steps away, so what was drawn around some nodes is all that matters to them."""
    _, edges, x = graph(tmp_path, neighbours=1000)
    torch.manual_seed(0)
    model = GraphNet(GraphNetConfig(features=WIDTH, outputs=3, layer="conv", hidden=8)).eval()
    whole = model(torch.from_numpy(x), torch.from_numpy(edges))
    rows = np.array([3, 17, N - 1, 0])
    batch = prepared(str(tmp_path / "g"), neighbours=1000).source.take(rows, generator(1))
    torch.testing.assert_close(model(batch["x"], batch["edges"])[:4], whole[torch.from_numpy(rows)])
    assert batch.target[:4].tolist() == [0, 2, 0, 0] and (batch.target[4:] == IGNORE).all()


def test_a_step_is_the_same_whatever_was_asked_before(tmp_path):
    graph(tmp_path)
    path, how = str(tmp_path / "g"), {"batch": 8, "neighbours": 4}
    one, other = (prepared(path, seed=5, **how).source for _ in range(2))
    for step in range(4):
        one.batch(step)
    for a, b in ((one.batch(4), other.batch(4)), (next(one.validation()), next(other.validation()))):
        assert torch.equal(a["x"], b["x"]) and torch.equal(a["edges"], b["edges"]) and torch.equal(a.target, b.target)
    assert not torch.equal(one.batch(4)["x"], prepared(path, seed=6, **how).source.batch(4)["x"])


def test_nodes_without_edges_and_loops(tmp_path):
    mapped, _, _ = graph(tmp_path, edges=np.array([[0, 0, 1], [0, 1, 1]]), neighbours=1)
    nodes, found = mapped.around(np.array([N - 1, 0]), 3, generator(0))
    assert nodes.tolist() == [N - 1, 0] and found.tolist() == [[1], [1]]


def test_what_is_missing_or_does_not_fit(tmp_path):
    graph(tmp_path)
    assert looks_mapped(str(tmp_path / "g")) and not looks_mapped(str(tmp_path)) and not looks_mapped(None)
    np.save(tmp_path / "g" / "labels.npy", np.zeros(7, dtype=np.int8))
    with pytest.raises(ValueError, match="labels.npy.*7.*starts.npy.*40 nodes"):
        MappedGraph.open(str(tmp_path / "g"), 2)
    np.save(tmp_path / "g" / "labels.npy", np.zeros(N, dtype=np.int8))
    with pytest.raises(ValueError, match="labels.npy.*classes"):
        MappedGraph.open(str(tmp_path / "g"), 2)
    (tmp_path / "g" / "features.npy").unlink()
    with pytest.raises(ValueError, match="features.npy.*graph.*starts.npy, sources.npy"):
        MappedGraph.open(str(tmp_path / "g"), 2)
