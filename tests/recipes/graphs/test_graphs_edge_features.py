"""Bonds: the hydrogens of a hydrocarbon follow from its carbons and from which bonds are double."""

from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import regard
from tests.recipes.graphs.prepared import Read as read

# each carbon has four bonds: of an open chain without two double bonds side by side
CHAINS = [
    orders
    for count in range(2, 9)
    for orders in product((1, 2), repeat=count)
    if not any(a == b == 2 for a, b in pairwise(orders))
]


def hydrogens(orders):
    return 4 * (len(orders) + 1) - 2 * sum(orders)


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    """TU files: carbons, bonds in both directions with their orders, and the number of hydrogens."""
    folder = tmp_path_factory.mktemp("molecules")
    ends, bonds, of, start = [], [], [], 1
    for number, orders in enumerate(CHAINS, start=1):
        of += [number] * (len(orders) + 1)
        for i, order in enumerate(orders):
            ends += [(start + i, start + i + 1), (start + i + 1, start + i)]
            bonds += [order, order]
        start += len(orders) + 1
    for name, lines in (
        ("A", [f"{a}, {b}" for a, b in ends]),
        ("graph_indicator", of),
        ("edge_labels", bonds),
        ("graph_attributes", map(hydrogens, CHAINS)),
    ):
        (folder / f"CH_{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def trained(data, out, report=False, **options):
    how = {"data.asks": "numbers", "data.features": "degree", "train.batch": 32, **options}
    return regard.train("graphs", data=str(data), out=out, steps=60, options=how, observers=[], report=report)


def test_bonds_train_predict_and_evaluate(molecules, tmp_path):
    how = {"model.gather": "sum", "model.pool": "sum"}
    run = trained(molecules, tmp_path / "run", report=True, **how)
    assert run.config.model["edge_features"] == 2 and run.config.processor["fitted"]["edges"]["width"] == 2
    found = regard.evaluate(run.path)
    blind = trained(molecules, tmp_path / "blind", **how, **{"data.edge_features": "none"})
    assert blind.config.model["edge_features"] == 0 and blind.config.processor["fitted"]["edges"] is None
    worse = regard.evaluate(blind.path)
    assert found.measures["MAE"] < 0.7 * worse.measures["MAE"] and found.measures["R²"] > 0.7
    told = [each.values["label"] for each in regard.predict(run.path, [str(molecules)])]
    assert np.corrcoef(told, list(map(hydrogens, CHAINS)))[0, 1] > 0.85
    whole = regard.evaluate(run.path, data=str(molecules))
    off = np.abs(np.array(told) - list(map(hydrogens, CHAINS))).mean()
    assert whole.measures["MAE"] == pytest.approx(off, rel=1e-3)
    laws = regard.check(regard.load(run.path), regard.load(run.path).sample_inputs(), trials=2)
    assert laws["relabelling"].measured == laws["edge_order"].measured == "holds"
    assert (run.path / "report.html").exists()
    # graphs whose bonds are not said cannot be predicted
    (tmp_path / "plain.csv").write_text("source,target\n0,1\n1,2\n")
    (missing,) = regard.predict(run.path, [str(tmp_path / "plain.csv")])
    assert "none features per edge" in missing.error and "2" in missing.error


def test_the_transformer_reads_bonds_and_alone_says_that_it_cannot(molecules, tmp_path):
    transformer = regard.train(
        "graphs", data=str(molecules), model="graphtransformer", out=tmp_path / "t", steps=2, report=False,
        options={"data.asks": "numbers"}, observers=[],
    )  # fmt: skip
    assert transformer.config.model["edge_features"] == 2
    job = read(molecules, asks="numbers", model={"layer": "alone"}).job
    assert job.model.edge_features == 0 and any("alone cannot use the features of edges" in note for note in job.notes)
    assert job.source.batch(0).get("edge_features") is None


def test_tables_arrays_and_objects_have_them(tmp_path):
    table = "source,target,length,kind,label\na,b,1.5,single,x\nb,c,2.5,double,y\nc,a,0.5,single,x\nb,a,3.5,single,x\n"
    (tmp_path / "edges.csv").write_text(table)
    (tmp_path / "nodes.csv").write_text("id,f\na,1\nb,2\nc,3\n")
    none = {"validation": 0.0, "test": 0.0}
    found = read(tmp_path, directed=True, **none)
    assert found.parts.edge_x.tolist() == [[1.5], [2.5], [0.5], [3.5]] and any(
        "kind" in note for note in found.job.notes
    )
    batch = found.source.batch(0)
    assert batch["edge_features"].shape == (4, 1)
    # without directions a to b and b to a are one edge, with the mean of their features, in both directions
    both = read(tmp_path, **none)
    scaling, ends = both.fitted.edges, both.edges.T.tolist()
    lengths = (both.edge_x[:, 0] * scaling.deviation[0] + scaling.mean[0]).tolist()
    assert {tuple(sorted(end)): round(length, 4) for end, length in zip(ends, lengths, strict=True)} == {
        (0, 1): 2.5, (1, 2): 2.5, (0, 2): 0.5,
    }  # fmt: skip
    left = read(tmp_path, edge_features="none", **none)
    assert left.edge_x is None and not any("kind" in note for note in left.job.notes)

    edges, x, attr = np.array([[0, 1, 2, 3], [1, 0, 3, 2]]), np.eye(4), np.array([1.0, 1.0, 5.0, 5.0])
    # the edges of the second graph come first
    turn = [2, 3, 0, 1]
    np.savez(tmp_path / "g.npz", edges=edges[:, turn], x=x, edge_attr=attr[turn], labels=["a", "b"], of=[0, 0, 1, 1])
    many = read(tmp_path / "g.npz", **none)
    assert many.parts.edge_x[:, 0].tolist() == [1, 1, 5, 5]
    second = many.some([1])
    assert second["edge_features"][:, 0].tolist() == [1, 1] and second["edges"].tolist() == [[0, 1], [1, 0]]
    objects = [
        SimpleNamespace(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.eye(2), y=torch.tensor([i % 2]),
                        edge_attr=torch.full((2, 3), float(i)))
        for i in range(4)
    ]  # fmt: skip
    given = read(objects, **none)
    assert given.edge_x.shape == (8, 3) and given.parts.edge_x[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    objects[1].edge_attr = None
    with pytest.raises(ValueError, match=r"features per edge, got \[0, 3\].*data.edge_features none"):
        read(objects)
    objects[1].edge_attr = torch.zeros(3, 3)
    with pytest.raises(ValueError, match=r"graph 1.*2 edges.*\(3, 3\)"):
        read(objects)
