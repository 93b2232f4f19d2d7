"""`expect` gives sizes by name, and an error that says both sides."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.shapes import expect


def shaped(*sizes):
    return SimpleNamespace(shape=sizes)


def test_sizes_come_in_the_order_of_the_pattern():
    assert expect(torch.zeros(2, 3, 4), "b n d") == (2, 3, 4)
    assert expect(np.zeros((2, 3)), "batch time") == (2, 3)
    assert expect(torch.zeros(()), "") == ()


def test_given_sizes_must_agree():
    assert expect(shaped(2, 3, 4), "b n d", d=4, b=2) == (2, 3, 4)


def test_axes_in_front_may_be_any():
    assert expect(shaped(9, 8, 3, 4), "... n d") == (3, 4)
    assert expect(shaped(3, 4), "... n d", d=4) == (3, 4)
    assert expect(shaped(3, 4), "...") == ()


def test_numbers_are_sizes():
    assert expect(shaped(2, 7), "2 e") == (2, 7)
    assert expect(shaped(2, 1, 12), "b 1 12") == (2, 1, 12)


@pytest.mark.parametrize(
    "shape, pattern, sizes, words",
    [
        ((2, 3, 5), "b n d", {"d": 4}, r"q.*'b n d'.*d=4.*shape \(2, 3, 5\).*axis 'd'.*5.*4"),
        ((2, 3), "b n d", {}, r"q.*'b n d'.*shape \(2, 3\).*2 axes.*3 axes"),
        ((2,), "b n", {"b": 2}, r"q.*'b n'.*b=2.*shape \(2,\).*1 axis.*2 axes"),
        ((2, 3, 5), "b n n", {"b": 2}, r"q.*'b n n'.*b=2.*shape \(2, 3, 5\).*axis 'n'.*5.*3"),
        ((2, 3, 5), "b n n", {"n": 3}, r"q.*'b n n'.*n=3.*shape \(2, 3, 5\).*axis 'n'.*5.*3"),
        ((3, 7), "2 e", {}, r"q.*'2 e'.*shape \(3, 7\).*axis.*3.*2"),
        ((7, 3), "e 2", {"e": 7}, r"q.*'e 2'.*e=7.*shape \(7, 3\).*axis.*3.*2"),
        ((5,), "... n d", {}, r"q.*'\.\.\. n d'.*shape \(5,\).*1 axis.*2 axes"),
        ((2, 3), "b n", {"d": 4}, "q.*d=4.*pattern 'b n'.*axis 'd'"),
    ],
)
def test_an_error_says_both_sides(shape, pattern, sizes, words):
    with pytest.raises(ValueError, match=words):
        expect(shaped(*shape), pattern, name="q", **sizes)


@pytest.mark.parametrize("pattern", ["b (h c)", "b ... d"])
def test_a_pattern_it_cannot_read_is_refused(pattern):
    with pytest.raises(ValueError, match="pattern.*words.*'...'"):
        expect(shaped(2, 3, 4), pattern)


def test_what_has_no_shape_is_named():
    with pytest.raises(TypeError, match="^tensor.*tensor 'b n'.*list"):
        expect([1, 2], "b n")


@given(st.lists(st.integers(0, 5), max_size=5), st.lists(st.integers(0, 5), max_size=5))
def test_fits_exactly_when_the_letters_can_be_read_so(shape, letters):
    """Against the definition: a pattern fits if it has as many axes and no letter has two sizes."""
    pattern = " ".join("bnmhcd"[i] for i in letters)
    meanings = {(letter, size) for letter, size in zip(letters, shape, strict=False)}
    fits = len(shape) == len(letters) and len(meanings) == len(set(letters))
    try:
        assert expect(shaped(*shape), pattern) == tuple(shape)
        assert fits
    except ValueError:
        assert not fits


def test_traces_without_a_break_and_with_changing_sizes():
    @torch.compile(fullgraph=True, backend="eager")
    def flat(x, y):
        b, n, d = expect(x, "b n d", d=4)
        expect(y, "... d d", d=d)
        expect(y, "1 4 4")
        return x.reshape(b * n, d)

    for b, n in [(2, 3), (5, 7), (6, 9)]:
        assert flat(torch.zeros(b, n, 4), torch.zeros(1, 4, 4)).shape == (b * n, 4)


def test_does_not_import_torch():
    code = "import regard.shapes, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True)
