"""Text and images become inputs of the right model, and what cannot be read is told in one line."""

import json

import pytest
import torch

from regard.look.model_input import fit_columns
from regard.look.reader import FixedReader
from regard.models.convnets import ResNet
from regard.models.swin import Swin
from regard.models.vit import ViT
from regard.recipes.images.foreign_reader import ForeignImageReader, foreign_reader
from regard.recipes.images.model_input import open_image, placeholder_image
from regard.recipes.processors import ForeignModel
from regard.recipes.text.model_input import TextInput
from regard.recipes.text.reader import as_text
from regard.symmetry.roles import Roles
from regard.targets.hugging_face_inputs import image_processor
from regard.targets.open import open_target
from tests.look.scenes import gather

transformers = pytest.importorskip("transformers")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "##s"]


def tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import models, pre_tokenizers, processors

    made = tokenizers.Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=16, **names)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    path = tmp_path_factory.mktemp("bert")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=len(WORDS), **sizes)).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    path = tmp_path_factory.mktemp("t5")
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    torch.manual_seed(0)
    config = transformers.T5Config(vocab_size=50, decoder_start_token_id=0, **sizes)
    transformers.T5ForConditionalGeneration(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    path = tmp_path_factory.mktemp("vit")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    config = transformers.ViTConfig(image_size=32, patch_size=8, num_labels=3, **sizes)
    transformers.ViTForImageClassification(config).save_pretrained(path)
    return path


def test_words_through_the_tokenizer_beside_a_model(bert):
    given = open_target(bert).reader.read("the cats sat")
    assert given.streams[0].labels == ("[CLS]", "the", "cat", "##s", "sat", "[SEP]")
    assert given.answers == "filled" and given.called(6) == "cat" and given.ids == "input_ids"
    assert set(given.inputs) == {"input_ids", "attention_mask"} and given.along == ("attention_mask",)
    assert open_target(bert).reader.read().text.startswith("The animal")


def test_a_text_file_is_read(bert, tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("on the mat")
    assert open_target(bert).reader.read(str(file)).streams[0].labels == ("[CLS]", "on", "the", "mat", "[SEP]")
    file.write_bytes(b"on \xff")
    with pytest.raises(ValueError, match="words.txt.*UTF-8.*3.*0xFF"):
        as_text(str(file))


def test_too_long_or_nothing(bert):
    reader = open_target(bert).reader
    with pytest.raises(ValueError, match="22 tokens.*model.*16"):
        reader.read("the " * 20)
    empty = open_target(bert).reader
    empty.processor.tokenizer = None
    with pytest.raises(ValueError, match="tokenizer.*model.*input.*ids.*'12 7 99'"):
        empty.read("the cat")
    with pytest.raises(ValueError, match="ids.*vocabulary.*11.*11"):
        empty.read("3 11")


def test_source_and_target(t5):
    target = open_target(t5)
    given = target.reader.read("5 6 7 8 9", "11 12 13")
    assert [stream.name for stream in given.streams] == ["target", "source"]
    assert given.inputs["decoder_input_ids"].tolist() == [[0, 11, 12]]  # what is read while 11 12 13 is written
    assert given.streams[1].labels == ("5", "6", "7", "8", "9")
    own = target.reader.read("5 6 7")
    assert own.inputs["decoder_input_ids"][0, 0] == 0 and own.inputs["decoder_input_ids"].shape[1] > 1
    theirs = target.model.generate(input_ids=torch.tensor([[5, 6, 7]]), max_new_tokens=16, do_sample=False)
    torch.testing.assert_close(own.inputs["decoder_input_ids"], theirs)


def test_an_image_to_the_size_of_the_model(vit, tmp_path):
    placeholder_image().save(tmp_path / "shapes.png")
    reader = open_target(vit).reader
    given = reader.read(str(tmp_path / "shapes.png"))
    assert given.inputs["pixel_values"].shape == (1, 3, 32, 32) and given.grid == (4, 4) and given.answers == "classes"
    torch.testing.assert_close(given.image * 2 - 1, given.inputs["pixel_values"][0])
    assert given.called(1) == "LABEL_1"
    torch.testing.assert_close(reader.read((tmp_path / "shapes.png").read_bytes()).image, given.image)


def test_its_own_preprocessing_is_used(vit, tmp_path):
    from PIL import Image

    model = open_target(vit).model
    how = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": 32, "width": 32},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.1, 0.2, 0.3],
        "image_std": [0.5, 0.6, 0.7],
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(how))
    Image.new("RGB", (10, 20), (255, 0, 51)).save(tmp_path / "plain.png")
    given = ForeignImageReader(image_processor(tmp_path, model)).read(str(tmp_path / "plain.png"))
    expected = torch.tensor([(1 - 0.1) / 0.5, -0.2 / 0.6, (0.2 - 0.3) / 0.7])
    torch.testing.assert_close(given.inputs["pixel_values"][0, :, 3, 4], expected)
    torch.testing.assert_close(given.image[:, 3, 4], torch.tensor([1.0, 0.0, 0.2]))


@pytest.mark.parametrize(
    "content, words", [(b"no image", "not.*readable image.*none.*PNG"), (b"\x89PNG\r\n\x1a\n", "damaged.*PNG.*follows")]
)
def test_what_is_no_image(tmp_path, content, words):
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        open_image(str(tmp_path / "x.png"))


def test_images_that_are_not_there_or_too_large(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="image 'cat.png'.*image"):
        open_image("cat.png")
    placeholder_image().save(tmp_path / "x.png")
    monkeypatch.setattr("regard.data.image_files.MOST_PIXELS", 1000)
    with pytest.raises(ValueError, match="has 256 × 256 pixels; make it smaller"):
        open_image(str(tmp_path / "x.png"))
    monkeypatch.setattr("regard.recipes.images.model_input.LARGEST_FILE", 10)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        open_image(str(tmp_path / "x.png"))


def test_inputs_of_a_function_are_fixed():
    reader = FixedReader({"x": torch.arange(6).view(3, 2), "n": 5})
    assert reader.read().inputs["x"].tolist() == [[0, 1]] and reader.read().inputs["n"] == 5
    with pytest.raises(ValueError, match="model.*inputs"):
        reader.read("words")


def test_what_goes_along_with_ids_fits_itself():
    inputs = {"ids": torch.zeros(1, 3), "mask": torch.tensor([[1, 1, 0]]), "memory": torch.ones(1, 2, 4)}
    given = TextInput(inputs=inputs, ids="ids", along=("mask",))
    made = given.with_ids(torch.ones(2, 5))
    assert made["mask"].tolist() == [[1, 1, 0, 0, 0]] * 2 and made["memory"].shape == (2, 2, 4)
    assert fit_columns(torch.tensor([[7, 8]]), 1, 1).tolist() == [[7]]


# ---- images that come with a model


@pytest.mark.parametrize(
    "kind, grid, piece", [(ViT, (3, 3), "patch"), (Swin, (12, 12), "patch"), (ResNet, (6, 6), "part")]
)
def test_the_image_that_came_with_a_model_is_shown(kind, grid, piece):
    model, inputs = kind.tiny()
    given = foreign_reader(ForeignModel(model=model, inputs=inputs)).read()
    assert given.kind == "image" and (given.grid, given.piece) == (grid, piece) and given.pixels == "x"
    assert torch.equal(given.inputs["x"], inputs["x"][:1])
    light = inputs["x"][0].mean(0)
    expected = (light - light.min()) / (light.max() - light.min())
    torch.testing.assert_close(given.image, expected.expand(3, -1, -1))
    scene = gather(model.eval(), given, name="mine", tsne=False)
    with torch.no_grad():
        best = int(model(inputs["x"][:1]).argmax())
    views = {view["view"]: view for view in scene.data["views"]}
    assert views["classes"]["likely"][0][0] == f"class {best}" and "image" in views
    assert bool(views["image"]["layers"]) == (kind is not ResNet)


def test_whose_image_is_not_known_has_none():
    linear = torch.nn.Linear(3, 2)
    assert foreign_reader(ForeignModel(model=linear, inputs={"x": torch.zeros(1, 3, 8, 8)})) is None
    assert (
        foreign_reader(ForeignModel(model=linear, inputs={"x": torch.zeros(1, 3, 8, 8)}, roles=Roles(grid="x"))) is None
    )  # what does it answer?
    model, _ = ViT.tiny()
    assert foreign_reader(ForeignModel(model=model, inputs={"x": torch.zeros(2, 12)})) is None
    with pytest.raises(ValueError, match="model.*inputs.*how it reads others"):
        foreign_reader(ForeignModel(model=ViT.tiny()[0], inputs=ViT.tiny()[1])).read("cat.png")
