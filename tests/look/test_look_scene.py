"""What a page says is what the model did: every view against the model, or against Hugging Face's own numbers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from regard.look import encode_arrays
from regard.look.model_input import Tokens, unlabelled_input
from regard.look.record import record
from regard.look.views.laws import laws
from regard.models.decoder import Decoder, DecoderConfig
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.vit import ViT
from regard.recipes.images.model_input import ImageInput, OfPatches
from regard.recipes.text.model_input import TextInput
from regard.runs.number_format import say_percent
from regard.symmetry.report import Finding, Report
from tests.look.scenes import gather, still


def letters(n, vocab=13):
    ids = torch.randint(vocab, (1, n), generator=torch.Generator().manual_seed(1))
    return TextInput(
        inputs={"tokens": ids},
        streams=(Tokens("tokens", tuple(chr(97 + i) for i in ids[0].tolist())),),
        ids="tokens",
        text="…",
        answers="next",
        called=lambda i: chr(97 + i),
    )


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    return Decoder(DecoderConfig(vocab=13, context=64, dim=32, depth=2, heads=4)).eval()


@pytest.fixture(scope="module")
def scene(decoder):
    return gather(decoder, letters(12), name="a decoder")


def view(scene, name):
    found = [each for each in scene.data["views"] if each["view"] == name]
    assert len(found) == 1, f"{name} is not among {[each['view'] for each in scene.data['views']]}"
    return found[0]


def weights_of(layer):
    """Weights as a page can show them: those listed, and 0 elsewhere."""
    h, n, m, count = len(layer["heads"]), layer["n"], layer["m"], layer["largest"]["count"]
    columns = encode_arrays.unpack_array(layer["largest"]["columns"], "uint16", h, n, count).astype(int)
    kind = "float32" if layer["largest"]["exact"] else "float16"
    values = encode_arrays.unpack_array(layer["largest"]["weights"], kind, h, n, count).astype(np.float32)
    dense = np.zeros((h, n, m + 1), np.float32)
    np.put_along_axis(dense, np.minimum(columns, m), values, -1)
    return dense[..., :m]


def test_everything_goes_through_json(scene):
    assert json.loads(json.dumps(scene.data, allow_nan=False)) == scene.data
    assert scene.data["title"] == "a decoder" and "2 attention layers" in scene.data["subtitle"]


def test_attention_is_that_of_the_recording(decoder, scene):
    with torch.no_grad(), record(decoder) as seen:
        decoder(letters(12).inputs["tokens"])
    for layer, entry in zip(view(scene, "attention")["layers"], seen, strict=True):
        assert layer["proved"] and layer["name"] == entry.name and layer["heads"] == [0, 1, 2, 3]
        assert layer["largest"]["exact"]
        np.testing.assert_allclose(weights_of(layer), entry.weights[0], rtol=1e-6, atol=1e-9)
        assert layer["entropy"] == pytest.approx(entry.summary.entropy[0].mean(-1).tolist(), rel=1e-3)
        assert layer["distance"] == pytest.approx(entry.summary.distance[0].mean(-1).tolist(), rel=1e-3)
        assert scene.data["streams"][layer["rows"]]["labels"] == list(letters(12).streams[0].labels)


def test_next_is_the_softmax_of_the_logits(decoder, scene):
    tokens = letters(12).inputs["tokens"]
    shares = decoder(tokens)[0].softmax(-1)
    for i, place in enumerate(view(scene, "next")["at"]):
        best = shares[i].topk(8)
        assert [label for label, _ in place["likely"]] == [chr(97 + j) for j in best.indices.tolist()]
        assert [share for _, share in place["likely"]] == pytest.approx(best.values.tolist(), rel=1e-3)
        if i + 1 < 12:
            actual = tokens[0, i + 1]
            assert place["actual"] == chr(97 + actual) and place["p"] == pytest.approx(
                shares[i, actual].item(), rel=1e-3
            )
            assert place["rank"] == 1 + (shares[i] > shares[i, actual]).sum()
        else:
            assert place["actual"] is place["rank"] is None


def test_contribution_stands_beside_attention(decoder, scene):
    found = view(scene, "contribution")
    steep, left_out = found["columns"][:2]
    assert steep["faint"] == 0 and "at its own scale" in steep["sentence"]  # however small it is
    assert left_out["faint"] == 0.1 and "taken out and the rest closes up" in left_out["sentence"]
    columns = {each["name"]: each["values"] for each in found["columns"]}
    assert set(columns) == {"gradient × input", "leave one out", "attention received"}
    tokens = letters(12).inputs["tokens"]
    logits = decoder(tokens)[0, -1]
    without = torch.cat((tokens[:, :3], tokens[:, 4:]), 1)
    lost = logits.max() - decoder(without)[0, -1, logits.argmax()]
    assert columns["leave one out"][3] == pytest.approx(lost.item(), rel=1e-2, abs=1e-4)
    assert sum(columns["attention received"]) == pytest.approx(1, abs=1e-3)  # rows of weights sum to 1
    assert repr(chr(97 + int(logits.argmax()))) in found["answer"]


def test_a_model_that_knows_no_order_moves_its_outputs_along_and_others_do_not(scene):
    torch.manual_seed(0)
    config = EncoderConfig(vocab=13, context=64, dim=32, depth=2, heads=4, position="none")
    blind = gather(Encoder(config).eval(), letters(12), name="a set")
    swaps = {action["name"]: action["elements"] for action in view(blind, "laws")["actions"]}
    assert all(each["holds"] for each in swaps["swap two tokens"])
    seeing = {action["name"]: action["elements"] for action in view(scene, "laws")["actions"]}
    assert not any(each["holds"] for each in seeing["swap two tokens"])
    assert all(each["holds"] for each in seeing["shift the places"])  # rotary knows distances only
    first = seeing["swap two tokens"][0]
    labels = letters(12).streams[0].labels
    assert first["label"] == "swap 1 and 2" and first["order"][:2] == [labels[1], labels[0]]


def test_places_and_points_are_there(scene):
    (rotary,) = view(scene, "positions")["items"]
    assert rotary["by_distance"][0] == pytest.approx(1) and len(rotary["by_distance"]) == 128
    names = [item["name"] for item in view(scene, "embeddings")["items"]]
    assert names[0].startswith("all tokens") and names[1:] == ["after stack.blocks.0", "after stack.blocks.1"]
    last = view(scene, "embeddings")["items"][-1]
    assert len(last["pca"]) == len(last["tsne"]) == len(last["labels"]) == 12 and sum(last["explained"]) <= 1.001


def test_a_class_token_is_named():
    torch.manual_seed(0)
    model = Encoder(EncoderConfig(vocab=13, context=64, dim=32, depth=1, heads=4, classes=3, pool="class")).eval()
    seen = gather(model, letters(9), name="classes", tsne=False)
    (layer,) = view(seen, "attention")["layers"]
    assert seen.data["streams"][layer["rows"]]["labels"] == ["class", *letters(9).streams[0].labels]


def test_unproved_weights_are_not_shown():
    class Dropped(nn.Module):
        def forward(self, x):
            weights = nn.functional.dropout((x @ x.mT).softmax(-1), 0.5, training=True)
            return weights @ x

    found = gather(Dropped(), unlabelled_input({"x": torch.randn(2, 6, 8)}), name="dropped", tsne=False)
    (layer,) = view(found, "attention")["layers"]
    assert not layer["proved"] and layer["small"] is layer["largest"] is None and "dropout" in layer["reason"]
    assert found.data["notes"] == [
        f"1 of 1 attentions are not shown, because their weights are not proved: {layer['reason']}."
    ]


def test_the_mode_of_a_model_is_left_as_it_was(decoder):
    decoder.train()
    gather(decoder, letters(4), name="x", tsne=False)
    assert decoder.training and decoder.stack.blocks[0].training
    decoder.eval()


# ---- models of Hugging Face


@pytest.fixture(scope="module")
def vit():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        num_labels=3,
        attn_implementation="eager",
    )
    return transformers.ViTForImageClassification(config).eval()


def image_input():
    pixels = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    how = {"image": pixels[0], "grid": (4, 4), "answers": "classes", "called": str}
    return ImageInput(inputs={"pixel_values": pixels * 2 - 1}, **how)


def test_the_class_token_of_an_image(vit):
    found = gather(vit, image_input(), name="vit", tsne=False)
    with torch.no_grad():
        theirs = vit(**image_input().inputs, output_attentions=True)
    shown = view(found, "image")
    assert shown["query"] == "the class token" and shown["grid"] == {"rows": 4, "columns": 4}
    for layer, weights in zip(shown["layers"], theirs.attentions, strict=True):
        values = encode_arrays.unpack_array(layer["maps"]["data"], "f4", 4, 4, 4)
        np.testing.assert_allclose(values, weights[0, :, 0, 1:].unflatten(-1, (4, 4)), atol=1e-6)
    likely = dict(view(found, "classes")["likely"])
    assert likely[str(int(theirs.logits.argmax()))] == pytest.approx(theirs.logits.softmax(-1).max().item(), rel=1e-3)
    stream = found.data["streams"][view(found, "attention")["layers"][0]["rows"]]
    assert stream["labels"][:2] == ["class", "row 1, column 1"] and stream["grid"]["before"] == 1
    assert view(found, "filters")["layers"][0]["filters"]["shape"] == [32, 8, 8, 3]


def test_rollout_is_that_of_its_definition(vit):
    shown = view(gather(vit, image_input(), name="vit", tsne=False), "image")["rollout"]
    with torch.no_grad():
        weights = vit(**image_input().inputs, output_attentions=True).attentions
    first, second = (0.5 * each[0].mean(0) + 0.5 * torch.eye(17) for each in weights)
    np.testing.assert_allclose(
        encode_arrays.unpack_array(shown["data"], "f4", 4, 4), (second @ first)[0, 1:].view(4, 4), atol=1e-6
    )


@pytest.mark.parametrize("patch, side", [(None, (4, 3)), (4, (4, 4))])
def test_patches_are_left_out_where_they_are(patch, side):
    pixels = torch.rand(1, 3, 8, 9) + 1
    given = ImageInput(inputs={"pixel_values": pixels}, image=pixels[0] - 1, grid=(2, 3), patch=patch)
    there = torch.tensor([[1.0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1]])
    left = OfPatches(Called(), given)(there)
    assert torch.equal((left == 0).nonzero()[:, 2:].amin(0), torch.tensor([0, 0]))
    assert (left[1] == 0).sum() == 3 * side[0] * side[1] and (left[1, :, : side[0], : side[1]] == 0).all()
    assert (left[0, :, 4:, 2 * side[1] :] == 0).all()  # the last one may be cut off by the border
    torch.testing.assert_close(left[0, :, :4], pixels[0, :, :4])


class Called(nn.Module):
    def forward(self, pixel_values):
        return pixel_values


def test_an_image_for_a_model_of_ours():
    model, inputs = ViT.tiny()
    how = {"image": torch.rand(3, 12, 12), "grid": (3, 3), "answers": "classes", "called": str}
    given = ImageInput(inputs={"x": inputs["x"][:1]}, pixels="x", **how)
    scene = gather(model.eval(), given, name="a ViT", tsne=False)
    assert len(view(scene, "contribution")["columns"][1]["values"]) == 9
    assert [action["name"] for action in view(scene, "laws")["actions"]] == ["roll the image", "turn the image"]
    shown, (first, last) = view(scene, "image"), (0.5 * entry.weights[0].mean(0) for entry in scene.seen)
    assert len(shown["layers"]) == 2 and last.shape == (1, 11)  # in the last layer the class token alone attends
    rolled = (last + 0.5 * torch.eye(11)[:1]) @ (first + 0.5 * torch.eye(11))
    np.testing.assert_allclose(
        encode_arrays.unpack_array(shown["rollout"]["data"], "f4", 3, 3), rolled[0, 2:].view(3, 3), atol=1e-6
    )


def test_what_a_moved_image_is_taken_for():
    torch.manual_seed(0)
    model, inputs = ViT(replace(ViT.tiny()[0].config, classes=20)).eval(), ViT.tiny()[1]
    how = {"image": torch.rand(3, 12, 12), "grid": (3, 3), "answers": "classes", "called": "c{}".format}
    given = ImageInput(inputs={"x": inputs["x"][:1]}, pixels="x", **how)
    _, turn = view(gather(model, given, name="a ViT", tsne=False), "laws")["actions"]
    with torch.no_grad():
        plain, turned = model(inputs["x"][:1])[0], model(inputs["x"][:1].rot90(1, (-2, -1)))[0]
    likely = sorted(plain.topk(16).indices.tolist())
    assert turn["components"] == [f"c{i}" for i in likely]
    first = turn["elements"][0]
    assert first["taken"] == [f"c{int(turned.argmax())}", f"c{int(plain.argmax())}"] and first["c"] == 16
    (low, high), left = turn["scale"], encode_arrays.unpack_array(first["left"], "u1", 16)
    np.testing.assert_allclose(low + left / 255 * (high - low), turned[likely], atol=(high - low) / 255)
    nameless = view(gather(model, replace(given, called=None, answers=None), name="a ViT", tsne=False), "laws")[
        "actions"
    ]
    assert nameless[1]["components"] is None and nameless[1]["elements"][0]["taken"] is None


def test_a_still_says_what_the_image_was_taken_for():
    torch.manual_seed(0)
    model, inputs = ViT.tiny()
    how = {"image": torch.rand(3, 12, 12), "grid": (3, 3), "answers": "classes", "called": "c{}".format}
    given = ImageInput(inputs={"x": inputs["x"][:1]}, pixels="x", name="a$b.png", **how)
    scene = gather(model.eval(), given, name="a ViT", tsne=False)
    figure = still(scene, title="a ViT")
    with torch.no_grad():
        shares = model(inputs["x"][:1])[0].softmax(-1).sort(descending=True)
    likely = [
        f"c{i} {say_percent(p)}" for p, i in zip(shares.values[:3].tolist(), shares.indices[:3].tolist(), strict=True)
    ]
    said = f"{likely[0]} (then {likely[1]}, {likely[2]})   a\\$b.png"
    assert figure.get_suptitle() == f"a ViT: where the class token looks\n{said}"
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles[:2] == ["what the model saw", "rollout of all layers"] and len(titles) == 2 + 2 * 4
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), given.image.permute(1, 2, 0))
    nameless = still(gather(model, replace(given, name=None, answers=None), name="a ViT", tsne=False), title="a ViT")
    assert nameless.get_suptitle() == "a ViT: where the class token looks"


def test_all_tabs_say_the_same_number_of_a_patch():
    """What a patch contributes is in two tabs; both have it from one place, and not in 8 bits."""
    model, inputs = ViT.tiny()
    how = {"image": torch.rand(3, 12, 12), "grid": (3, 3), "answers": "classes", "called": str}
    scene = gather(model.eval(), ImageInput(inputs={"x": inputs["x"][:1]}, pixels="x", **how), name="a ViT", tsne=False)
    columns = {column["name"]: column["values"] for column in view(scene, "contribution")["columns"]}
    attended, over_it = view(scene, "attention")["layers"][0], view(scene, "image")["layers"][0]
    np.testing.assert_array_equal(
        weights_of(attended)[:, 0, 2:], encode_arrays.unpack_array(over_it["maps"]["data"], "f4", 4, 9)
    )
    over = {each["name"]: each["values"] for each in view(scene, "image")["matters"]}
    assert over == {name: columns[name] for name in ("leave one out", "gradient × input")}


# ---- laws


def report_of(*findings):
    return Report(findings, seed=0).to_json()


BROKEN = Finding("shift", "broken", "broken", 0.3, 1e-4, layer="", exact=False)
KEPT = Finding("neighbours", "holds", "holds", 1e-8, 1e-4)
WRONG = Finding("causality", "holds", "broken", float("inf"), 1e-4, layer="blocks.0", exact=True)


@pytest.mark.parametrize("findings, said", [
    ((BROKEN, KEPT), "As declared: 1 law holds, 1 is declared broken"),
    ((KEPT, KEPT), "As declared: 2 laws hold"),
    ((KEPT, WRONG), "1 law not as declared: causality"),
    ((Finding("shift", None, "broken", 0.1, 1e-4),), "As declared: 1 is broken, and not promised"),
    ((BROKEN, BROKEN, Finding("turn", "not promised", "broken", 0.1, 1e-4)), "As declared: 2 are declared broken, 1 is broken, "
     "and not promised"),
    ((Finding("cache", "holds", "unknown", reason="no step"),), "Nothing was measured: cache"),
])  # fmt: skip
def test_the_verdict_and_the_place_are_those_of_the_command_line(findings, said, decoder):
    found = laws(decoder, letters(5), report_of(*findings))
    assert found["verdict"] == said and found["verdict"].lower().startswith(Report(findings, seed=0).verdict)
    assert [row["place"] for row in found["rows"]] == [each.place for each in findings]


def test_how_far_patches_look_is_not_counted_along_their_list(vit):
    layers = view(gather(vit, image_input(), name="vit", tsne=False), "attention")["layers"]
    assert layers and all(layer["entropy"] and layer["distance"] is None for layer in layers)


def test_a_law_that_breaks_nobody_knows_where(decoder):
    assert laws(decoder, letters(5), report_of(BROKEN))["rows"][0]["place"] == "somewhere in the model"


def test_the_format_names_every_view(scene, vit):
    text = (Path(__file__).parents[2] / "regard/look/web/README.md").read_text()
    for each in (*scene.data["views"], *gather(vit, image_input(), name="vit", tsne=False).data["views"]):
        assert f"`{each['view']}`" in text
        for key in each:
            assert f'"{key}"' in text, f"{each['view']} has {key}, which web/README.md does not name"
