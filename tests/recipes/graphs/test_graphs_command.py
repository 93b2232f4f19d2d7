"""regard train graphs and regard predict, from files to answers, as a user would."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.recipes.base import get_recipe, problem_of_run
from regard.recipes.graphs.neighbours import write_mapped
from regard.runs.number_format import say_percent
from regard.runs.run import Run
from regard.verbs import train
from regard.verbs.evaluate import evaluate
from regard.verbs.main import main
from regard.verbs.predict import predict

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
    (folder / "edges.csv").write_text(
        "source,target\n" + "".join(f"v{a},v{b}\n" for a, b in zip(source, target, strict=True))
    )
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
    return train.train("graphs", data=data, out=out, steps=steps, options=options, observers=[], **how)


def test_nodes_from_a_folder_to_answers(tmp_path, capsys):
    folder = files(tmp_path)
    run = trained(folder, tmp_path / "run")
    assert run.config.test["accuracy"] > 0.8 and run.config.processor["fitted"]["level"] == "node"
    test = run.metrics()[-1]
    assert (test["event"], test["step"], test["count"]) == ("test", 40, run.config.counts["test"])
    assert test["accuracy"] == run.config.test["accuracy"]
    subtitle = f"accuracy {say_percent(test['accuracy'])} (test of {test['count']})"
    assert subtitle in (run.path / "report.html").read_text()
    laws = {law["law"]: law for law in json.loads((run.path / "laws.json").read_text())["laws"]}
    assert laws["relabelling"]["measured"] == "holds" and laws["relabelling"]["declared"] == "equivariant"
    assert main(["predict", str(run.path), str(folder), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["each"]) == N and answer["each"][7]["input"] == "v7"
    right = sum(next(iter(each["labels"])) == ("even", "odd")[i % 2] for i, each in enumerate(answer["each"]))
    assert right > 0.8 * N and sum(answer["each"][0]["labels"].values()) == pytest.approx(1)
    assert "regard predict" in problem_of_run(run).next_command(run)
    (folder / "nodes.csv").write_text("id,a\n" + "".join(f"v{i},1\n" for i in range(N)))
    assert main(["predict", str(run.path), str(folder)]) == 2
    assert re.search("1 features.*2", capsys.readouterr().err)


def test_whole_graphs_and_numbers(tmp_path):
    run = trained(many(tmp_path), tmp_path / "many-run", options={"data.features": "degree", "model.pool": "attention"})
    assert run.config.counts["graphs"] == 24 and run.config.test["accuracy"] == 1.0
    answers = predict(run.path, [str(tmp_path / "many" / "ring" / "3.csv"), str(tmp_path / "many")])
    assert len(answers) == 25 and next(iter(answers[0].labels)) == "ring" and answers[1].input.endswith("many: ring/0")
    run = trained(files(tmp_path, "numbers"), tmp_path / "numbers-run")
    assert run.config.processor["target"]["classes"] == [] and run.config.test["MAE"] < 0.5
    answers = predict(run.path, [str(tmp_path / "graph-numbers")])
    assert 0 < np.mean([each.values["label"] for each in answers[0].each]) < 1.5
    assert answers[0].input == str(tmp_path / "graph-numbers")  # the folder, not a file in it


def test_what_is_asked_decides_the_defaults(tmp_path, capsys):
    classes, numbers, whole = files(tmp_path), files(tmp_path, "numbers"), many(tmp_path)
    found = get_recipe("graphs").defaults(str(classes))
    assert (found.model.layer, found.model.dropout, found.train.weight_decay) == ("gcn", 0.5, 0.5)
    for data in (numbers, whole):
        other = get_recipe("graphs").defaults(str(data))
        assert (other.model.layer, other.model.dropout, other.train.weight_decay) == ("conv", 0.0, 0.01)
    assert get_recipe("graphs").defaults(str(classes), "graphtransformer").model.dropout > 0.2
    assert get_recipe("graphs").defaults(str(numbers), "graphtransformer").model.dropout == 0
    given = SimpleNamespace(edge_index=torch.zeros(2, 0), x=torch.randn(4, 2), y=torch.randn(4))
    assert get_recipe("graphs").defaults(given).model.layer == "conv"
    assert get_recipe("graphs").defaults(str(tmp_path / "gone")).model.layer == "gcn"
    assert main(["train", "graphs", "--data", str(numbers), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "(default: conv)" in " ".join(shown.split()) and shown.startswith("usage: ") and "\n  train: " in shown
    assert shown.splitlines()[2].startswith("Graphs: ")


def test_options_that_say_what_is_asked_decide_the_defaults(tmp_path, capsys):
    folder = files(tmp_path)
    rows = (folder / "nodes.csv").read_text().replace("id,a,b,label", "id,a,income,label")
    (folder / "nodes.csv").write_text(rows)
    words = ["train", "graphs", "--data", str(folder), "--data.label", "income", "--train.steps", "2", "--out"]
    # another column of numbers
    (folder / "nodes.csv").write_text(rows.replace(",even", ",0").replace(",odd", ",1"))
    assert main([*words, str(tmp_path / "asked")]) == 0
    config = Run.open(tmp_path / "asked").config
    assert config.data["label"] == "income" and config.processor["target"]["classes"] == []
    assert (config.model["layer"], config.model["dropout"]) == ("conv", 0.0)
    assert main([*words, str(tmp_path / "set"), "--model.layer", "gcn", "--model.dropout", "0.5"]) == 0
    assert (Run.open(tmp_path / "set").config.model["layer"], Run.open(tmp_path / "set").config.model["dropout"]) == (
        "gcn",
        0.5,
    )
    (answer,) = predict(tmp_path / "asked", [str(folder)])
    assert set(answer.each[0].values) == {"income"}


def test_graphs_without_useful_features_are_told_apart_by_degrees(tmp_path):
    run = trained(many(tmp_path), tmp_path / "none")
    assert run.config.processor["fitted"]["nodes"]["of"] == "degree" and run.config.test["accuracy"] == 1.0
    notes = [event["text"] for event in run.metrics() if event["event"] == "note"]
    assert any(note.startswith("nodes have no features") for note in notes)
    assert len([note for note in notes if "no header" in note]) == 1  # of all 24 files
    for path in (tmp_path / "many").rglob("*.csv"):
        count = 1 + max(int(end) for line in path.read_text().split() for end in line.split(","))
        path.with_name(f"{path.stem}.nodes.csv").write_text("id,one\n" + "".join(f"{i},1\n" for i in range(count)))
    run = trained(tmp_path / "many", tmp_path / "constant")
    assert run.config.processor["fitted"]["nodes"]["of"] == "both" and run.config.model["features"] == 1 + 18
    assert run.config.test["accuracy"] == 1.0
    answers = predict(run.path, [str(tmp_path / "many")])
    assert sum(next(iter(each.labels)) in each.input for each in answers) == 24


def test_a_table_of_nodes_elsewhere_is_used_again(tmp_path, monkeypatch):
    folder = files(tmp_path)
    (folder / "nodes.csv").rename(tmp_path / "people.csv")
    (folder / "edges.csv").rename(tmp_path / "net.csv")
    monkeypatch.chdir(tmp_path)
    run = trained("net.csv", "run", steps=2, options={"data.nodes": "people.csv"})
    assert problem_of_run(run).next_command(run) == "regard predict run net.csv"
    spaced = Run.open(run.path.rename("my run"))
    assert problem_of_run(spaced).next_command(spaced) == "regard predict 'my run' net.csv"
    spaced.path.rename("run")
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(predict(tmp_path / "run", [str(tmp_path / "net.csv")])[0].each) == N
    (tmp_path / "net2.csv").write_text((tmp_path / "net.csv").read_text())
    bad, good = predict(tmp_path / "run", [str(tmp_path / "net2.csv"), str(tmp_path / "net.csv")])
    assert re.search("net2.csv.*features.*net2.nodes.csv.*--data.nodes", bad.error) and len(good.each) == N
    named = {"data.nodes": str(tmp_path / "people.csv")}
    assert len(predict(tmp_path / "run", str(tmp_path / "net2.csv"), options=named)[0].each) == N
    assert evaluate(tmp_path / "run", str(tmp_path / "net2.csv"), options=named).count == N
    (tmp_path / "net2.nodes.csv").write_text((tmp_path / "people.csv").read_text())
    assert len(predict(tmp_path / "run", [str(tmp_path / "net2.csv")])[0].each) == N
    assert train.train("graphs", out=tmp_path / "run", resume=True, observers=[]).config.data["path"] == "net.csv"


def test_a_transformer_of_an_object_goes_on_after_a_stop(tmp_path):
    folder = files(tmp_path)
    data = SimpleNamespace(
        edge_index=torch.randint(N, (2, 200), generator=torch.Generator().manual_seed(0)),
        x=torch.randn(N, 3),
        y=torch.arange(N) % 2,
        train_mask=torch.arange(N) < 40,
        val_mask=torch.arange(N) >= 40,
    )
    small = {"model.dim": 16, "model.depth": 1, "model.places": 3}
    run = trained(data, tmp_path / "t", steps=3, model="graphtransformer", options=small)
    assert run.config.kind == "graphtransformer" and run.config.test is None
    with pytest.raises(ValueError, match="data=SimpleNamespace.*again"):
        trained(folder, tmp_path / "t", resume=True)
    assert trained(data, tmp_path / "t", steps=3, resume=True).config.steps == 3
    assert Run.open(run.path).config.model["features"] == 3


def test_a_large_graph_is_sampled(tmp_path):
    random = np.random.default_rng(0)
    labels = (np.arange(3000) % 3).astype(np.int8)
    source = random.integers(0, 1000, 30_000) * 3 + random.integers(0, 3000, 30_000) % 3
    target = random.integers(0, 1000, 30_000) * 3 + source % 3
    x = random.standard_normal((3000, 4)).astype(np.float16) + labels[:, None]
    write_mapped(str(tmp_path / "large"), np.stack([source, target]), x, labels)
    recipe = get_recipe("graphs").defaults(str(tmp_path / "large"))
    assert recipe.train.batch == 1024 and recipe.model.layer == "conv"
    run = trained(str(tmp_path / "large"), tmp_path / "run", steps=20, options={"train.batch": 128})
    assert run.config.test["accuracy"] > 0.8
    answers = predict(run.path, [str(tmp_path / "large")])[0].each
    assert len(answers) == 3000 and np.mean([next(iter(a.labels)) == str(i % 3) for i, a in enumerate(answers)]) > 0.8
    with pytest.raises(ValueError, match="graph.*model.attention edges"):
        trained(str(tmp_path / "large"), tmp_path / "t", model="graphtransformer", options={"model.attention": "full"})


def test_a_kind_that_is_not_there():
    with pytest.raises(ValueError, match="model.*graphs.*'graphnets'.*'graphnet'"):
        get_recipe("graphs").defaults(None, "graphnets")
