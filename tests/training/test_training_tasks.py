"""Losses by hand, and means over a whole split that weigh every target the same."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.data.batch import IGNORE, Batch
from regard.training.tasks import Classify, MaskedToken, NextToken, Regress, as_task, call
from tests.training.cases import VOCAB, Pairs, tiny


class Table(nn.Module):
    """Scores by token alone; remembers what it was called with."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.scores = nn.Embedding(VOCAB, VOCAB)

    def forward(self, tokens):
        return self.scores(tokens)


class Careful(Table):
    def forward(self, tokens, *, real=None, where=None):
        self.seen = real, where
        return self.scores(tokens)


def test_next_token_is_the_mean_over_what_counts():
    model, batch = Table(), Pairs().batch(0)
    target = batch.target.clone()
    target[0] = IGNORE
    loss, count = NextToken().loss(model, batch.replace(target=target))
    picked = F.log_softmax(model(batch["tokens"]), -1).gather(-1, batch.target[..., None])[1:]
    torch.testing.assert_close(loss, -picked.mean())
    assert int(count) == picked.numel()


def test_padding_is_not_asked_for():
    model, batch = Careful(), Pairs().batch(0)
    real = torch.ones_like(batch["tokens"], dtype=torch.bool)
    real[:, 5:] = False
    loss, count = NextToken().loss(model, batch.replace(real=real))
    shorter, _ = NextToken().loss(model, Batch({"tokens": batch["tokens"][:, :5]}, batch.target[:, :5]))
    torch.testing.assert_close(loss, shorter)
    assert int(count) == 4 * 5


def test_nothing_to_ask_is_no_loss():
    batch = Pairs().batch(0)
    loss, count = NextToken().loss(Table(), batch.replace(target=torch.full_like(batch.target, IGNORE)))
    assert (loss.item(), int(count)) == (0.0, 0)


@pytest.mark.parametrize(
    "task", ["next token", "classify", "regress", lambda model, batch: model(batch["tokens"]).mean()]
)
def test_measures_do_not_depend_on_the_cut_into_batches(task):
    """One batch of seven rows, or one of five and one of two."""
    torch.manual_seed(0)
    tokens = torch.randint(VOCAB, (7, 6))
    target = torch.randn(7, 6, VOCAB) if task == "regress" else torch.randint(VOCAB, (7, 6))
    model, task = Table(), as_task(task)
    whole = task.measure(model, [Batch({"tokens": tokens}, target)])
    cut = task.measure(model, [Batch({"tokens": tokens[:5]}, target[:5]), Batch({"tokens": tokens[5:]}, target[5:])])
    assert whole.keys() == cut.keys()
    for name in whole:
        assert math.isclose(whole[name], cut[name], rel_tol=1e-6)
    assert math.isclose(whole["loss"], task.loss(model, Batch({"tokens": tokens}, target))[0].item(), rel_tol=1e-6)


def test_accuracy_counts_hits():
    model = Table()
    tokens = torch.arange(VOCAB)[None]
    target = model(tokens).argmax(-1)
    target[0, :2] = (target[0, :2] + 1) % VOCAB
    target[0, 2] = IGNORE
    assert Classify().measure(model, [Batch({"tokens": tokens}, target)])["accuracy"] == (VOCAB - 3) / (VOCAB - 1)


def test_nothing_to_measure_gives_no_measures():
    assert Classify().measure(Table(), []) == {}


def test_one_answer_for_each_row():
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 3))
    batch = Batch({"tokens": torch.randn(5, 2, 3)}, torch.tensor([0, 1, 2, 0, 1]))
    loss, count = Classify().loss(model, batch)
    torch.testing.assert_close(loss, F.cross_entropy(model(batch["tokens"]), batch.target))
    assert int(count) == 5


def test_regress_does_not_broadcast():
    batch = Batch({"x": torch.randn(5, 4)}, torch.randn(5))
    loss, _ = Regress().loss(nn.Linear(4, 1), batch)
    assert loss.dim() == 0
    with pytest.raises(ValueError, match=r"output.*target.*shape.*\(5, 2\).*\(5,\)"):
        Regress().loss(nn.Linear(4, 2), batch)
    with pytest.raises(ValueError, match=r"scores.*every target: logits \(5,\).*\(classes,\)"):
        Classify().loss(nn.Linear(4, 2), batch.replace(x=torch.randn(5, 3, 4)))


def test_errors_are_told_in_the_units_of_the_data():
    """Targets were divided by 10 and by 2; two batches of different size count by their rows."""
    model, x = nn.Linear(4, 2), torch.randn(5, 4)
    off = torch.tensor([[1.0, -3.0]]).expand(5, 2)
    batches = [
        Batch({"tokens": x[:2]}, model(x[:2]).detach() + off[:2]),
        Batch({"tokens": x[2:]}, model(x[2:]).detach() + 2 * off[2:]),
    ]
    measures = Regress(scale=(10, 2), names=("price", "amount")).measure(model, batches)
    expected = {"MAE price": 10 * 8 / 5, "MAE amount": 2 * 24 / 5, "loss": (2 * (1 + 9) + 3 * 4 * (1 + 9)) / 10}
    assert {name: pytest.approx(value) for name, value in expected.items()} == measures
    one = Regress(scale=(10,)).measure(nn.Linear(4, 1), [Batch({"tokens": x}, torch.zeros(5))])
    assert set(one) == {"loss", "MAE"}


def test_numbers_of_each_thing_leave_padding_out():
    model, x = nn.Linear(4, 1), torch.randn(2, 3, 4)
    real = torch.tensor([[True, True, True], [True, False, False]])
    target = torch.where(real, model(x)[..., 0].detach() + 1, 1e6)
    loss, count = Regress().loss(model, Batch({"tokens": x, "real": real}, target))
    assert count == 4 and loss.item() == pytest.approx(1, rel=1e-5)
    assert Regress((5,)).measure(model, [Batch({"tokens": x, "real": real}, target)])["MAE"] == pytest.approx(
        5, rel=1e-5
    )
    # three numbers of sets of three things: nothing is padding
    flat = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    assert Regress().loss(flat, Batch({"tokens": x, "real": real}, torch.zeros(2, 3)))[1] == 6


def test_extras_are_passed_to_models_that_take_them():
    batch = Pairs().batch(0)
    real, where = (torch.ones_like(batch["tokens"], dtype=torch.bool), torch.arange(9).expand_as(batch["tokens"]))
    careful = Careful()
    call(careful, batch.replace(real=real, where=where))
    assert careful.seen[0] is real and careful.seen[1] is where
    call(careful, batch)
    assert careful.seen == (None, None)
    call(tiny(), batch.replace(real=real, where=where))


# ── masked tokens ───────────────────────────────────────────────────────────────────────────────────────────

MASK = VOCAB


def hidden(rows=400, **options):
    torch.manual_seed(0)
    tokens = torch.randint(VOCAB, (rows, 50))
    task = MaskedToken(mask=MASK, vocab=VOCAB, **options)
    return tokens, task, task.hide(Batch({"tokens": tokens}, tokens))


def test_bert_hides_eighty_ten_ten():
    tokens, _, batch = hidden()
    chosen = batch.target != IGNORE
    assert torch.equal(batch.target[chosen], tokens[chosen]) and torch.equal(batch["tokens"][~chosen], tokens[~chosen])
    assert abs(chosen.float().mean() - 0.15) < 0.01
    masked = (batch["tokens"] == MASK)[chosen].float().mean()
    same = (batch["tokens"] == tokens)[chosen].float().mean()
    assert abs(masked - 0.8) < 0.03
    # what is replaced at random is sometimes replaced by itself
    assert abs(same - (0.1 + 0.1 / VOCAB)) < 0.03


def test_padding_and_marks_are_never_chosen():
    tokens, task, _ = hidden(never=(0, 3))
    real = torch.zeros_like(tokens, dtype=torch.bool)
    real[:, :20] = True
    batch = task.hide(Batch({"tokens": tokens, "real": real}, tokens))
    chosen = batch.target != IGNORE
    assert chosen.any() and not chosen[:, 20:].any()
    assert not torch.isin(tokens[chosen], torch.tensor([0, 3])).any()


def test_training_draws_and_validation_does_not():
    class Wide(Table):
        def __init__(self):
            super().__init__()
            self.scores = nn.Embedding(VOCAB + 1, VOCAB)

    tokens, task, _ = hidden(rows=8)
    model, batch = Wide(), Batch({"tokens": tokens}, tokens)
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(task.loss(model, batch)[0].item())
    assert losses[0] == losses[1] != losses[2]
    before = torch.get_rng_state()
    assert task.measure(model, [batch, batch]) == task.measure(model, [batch, batch])
    assert torch.equal(before, torch.get_rng_state())
    # each batch is hidden in its own way
    assert task.measure(model, [batch]) != task.measure(model, [batch, batch])


# ── names and functions ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "task, words",
    [
        ("next_token", "task 'next_token'.*'next token'.*next token, classify, regress"),
        (3, r"task.*\(next token.*regress\).*function \(model, batch\) -> loss.*int"),
    ],
)
def test_what_is_no_task(task, words):
    with pytest.raises(ValueError, match=words):
        as_task(task)


def test_a_function_must_give_one_number():
    batch = Pairs().batch(0)
    with pytest.raises(ValueError, match=r"loss.*tensor.*shape \(4, 9, 8\).*loss.mean\(\)"):
        as_task(lambda model, batch: model(batch["tokens"])).loss(Table(), batch)
    with pytest.raises(ValueError, match="got float"):
        as_task(lambda model, batch: 0.5).loss(Table(), batch)
    loss, count = as_task(lambda model, batch: (model(batch["tokens"]).mean(), 7)).loss(Table(), batch)
    assert (loss.dim(), count) == (0, 7)


def test_share_must_be_a_share():
    with pytest.raises(ValueError, match="share.*0.*1.*0"):
        MaskedToken(mask=0, vocab=3, share=0)


def test_smoothed_labels_are_learned_and_judged():
    logits, target = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3
    wanted = F.cross_entropy(logits, target, label_smoothing=0.2)
    task, batch = Classify(smoothing=0.2), Batch({"tokens": logits}, target)
    torch.testing.assert_close(task.loss(nn.Identity(), batch)[0], wanted)
    assert task.measure(nn.Identity(), [batch])["loss"] == pytest.approx(wanted.item())
    assert Classify().measure(nn.Identity(), [batch])["loss"] != pytest.approx(wanted.item())
