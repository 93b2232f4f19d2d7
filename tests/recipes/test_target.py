"""What is predicted: losses are those of PyTorch, padding and unknown cells do not count, numbers come back in their units."""

import numpy as np
import pyarrow as pa
import pytest
import torch
import torch.nn.functional as F

from regard.data.batch import IGNORE
from regard.data.targets import Numbers
from regard.errors import RegardError
from regard.recipes.target import Target

WORDS = pa.array(["b", None, "a", "b", "?"])


def test_words_are_classes_in_their_order_and_what_is_missing_is_ignored():
    target = Target.infer(WORDS, what="x")
    assert target.classes == ("a", "b") and target.encode(WORDS).tolist() == [1, IGNORE, 0, 1, IGNORE]
    assert target.known(target.encode(WORDS)).tolist() == [True, False, True, True, False]
    named = Target(classes=("b", "a"))  # the data says another order
    assert named.encode(WORDS)[0] == 0 and named.decode("x", torch.tensor([3.0, 0.0])).answer == "b"
    with pytest.raises(RegardError, match="class 'c'.*knows a, b"):
        target.encode(pa.array(["c"]))


def test_numbers_are_standardised_by_the_train_split_and_come_back():
    cells = np.array([1.5, 2.5, np.nan, 40.0])
    target = Target.infer(cells, what="x", names=("weight",))
    raw = target.encode(cells)
    target = target.fitted(raw, np.array([True, True, False, False]))
    assert (target.number.centre, target.number.scale) == (2.0, 0.5)
    codes = target.standardise(raw)
    assert codes[:2].tolist() == [-1, 1] and np.isnan(codes[2])
    assert target.decode("x", torch.tensor([codes[3]])).values == {"weight": pytest.approx(40)}
    several = Target.infer(np.zeros((3, 2)), what="x", names=("a", "b"))
    assert [each.name for each in several.numbers] == ["a", "b"] and several.number is None


def test_a_number_that_never_changes_but_for_rounding_has_scale_one():
    values = np.full(9, 0.1) + np.arange(9) * 1e-17
    target = Target.infer(values, what="x", asks="numbers")
    assert target.fitted(target.encode(values), np.ones(9, dtype=bool)).number.scale == 1.0


def test_the_loss_of_classes_is_that_of_pytorch():
    torch.manual_seed(0)
    out, codes = torch.randn(6, 3), torch.tensor([0, 2, 1, IGNORE, 2, 2])
    target = Target(classes=("a", "b", "c"))
    for smoothing in (0.0, 0.2):
        total, count = target.loss(out, codes, smoothing)
        expected = F.cross_entropy(out, codes, ignore_index=IGNORE, label_smoothing=smoothing)
        torch.testing.assert_close(total / count, expected)
    weights = torch.tensor(target.weigh("auto", codes.numpy()))
    counts = torch.tensor([1.0, 1.0, 3.0])
    torch.testing.assert_close(weights * counts, torch.full((3,), 5 / 3))  # each class counts as much as another
    total, _ = target.loss(out, codes, weights=weights)
    each = F.cross_entropy(out, codes, ignore_index=IGNORE, reduction="none")
    torch.testing.assert_close(total, (each * weights[codes.clamp(min=0)]).sum())
    assert target.weigh((1.0, 5.0, 2.0), codes.numpy()) == [1.0, 5.0, 2.0]
    with pytest.raises(ValueError, match="class_weights.*3 classes.*got 2"):
        target.weigh((1.0, 5.0), codes.numpy())
    shares = torch.tensor([[0.5, 0.5, 0.0]])
    torch.testing.assert_close(target.loss(out[:1], shares)[0], -(shares * out[:1].log_softmax(-1)).sum())


def test_several_classes_at_once():
    target = Target.infer(pa.array(["a;b", "b", None, " c ; a"]), what="x", asks="several")
    codes = target.encode(pa.array(["a;b", "c", None]))
    assert target.classes == ("a", "b", "c") and codes[:2].tolist() == [[1, 1, 0], [0, 0, 1]]
    out = torch.randn(3, 3)
    total, count = target.loss(out, torch.from_numpy(codes))
    expected = F.binary_cross_entropy_with_logits(out[:2], torch.from_numpy(codes[:2]), reduction="sum")
    torch.testing.assert_close(total, expected)
    assert count == 6 and target.labels is None and target.strata(codes) is None


@pytest.mark.parametrize("what", ["classes", "numbers"])
def test_padding_of_parts_counts_nowhere(what):
    if what == "classes":
        target, parts = Target(classes=("a", "b"), each="point"), [np.array([0, 1]), np.array([1])]
    else:
        number = Numbers(name="x", centre=0.0, scale=2.0)
        target, parts = Target(numbers=(number,), each="point"), [np.float32([0, 1]), np.float32([1])]
    padded = torch.from_numpy(target.pad(parts, 3))
    out = torch.randn(2, 3, target.outputs)
    spoiled = out.clone()
    spoiled[0, 2:], spoiled[1, 1:] = 1e6, 1e6
    for found in (target.loss, target.sums):
        ours, theirs = found(out, padded), found(spoiled, padded)
        torch.testing.assert_close(ours, theirs)
    wrong = spoiled.clone()
    wrong[0, 1, 0] = 1e6  # an output that counts
    assert target.loss(wrong, padded)[0] > target.loss(out, padded)[0] + 1


def test_errors_are_told_in_the_units_of_the_data_in_any_precision():
    numbers = tuple(Numbers(name=name, centre=1.0, scale=scale) for name, scale in (("a", 3.001), ("b", 0.5)))
    target, out, codes = Target(numbers=numbers), torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]])
    count, sums = target.sums(out.bfloat16(), codes)
    assert float(sums["MAE a"]) / count == pytest.approx(3.001) and float(sums["MAE b"]) / count == 1.0


def test_what_is_no_target_is_refused():
    for cells, how, words in (
        (pa.array(["a", "a"]), {}, "only the class 'a'"),
        (pa.array([None, ""], pa.string()), {}, "no known 'target'"),
        (pa.array(["1", "x"]), {"asks": "numbers", "place": lambda i: f"line {i}"}, "line 1.*'x'.*number"),
    ):
        with pytest.raises(RegardError, match=words):
            Target.infer(cells, what="t.csv", **how)
    with pytest.raises(RegardError, match="classes or numbers"):
        Target()
    with pytest.raises(RegardError, match=r"\(2, 2\).*\(2,\)"):
        Target(numbers=(Numbers(name="x", centre=0.0, scale=1.0),)).loss(torch.zeros(2, 2), torch.zeros(2))
