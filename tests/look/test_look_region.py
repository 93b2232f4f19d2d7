"""What the prediction loses without a part of the input is what the model says without it."""

from dataclasses import replace

import pytest
import torch

from regard.look.ablation import silenced
from regard.look.model_input import Tokens
from regard.look.session import Session
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.vit import ViT, ViTConfig
from regard.recipes.images.model_input import ImageInput
from regard.recipes.images.reader import ImageReader
from regard.recipes.text.model_input import TextInput
from tests.look.scenes import Reads, reader_for
from tests.look.test_look_things import SMALL, graph_net, points_of, set_transformer


class OneImage(ImageReader):
    """Always the same image."""

    def __init__(self, x):
        self.x = x

    def read(self, given=None, target=None):
        how = {"answers": "classes", "called": "class {}".format}
        return ImageInput(inputs={"x": self.x}, pixels="x", image=self.x[0], grid=(4, 4), patch=4, **how)


def vit():
    torch.manual_seed(0)
    model = ViT(ViTConfig(size=16, patch=4, classes=5, dim=16, depth=1, heads=2)).eval()
    return model, torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def read_ids(text=None, target=None):
    ids = [ord(each) - 97 for each in (text or "abcdefgh")]
    inputs = {"tokens": torch.tensor([ids]), "kinds": torch.arange(len(ids))[None] % 2}
    how = {"ids": "tokens", "along": ("kinds",), "answers": "classes", "called": "topic {}".format}
    return TextInput(inputs=inputs, streams=(Tokens("tokens", tuple("abcdefgh")),), **how)


class OfKinds(torch.nn.Module):
    """An encoder that reads a second input beside the tokens."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = Encoder(EncoderConfig(vocab=52, context=16, dim=16, depth=1, heads=2, classes=3))

    def forward(self, tokens, kinds):
        return self.encoder(tokens + 26 * kinds)


def session(model, reader):
    return Session(model.eval(), reader, "it", tsne=False)


def check_loss(found, before, after, label):
    best, then = int(before.argmax()), int(after.argmax())
    assert found["label"] == label(best)
    assert found["shares"] == pytest.approx([float(x.softmax(-1)[best]) for x in (before, after)], rel=1e-5)
    assert found["logits"] == pytest.approx([float(before[best]), float(after[best])], rel=1e-4)
    assert found["then"][0] == label(then)


@torch.no_grad()
def test_a_rectangle_of_an_image_becomes_grey():
    model, x = vit()
    live = session(model, OneImage(x))
    told = live.show({})["region"]
    assert (told["shape"], told["size"], told["about"]) == ("box", [16, 16], None) and "grey" in told["gone"]
    grey = x.clone()
    grey[..., 2:9, 5:16] = 0
    found = live.region({"record": 0, "region": [2, 5, 9, 16]})
    check_loss(found, model(x)[0], model(grey)[0], "class {}".format)
    assert found["shares"][0] != found["shares"][1]
    for box in ([2, 5, 9], [2, 5, 2, 16], [-1, 0, 4, 4], [0, 0, 17, 4], [0, 0, 4, 17], []):
        with pytest.raises(ValueError, match="rectangle"):
            live.region({"record": 0, "region": box})


@torch.no_grad()
def test_silenced_heads_stay_silent_without_a_region():
    model, x = vit()
    live = session(model, OneImage(x))
    live.show({})
    live.show({"silence": [[0, 1]]})
    grey = x.clone()
    grey[..., :8, :8] = 0
    name = live.latest().seen[0].name
    with silenced(model, [(name, 1)]):
        before, after = model(x)[0], model(grey)[0]
    check_loss(live.region({"record": 1, "region": [0, 0, 8, 8]}), before, after, "class {}".format)


@torch.no_grad()
def test_a_span_of_a_text_is_taken_out_with_what_lies_beside_it():
    model = OfKinds()
    live = session(model, Reads(read_ids))
    assert live.show({})["region"]["thing"] == "token"
    given = read_ids().inputs
    kept = [0, 1, 5, 6, 7]
    found = live.region({"record": 0, "region": [2, 3, 4, 3]})
    less = {name: x[:, kept] for name, x in given.items()}
    check_loss(found, model(**given)[0], model(**less)[0], "topic {}".format)
    with pytest.raises(ValueError, match="nothing is left without all 8 tokens"):
        live.region({"record": 0, "region": list(range(8))})


@torch.no_grad()
def test_points_are_taken_out():
    model, x = set_transformer(), points_of(7)
    live = session(model, reader_for(model, {"x": x}))
    assert live.show({})["region"]["thing"] == "point"
    found = live.region({"record": 0, "region": [1, 2]})["values"]
    before, after = model(x)[0], model(x[:, [0, 3, 4, 5, 6]])[0]
    wanted = [[f"output {k + 1}", float(before[k]), float(after[k])] for k in range(2)]
    assert sorted(found) == [[name, pytest.approx(a), pytest.approx(b)] for name, a, b in wanted]


@torch.no_grad()
def test_nodes_are_taken_out_with_their_edges():
    model, x = graph_net(), torch.randn(5, 4)
    reader = reader_for(model, {"x": x, "edges": SMALL})
    live = session(model, reader)
    assert live.show({})["region"]["about"] == "node"
    found = {name: (a, b) for name, a, b in live.region({"record": 0, "region": [0], "about": 2})["values"]}
    edges = SMALL[:, (SMALL != 0).all(0)] - 1
    before, after = model(x, SMALL)[2], model(x[1:], edges)[1]
    assert found == {
        f"output {k + 1}": (pytest.approx(float(before[k])), pytest.approx(float(after[k]))) for k in range(3)
    }
    for asked, words in (
        ({}, "each node has a prediction of its own; choose one of 0 … 4"),
        ({"about": 5}, "0 … 4"),
        ({"about": 0}, "must stay"),
    ):
        with pytest.raises(ValueError, match=words):
            live.region({"record": 0, "region": [0]} | asked)
    given = replace(reader.read(), inputs={"x": x, "edges": SMALL, "edge_numbers": torch.arange(7)})
    assert given.without([1]).inputs["edge_numbers"].tolist() == [4, 5]  # 3 → 0 and the loop of 3


@torch.no_grad()
def test_numbers_are_told_in_their_own_units():
    model, x = set_transformer(outputs=1), points_of(4)
    reader = reader_for(model, {"x": x})
    plain = reader.read
    in_litres = {"read_numbers": lambda out: [("litres", 10 * float(out[0]) + 3)]}
    reader.read = lambda *given: replace(plain(*given), **in_litres)
    live = session(model, reader)
    live.show({})
    ((name, was, now),) = live.region({"record": 0, "region": [0]})["values"]
    assert name == "litres" and was == pytest.approx(10 * float(model(x)[0, 0]) + 3)
    assert now == pytest.approx(10 * float(model(x[:, 1:])[0, 0]) + 3)


@pytest.mark.parametrize(
    "asked, words",
    [
        ({"record": 7, "region": [0]}, "recording 7 is no longer kept"),
        ({"record": "0", "region": [0]}, "whole numbers"),
        ({"record": True, "region": [0]}, "whole numbers"),
        ({"record": 0, "region": [0], "about": 0.5}, "whole numbers"),
        ({"record": 0, "region": "0"}, "region must be a list of whole numbers"),
        ({"record": 0, "region": [10**17]}, "none above"),
        ({"record": 0}, "region must be a list of whole numbers"),
        ({"record": 0, "region": []}, "the region is empty"),
        ({"record": 0, "region": [6]}, "points are numbered 0 … 5, got 6"),
        ({"record": 0, "region": [-1]}, "got -1"),
        ({"record": 0, "region": [0], "text": "x"}, "takes no 'text'; known: about, record, region"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, words):
    model = set_transformer(seeds=2)
    live = session(model, reader_for(model, {"x": points_of(6)}))
    live.show({})
    with pytest.raises(ValueError, match=words):
        live.region(asked)


def test_a_model_that_cannot_run_without_it_says_so():
    class Picky(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = set_transformer(seeds=2)

        def forward(self, x):
            if x.shape[1] < 6:
                raise KeyError("five is too few")
            return self.inner(x)

    model = Picky()
    live = session(model, reader_for(model, {"x": points_of(6)}))
    live.show({})
    with pytest.raises(ValueError, match="it cannot be run without this: KeyError: 'five is too few'"):
        live.region({"record": 0, "region": [0]})
