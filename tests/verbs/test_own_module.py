"""A module of the user's own is trained on what people have, and its run can be opened as any other."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import regard
from regard.errors import RegardError
from regard.runs.load import build, load_model, load_weights
from regard.runs.new_run import create_run
from regard.training.progress import Printer
from regard.verbs.look import look

HOW = {
    "steps": 40,
    "observers": [],
    "options": {"optimiser": "adamw", "lr": 0.05, "evaluate_every": 40},
    "report": False,
}


class Net(nn.Module):
    """Its output is an object, as those of Hugging Face are."""

    def __init__(self, width=4, classes=2):
        super().__init__()
        self.width, self.classes = width, classes
        self.body = nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, classes))

    def forward(self, x, scale=None):
        return {"logits": self.body(x if scale is None else x * scale), "hidden": x}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def points(count=60):
    x = np.random.default_rng(0).normal(size=(count, 4))
    return x, (x[:, 0] > 0).astype(np.int32)


def test_arrays_and_every_command_on_the_run():
    x, y = points()
    run = regard.train(model=Net(), task="classify", data=(x, y), out="run", **HOW)
    loaded = regard.load("run")
    assert isinstance(loaded, Net) and not loaded.training
    found = regard.evaluate(run.path, (x, y))
    assert found.measures["accuracy"] > 0.9 and found.count == 60
    right = [int(each.answer) == label for each, label in zip(regard.predict(run, x), y, strict=True)]
    assert np.mean(right) == pytest.approx(found.measures["accuracy"])
    assert regard.check("run", trials=2)["neighbours"].measured == "holds"
    assert look("run", out="page.html").stat().st_size > 1000
    again = regard.train(model=Net(), task="classify", data=(x, y), out="run", resume=True, **HOW)
    assert again.path == run.path


@pytest.mark.parametrize("kind", ["loader", "dataset", "dicts", "pairs"])
def test_other_forms_of_data_give_the_same_losses(kind):
    x, y = (torch.from_numpy(each) for each in points())
    x, y = x.float(), y.long()
    rows = {"loader": DataLoader(TensorDataset(x, y), batch_size=7), "dataset": TensorDataset(x, y)}
    rows |= {"dicts": [{"x": a, "labels": b} for a, b in zip(x, y, strict=True)], "pairs": list(zip(x, y, strict=True))}
    losses = []
    for out, data in (("tensors", (x, y)), (kind, rows[kind])):
        torch.manual_seed(0)
        run = regard.train(model=Net(), task="classify", data=data, out=out, **HOW)
        losses.append([event["loss"] for event in run.metrics() if event["event"] == "step"])
    assert losses[0] == losses[1]


def test_a_model_of_hugging_face():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=20, **sizes))
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(20, (40, 5), generator=random)
    mask = torch.ones(5, dtype=torch.long)
    rows = [{"attention_mask": mask, "input_ids": each, "labels": each[0] % 2} for each in ids]
    run = regard.train(model=model, task="classify", data=rows, out="run", **HOW)
    loaded = regard.load(run.path)
    assert type(loaded) is type(model) and regard.evaluate(run, rows).measures["accuracy"] > 0.8


def test_numbers_are_predicted():
    x, _ = points()
    y = (2 * x[:, :1]).astype(np.float32)
    run = regard.train(model=nn.Linear(4, 1), task="regress", data=(x, y), out="run", **HOW)
    (first, *_) = regard.predict(run, x)
    assert first.values["output"] == pytest.approx(regard.load(run)(torch.from_numpy(x).float())[0].item())


@pytest.mark.parametrize("place, said", [(0, "input.*NaN.*row 3"), (1, "target.*NaN.*row 3")])
def test_nan_is_said_before_training(place, said, tmp_path):
    data = [np.zeros((9, 4)), np.zeros((9, 1))]
    data[place][3] = np.nan
    with pytest.raises(RegardError, match=said):
        regard.train(model=nn.Linear(4, 1), task="regress", data=tuple(data), out="run", **HOW)
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_known_says_what_to_give():
    class Local(nn.Linear):
        """Nobody else can import it."""

    data = torch.randn(9, 4), torch.randn(9, 1)
    regard.train(model=Local(4, 1), task="regress", data=data, out="local", **HOW)
    for open_it in (regard.load, regard.check):
        with pytest.raises(RegardError, match="local.*module of your own.*load_weights"):
            open_it("local")
    own = regard.train(
        model=nn.Linear(4, 1),
        task=lambda model, batch: (model(batch["x"]) - batch.target).square().mean(),
        data=data,
        **HOW,
    )
    with pytest.raises(RegardError, match="task of your own.*regard.load"):
        regard.evaluate(own, data)
    for given in (None, "rows.csv"):
        run = regard.train(model=nn.Linear(4, 1), task="regress", data=data, **HOW)
        with pytest.raises(RegardError, match=r"data=\(x, y\)"):
            regard.evaluate(run, given)


@pytest.mark.parametrize("name", ["os:system", "builtins:eval", "nowhere:Net", "torch.nn:functional.relu"])
def test_only_modules_are_built(name, tmp_path):
    marks = {"command": f"touch {tmp_path / 'mark'}"} if name == "os:system" else {}
    run = create_run(tmp_path / "run", {"module": "Net", "build": {"class": name, "arguments": marks}})
    with pytest.raises(RegardError, match=r"no torch.nn.Module|import nowhere first"):
        build(run)
    assert not (tmp_path / "mark").exists()


def test_a_run_of_a_module_that_cannot_be_built():
    class Local(nn.Linear):
        """Nobody else can import it."""

    x, y = points()
    net = Local(4, 2)
    run = regard.train(model=net, task="classify", data=(x, y), out="run", **HOW)
    with pytest.raises(RegardError, match=r"data=\(x, y\).*model="):
        regard.evaluate(run)
    for ask in (lambda: regard.evaluate(run, (x, y)), lambda: regard.predict(run, x), lambda: regard.load(run)):
        with pytest.raises(RegardError, match=r"build the module.*load_weights\('run', module\).*regard.check.*model="):
            ask()
    other = Local(4, 2)
    before = other.weight.clone()
    found = regard.evaluate(run, (x, y), model=other)
    right = [int(each.answer) == label for each, label in zip(regard.predict(run, x, model=other), y, strict=True)]
    assert found.measures["accuracy"] > 0.9 and np.mean(right) == pytest.approx(found.measures["accuracy"])
    assert torch.equal(other.weight, before)  # a copy has the weights of the run
    for place in ("run", run):
        load_weights(place, other)
        assert torch.equal(other.weight, load_model(run, net).weight)


@pytest.mark.parametrize("form", ["dataset", "loader", "rows", "tensors"])
def test_float64_is_what_the_module_computes_with(form):
    x, y = (torch.from_numpy(each) for each in points())
    y = y.long()
    as_dict = lambda rows: {"x": torch.stack([a for a, _ in rows]), "labels": torch.stack([b for _, b in rows])}  # noqa: E731
    forms = {"dataset": TensorDataset(x, y), "rows": list(zip(x, y, strict=True)), "tensors": (x, y)}
    forms["loader"] = DataLoader(forms["dataset"], collate_fn=as_dict)
    for module in (Net(), Net().double()):
        run = regard.train(model=module, task="classify", data=forms[form], **HOW)
        assert regard.evaluate(run, forms[form], model=module).count == 60


WRONG = {
    "text labels": ((np.zeros((4, 4)), np.array(list("abab"))), "numbers.*np.unique"),
    "text in rows": ([(torch.zeros(4), "a"), (torch.zeros(4), "b")] * 4, "numbers.*np.unique"),
    "text in dicts": ([{"x": torch.zeros(4), "label": "a"}] * 4, "numbers.*np.unique"),
    "dict": ({"x": np.zeros((4, 4)), "y": np.zeros(4)}, r"dict.*\(x, y\)"),
    "table": (pa.table({"x": [1.0, 2.0], "label": [0, 1]}), r"Table.*\(x, y\)"),
    "path": ("rows.csv", r"\(x, y\).*path.*recipe"),
    "one row": ((np.zeros((1, 4)), np.zeros(1, int)), "more rows.*validation=0"),
}


@pytest.mark.parametrize("data, said", WRONG.values(), ids=WRONG)
def test_other_data_says_what_to_give(data, said, tmp_path):
    with pytest.raises(RegardError, match=said):
        regard.train(model=Net(), task="classify", data=data, out="run", **HOW)
    assert not (tmp_path / "run").exists()


def test_what_a_module_has_instead_of_the_options_of_a_recipe():
    x, y = points()
    with pytest.raises(RegardError, match=r"Net is a class.*Net\("):
        regard.train(model=Net, task="classify", data=(x, y), **HOW)
    with pytest.raises(RegardError, match="load_weights.*'earlier'"):
        regard.train(model=Net(), task="classify", data=(x, y), start="earlier", **HOW)
    with pytest.raises(RegardError, match="foo.*known: .*steps.*lr"):
        regard.train(model=Net(), task="classify", data=(x, y), options={"train.foo": 1})
    run = regard.train(model=Net(), task="classify", data=(x, y), out="run", **HOW)
    lines = []

    class Lines(Printer):
        def say(self, text):
            lines.append(text)

    regard.train(model=Net(), task="classify", data=(x, y), out="run", resume=True, observers=[Lines()], report=False)
    assert any("load_weights('run', module)" in line for line in lines) and not any("--from" in line for line in lines)
    with pytest.raises(RegardError, match="out"):
        regard.evaluate(run, (x, y), out="answers.csv")
