"""`regard check`: the table, the JSON, the exit codes, and one line for everything that cannot be checked."""

import json
import re

import pytest
import torch

from regard.verbs import generate, main, train
from regard.verbs.check import check

MODELS = """
import torch
from torch import nn
from regard.symmetry.groups import Permutations

class Pooled(nn.Module):
    def __init__(self, places):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.places, self.head = nn.Linear(4, 16), nn.Embedding(64, 16) if places else None, nn.Linear(16, 3)

    def forward(self, x):
        h = self.embed(x)
        if self.places is not None:
            h = h + self.places(torch.arange(x.shape[1]))
        return self.head(h.relu().sum(1))

def good():
    return Pooled(False), torch.randn(2, 13, 4), Permutations()

def bad():
    return Pooled(True), torch.randn(2, 13, 4), Permutations()

def steps():
    return nn.Embedding(50, 8), torch.randint(50, (2, 13))

def wrong():
    return Pooled(True)
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    (tmp_path / "my_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *words):
    code = main.main(["check", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_good_model_exits_with_0_and_a_broken_law_with_1(models, capsys):
    code, out, err = run(capsys, "my_models:good")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split()[:3] == ["law", "declared", "measured"]
    assert out.rstrip().endswith("my_models:good: as declared")
    code, out, _ = run(capsys, "my_models:bad", "--laws", "permutation,neighbours")
    assert code == 1
    assert "permutation: declared invariant, measured broken" in out and "it breaks at places" in out
    assert out.rstrip().endswith("my_models:bad: 1 law not as declared")


def test_json_for_machines(models, capsys):
    code, out, _ = run(capsys, "my_models:bad", "--json", "--seed", "3", "--trials", "2", "--dtype", "float64")
    found = json.loads(out)
    assert code == 1 and found["ok"] is False and found["seed"] == 3 and found["model"] == "my_models:bad"
    law = {each["law"]: each for each in found["laws"]}["permutation"]
    assert (law["measured"], law["layer"], law["exact"], law["dtype"]) == ("broken", "places", True, "float64")
    assert all(each["seconds"] >= 0 for each in found["laws"])


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "regard.*target.*none.*regard.*--help"),
        (["a", "b"], "regard.*target.*b"),
        (["nowhere"], "'nowhere'.*run.*Hugging Face model"),
        (["my_models.py:good"], "module.*-m.*my_models:good"),
        (["sub/my_models.py:good"], r"mean sub\.my_models:good"),
        (["my_models:godo"], "my_models.*function 'godo'.*'good'"),
        (["my_models:wrong"], r"my_models:wrong.*Pooled.*\(model, inputs\[, symmetry\[, roles\]\]\)"),
        (["my_models:good", "--laws", "permutatoin"], "'permutatoin' among.*laws.*'permutation'"),
        (["my_models:good", "--seed", "x"], "--seed.*whole number.*'x'"),
        (["my_models:good", "--dtype", "float8"], "--dtype.*float64, float32, bfloat16, float16.*None.*'float8'"),
        (["my_models:good", "--device", "tpu"], "device 'tpu'.*--device cpu"),
        (["my_models:good", "--device", "gpu"], "device 'gpu'.*'cuda'"),
    ],
)
def test_what_cannot_be_checked_is_one_line_and_exit_code_2(models, capsys, words, said):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert re.search(said, err) and err.count("\n") == 1


def test_a_cache_without_a_step_function_is_not_measured_and_not_as_declared(models, capsys):
    code, out, _ = run(capsys, "my_models:steps", "--laws", "cache")
    assert code == 3 and "AssertionError" not in out and ": as declared" not in out
    said = "cache: nothing was declared, measured unknown: it needs a step function, (model, inputs of the new tokens, "
    assert said in out and "given as Roles(step=...); see docs/check.md" in out
    assert out.rstrip().endswith("my_models:steps: nothing was measured")
    report = check("my_models:steps", laws=["cache"])
    assert not report.ok and said in repr(report) and "nothing was measured" in report._repr_html_()


def test_a_run_of_ones_own_module_says_what_to_give_instead(models, capsys, monkeypatch):
    data = torch.randn(20, 4), torch.zeros(20).long()
    train.train(
        model=torch.nn.Sequential(torch.nn.Linear(4, 2)),
        task="classify",
        data=data,
        out="mine",
        steps=1,
        observers=[],
        report=False,
    )
    code, out, err = run(capsys, "mine")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(
        "regard: mine holds the weights of a module of your own, which only you can make: write a function"
    )
    assert err.endswith("returns (model, inputs), and give my_module:my_function instead\n")
    with pytest.raises(ValueError, match=r"module.*\(Sequential\).* build.*load_weights\('mine', module\)"):
        generate.load("mine")


def test_random_weights_are_announced(models, capsys):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=30, n_positions=32)
    config.architectures = ["GPT2LMHeadModel"]
    config.save_pretrained("bare")
    words = (
        "bare has no weights (*.safetensors) in it, so they are random (seed 0): what it learned cannot be seen here."
    )
    code, out, _ = run(capsys, "bare", "--laws", "determinism")
    assert code == 0 and f"note: {words}" in out.splitlines()
    assert json.loads(run(capsys, "bare", "--laws", "determinism", "--json")[1])["notes"] == [words]
    assert main.main(["look", "bare", "--out", "page.html"]) == 0
    assert capsys.readouterr().err == f"note: {words}\n"
    assert words in (models / "page.html").read_text()
    torch.manual_seed(0)
    transformers.GPT2LMHeadModel(config).save_pretrained("full")
    assert "note" not in run(capsys, "full", "--laws", "determinism")[1]


def test_help_names_every_option(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert all(
        option in out for option in ("--laws", "--json", "--seed", "--trials", "--dtype", "--device", "exit code")
    )
