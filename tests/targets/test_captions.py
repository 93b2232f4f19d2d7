"""Models of Hugging Face that put images into words: each word's cross-attention lies over the image as it was."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.look.encode_arrays import unpack_array
from regard.look.page import write
from regard.look.record import record
from regard.recipes.images.views.words import words_over_image
from regard.targets.open import open_target
from regard.verbs.check import check_target
from regard.verbs.look import open_session
from tests.look.browser import eventually, opened, plain, readout, three

transformers = pytest.importorskip("transformers")

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
VISION = {"image_size": 32, "patch_size": 8} | SIZES


def captioner():
    words = transformers.GPT2Config(
        vocab_size=40, n_positions=24, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.ViTConfig(**VISION), words
    )
    config.decoder_start_token_id, config.pad_token_id = 0, 1
    return transformers.VisionEncoderDecoderModel(config=config)


def blip(cls):
    special = {"bos_token_id": 0, "eos_token_id": 2, "sep_token_id": 2, "pad_token_id": 3}
    words = {"vocab_size": 40, "max_position_embeddings": 24, "encoder_hidden_size": 16} | SIZES | special
    return cls(transformers.BlipConfig(text_config=words, vision_config=VISION, projection_dim=16))


MODELS = {
    "captions": captioner,
    "blip": lambda: blip(transformers.BlipForConditionalGeneration),
    "questions": lambda: blip(transformers.BlipForQuestionAnswering),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Each model in a directory of its own, with larger weights than it begins with: attention is not even."""
    found = {}
    for name, make in MODELS.items():
        torch.manual_seed(0)
        model = make()
        for parameter in model.parameters():
            parameter.data *= 4 if parameter.dim() > 1 else 1
        found[name] = tmp_path_factory.mktemp("captions") / name
        model.save_pretrained(found[name])
    return found


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    pixels = np.random.default_rng(0).integers(0, 255, (50, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return str(path)


def words_of(data):
    return next(view for view in data["views"] if view["view"] == "words")


@pytest.mark.parametrize("name", MODELS)
def test_each_word_looks_where_it_did(folders, photo, name):
    session = open_session(folders[name], photo, answer="5 6 7 8", tsne=False)
    shown = words_of(session.show({}))
    given = session.latest().given
    if name == "questions":
        assert (shown["words"], shown["writes"]) == (["5", "6", "7", "8"], None)
    else:  # the place of a word writes the next one
        assert (shown["words"], shown["writes"]) == (["0", "5", "6", "7"], ["5", "6", "7", "8"])
    with torch.no_grad(), record(session.model) as seen:
        session.model(**given.inputs)
    cross = [entry for entry in seen if entry.kind == "cross" and entry.shape[3] == 17]
    assert [layer["name"] for layer in shown["layers"]] == [entry.name for entry in cross] and cross
    for layer, entry in zip(shown["layers"], cross, strict=True):
        assert layer["proved"] and layer["grid"] == [4, 4]
        maps = unpack_array(layer["maps"]["data"], "f4", 2, 4, 4, 4)
        np.testing.assert_allclose(maps, entry.weights[0, :, :, 1:].unflatten(-1, (4, 4)), rtol=1e-6)


def test_check_raises_no_false_alarm(folders):
    """Without labels such a model returns what it makes of the image, which no word changes."""
    assert check_target(open_target(folders["questions"])).ok


def test_a_patch_is_where_the_model_has_it(folders, photo):
    """What a token of the encoder is made of: only the first of its keys, the class token, lies nowhere."""
    given = open_target(folders["captions"]).reader.read(photo, "5 6")
    model = open_target(folders["captions"]).model
    pixels = given.inputs["pixel_values"]
    other = pixels.clone()
    other[..., 8:16, 24:32] += 1  # row 2, column 4
    with torch.no_grad():
        before, after = (model.encoder.embeddings(x)[0] for x in (pixels, other))
    changed = (before != after).any(-1).nonzero()[:, 0].tolist()
    assert changed == [1 + 1 * 4 + 3]


@pytest.mark.parametrize("name", ["captions", "blip"])
def test_without_words_the_model_writes_its_own(folders, name):
    given = open_target(folders[name]).reader.read()
    assert len(given.writes) == len(given.words.labels) >= 1 and given.target is None
    assert given.words.labels[1:] == given.writes[:-1]


def test_a_region_of_the_image_changes_the_next_word(folders, photo):
    session = open_session(folders["captions"], photo, answer="5 6 7", tsne=False)
    assert session.show({})["region"]["shape"] == "box"
    given = session.latest().given
    less = given.without([0, 0, 16, 16]).inputs
    with torch.no_grad():
        logits = [session.model(**inputs).logits[0, -1] for inputs in (given.inputs, less)]
    found = session.region({"record": 0, "region": [0, 0, 16, 16]})
    best = int(logits[0].argmax())
    assert found["label"] == str(best)
    assert found["shares"] == pytest.approx([float(x.softmax(-1)[best]) for x in logits], rel=1e-4)


def test_what_cannot_be_laid_over_the_image_is_unknown(folders, photo):
    session = open_session(folders["captions"], photo, answer="5 6 7 8", tsne=False)
    session.show({})
    scene = session.latest()
    keys = {(entry.name, entry.call): entry.shape[3] for entry in scene.seen}
    odd = words_over_image(scene.seen, replace(scene.given, grid=(5, 7)), keys)
    assert odd["layers"] == [] and len(odd["unknown"]) == 2
    assert "unknown, because its 17 keys are not the 5 × 7 patches" in odd["unknown"][0]
    latents = words_over_image(scene.seen, replace(scene.given, grid=(33, 1)), keys)
    assert latents["layers"] == []  # 17 would be 33 merged, but this model merges none
    alone = words_over_image([entry for entry in scene.seen if entry.kind == "self"], scene.given, keys)
    assert "unknown, because no cross-attention of the 4 words" in alone["unknown"][0]
    doubted = words_over_image([replace(entry, reason="planted") for entry in scene.seen], scene.given, keys)
    assert all(layer["maps"] is None and layer["reason"] == "planted" for layer in doubted["layers"])


def test_keys_that_are_words_are_no_patches(folders, photo):
    """An answer looks at the question: at as many keys as there are patches, which is no reason to draw them there."""
    question = " ".join(str(5 + k % 9) for k in range(17))
    session = open_session(folders["questions"], photo, answer=question, tsne=False)
    session.show({})
    scene = session.latest()
    scene.given.inputs["decoder_input_ids"] = torch.full((1, 17), 5)
    found = words_of(session._gather(scene.given, []).data)
    assert [layer["name"].split(".")[0] for layer in found["layers"]] == ["text_encoder"]
    assert "follows the number of words" in found["unknown"][0] and "text_decoder" in found["unknown"][0]


def test_words_that_make_no_sense_are_refused(folders, photo):
    reader = open_target(folders["captions"]).reader
    for words, said in (("a cat", "ids such as '12 7 99', got 'a cat'"), ("40", "below the vocabulary of 40, got 40")):
        with pytest.raises(ValueError, match=said):
            reader.read(photo, words)
    with pytest.raises(ValueError, match="at most 24"):
        reader.read(photo, "5 " * 30)


def test_a_word_is_chosen_on_the_page(browser, folders, photo, tmp_path):
    session = open_session(folders["captions"], photo, answer="5 6 7 8", tsne=False)
    data = session.show({}) | {"live": None}
    last = words_of(data)["layers"][-1]
    maps = unpack_array(last["maps"]["data"], "f4", 2, 4, 4, 4).mean(0)
    with opened(browser, write(data, tmp_path / "words.html", session.files), "words") as shown:
        buttons = shown.locator(".word-maps button")
        eventually(shown, buttons.all_inner_texts, ["5", "6", "7", "8"])
        buttons.nth(2).press("Enter")
        assert plain(shown.locator(".sentence").first.inner_text()).startswith(
            "Where the model looks when it has read 6 3 and writes 7."
        )
        picture = shown.locator(".view-words .picture").first
        picture.press("ArrowRight")
        picture.press("ArrowDown")
        assert readout(shown) == f"row 2, column 1 {three(float(maps[2, 1, 0]))}"
