"""Looking again: another text, a silenced head, a moved token, and requests that make no sense."""

import base64
import re

import numpy as np
import pytest
import torch

from regard.look.model_input import Given, Tokens
from regard.look.record import record
from regard.look.session import KEPT, Live
from regard.look.silence import silenced
from regard.models.decoder import Decoder, DecoderConfig
from regard.nn.attention import Attention


def read(text, target=None):
    ids = [ord(each) - 97 for each in (text or "abcdefgh")]
    if not all(0 <= i < 26 for i in ids):
        raise ValueError("only a to z")
    stream = Tokens("tokens", tuple(text or "abcdefgh"))
    how = {"kind": "text", "ids": "tokens", "text": text, "answers": "next", "called": lambda i: chr(97 + i)}
    return Given(inputs={"tokens": torch.tensor([ids])}, streams=(stream,), **how)


@pytest.fixture
def live():
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=26, context=16, dim=32, depth=2, heads=4)).eval()
    return Live(model, read, "letters", kind="text", tsne=False)


def last_place(data):
    (view,) = (view for view in data["views"] if view["view"] == "next")
    return dict(view["at"][-1]["likely"])


def test_another_text_is_another_recording(live):
    first, second = live.show({}), live.show({"text": "hello"})
    assert (first["record"], second["record"]) == (0, 1)
    assert second["streams"][0]["labels"] == list("hello") and second["input"]["text"] == "hello"
    can = {
        "text": True,
        "target": False,
        "image": False,
        "file": False,
        "node": False,
        "silence": True,
        "move": True,
    }
    assert second["live"] == {**can, "longest": 20_000}


def test_a_silenced_head_adds_nothing(live):
    before = live.show({"text": "hello"})
    data = live.show({"text": "hello", "silence": [[1, 2]]})
    assert data["silenced"] == [[1, 2]] and last_place(data) != last_place(before)
    layer = live.model.stack.blocks[1]
    attention = next(module for module in layer.modules() if type(module).__name__ == "Attention")
    with torch.no_grad():  # the same by hand: the columns of the matrix that mixes heads
        attention.mix.weight[:, 16:24] = 0
    assert last_place(live.show({"text": "hello"})) == pytest.approx(last_place(data), rel=1e-3)


def test_silence_ends_with_the_block(live):
    x = read("hello").inputs["tokens"]
    before = live.model(x)
    with silenced(live.model, names(live)[:1]):
        assert not torch.equal(live.model(x), before)
    assert torch.equal(live.model(x), before)
    with (
        pytest.raises(ValueError, match="only heads of regard's own"),
        silenced(live.model, [*names(live), ("head", 0)]),
    ):
        pass
    assert torch.equal(live.model(x), before)


def names(live):
    with torch.no_grad(), record(live.model) as seen:
        live.model(read("ab").inputs["tokens"])
    return [(entry.name, 0) for entry in seen]


def test_a_moved_token_is_another_text(live):
    moved = live.show({"text": "hello", "order": [4, 0, 1, 2, 3]})
    assert moved["streams"][0]["labels"] == list("ohell")
    assert last_place(moved) == last_place(live.show({"text": "ohell"}))


def test_full_weights_of_the_last_recordings(live):
    data = live.show({"text": "hello"})
    found = np.frombuffer(live.weights(data["record"], 1, 0, 3), "<f4").reshape(5, 5)
    with torch.no_grad(), record(live.model) as seen:
        live.model(read("hello").inputs["tokens"])
    np.testing.assert_allclose(found, seen[1].weights[0, 3], atol=1e-6)
    for _ in range(KEPT):
        live.show({})
    with pytest.raises(ValueError, match="recording 0 is no longer kept"):
        live.weights(0, 1, 0, 3)


def test_full_weights_are_those_of_the_call_that_is_asked_for():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = Attention(8, 2)

        def forward(self, x):
            return self.attention(self.attention(x))

    torch.manual_seed(0)
    model, x = Twice().eval(), torch.randn(1, 5, 8)
    live = Live(model, lambda given, target: Given(inputs={"x": x}), "twice", kind="fixed", tsne=False)
    layers = live.show({})["views"][0]["layers"]
    with torch.no_grad(), record(model) as seen:
        model(x)
    assert [(layer["layer"], layer["call"]) for layer in layers] == [(0, 0), (0, 1)]
    for call in (0, 1):
        found = np.frombuffer(live.weights(0, 0, call, 1), "<f4").reshape(5, 5)
        np.testing.assert_allclose(found, seen[call].weights[0, 1], atol=1e-6)
    with pytest.raises(ValueError, match="no proved head 1 in window 0, call 2, layer 0 of recording 0"):
        live.weights(0, 0, 2, 1)


@pytest.mark.parametrize(
    "asked, words",
    [
        (
            {"words": "x"},
            "there is no 'words' to ask for; known: file, image, node, order, silence, target, text",
        ),
        ({"text": 5}, "text must be a text, got int"),
        ({"text": "a" * 20_001}, "text has 20,001 characters; at most 20,000 are read"),
        ({"text": "Ä"}, "only a to z"),
        ({"text": "abc", "order": [0, 0, 1]}, "an order of 3 tokens names each of 0 … 2 once, got [0, 0, 1]"),
        ({"text": "abc", "order": "abc"}, "order must be a list of whole numbers"),
        ({"silence": [[9, 0]]}, "silence names layers and heads that are there, such as [0, 1]; got [9, 0]"),
        ({"silence": [[0, 7]]}, "has heads 0 … 3, got [7]"),
        ({"silence": "all"}, "silence is a list of [layer, head]"),
        ({"image": "data:image/png;base64,AAAA"}, "letters does not read a picture"),
        ({"image": "http://x"}, "image must be a data URL"),
        ({"file": "data:text/csv;base64,AAAA"}, "letters does not read a file"),
        ({"file": "x.csv"}, "file must be a data URL such as data:text/csv;base64,…"),
        ({"node": 0}, "only a graph can be drawn around a node"),
        ({"node": [0]}, "node must be a whole number"),
        ({"image": "data:image/png;base64,%%"}, "image is no valid base64"),
    ],
)
def test_what_makes_no_sense_is_told(live, asked, words):
    live.show({})
    with pytest.raises(ValueError, match=re.escape(words)):
        live.show(asked)
    assert live.show({"text": "abc"})["streams"][0]["labels"] == list("abc")  # it goes on


def test_a_picture_reaches_the_reader_as_bytes():
    got = []

    def keep(given, target):
        got.append(given)
        raise ValueError("enough")

    live = Live(torch.nn.Identity(), keep, "x", kind="image")
    with pytest.raises(ValueError, match="enough"):
        live.show({"image": "data:image/png;base64," + base64.b64encode(b"PNG").decode()})
    assert got == [b"PNG"]


def test_a_model_without_attention_is_told():
    def given(text, target):
        return Given(inputs={"input": torch.randn(1, 4)})

    live = Live(torch.nn.Linear(4, 2), given, "my model", kind="fixed")
    with pytest.raises(ValueError, match="no attention was heard in my model, a Linear"):
        live.show({})


def test_what_a_model_cannot_read_is_one_line():
    class Short(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(4, 2)

        def forward(self, tokens):
            return self.table(tokens)

    live = Live(Short(), read, "short", kind="text")
    with pytest.raises(ValueError, match="short cannot read this input: IndexError: index out of range"):
        live.show({"text": "xyz"})
