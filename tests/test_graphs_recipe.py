"""regard train graphs and regard predict, from files to answers, as a user would."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard import verbs
from regard.cli import main
from regard.data.neighbours import write_mapped
from regard.jobs.graphs import RegressKnown
from regard.jobs.job import work
from regard.recipes.find import find_recipe
from regard.run import Run

N = 60


def files(tmp_path, kind="classes"):
    """A graph whose nodes are linked to their like: 60 nodes, half of them of either kind."""
    random = np.random.default_rng(0)
    source = random.integers(0, N, 240)
    target = (source + 2 * random.integers(1, N // 2, 240)) % N
    label = [("even", "odd")[i % 2] if kind == "classes" else f"{i % 2 + 0.25 * (i % 3):.2f}" for i in range(N)]
    rows = "".join(f"v{i},{random.normal() + i % 2:.3f},{random.random():.3f},{label[i]}\n" for i in range(N))
    folder = tmp_path / f"graph-{kind}"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,a,b,label\n" + rows)
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"v{a},v{b}\n" for a, b in zip(source, target, strict=True)))
    return folder


def many(tmp_path):
    for k in range(12):
        n = 4 + k % 4
        for kind, ends in (("ring", [(i, (i + 1) % n) for i in range(n)]), ("star", [(0, i) for i in range(1, n)])):
            path = tmp_path / "many" / kind / f"{k}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{a},{b}\n" for a, b in ends))
    return tmp_path / "many"


def trained(data, out, steps=40, **how):
    options = how.pop("options", {}) | {"train.evaluate_every": 20}
    return verbs.train("graphs", data=data, out=out, steps=steps, options=options, observers=[], **how)


def test_nodes_from_a_folder_to_answers(tmp_path, capsys):
    folder = files(tmp_path)
    run = trained(folder, tmp_path / "run")
    assert run.config["test"]["accuracy"] > 0.8 and run.config["corpus"]["level"] == "node"
    laws = {law["law"]: law for law in json.loads((run.path / "laws.json").read_text())["laws"]}
    assert laws["relabelling"]["measured"] == "holds" and laws["relabelling"]["declared"] == "equivariant"
    assert main(["predict", str(run.path), str(folder), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["each"]) == N and answer["each"][7]["input"] == "v7"
    right = sum(next(iter(each["labels"])) == ("even", "odd")[i % 2] for i, each in enumerate(answer["each"]))
    assert right > 0.8 * N and sum(answer["each"][0]["labels"].values()) == pytest.approx(1)
    assert "regard predict" in work("graphs").then(run)
    (folder / "nodes.csv").write_text("id,a\n" + "".join(f"v{i},1\n" for i in range(N)))
    assert main(["predict", str(run.path), str(folder)]) == 2
    assert "has 1 numbers a node, but the model learned from 2" in capsys.readouterr().err


def test_whole_graphs_and_numbers(tmp_path):
    run = trained(many(tmp_path), tmp_path / "many-run", options={"data.features": "degree", "model.pool": "attention"})
    assert run.config["corpus"]["graphs"] == 24 and run.config["test"]["accuracy"] == 1.0
    answers = verbs.predict(run.path, [str(tmp_path / "many" / "ring" / "3.csv"), str(tmp_path / "many")])
    assert len(answers) == 25 and next(iter(answers[0].labels)) == "ring" and answers[1].given.endswith("many: ring/0")
    run = trained(files(tmp_path, "numbers"), tmp_path / "numbers-run")
    assert run.config["corpus"]["labels"] is None and run.config["test"]["MAE"] < 0.5
    answers = verbs.predict(run.path, [str(tmp_path / "graph-numbers")])
    assert 0 < np.mean([each.values["value"] for each in answers[0].each]) < 1.5


def test_a_transformer_of_an_object_goes_on_after_a_stop(tmp_path):
    folder = files(tmp_path)
    data = SimpleNamespace(
        edge_index=torch.randint(N, (2, 200), generator=torch.Generator().manual_seed(0)), x=torch.randn(N, 3),
        y=torch.arange(N) % 2, train_mask=torch.arange(N) < 40, val_mask=torch.arange(N) >= 40)
    small = {"model.dim": 16, "model.depth": 1, "model.places": 3}
    run = trained(data, tmp_path / "t", steps=3, model="graphtransformer", options=small)
    assert run.config["kind"] == "graphtransformer" and "test" not in run.config
    with pytest.raises(ValueError, match="was started with data=SimpleNamespace; give the same again"):
        trained(folder, tmp_path / "t", resume=True)
    assert trained(data, tmp_path / "t", steps=3, resume=True).config["steps"] == 3
    assert Run.open(run.path).config["model"]["features"] == 3


def test_a_large_graph_is_sampled(tmp_path):
    random = np.random.default_rng(0)
    labels = (np.arange(3000) % 3).astype(np.int8)
    source = random.integers(0, 1000, 30_000) * 3 + random.integers(0, 3000, 30_000) % 3
    target = random.integers(0, 1000, 30_000) * 3 + source % 3
    x = random.standard_normal((3000, 4)).astype(np.float16) + labels[:, None]
    write_mapped(str(tmp_path / "large"), np.stack([source, target]), x, labels)
    recipe = find_recipe("graphs", str(tmp_path / "large"))
    assert recipe.train.batch == 1024 and recipe.model.layer == "conv"
    run = trained(str(tmp_path / "large"), tmp_path / "run", steps=20, options={"train.batch": 128})
    assert run.config["test"]["accuracy"] > 0.8
    answers = verbs.predict(run.path, [str(tmp_path / "large")])[0].each
    assert len(answers) == 3000 and np.mean([next(iter(a.labels)) == str(i % 3) for i, a in enumerate(answers)]) > 0.8
    with pytest.raises(ValueError, match="a large graph needs --model.attention edges"):
        trained(str(tmp_path / "large"), tmp_path / "t", model="graphtransformer", options={"model.attention": "full"})


def test_numbers_that_are_not_known_are_not_asked():
    from regard.data.batch import Batch

    batch = Batch(torch.ones(3, 1), torch.tensor([1.0, torch.nan, 3.0]))
    task, model = RegressKnown((2.0,)), torch.nn.Identity()
    assert task.loss(model, batch)[0] == 2.0 and task.measure(model, [batch]) == {"loss": 2.0, "MAE": 2.0}


def test_a_kind_that_is_not_there():
    with pytest.raises(ValueError, match="there is no kind of model for graphs called 'graphnets'; did you mean 'graphnet'"):
        find_recipe("graphs", None, "graphnets")
