import pytest

from regard.symmetry.groups import EVERYTHING, Permutations, Product, Shifts, Trivial, product

SOME = [
    Trivial(),
    Permutations(),
    Shifts(),
    Shifts(2),
    Shifts(3),
    Shifts(4),
    EVERYTHING,
    product(Permutations(), Shifts(6)),
]


def test_meets():
    assert EVERYTHING & Shifts() == Shifts()
    assert Shifts(4) & Shifts(6) == Shifts(12)
    assert Permutations() & Shifts() == Trivial()
    assert EVERYTHING & product(Shifts(2), Permutations()) == Product((Permutations(), Shifts(2)))
    assert product(Shifts(), Trivial()) == Shifts()


@pytest.mark.parametrize("a", SOME, ids=str)
@pytest.mark.parametrize("b", SOME, ids=str)
def test_meet_is_a_meet(a, b):
    assert a & b == b & a
    assert a & a == a
    assert a & b <= a and a & b <= b
    assert all((a & b) & c == a & (b & c) for c in SOME)
    assert all(c <= a & b for c in SOME if c <= a and c <= b)  # and the largest one


def test_inside():
    assert Shifts(4) <= Shifts(2) <= Shifts() <= EVERYTHING
    assert not Shifts(2) <= Shifts(4)
    assert not Permutations() <= Shifts()
    assert all(Trivial() <= group for group in SOME)


def test_words():
    assert str(Trivial()) == "nothing"
    assert str(EVERYTHING) == "permutations and shifts"
    assert str(Shifts(4)) == "shifts by multiples of 4"
    with pytest.raises(ValueError, match=r"step must be a positive whole number, got 0; Shifts\(\) is every shift"):
        Shifts(0)
