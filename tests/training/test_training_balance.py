"""The balance loss reaches training from outside the model: whatever wraps the steps, the same numbers."""

import pytest
import torch
from torch import nn

from regard.nn.moe import Experts, find_experts
from regard.training.config import TrainConfig
from regard.training.muon import Muon
from regard.training.optimisers import make, split
from regard.training.step import Balance, busiest
from tests.training.cases import VOCAB, WIDTH, losses, train


class Routed(nn.Module):
    """An embedding, two layers of experts, a head."""

    def __init__(self, balance):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.blocks = nn.ModuleList(Experts(WIDTH, experts=4, balance=balance) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def routed(balance=0.1):
    torch.manual_seed(0)
    return Routed(balance)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "run"
    model = routed()
    run, _ = train(path, model=model)
    return run, model


def test_it_changes_the_weights_and_not_what_is_called_the_loss(plain, tmp_path):
    run, _ = plain
    without, _ = train(tmp_path / "without", model=routed(0.0))
    with_it, without_it = losses(run), losses(without)
    assert with_it[0] == without_it[0]  # the task's loss, before any step
    assert with_it[-1] != without_it[-1]


def test_a_step_of_gradient_descent_is_that_of_the_sum(tmp_path):
    """The oracle adds the two by hand."""
    model, tokens = routed(), torch.arange(6).view(1, 6)
    balance = Balance(model)
    with balance.listening():
        loss = model(tokens).square().mean()
    total = loss + balance.take_loss()
    heard, x = [], model.embed(tokens)
    for block in model.blocks:
        heard.append(block.route(x))
        x = x + block(x)
    true = model.head(x).square().mean() + 0.1 * sum(routing.balance() for routing in heard)
    torch.testing.assert_close(total, true)
    assert balance.take_loss() is None


@pytest.mark.parametrize("options", [{"recompute": True}, {"accumulate": 1, "average": 0.9}])
def test_what_wraps_the_steps_changes_nothing(plain, tmp_path, options):
    run, _ = train(tmp_path / "run", model=routed(), **options)
    assert losses(run) == losses(plain[0])


def test_it_goes_on_from_a_checkpoint_to_the_same_losses(plain, tmp_path):
    train(tmp_path / "run", model=routed(), steps=7, decay=0.0)
    run, _ = train(tmp_path / "run", model=routed(), resume=True, decay=0.0)
    whole, _ = train(tmp_path / "whole", model=routed(), decay=0.0)
    assert losses(run)[7:] == losses(whole)[7:]


def test_the_load_of_each_expert_is_in_the_metrics(plain):
    run, model = plain
    told = [event for event in run.metrics() if event["event"] == "experts"]
    assert [event["step"] for event in told] == [4, 8, 12]
    for event in told:
        assert {*event["load"]} == {"blocks.0", "blocks.1"}
        assert all(len(shares) == 4 and sum(shares) == pytest.approx(1) for shares in event["load"].values())
    evaluations = [event for event in run.metrics() if event["event"] == "validation"]
    assert evaluations[-1]["busiest expert"] == pytest.approx(4 * max(max(each) for each in told[-1]["load"].values()))
    assert not any(layer.route._forward_hooks for _, layer in find_experts(model))  # nobody listens any more


def test_the_busiest_expert_is_told_as_a_multiple_of_an_equal_share():
    assert busiest({}) == {}
    assert busiest({"a": [0.25] * 4, "b": [0.5, 0.5, 0.0, 0.0]}) == {"busiest expert": 2.0}


def test_muon_moves_each_expert_as_a_matrix_of_its_own():
    model = routed()
    assert set(split(model).body) == {
        f"blocks.{i}.{part}.weight" for i in range(2) for part in ("route.router", "up", "down")
    }
    rule = next(rule for rule in make(model, TrainConfig(steps=1)).rules if isinstance(rule, Muon))
    assert sorted(rule.stacked.values()) == [4, 4, 4, 4]
    stack = nn.Parameter(torch.zeros(3, 5, 4))
    parts = [nn.Parameter(torch.zeros(5, 4)) for _ in range(3)]
    stack.grad = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    for part, gradient in zip(parts, stack.grad, strict=True):
        part.grad = gradient.clone()
    Muon({"x": stack}, stacked={"x": 3}).step(0.1)
    Muon({str(i): part for i, part in enumerate(parts)}).step(0.1)
    torch.testing.assert_close(stack.data, torch.stack([part.data for part in parts]))
