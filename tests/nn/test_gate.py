"""A gate: closed at first; what is beside it is let in as far as it is right about texts that it has not seen."""

import pytest
import torch
from torch import nn

from regard.nn.ngram_logistic import ALONE, JUDGED, RATE, Gate, judges
from regard.training.config import TrainConfig
from regard.training.optimisers import make


def test_it_is_closed_at_first_and_adds_in_proportion():
    gate, safe, other = Gate(), torch.randn(3, 2), torch.randn(3, 2)
    torch.testing.assert_close(gate(safe, other), safe)
    nn.init.constant_(gate.opened, 5.0)
    torch.testing.assert_close(gate(safe, other), safe + 5 * RATE * other)


def test_a_share_of_the_texts_judges_whatever_the_padding():
    tokens = torch.randint(50, (4000, 6), generator=torch.Generator().manual_seed(0))
    found = judges(tokens)
    assert abs(found.float().mean() - 1 / JUDGED) < 0.03
    padded = torch.cat([tokens, torch.full((4000, 3), 7)], dim=1)
    real = torch.arange(9).expand(4000, 9) < 6
    assert torch.equal(judges(padded, real), found)
    assert not torch.equal(judges(tokens.flip(1)), found)


def test_each_row_teaches_one_of_three():
    """Rows that judge teach the gate and never the other classifier; all teach the safe one half of the time."""
    gate = Gate()
    nn.init.ones_(gate.opened)
    tokens = torch.randint(50, (2000, 6), generator=torch.Generator().manual_seed(0))
    safe, other = torch.zeros(2000, 2, requires_grad=True), torch.ones(2000, 2, requires_grad=True)
    torch.manual_seed(0)
    gate.teach(safe, safe, other, tokens).sum().backward()
    taught, beside, judged = safe.grad.any(1), other.grad.any(1), judges(tokens)
    assert not (taught & beside).any() and not (judged & beside).any()
    assert abs(taught.float().mean() - ALONE) < 0.05
    assert torch.equal(beside, ~judged & ~taught)
    assert gate.opened.grad == pytest.approx(2 * RATE * int((judged & ~taught).sum()), rel=1e-4)


@pytest.mark.parametrize("helps", [True, False])
def test_it_opens_for_what_is_right_about_unseen_texts_alone(helps):
    """The other classifier knows every text that it learns from; those that judge, only where it helps."""
    draw = torch.Generator().manual_seed(0)
    tokens, target = torch.randint(50, (400, 6), generator=draw), torch.randint(2, (400,), generator=draw)
    said = torch.where(judges(tokens) & (not helps), torch.randint(2, (400,), generator=draw), target)
    other = 4.0 * nn.functional.one_hot(said, 2) - 2.0
    gate, safe = Gate(), torch.zeros(400, 2)
    gate.penalty = 1 / 400
    optimiser = make(gate, TrainConfig())
    torch.manual_seed(0)
    for _ in range(200):
        nn.functional.cross_entropy(gate.teach(safe, safe, other, tokens), target).backward()
        optimiser.step(1.0)
    assert (RATE * gate.opened.item() > 0.6) == helps
    assert helps or abs(RATE * gate.opened.item()) < 0.3
