"""Looking again: another text, a silenced head, a moved token, and requests that make no sense."""

import base64

import numpy as np
import pytest
import torch

from regard.look.ablation import silenced
from regard.look.model_input import Tokens
from regard.look.reader import FixedReader
from regard.look.record import record
from regard.look.session import KEPT, Session
from regard.models.decoder import Decoder, DecoderConfig
from regard.nn.attention import Attention
from regard.recipes.graphs.reader import FILE, NODE
from regard.recipes.images.reader import IMAGE, ImageReader
from regard.recipes.text.model_input import TextInput
from tests.look.scenes import Reads


def read(text=None, target=None):
    ids = [ord(each) - 97 for each in (text or "abcdefgh")]
    if not all(0 <= i < 26 for i in ids):
        raise ValueError("only a to z")
    stream = Tokens("tokens", tuple(text or "abcdefgh"))
    how = {"ids": "tokens", "text": text, "answers": "next", "called": lambda i: chr(97 + i)}
    return TextInput(inputs={"tokens": torch.tensor([ids])}, streams=(stream,), **how)


@pytest.fixture
def live():
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=26, context=16, dim=32, depth=2, heads=4)).eval()
    return Session(model, Reads(read), "letters", tsne=False)


def last_place(data):
    (view,) = (view for view in data["views"] if view["view"] == "next")
    return dict(view["at"][-1]["likely"])


def test_another_text_is_another_recording(live):
    first, second = live.show({}), live.show({"text": "hello"})
    assert (first["record"], second["record"]) == (0, 1)
    assert second["streams"][0]["labels"] == list("hello") and second["input"]["text"] == "hello"
    assert [(each["name"], each["type"]) for each in second["live"]["controls"]] == [
        ("text", "string"),
        ("order", "numbers"),
    ]
    assert second["live"]["silence"] is True and second["live"]["longest"] == 20_000


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
    live = Session(model, FixedReader({"x": x}), "twice", tsne=False)
    layers = live.show({})["views"][0]["layers"]
    with torch.no_grad(), record(model) as seen:
        model(x)
    assert [(layer["layer"], layer["call"]) for layer in layers] == [(0, 0), (0, 1)]
    for call in (0, 1):
        found = np.frombuffer(live.weights(0, 0, call, 1), "<f4").reshape(5, 5)
        np.testing.assert_allclose(found, seen[call].weights[0, 1], atol=1e-6)
    with pytest.raises(ValueError, match="head 1.*window 0, call 2, layer 0.*0"):
        live.weights(0, 0, 2, 1)


@pytest.mark.parametrize(
    "asked, words",
    [
        ({"words": "x"}, "'words'.*order, silence, text"),
        ({"text": 5}, "text.*text.*int"),
        ({"text": "a" * 20_001}, "20,001 characters.*20,000"),
        ({"text": "Ä"}, "only a to z"),
        ({"text": "abc", "order": [0, 0, 1]}, r"order.*3 tokens.*0 … 2 once.*\[0, 0, 1\]"),
        ({"text": "abc", "order": "abc"}, "order.*list.*whole numbers"),
        ({"silence": [[9, 0]]}, r"silence.*layers.*heads.*\[0, 1\].*\[9, 0\]"),
        ({"silence": [[0, 7]]}, r"has heads 0 … 3, got \[7\]"),
        ({"silence": "all"}, r"silence.*\[layer, head\]"),
        ({"image": "data:image/png;base64,AAAA"}, "'image'.*order, silence, text"),
        ({"node": 0}, "'node'.*order, silence, text"),
    ],
)
def test_what_makes_no_sense_is_told(live, asked, words):
    live.show({})
    with pytest.raises(ValueError, match=words):
        live.show(asked)
    assert live.show({"text": "abc"})["streams"][0]["labels"] == list("abc")  # it goes on


@pytest.mark.parametrize(
    "control, value, words",
    [
        (IMAGE, "http://x", "image.*data URL.*data:image/png;base64,…"),
        (IMAGE, "data:image/png;base64,%%", "image is no valid base64"),
        (FILE, "x.csv", "data URL.*data:text/csv;base64,…"),
        (NODE, [0], "node must be a whole number"),
    ],
)
def test_a_control_reads_only_what_it_is_for(control, value, words):
    with pytest.raises(ValueError, match=words):
        control.parse(value)


def test_an_image_reaches_the_reader_as_bytes():
    got = []

    class Keeps(ImageReader):
        def read(self, given=None, target=None):
            got.append(given)
            raise ValueError("enough")

    live = Session(torch.nn.Identity(), Keeps(), "x")
    with pytest.raises(ValueError, match="enough"):
        live.show({"image": "data:image/png;base64," + base64.b64encode(b"PNG").decode()})
    assert got == [b"PNG"]


def test_a_model_without_attention_is_told():
    live = Session(torch.nn.Linear(4, 2), FixedReader({"input": torch.randn(1, 4)}), "my model")
    with pytest.raises(ValueError, match="attention.*model.*Linear"):
        live.show({})


def test_what_a_model_cannot_read_is_one_line():
    class Short(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(4, 2)

        def forward(self, tokens):
            return self.table(tokens)

    live = Session(Short(), Reads(read), "short")
    with pytest.raises(ValueError, match="input: IndexError: index"):
        live.show({"text": "xyz"})
