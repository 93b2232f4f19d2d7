"""Which tokens make up a word."""

import pytest

from regard.look.token_streams import number_words

MARKS = ("<begin>", "<end>")


def spelled(labels):
    words = {}
    for label, number in zip(labels, number_words(labels, MARKS), strict=True):
        words[number] = words.get(number, "") + label
    assert list(words) == list(range(len(words)))
    return list(words.values())


@pytest.mark.parametrize(
    "labels, words",
    [
        (["<begin>", "Eine", " Groß", "m", "utter", "."], ["<begin>", "Eine", " Großmutter", "."]),
        (["a", " woman", "'s", " over", "-", "s", "ized", "<end>"], ["a", " woman's", " over-sized", "<end>"]),
        (["stop", ".", "go", "<end>"], ["stop", ".", "go", "<end>"]),
        ([" (", "so", ")", ",", " no"], [" (", "so", ")", ",", " no"]),
        (list("12 mai"), ["12", " mai"]),
        (["ab ", "cd"], ["ab ", "cd"]),
        (["a", "  ", "b"], ["a", "  b"]),
        ([" Gro", "\ufffd", "\ufffd", "e"], [" Gro\ufffd\ufffde"]),
        (["<begin>"], ["<begin>"]),
        (["", "a", ""], ["a"]),
        ([], []),
    ],
)
def test_words(labels, words):
    assert spelled(labels) == words
