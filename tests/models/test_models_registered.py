"""Runs of our own models that were made in Python: opened by anybody, if they are what their config makes."""

import pytest
import torch

from regard import registry
from regard.models.registered_model import registered_name
from regard.models.vit import ViT, ViTConfig
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.targets.open import open_target
from regard.verbs import train
from regard.verbs.check import check


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", registry.entries("models"))
def test_every_model_of_ours_is_known(name):
    model, inputs = registry.find("models", name).tiny()
    model(**inputs)  # what it keeps of a call is no change
    before = torch.get_rng_state()
    assert registered_name(model) == name
    assert torch.equal(torch.get_rng_state(), before)
    assert registered_name(torch.nn.Linear(2, 2)) is None


def own_vit():
    torch.manual_seed(0)
    return ViT(ViTConfig(classes=2, colours=1, size=8, patch=4, dim=16, depth=1, heads=2))


def learn(model, out):
    x = torch.randn(40, 1, 8, 8)
    data = (x, (x.mean((1, 2, 3)) > 0).long())
    return train.train(model=model, task="classify", data=data, out=out, steps=3, observers=[], report=False)


def test_a_run_of_our_own_model_can_be_opened_by_anybody():
    model = own_vit()
    run = learn(model, "mine")
    loaded, x = load_model(Run.open(run.path)), torch.randn(2, 1, 8, 8)
    assert type(loaded) is ViT and loaded.config == model.config
    torch.testing.assert_close(loaded(x), model.eval()(x))
    found = open_target("mine")
    assert check("mine", laws=["neighbours"]).ok and found.inputs["x"].shape[1:] == (1, 8, 8)
    given = found.reader.read()
    assert given.kind == "image" and given.grid == (2, 2) and "random numbers" in given.notes[0]


class Mine(ViT):
    pass


@pytest.mark.parametrize("change", [
    lambda model: setattr(model, "head", torch.nn.Linear(16, 2, bias=False)),
    lambda model: setattr(model, "head", torch.nn.Sequential(torch.nn.Linear(16, 2))),
    lambda model: setattr(model.stack.blocks[0].mlp.f, "activation", "relu"),
    lambda model: setattr(model, "forward", lambda x: ViT.forward(model, -x)),
    lambda model: setattr(model, "__class__", Mine),
    lambda model: model.head.register_forward_hook(lambda module, given, out: -out),
    lambda model: setattr(model.embed, "patch", 2),
])  # fmt: skip
def test_one_that_was_changed_is_its_owners_to_make(change):
    model = own_vit()
    assert registered_name(model) == "vit"
    change(model)
    assert registered_name(model) is None


def test_what_only_its_owner_can_make_is_said_to_be_so():
    run = learn(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)), "mine")
    with pytest.raises(ValueError, match=r"weights.*module.*\(Sequential\).*build"):
        load_model(Run.open(run.path))
