"""Graphs from every format, the words for every bad input, splits, and batches that equal the graphs one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.data.batch import IGNORE
from regard.data.splits import split_by_class
from regard.errors import RegardError
from regard.models.graph_net import GraphNet, GraphNetConfig
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.features import Scaling, encode_features, fit_features
from regard.recipes.graphs.parts import link, one, symmetric
from regard.training.tasks import call
from tests.recipes.graphs.prepared import Read as read

X = np.array([[0.5, 1], [1, 2], [2, 4], [3, 8], [4, 16], [5, 32]], dtype=np.float32)
ENDS = np.array([[0, 1, 2, 3, 0], [1, 2, 0, 4, 0]])  # a triangle, an edge, a loop; node 5 is alone
LABELS = ["a", "b", "a", "b", "a", "b"]
BOTH = {(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0), (3, 4), (4, 3), (0, 0)}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def edge_text(names=str):
    return "source,target\n" + "".join(f"{names(a)},{names(b)}\n" for a, b in ENDS.T)


def node_text(names=str, labels=LABELS):
    return "id,height,weight,label\n" + "".join(
        f"{names(i)},{x[0]},{x[1]},{label}\n" for i, (x, label) in enumerate(zip(X, labels, strict=True))
    )


def folder(tmp_path):
    write(tmp_path / "g" / "edges.csv", edge_text())
    write(tmp_path / "g" / "nodes.csv", node_text())
    return tmp_path / "g"


def named(tmp_path):
    write(tmp_path / "edges.tsv", edge_text("n{}".format).replace(",", "\t"))
    write(tmp_path / "edges.nodes.csv", node_text("n{}".format))
    return tmp_path / "edges.tsv"


def arrays(tmp_path):
    np.savez(tmp_path / "g.npz", edges=ENDS.T, x=X, labels=np.array([0, 1] * 3))
    return tmp_path / "g.npz"


def sparse_arrays(tmp_path):
    rows, columns = np.nonzero(X)
    np.savez(
        tmp_path / "s.npz",
        edges=ENDS,
        feat_indptr=np.arange(0, 13, 2),
        feat_indices=columns,
        feat_shape=[6, 2],
        feat_values=X[rows, columns],
        labels=np.array([0, 1] * 3),
    )
    return tmp_path / "s.npz"


@pytest.mark.parametrize("make", [folder, named, arrays, sparse_arrays])
def test_one_graph_from_every_format(make, tmp_path):
    graphs = read(make(tmp_path), scale="none")
    torch.testing.assert_close(graphs.x.to_dense(), torch.from_numpy(X))
    assert {(int(a), int(b)) for a, b in graphs.edges.T} == BOTH and graphs.edges.shape[1] == len(BOTH)
    assert graphs.level == "node" and graphs.target.tolist() == [0, 1, 0, 1, 0, 1]
    assert graphs.labels in (("a", "b"), ("0", "1"))
    assert read(make(tmp_path), directed=True, scale="none").edges.tolist() == ENDS.tolist()


def test_a_geometric_object_and_a_list_of_them():
    data = SimpleNamespace(
        edge_index=torch.from_numpy(ENDS),
        x=torch.from_numpy(X),
        y=torch.tensor([0, 1] * 3),
        train_mask=torch.tensor([1, 1, 1, 0, 0, 0]) == 1,
        val_mask=torch.tensor([0, 0, 0, 1, 0, 0]) == 1,
    )
    graphs = read(data, scale="none")
    assert graphs.split == {"train": [0, 1, 2], "validation": [3], "test": []}
    many = read(
        [
            SimpleNamespace(edge_index=torch.from_numpy(ENDS), x=torch.from_numpy(X) + i, y=torch.tensor([i % 2]))
            for i in range(20)
        ],
        scale="none",
    )
    assert many.level == "graph" and many.parts.graphs == 20 and many.target.tolist() == [0, 1] * 10


def test_geometric_itself():
    geometric = pytest.importorskip("torch_geometric.data")
    data = geometric.Data(x=torch.from_numpy(X), edge_index=torch.from_numpy(ENDS), y=torch.tensor([0, 1] * 3))
    assert read(data).target.tolist() == [0, 1] * 3


def test_given_splits_and_unknown_labels(tmp_path):
    lines = node_text(labels=["a", "b", "a", "", "b", "a"]).splitlines()
    words = ["split", "train", "train", "val", "train", "test", ""]
    write(tmp_path / "g" / "edges.csv", edge_text())
    write(tmp_path / "g" / "nodes.csv", "\n".join(f"{line},{word}" for line, word in zip(lines, words, strict=True)))
    graphs = read(tmp_path / "g")
    assert graphs.split == {"train": [0, 1], "validation": [2], "test": [4]}
    assert graphs.target[3] == IGNORE
    batch = graphs.source.batch(0)
    assert batch.target.tolist() == [0, 1] + [IGNORE] * 4
    assert [b.target[2].item() for b in graphs.source.validation()] == [0]


def many(tmp_path, empty=False):
    for name, ends in (
        ("ring/1", "0,1\n1,2\n2,0\n"),
        ("ring/2", "0 1\n1 2\n2 3\n3 0\n"),
        ("star/1", "0,1\n0,2\n"),
        ("star/2", "0,1\n0,2\n0,3\n"),
        ("star/3", "" if empty else "0,1\n"),
    ):
        write(tmp_path / "many" / f"{name}.csv", ends)
    return tmp_path / "many"


def test_a_folder_of_edge_lists_is_many_graphs(tmp_path):
    graphs = read(many(tmp_path), features="degree", validation=0.0, test=0.0)
    assert graphs.level == "graph" and graphs.labels == ("ring", "star") and graphs.target.tolist() == [0, 0, 1, 1, 1]
    assert graphs.parts.starts.tolist() == [0, 3, 7, 10, 14, 16]
    assert graphs.x[:3, 1].tolist() == pytest.approx([np.log(3)] * 3)
    write(tmp_path / "many" / "labels.csv", "graph,label\nring/1,0.5\nring/2,1.25\nstar/1.csv,2\nstar/2,3\nstar/3,\n")
    numbers = read(tmp_path / "many", features="degree", validation=0.0, test=0.0)
    assert numbers.labels is None and numbers.split["train"] == [0, 1, 2, 3]
    assert [numbers.job.number.restore(each) for each in numbers.target[:4].tolist()] == pytest.approx(
        [0.5, 1.25, 2, 3]
    )


def test_a_target_that_is_always_the_same_has_the_scale_1(tmp_path):
    """Its mean is rounded, so its deviation is not 0."""
    write(tmp_path / "e.csv", edge_text())
    write(tmp_path / "e.nodes.csv", node_text(labels=["0.1"] * 6))
    graphs = read(tmp_path / "e.csv", validation=0.0, test=0.0)
    assert np.full(6, 0.1).std() > 0
    assert (graphs.job.number.centre, graphs.job.number.scale) == (pytest.approx(0.1), 1.0)


def test_the_tu_format(tmp_path):
    place = tmp_path / "tu"
    write(place / "DS_A.txt", "1, 2\n2, 1\n3, 4\n4, 3\n4, 5\n5, 4\n")
    write(place / "DS_graph_indicator.txt", "1\n1\n2\n2\n2\n")
    write(place / "DS_graph_labels.txt", "-1\n1\n-1\n")  # the third graph has no nodes
    write(place / "DS_node_labels.txt", "0\n2\n2\n0\n5\n")
    write(place / "DS_node_attributes.txt", "0.5, 1\n1, 1\n2, 1\n3, 1\n4, 1\n")
    graphs = read(place, scale="none", features="given", validation=0.0, test=0.0)
    assert [graphs.parts.called("graph", i) for i in range(3)] == ["1", "2", "3"] and graphs.parts.called(
        "node", 4
    ) == "5"
    assert (
        graphs.labels == ("-1", "1")
        and graphs.target.tolist() == [0, 1, 0]
        and graphs.parts.starts.tolist() == [0, 2, 5, 5]
    )
    assert graphs.x.tolist() == [[0.5, 1, 1, 0, 0], [1, 1, 0, 1, 0], [2, 1, 0, 1, 0], [3, 1, 1, 0, 0], [4, 1, 0, 0, 1]]


def test_degrees_stand_beside_the_features_of_whole_graphs(tmp_path):
    graphs = read(many(tmp_path), validation=0.0, test=0.0)
    assert graphs.fitted.nodes.of == "degree" and torch.equal(graphs.x, read(many(tmp_path), features="degree").x)
    for path in list((tmp_path / "many").rglob("*.csv")):
        count = int(max(path.read_text().replace(",", " ").split())) + 1
        write(path.with_name(f"{path.stem}.nodes.csv"), "id,a\n" + "".join(f"{i},{i}\n" for i in range(count)))
    both = read(tmp_path / "many", validation=0.0, test=0.0)
    assert both.fitted.nodes.of == "both" and torch.equal(both.x[:, 1:], graphs.x)
    assert both.x[:, 0].mean() == pytest.approx(0, abs=1e-6)
    given = read(tmp_path / "many", features="given", validation=0.0, test=0.0)
    assert torch.equal(both.x[:, :1], given.x)
    assert torch.equal(encode_features(both.parts, both.fitted.nodes), both.x)


def test_features_that_were_dense_stay_dense(tmp_path):
    """A graph to predict may happen to have few numbers that are not zero; what it is compared with had columns scaled."""
    parts = link(one("g", np.zeros((2, 0), dtype=np.int64), 2, x=np.eye(2, 70, dtype=np.float32)), False)
    known = Scaling(of="given", how="columns", width=70, mean=(1.0,) * 70, deviation=(2.0,) * 70)
    x = encode_features(parts, known)
    assert x[0, 0] == 0 and x[0, 1] == -0.5
    own = fit_features(parts, GraphsConfig(), "node")
    assert own.how == "rows" and encode_features(parts, own).layout is torch.sparse_coo


def test_edges_may_be_asked_about(tmp_path):
    rows = "".join(f"{a},{b},{('no', 'yes')[a == b]}\n" for a, b in [(0, 1), (1, 2), (2, 2), (3, 3), (4, 5)])
    write(tmp_path / "e.csv", "source,target,label\n" + rows)
    write(tmp_path / "e.nodes.csv", node_text().replace("label", "size").replace(",a", ",1").replace(",b", ",2"))
    graphs = read(tmp_path / "e.csv", validation=0.0, test=0.0)
    assert graphs.level == "edge" and graphs.target.tolist() == [0, 0, 1, 1, 0]
    batch = graphs.source.batch(0)
    assert batch["pairs"].tolist() == [[0, 1, 2, 3, 4], [1, 2, 2, 3, 5]] and batch["edges"].shape[1] == 8


def test_batches_are_the_graphs_one_by_one(tmp_path):
    """The third of them has no nodes at all."""
    graphs = read(many(tmp_path, empty=True), features="degree", validation=0.0, test=0.0, batch=3)
    torch.manual_seed(0)
    model = GraphNet(
        GraphNetConfig(features=graphs.x.shape[1], outputs=2, level="graph", pool="attention", heads=4)
    ).double()

    def answers(which):
        batch = graphs.some(which)
        return call(model, batch.replace(x=batch["x"].double()))

    together = answers([3, 0, 4])
    assert together.shape == (3, 2)
    torch.testing.assert_close(together, torch.cat([answers([i]) for i in (3, 0, 4)]))
    # by number, whatever was asked before
    again = read(tmp_path / "many", features="degree", validation=0.0, test=0.0, batch=3).source
    assert again.batch(0).rows == 3 and torch.equal(graphs.source.batch(5)["x"], again.batch(5)["x"])


def test_symmetric_edges_are_there_once():
    ends = np.array([[0, 1, 1, 2, 2], [1, 0, 2, 2, 2]])
    edges, starts = symmetric(ends, np.array([0, 5]), 3)
    assert sorted(map(tuple, edges.T.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 2)] and starts.tolist() == [
        0,
        5,
    ]


def test_splits_take_shares_of_each_class():
    classes = np.array([0] * 50 + [1] * 10 + [2] * 2 + [-1] * 5)
    split = split_by_class(classes, validation=0.2, test=0.2, seed=1)
    counts = {name: np.bincount(classes[rows], minlength=3).tolist() for name, rows in split.items()}
    assert counts == {"train": [30, 6, 2], "validation": [10, 2, 0], "test": [10, 2, 0]}
    again, other = (split_by_class(classes, validation=0.2, test=0.2, seed=seed)["test"].tolist() for seed in (1, 2))
    assert again == split["test"].tolist() != other
    few = split_by_class(classes, validation=0.2, test=0.2, seed=1, train=3)
    assert np.bincount(classes[few["train"]]).tolist() == [3, 3, 2]
    assert all(len(rows) for rows in split_by_class(np.zeros(3, dtype=int), validation=0.4, test=0.4, seed=0).values())


def test_features_are_scaled_and_mostly_zero_ones_are_sparse(tmp_path):
    x = read(folder(tmp_path)).x
    torch.testing.assert_close(x.mean(0), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(x.std(0, correction=0), torch.ones(2))
    words = np.zeros((6, 80), dtype=np.float32)
    words[np.arange(6), np.arange(6)] = words[np.arange(6), 40] = 3
    np.savez(tmp_path / "w.npz", edges=ENDS, x=words, y=np.array([0, 1] * 3))
    x = read(tmp_path / "w.npz").x
    assert x.layout is torch.sparse_coo and x.to_dense().sum(1).tolist() == pytest.approx([1.0] * 6)


def bad(edges=None, nodes=None, **config):
    def make(tmp_path):
        write(tmp_path / "g" / "edges.csv", edge_text() if edges is None else edges)
        write(tmp_path / "g" / "nodes.csv", node_text() if nodes is None else nodes)
        return read(tmp_path / "g", **config)

    return make


def bad_arrays(**change):
    def make(tmp_path):
        np.savez(tmp_path / "g.npz", **({"edges": ENDS, "x": X, "labels": np.array([0, 1] * 3)} | change))
        return read(tmp_path / "g.npz")

    return make


NAN = X.copy()
NAN[3, 1] = np.nan


@pytest.mark.parametrize(
    "make, words",
    [
        (bad(edges="source,target\n0,1\n2,9\n"), "line 3.*edges.csv.*end '9'.*6"),
        (bad(nodes=node_text().replace("2.0,4.0", "2.0")), "line 4.*nodes.csv.*3 values.*4 columns"),
        (bad(nodes=node_text().replace("3.0", "tall")), "nodes.csv.*'height'.*'tall'.*line 5"),
        (bad(nodes=node_text().replace("3.0", "nan")), "nodes.csv.*'height'.*missing.*line 5"),
        (bad(nodes=node_text(labels=["a", "b", "a", "b", "a", "c"])), "'c'.*example, node 5"),
        (bad(nodes=node_text(labels=["a"] * 6)), "has only the class 'a'"),
        (bad(nodes=node_text(labels=[""] * 6)), "has no known 'label'"),
        (bad(nodes="id,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(6))), "features.*nodes.*columns"),
        (
            lambda place: read(write(place / "p" / "cup" / "1.csv", "x,y,z\n0.5,1.25,2\n1,2,3\n").parent.parent),
            "2.*1.csv.*0.5.*node.*regard train sets",
        ),
        (bad(nodes="id,height,label\n"), "nodes.csv has no nodes"),
        (bad(nodes=node_text().replace("\n1,", "\n0,")), "3.*nodes.csv.*second node.*'0'"),
        (bad(nodes=node_text().replace("label", "kind").replace(",a", ",1").replace(",b", ",2")), "labels.*nodes"),
        (bad(nodes=node_text().replace("weight", "split")), "split '1.0'.*train, validation, test"),
        (bad(asks="numbers"), "node 0 .*'a'.*--data.asks classes"),
        (bad(level="graph"), "has no labels of graphs"),
        (bad_arrays(edges=np.array([[0], [6]])), "0.*g.npz.*target 6.*nodes.*0 … 5"),
        (bad_arrays(edges=np.array([[0], [-1]])), "0.*g.npz.*target -1"),
        (bad_arrays(edges=ENDS * 0.5), "edges.*g.npz.*float64"),
        (bad_arrays(x=NAN), "g.npz.*nan.*row 3, column 1"),
        (bad_arrays(x=X[:, 0]), r"x.*numbers n d.*float32 \(6,\)"),
        (bad_arrays(labels=np.array([0, 1])), "2 labels.*6 nodes.*1 graphs"),
        (bad_arrays(of=np.array([0, 0, 1, 1, 1, 1])), "1.*graph 0.*graph 1"),
        (bad_arrays(train_idx=np.array([0, 1]), test_idx=np.array([1])), "the splits of .* overlap"),
        (bad_arrays(train_idx=np.array([0, 7])), "train split.*7.*6"),
        (lambda tmp_path: read(object()), "data.*edge_index, x.*y"),
        (lambda tmp_path: read(tmp_path / "none.csv"), "file.*folder .*none.csv"),
        (lambda tmp_path: read(write(tmp_path / "empty" / "notes.md", "").parent), "holds no edge lists"),
        (lambda tmp_path: GraphsConfig(level="nodes"), "level.*node.*graph.*'nodes'"),
        (lambda tmp_path: GraphsConfig(validation=0.6, test=0.5), "together below 1, got 0.6 and 0.5"),
    ],
)
def test_bad_input_is_one_clear_line(make, words, tmp_path):
    with pytest.raises(ValueError, match=words) as raised:
        make(tmp_path)
    assert "\n" not in str(raised.value)


def test_cora_is_read_as_its_description_says(tmp_path):
    """A file with the names and types of Cora's: sparse rows, edges e 2 with u < v, splits by index."""
    random = np.random.default_rng(0)
    starts = np.arange(0, 301, 5).astype(np.int32)
    pairs = np.unique(np.sort(random.integers(0, 60, (200, 2)), 1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]].astype(np.int32)
    np.savez(
        tmp_path / "c.npz",
        feat_indptr=starts,
        feat_indices=random.integers(0, 100, 300).astype(np.int32),
        feat_shape=np.array([60, 100], dtype=np.int32),
        edges=pairs,
        labels=(np.arange(60) % 3).astype(np.int8),
        train_idx=np.arange(9),
        val_idx=np.arange(9, 20),
        test_idx=np.arange(20, 60),
    )
    found = read(tmp_path / "c.npz")
    expected = {"nodes": 60, "edges": 2 * len(pairs), "train": 9, "validation": 11, "test": 40}
    assert expected.items() <= found.job.counts.items() and found.level == "node"
    assert found.labels == ("0", "1", "2") and found.fitted.nodes == Scaling(how="rows", width=100)
    assert found.job.model.features == 100


def test_graphs_of_networkx_and_tables_in_memory():
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_nodes_from(
        (name, {"height": x, "label": "ab"[i % 2]}) for i, (name, x) in enumerate(zip("pqrs", X[:4, 0], strict=True))
    )
    graph.add_edges_from([("p", "q", {"far": 0.5}), ("q", "r", {"far": 2.5}), ("r", "s", {"far": 1.5})])
    how = {"validation": 0.0, "test": 0.0, "scale": "none"}
    found = read(graph, **how)
    assert found.parts.called("node", 3) == "s" and found.x[:, 0].tolist() == X[:4, 0].tolist()
    assert found.labels == ("a", "b") and found.job.model.edge_features == 1
    nodes = [{"id": name, **more} for name, more in graph.nodes(data=True)]
    edges = [{"source": a, "target": b, **more} for a, b, more in graph.edges(data=True)]
    same = read((edges, nodes), **how)
    assert torch.equal(same.x, found.x) and np.array_equal(same.edges, found.edges)
    whole = [networkx.cycle_graph(4) if i % 2 else networkx.star_graph(3) for i in range(6)]
    for i, each in enumerate(whole):
        each.graph["label"] = ("star", "ring")[i % 2]
    assert read(whole, validation=0.0, test=0.0).target.tolist() == [1, 0] * 3
    with pytest.raises(RegardError, match="no edges"):
        read(networkx.empty_graph(3))
