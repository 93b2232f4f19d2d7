"""A run on sets or graphs is looked at with its own data, read as it learned from it; runs are made without training."""

import re

import numpy as np
import pytest
import torch
from safetensors.torch import save

from regard.look.reader import GONE
from regard.models.deep_sets import DeepSetsConfig
from regard.models.graph_net import GraphNetConfig
from regard.models.set_transformer import SetTransformerConfig
from regard.recipes.example import Example
from regard.recipes.graphs.config import GraphsConfig
from regard.recipes.graphs.recipe import RECIPE as GRAPHS
from regard.recipes.job import DataContext
from regard.recipes.sets.config import SetsConfig
from regard.recipes.sets.recipe import RECIPE as SETS
from regard.recipes.settings import settings_of_kind
from regard.runs.new_run import create_run
from regard.targets.open import open_target
from regard.training.config import TrainConfig
from regard.verbs.look import open_session

RECIPES = {
    SetTransformerConfig: settings_of_kind("settransformer", SetsConfig),
    DeepSetsConfig: settings_of_kind("deepsets", SetsConfig),
    GraphNetConfig: settings_of_kind("graphnet", GraphsConfig),
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Makes a run as training leaves it, of this data and model."""
    monkeypatch.chdir(tmp_path)

    def made(recipe, data, model, name="run"):
        settings = RECIPES[type(model)](data=data, model=model, train=TrainConfig(batch=4))
        job = recipe.prepare(settings, DataContext(cache=tmp_path))
        sections = {"model": job.model, "data": data, "train": settings.train, **job.summary}
        made = create_run(
            tmp_path / name, {"recipe": recipe.name, "problem": job.problem, "kind": job.kind, **sections}
        )
        network = job.build()
        made.publish(save(network.state_dict()))
        return network, job, open_target(made.path).reader

    return made


def test_a_made_task_is_shown_as_it_was_made(run):
    model = SetTransformerConfig(features=1, outputs=1, hidden=16, points=4)
    network, _, reader = run(SETS, SetsConfig(task="clusters"), model)
    given = reader.read()
    assert given.kind == "points" and given.columns == ("x", "y")
    assert given.notes == ("Set 1 of the synthetic task clusters.",)
    assert network(**given.inputs).shape == (1, 20) and given.called is None
    network, job, reader = run(SETS, SetsConfig(task="sum"), DeepSetsConfig(features=1, outputs=1), "sums")
    given = reader.read()
    encoded = job.processor.encode(Example({"x": given.rows.double().numpy()}))
    np.testing.assert_allclose(given.inputs["x"][0], encoded["x"], rtol=1e-5)
    assert not torch.allclose(given.inputs["x"][0], given.rows)  # drawn in its own units
    with torch.no_grad():
        says = job.number.restore(float(open_target("sums").model(**given.inputs)))
    true = given.rows.sum().item()
    assert given.notes == (f"Set 1 of the synthetic task sum: prediction sum {says:.6g}; target sum {true:.6g}.",)
    other = reader.read("7")
    assert other.notes[0].startswith("Set 7 of the synthetic task sum: ") and other.rows.tolist() != given.rows.tolist()
    assert reader.read("1").rows.tolist() == given.rows.tolist()
    with pytest.raises(ValueError, match="file 'none'.*sum.*called 1, 2, 3 …"):
        reader.read("none")


def test_clouds_are_read_as_in_training(run, tmp_path):
    random = np.random.default_rng(0)
    for kind in ("ball", "rod"):
        (tmp_path / "clouds" / kind).mkdir(parents=True)
        for i in range(4):
            np.save(
                tmp_path / "clouds" / kind / f"{i}.npy",
                5 + random.normal(size=(30, 3)) * [1, 1, 1 + 7 * (kind == "rod")],
            )
    config = SetsConfig(path=str(tmp_path / "clouds"), points=20)
    _, _, reader = run(SETS, config, DeepSetsConfig(features=1, outputs=1))
    given = reader.read()
    assert given.inputs["x"].shape == (1, 20, 3) and given.answers == "classes" and given.called(1) == "rod"
    # in a ball
    assert float(given.inputs["x"].norm(dim=-1).max()) <= 1 + 1e-6 and float(given.rows.mean()) > 3
    assert re.fullmatch(r"0.npy: prediction (ball|rod) \(\d+\.\d+%\); target ball.", given.notes[0])
    assert (given.name, given.truth) == ("0.npy", "ball")
    given = reader.read(str(tmp_path / "clouds" / "rod" / "2.npy"))
    assert given.text == "2.npy" and given.notes == ()
    for file in (tmp_path / "clouds").rglob("*.npy"):
        file.unlink()
    given = open_target(tmp_path / "run").reader.read()
    assert given.notes == (GONE,) and given.inputs["x"].shape[-1] == 3


def test_of_a_table_a_set_of_several_things(run, tmp_path):
    lines = ["set,price,target"] + [f"s{n},{i},{n}.5" for n in (1, 2, 3, 9, 200) for i in range(n)]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    _, _, reader = run(SETS, SetsConfig(path="table.csv", validation=0.0), DeepSetsConfig(features=1, outputs=1))
    given = reader.read()
    assert given.rows.tolist() == [[0], [1], [2]]
    assert re.fullmatch(r"Set s3 of table.csv: prediction target [\d.e+-]+; target target 3.5.", given.notes[0])
    assert given.name == "Set s3 of table.csv" and given.truth is None  # no class
    given = reader.read("s2")  # another one, by its name
    assert given.rows.tolist() == [[0], [1]] and given.notes[0].startswith("Set s2 of table.csv: prediction")
    with pytest.raises(ValueError, match="'s4'.*table.csv; sets.*s1, s2, s3 …"):
        reader.read("s4")


def test_of_sets_of_one_size_the_first(run, tmp_path):
    lines = ["set,price,amount,target"] + [f"{i // 3},{i},{i % 2},{'ab'[(i // 3) % 2]}" for i in range(36)]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    _, _, reader = run(SETS, SetsConfig(path=str(tmp_path / "table.csv")), DeepSetsConfig(features=1, outputs=1))
    given = reader.read()
    assert given.columns == ("price", "amount") and given.rows.tolist() == [[0, 0], [1, 1], [2, 0]]
    assert reader.read(b"set,price,amount\n7,1,1\n7,2,2\n8,3,3\n").rows.tolist() == [[1, 1], [2, 2]]


def test_a_graph_with_its_names_and_classes(run, tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"n{i},n{(i + 1) % 8}\n" for i in range(8)))
    rows = [f"n{i},{i},{i * i},{'cat' if i < 4 else 'dog'}" for i in range(8)]
    (tmp_path / "e.nodes.csv").write_text("id,a,b,label\n" + "\n".join(rows))
    config = GraphsConfig(path=str(tmp_path / "e.csv"))
    network, _, reader = run(GRAPHS, config, GraphNetConfig(features=1, outputs=1, hidden=8, layer="gat", heads=2))
    given = reader.read("n3")
    assert given.labels[given.centre] == "n3" and given.classes == ("cat",) * 4 + ("dog",) * 4
    assert given.edges.shape == (2, 16) and network(**given.inputs).shape == (8, 2)
    shown = open_session(tmp_path / "run", "n3", tsne=False).show({})["views"][0]
    assert shown["view"] == "graph" and [each["name"] for each in shown["groups"]] == ["predicted class", "true class"]
    (tmp_path / "e.nodes.csv").unlink()
    assert open_target(tmp_path / "run").reader.read().notes == (GONE,)


def test_of_many_graphs_the_first(run, tmp_path):
    path = np.array([[0, 1], [1, 2]])
    arrays = {"edges": np.concatenate([path + 3 * k for k in range(6)], 1), "labels": np.arange(6) % 2}
    x = np.random.default_rng(0).normal(size=(18, 2)).astype(np.float32)
    np.savez(tmp_path / "many.npz", **arrays, x=x, of=np.repeat(np.arange(6), 3))
    config = GraphsConfig(path=str(tmp_path / "many.npz"), validation=0.0, test=0.0)
    network, _, reader = run(GRAPHS, config, GraphNetConfig(features=1, outputs=1, hidden=8, layer="gat", heads=2))
    given = reader.read()
    assert given.inputs["x"].shape == (3, 2 + 18)  # degrees stand beside the features
    assert sorted(given.edges.T.tolist()) == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert given.notes == ("Graph 0, the first of 6, is shown; target 0.",) and network(**given.inputs).shape == (1, 2)


def test_of_a_mapped_graph_what_is_drawn_for_one_node(run, tmp_path):
    folder, random = tmp_path / "large", np.random.default_rng(0)
    folder.mkdir()
    starts = np.arange(0, 41 * 4, 4)[:41]
    for name, array in {
        "starts": starts, "sources": random.integers(40, size=160), "features": random.normal(size=(40, 3)).astype(np.float32),
        "labels": np.arange(40) % 3,
    }.items():  # fmt: skip
        np.save(folder / f"{name}.npy", array)
    config = GraphsConfig(path=str(folder), neighbours=2)
    network, _, reader = run(GRAPHS, config, GraphNetConfig(features=1, outputs=1, hidden=8, layer="gat", heads=2))
    given = reader.read("17")
    assert given.labels[0] == "17" and given.centre == 0 and given.classes[0] == "2"
    assert len(given.labels) <= 7 and "40 nodes" in given.notes[0]
    assert network(**given.inputs).shape == (len(given.labels), 3)
    with pytest.raises(ValueError, match="no node '40'; nodes are called 0 … 39"):
        reader.read("40")
