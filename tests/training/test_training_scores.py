"""The numbers of single examples add up to the measures of the whole split, for every task."""

import pytest
import torch
from torch import nn

from regard.data.batch import IGNORE, Batch
from regard.data.slices import refuse_slice
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.processor import ImagesFitted, ImagesProcessor
from regard.recipes.sets.cluster import Mixture
from regard.recipes.target import Target
from regard.recipes.task import SupervisedTask
from regard.training.tasks import Classify, MaskedToken, NextToken, Regress


class Says(nn.Module):
    """Whatever was thought out for it, batch by batch."""

    def __init__(self, *outs):
        super().__init__()
        self.outs, self.at = outs, 0

    def forward(self, tokens, *, real=None, edges=None):
        self.at += 1
        return self.outs[(self.at - 1) % len(self.outs)]


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def classes(*shape, of=4, seed=1):
    return torch.randint(of, shape, generator=torch.Generator().manual_seed(seed))


REAL = torch.tensor([[True, True, True], [True, False, False]])
SOME = torch.tensor([1, IGNORE, 2, 0, IGNORE])
TOKENS = classes(2, 3, of=5)
BYTES = ImagesFitted(size=2, channels=1, fit="crop", mean=(0.0,), deviation=(1.0,))
GRAPH = {"edges": torch.zeros(2, 0, dtype=torch.long)}
CASES = {
    "classes": (Classify(), numbers(6, 4), Batch({"tokens": numbers(6, 3)}, classes(6)), 6),
    "elements of sets": (
        Classify(),
        numbers(2, 3, 4),
        Batch({"tokens": numbers(2, 3, 2), "real": REAL}, classes(2, 3)),
        2,
    ),
    "nodes": (Classify(), numbers(5, 4), Batch({"x": numbers(5, 3), **GRAPH}, SOME, cut=refuse_slice), 3),
    "next token": (NextToken(), numbers(2, 3, 5), Batch({"tokens": TOKENS, "real": REAL}, TOKENS), 2),
    "masked token": (
        MaskedToken(5, 5, share=0.9),
        numbers(2, 3, 6),
        Batch({"tokens": TOKENS, "real": REAL}, TOKENS),
        2,
    ),
    "a number": (Regress((2.5,)), numbers(6, 1), Batch({"tokens": numbers(6, 3)}, numbers(6, seed=2)), 6),
    "a number in a row": (Regress((2.5,)), numbers(6, 1), Batch({"tokens": numbers(6, 3)}, numbers(6, 1, seed=2)), 6),
    "two numbers": (Regress((2.0, 3.0), ("a", "b")), numbers(6, 2), Batch({"tokens": numbers(6, 3)}, numbers(6, 2)), 6),
    "numbers of elements": (
        Regress((2.0, 3.0), ("a", "b")),
        numbers(2, 3, 2),
        Batch({"tokens": numbers(2, 3, 4), "real": REAL}, numbers(2, 3, 2, seed=3)),
        2,
    ),
    "images": (
        SupervisedTask(ImagesProcessor(ImagesConfig(), BYTES, Target(classes=tuple("abcd")))),
        numbers(6, 4),
        Batch({"x": torch.zeros(6, 1, 2, 2, dtype=torch.uint8)}, classes(6)),
        6,
    ),
    "clusters": (Mixture(2), numbers(2, 2 * 5), Batch({"x": numbers(2, 3, 2), "real": REAL}, torch.zeros(2)), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_single_examples_add_up_to_the_measures(name):
    task, out, batch, examples = CASES[name]
    with torch.no_grad():
        measures = task.measure(Says(out, 2 * out), [batch, batch])
        scores = task.score(Says(out, 2 * out), [batch, batch])
    assert len(scores) == 2 * examples and scores.main in scores.sums
    means = scores.means()
    means["loss"] = means.pop("log loss", means.get("loss", measures["loss"]))
    for measure, value in means.items():
        assert value == pytest.approx(measures[measure], rel=1e-5), measure
    assert {*means} >= {*measures} - {"loss", "log-likelihood", "R²"}


def test_a_loss_of_examples_is_not_smoothed():
    _, out, batch, _ = CASES["classes"]
    assert "loss" not in Classify(0.3).score(Says(out), [batch]).sums
    smooth, sharp = (Classify(each).score(Says(out), [batch]).sums["log loss"] for each in (0.3, 0.0))
    torch.testing.assert_close(smooth, sharp)


def test_predictions_are_told_where_an_example_has_one():
    _, out, batch, _ = CASES["nodes"]
    scores = Classify().score(Says(out), [batch])
    kept = batch.target != IGNORE
    assert torch.equal(scores.predicted, out.argmax(-1)[kept]) and torch.equal(scores.target, SOME[kept])
    torch.testing.assert_close(scores.shares, out.softmax(-1).amax(-1)[kept])
    assert torch.equal(scores.right(), (out.argmax(-1) == SOME)[kept])
    for name in ("a number", "a number in a row"):
        task, out, batch, _ = CASES[name]
        torch.testing.assert_close(task.score(Says(out), [batch]).predicted, out[:, 0])
    _, long, text, _ = CASES["next token"]
    assert NextToken().score(Says(long), [text]).predicted is None
