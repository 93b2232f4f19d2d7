"""Classes or numbers: one rule, a line that says it, and numbers that come back in their own units."""

import numpy as np
import pytest

from regard.data.targets import MOST, Numbers, explain_asks, find_scale, infer_asks, read_numbers, sort_labels
from regard.errors import RegardError


@pytest.mark.parametrize(
    "values, asks",
    [
        (["a", "b", "1"], "classes"),
        (["1", "2", "3", "4", "5"], "classes"),  # stars
        (["1.0", "2.0"], "classes"),
        (["1", "2.5"], "numbers"),
        ([str(i) for i in range(77)], "classes"),  # numbers of classes
        ([str(i) for i in range(1, 78)], "classes"),
        ([str(i) for i in range(18, 80)], "numbers"),  # ages
        ([str(3 * i) for i in range(11)], "numbers"),
        ([str(3 * i) for i in range(10)], "classes"),
        (["1", "nan", "0.5"], "classes"),
        (["inf", "0.5"], "classes"),
        ([0.5, 1.0], "numbers"),
    ],
)
def test_one_rule_for_all_targets(values, asks):
    assert infer_asks(values) == asks
    assert infer_asks(values, "classes") == "classes" and infer_asks(values, "numbers") == "numbers"


def test_whole_numbers_are_told_and_nothing_else():
    (stars,) = explain_asks(["1", "2", "5"], "auto", "stars")
    assert "'stars' holds 3" in stars and "classes; --data.asks numbers" in stars
    (ages,) = explain_asks([str(age) for age in range(20, 90)], "auto", "age")
    assert "'age' holds 70" in ages and "numbers; --data.asks classes" in ages
    assert explain_asks(["1", "2", "5"], "numbers", "y") == ()  # somebody has said it
    for clear in (["0", "1"], ["0", "1", "2"], ["a", "b", "c"], ["0.5", "1", "2"]):
        assert explain_asks(clear, "auto", "y") == ()


def test_what_never_changes_has_the_scale_1_whatever_its_mean_is_rounded_to():
    for dtype in (np.float32, np.float64):
        same = np.full((1000, 2), [0.1, 1e9 / 3], dtype=dtype)
        assert same.std(0).max() > 0  # the mean is not one of them
        assert find_scale(same).tolist() == [1, 1]
    assert find_scale(np.array([0.1 + 0.2, 0.3])) == 1
    assert find_scale(np.zeros((0, 3))).tolist() == [1, 1, 1]
    tiny = np.array([1e-15, 3e-15])  # numbers of physics in metres
    assert find_scale(tiny) == pytest.approx(1e-15)


def test_numbers_come_back_in_their_units():
    values = np.array([3.0, 5.0, 10.0, -2.0])
    numbers = Numbers.measure("price", values)
    scaled = numbers.standardise(values)
    assert scaled.mean() == pytest.approx(0, abs=1e-6) and scaled.std() == pytest.approx(1)
    assert [numbers.restore(float(each)) for each in scaled] == pytest.approx(values)
    assert Numbers.measure("same", np.array([7.0, 7.0])).scale == 1 and numbers.format(0.0) == "price 4"
    assert read_numbers(["1", "x"]) is None
    with pytest.raises(ValueError, match="scale.*0"):
        Numbers(name="x", centre=0.0, scale=0.0)


def test_numbers_are_sorted_as_numbers_and_others_as_text():
    assert sort_labels(["10", "9", "-1", "9"]) == ("-1", "9", "10")
    assert sort_labels(["b", "10", "9"]) == ("10", "9", "b")
    assert sort_labels(["9" * 5000, "1"]) == ("1", "9" * 5000)


def test_too_many_classes_are_refused_with_their_number():
    most = MOST
    assert len(sort_labels(str(i) for i in range(most))) == most
    with pytest.raises(RegardError, match=f"{most + 1:,} different labels.*{most:,} at most"):
        sort_labels(f"l{i}" for i in range(most + 1))
