"""Labels in one order, and not too many of them."""

import pytest

from regard.data.labels import MOST, sort_labels
from regard.errors import RegardError


def test_numbers_are_sorted_as_numbers_and_others_as_text():
    assert sort_labels(["10", "9", "-1", "9"]) == ("-1", "9", "10")
    assert sort_labels(["b", "10", "9"]) == ("10", "9", "b")
    assert sort_labels(["9" * 5000, "1"]) == ("1", "9" * 5000)


def test_too_many_classes_are_refused_with_their_number():
    most = MOST
    assert len(sort_labels(str(i) for i in range(most))) == most
    with pytest.raises(RegardError, match=f"{most + 1:,} different labels.*{most:,} at most"):
        sort_labels(f"l{i}" for i in range(most + 1))
