"""The view of experts: what it says is what the model did, and the page says the same."""

import torch

from regard.look.model_input import Tokens
from regard.look.views.experts import ExpertsView
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.experts import ExpertsMLP
from regard.nn.moe import find_experts
from regard.recipes.text.model_input import TextInput
from regard.runs.number_format import say_percent
from tests.look.browser import opened, plain
from tests.look.scenes import gather, write_page

SMALL = {"vocab": 13, "context": 32, "dim": 16, "depth": 2, "heads": 2, "mlp": ExpertsMLP(count=4)}


def scene_of(model, **inputs):
    named = {name: each[:1] for name, each in inputs.items()}
    order = ("tokens",) if "tokens" in named else ("target", "source")
    streams = tuple(Tokens(name, tuple("abcdefghijklmnop"[: named[name].shape[1]])) for name in order)
    given = TextInput(inputs=named, streams=streams, ids=order[0])
    return gather(model, given, name="mine", tsne=False)


def made():
    torch.manual_seed(0)
    return Decoder(DecoderConfig(**SMALL)).eval(), torch.randint(13, (2, 9))


def test_it_shows_the_experts_that_each_token_chose():
    model, tokens = made()
    found = scene_of(model, tokens=tokens).view("experts")
    assert [layer["name"] for layer in found["layers"]] == [name for name, _ in find_experts(model)]
    states, x = [], model.embed(tokens[:1])
    for block in model.stack.blocks:
        y = block.attention(x, mask=model.mask, position=model.stack.position)
        states.append(block.mlp.f.route(block.mlp.norm(y)))
        x = block.mlp(y)
    for layer, true in zip(found["layers"], states, strict=True):
        assert layer["chosen"] == true.chosen[0].tolist()
        torch.testing.assert_close(torch.tensor(layer["gates"]), true.gates[0], atol=1e-3, rtol=1e-2)
        torch.testing.assert_close(torch.tensor(layer["load"]), true.hits() / 18.0, atol=1e-3, rtol=1e-2)
        assert layer["experts"] == 4 and layer["validation"] is None


def test_models_without_experts_have_no_such_view():
    model, inputs = Decoder.tiny()
    assert scene_of(model.eval(), **inputs).view("experts") is None
    assert ExpertsView().name == "experts"


def test_source_and_target_are_told_apart():
    torch.manual_seed(0)
    model = EncoderDecoder(EncoderDecoderConfig(**SMALL)).eval()
    found = scene_of(model, **model.sample_inputs())
    streams = {layer["name"].partition(".")[0]: layer["stream"] for layer in found.view("experts")["layers"]}
    assert streams["encoder"] != streams["decoder"]


def test_the_page_says_the_same(browser, tmp_path):
    model, tokens = made()
    scene = scene_of(model, tokens=tokens)
    first = scene.view("experts")["layers"][0]
    with opened(browser, write_page(scene.data, tmp_path / "page.html"), "experts") as shown:
        pieces = shown.locator(".piece")
        assert pieces.count() == 9
        pieces.nth(3).hover()
        assert shown.locator(".bar-figure").all_inner_texts() == [say_percent(p) for p in first["gates"][3]]
        assert shown.locator(".bar-label").all_inner_texts() == [str(e + 1) for e in first["chosen"][3]]
        shares = shown.locator(".experts-table td.number").all_inner_texts()
        assert shares == [say_percent(share) for share in first["load"]]
        colours = [piece.evaluate("node => node.style.background") for piece in pieces.all()]
        same = {experts[0]: colour for experts, colour in zip(first["chosen"], colours, strict=True)}
        assert [same[experts[0]] for experts in first["chosen"]] == colours and len(set(colours)) == len(same)
        shown.locator(".experts-overview").hover(position={"x": 5, "y": 20})
        said = plain(shown.locator("output.readout").first.inner_text())
        second = scene.view("experts")["layers"][1]
        assert said.startswith("layer 2") and f"expert {second['chosen'][0][0] + 1} " in said
        shown.locator(".experts-overview").click(position={"x": 5, "y": 20})
        assert shown.locator("select").input_value() == "1"
