"""Images in one command: train on folders, digits and arrays, resume, check, predict, look."""

import json
import os
import re
import shlex
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.cache import cache_folder
from regard.models.vit import ViTConfig
from regard.recipes.base import get_recipe
from regard.recipes.images.augment import AugmentConfig
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.defaults import MODELS, patch_of, swin, vit
from regard.recipes.settings import settings_of_kind
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.targets.open import open_target
from regard.training.progress import Observer
from regard.verbs import main, options, train
from regard.verbs.check import check
from regard.verbs.predict import predict
from tests.recipes.images.prepared import prepared

SMALL = {
    "vit": {"model.dim": 16, "model.depth": 1, "model.heads": 2},
    "swin": {"model.dim": 16, "model.depths": (2, 2), "model.heads": (2, 2)},
    "lenet": {"model.widths": (4, 4), "model.hidden": 8},
    "resnet": {"model.width": 4, "model.blocks": (1, 1)},
    "resnet9": {"model.stem": 4, "model.widths": (4, 4), "model.residual": (1, 1)},
    "densenet": {"model.growth": 2, "model.blocks": (1, 1)},
    "groupcnn": {"model.hidden": 2, "model.depth": 3, "model.halve": ()},
}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch, request):
    if "everything" not in request.fixturenames:
        request.getfixturevalue("no_report")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def images(tmp_path):
    """Bright and dark ones of 12 × 12, one of them damaged."""
    draw = np.random.default_rng(0)
    for i in range(24):
        place = tmp_path / "pictures" / ("bright" if i % 2 else "dark")
        place.mkdir(parents=True, exist_ok=True)
        light = draw.integers(120, 255, (12, 12)) if i % 2 else draw.integers(0, 120, (12, 12))
        Image.fromarray(light.astype(np.uint8)).save(place / f"{i:02}.png")
    (tmp_path / "pictures" / "dark" / "bad.png").write_text("no image")
    return "pictures"


class Heard(Observer):
    def __init__(self):
        self.notes, self.test = [], None

    def noted(self, text):
        self.notes.append(text)

    def tested(self, measures, count):
        self.test = measures


def trained(data, model="vit", out="run", steps=3, **options):
    heard = Heard()
    how = SMALL[model] | {"train.batch": 8, "train.evaluate_every": 1000} | options
    return train.train("images", data=data, model=model, out=out, steps=steps, options=how, observers=[heard]), heard


@pytest.mark.parametrize("kind", MODELS)
def test_each_kind_trains_on_a_folder_and_predicts_what_it_computes(images, kind):
    run, heard = trained(images, kind)
    assert run.config.kind == kind and run.config.model["classes"] == 2 and run.config.model["size"] == 12
    assert [note for note in heard.notes if "bad.png is not a readable image" in note]
    answer = predict("run", ["pictures/bright/01.png"])[0]
    pixels = torch.from_numpy(np.asarray(Image.open("pictures/bright/01.png")).copy())[None, None].float() / 255
    about = run.config.processor["fitted"]
    with torch.no_grad():
        shares = load_model(run)((pixels - about["mean"][0]) / about["deviation"][0]).softmax(-1)[0]
    assert answer.labels == pytest.approx(
        {label: float(shares[i]) for i, label in enumerate(run.config.labels)}, abs=1e-5
    )


def test_it_learns_and_the_command_line_says_so(images, capsys, everything):
    words = [word for name, value in SMALL["vit"].items() for word in (f"--{name}", str(value))]
    words += ["--train.steps", "40", "--train.batch", "8"]
    code = main.main(["train", "images", "--data", images, "--model", "vit", "--out", "mine", *words])
    out = capsys.readouterr().out
    assert (
        code == 0
        and "note: left out: " in out
        and f"12 × 12 pixels, 2 classes, in patches of {patch_of(12)} pixels" in out
    )
    assert out.splitlines()[-1] == "next: regard predict mine image.png"
    made = "model.safetensors, report.html, curves.png, confusion.png, laws.json, config.json, metrics.jsonl"
    assert out.splitlines()[-3] == f"mine: {made}"
    assert re.search(
        r"^kept: the averaged weights of step \d+.*, which had the lowest validation loss$", out, re.MULTILINE
    )
    last = [event for event in Run.open("mine").metrics() if event["event"] == "validation"][-1]
    assert last["accuracy"] == 1.0
    names = {path.name for path in Run.open("mine").path.iterdir()}
    assert {
        "confusion.png",
        "manifest.json",
        "confusion.json",
        "curves.png",
        "laws.json",
        "report.html",
        "model.safetensors",
    } <= names
    laws, again = (found["laws"] for found in (json.loads(Path("mine/laws.json").read_text()), check("mine").to_json()))
    assert [law | {"seconds": 0} for law in laws] == [law | {"seconds": 0} for law in again]
    assert all(law["ok"] for law in laws)
    assert main.main(["predict", "mine", "pictures/bright/01.png", "pictures/dark/00.png", "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [next(iter(answer["labels"])) for answer in answers] == ["bright", "dark"]
    assert main.main(["look", "mine", "--input", "pictures/dark/00.png", "--out", "page.html"]) == 0
    assert re.search(r'"view": ?"image"', Path("page.html").read_text())


def test_digits_have_a_test_split_that_is_looked_at_once(monkeypatch):
    run, heard = trained(None, steps=2)
    assert set(heard.test) == {"loss", "accuracy"} and run.config.test == heard.test
    (event,) = [event for event in run.metrics() if event["event"] == "test"]
    low, high = event.pop("intervals")["accuracy"]
    assert low < heard.test["accuracy"] < high
    assert event == {"step": 2, "event": "test", **heard.test, "count": 359}
    counts = run.config.counts
    assert counts["test"] == 359 and counts["train"] + counts["validation"] == 1438


def test_stopped_and_resumed_equals_never_stopped(images):
    how = {"data.augment.flip": True, "data.augment.mixup": 0.5, "data.augment.turn": 20.0}
    trained(images, out="whole", steps=6, **{"train.decay": 0.0, **how})
    trained(images, out="cut", steps=3, **{"train.decay": 0.0, **how})
    train.train("images", out="cut", resume=True, steps=6, observers=[])
    losses = [
        [event["loss"] for event in Run.open(out).metrics() if event["event"] == "step"] for out in ("cut", "whole")
    ]
    assert losses[0] == losses[1] and len(losses[0]) == 6


@pytest.mark.parametrize("size", [None, 28, 40])
def test_the_model_is_made_for_the_size_that_is_asked_for(images, size):
    how = {} if size is None else {"data.size": size}
    run, _ = trained(images, steps=1, **how)
    side = size or 12
    assert (run.config.model["size"], run.config.model["patch"]) == (side, patch_of(side))
    assert len({patch_of(each) for each in (12, 28, 40)}) == 3


def test_what_is_asked_for_stays_and_the_command_line_says_the_same(images):
    Path("t.csv").write_text("where,kind\npictures/dark/00.png,d\npictures/bright/01.png,b\n")
    asked = {
        "a": ["--data", images, "--data.size", "24", "--model.patch", "6"],
        "b": ["--data", images, "--data.size=32"],
        "c": ["--data", "t.csv", "--data.image", "where", "--data.label", "kind"],
    }
    for out, words in asked.items():
        small = ["--model.dim", "16", "--model.depth", "1", "--model.heads", "2", "--train.steps", "1"]
        assert main.main(["train", "images", "--model", "vit", "--out", out, *words, *small]) == 0
    models = [Run.open(name).config.model for name in asked]
    assert [(each["size"], each["patch"]) for each in models] == [(24, 6), (32, patch_of(32)), (12, patch_of(12))]


@pytest.mark.parametrize("columns", ["80", "100", "130", "240"])
def test_help_has_every_option_once_however_wide_the_terminal_is(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert main.main(["train", "images", "--help-all"]) == 0
    text = capsys.readouterr().out
    assert os.environ["COLUMNS"] == columns
    known = options.options_of(settings_of_kind("resnet9", ImagesConfig))
    for name in known:
        hidden = name[2:] in (*get_recipe("images").data_derived, "data.path")
        assert len(re.findall(rf"^ *{re.escape(name)}[ ,]", text, re.MULTILINE)) == (not hidden), name
    assert "regard train images --data mnist --model lenet" in text
    assert "Tiny" not in text  # the recipe's model is smaller


@pytest.mark.parametrize("kind", MODELS)
def test_help_speaks_of_the_defaults_of_the_recipe(capsys, kind):
    assert main.main(["train", "images", "--model", kind, "--help"]) == 0
    text = capsys.readouterr().out
    assert "The defaults are" not in text and "Tiny" not in text


def test_the_commands_of_the_page_run(images, monkeypatch):
    """Those of docs/images.md that train and predict, on small data of each kind, with small models."""
    Path(images).rename("photos")
    Path("photos/bright").rename("photos/cat")
    shutil.copy("photos/cat/01.png", "photos/cat/1.jpg")
    Path("photos.csv").write_text("path,kind\nphotos/cat/01.png,cat\nphotos/dark/00.png,dark\n")
    Path("new.csv").write_text("file\nphotos/cat/01.png\n")
    Path("faces.csv").write_text("file,age\nphotos/cat/01.png,20.5\nphotos/dark/00.png,31\nphotos/cat/02.png,7\n")
    shutil.copy("photos/cat/01.png", "photo.jpg")
    draw = np.random.default_rng(0).integers(0, 256, (20, 12, 12)).astype(np.uint8)
    np.savez("pictures.npz", x=draw, y=np.arange(20) % 2)
    Path("mnist").mkdir()
    for name, array in (("images-idx3", draw), ("labels-idx1", (np.arange(20) % 2).astype(np.uint8))):
        head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
        Path(f"mnist/train-{name}-ubyte").write_bytes(head + array.tobytes())
    page = (Path(__file__).parents[3] / "docs" / "images.md").read_text("utf-8")
    lines = [
        line.split("#")[0]
        for block in re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    ran = 0
    for line in lines:
        program, command, *words = shlex.split(line)
        assert program == "regard"
        if command == "train":
            kind = words[words.index("--model") + 1] if "--model" in words else "resnet9"
            words += [word for name, value in SMALL[kind].items() for word in (f"--{name}", *map(str, np.ravel(value)))]
            words += ["--train.steps", "1"]
        if command in ("train", "predict"):
            assert main.main([command, *words]) == 0, line
            ran += 1
    assert ran >= 6


def test_the_page_says_the_defaults(images):
    """Of the table of changes in docs/images.md: for images of your own, and for the digits."""
    page = (Path(__file__).parents[3] / "docs" / "images.md").read_text("utf-8")
    rows = re.findall(r"^\| `--data\.(augment\.)?([\w-]+)` \|.*\| (\S+) \| (\S+) \| [^|]*\|$", page, re.MULTILINE)
    for place, data in ((2, get_recipe("images").defaults(images).data), (3, get_recipe("images").defaults().data)):
        for row in rows:
            value = getattr(data.augment if row[0] else data, row[1].replace("-", "_"))
            assert row[place] == ({False: "off", True: "on"}[value] if isinstance(value, bool) else f"{value:g}"), row
    names = {row[1].replace("-", "_") for row in rows}
    assert names == {*(field.name for field in fields(AugmentConfig)), "smoothing"}


def test_rare_classes_may_count_more(images):
    task = prepared(images, cache=cache_folder(), class_weights="auto").task
    assert task.weights is not None and task.weights.tolist() == pytest.approx([1.0, 1.0])
    assert prepared(images, cache=cache_folder()).task.weights is None


def test_a_run_brings_an_image_of_its_data_to_be_looked_at(images):
    trained(images)
    given = open_target("run").reader.read()
    assert given.inputs["x"].shape == (1, 1, 12, 12) and given.image.shape == (3, 12, 12)
    assert "is from the data" in given.notes[0]
    assert given.called(0) == "bright" and given.grid == (12 // load_model(Run.open("run")).config.patch,) * 2
    shutil.rmtree("pictures")
    assert "was drawn for the purpose" in open_target("run").reader.read().notes[0]


@pytest.mark.parametrize("side, patch", [(8, 2), (28, 4), (32, 4), (64, 8), (224, 16), (25, 5), (13, 1)])
def test_patches_divide_the_image(side, patch):
    assert patch_of(side) == patch and side % patch == 0


def test_patches_are_never_so_small_that_there_are_far_too_many():
    for side in range(8, 300):
        for model in (vit(side), swin(side)):
            across = -(-side // model.patch)
            assert model.patch <= 16 and across <= max(28, side / 8), (side, model.patch)
            assert across >= (4 if isinstance(model, ViTConfig) else 7), (side, model.patch)
    assert [swin(side).patch for side in (25, 28, 64, 97, 224)] == [3, 4, 4, 6, 16] and patch_of(29) == 4


@pytest.mark.parametrize("kind", ["vit", "swin"])
def test_patches_that_do_not_divide_the_image_are_noted(images, kind):
    said = (
        "patches of 7 pixels do not divide images of 12: the last ones are filled up with 2 pixels of zeros. "
        "With --data.size 7 or 14 --model.patch 7 they fit"
    )
    _, heard = trained(images, kind, steps=1, **{"model.patch": 7})
    assert said in heard.notes
    _, heard = trained(images, kind, steps=1, out="other", **{"model.patch": 3})
    assert not any("patches of" in note for note in heard.notes)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--data", "nowhere"], "nowhere; give.*folder.*folder.*class"),
        (["--data", "pictures", "--model", "resnext"], "'resnext'.*'resnet'"),
        (["--data", "pictures", "--model.colours", "1"], r"--model\.colours follows.*data"),
        (["--data", "pictures", "--data.damaged", "stop"], r"bad\.png.*image"),
        (["--data", "pictures", "--data.augment.crop", "3"], r"--data\.augment\.crop.*0.*1.*3\.0"),
    ],
)
def test_what_is_wrong_is_one_line(images, capsys, words, said):
    assert main.main(["train", "images", "--out", "new", "--train.steps", "1", *words]) == 2
    error = capsys.readouterr().err
    assert re.search(said, error) and error.count("\n") == 1


def test_an_image_that_cannot_be_read_is_named(images, capsys):
    trained(images)
    assert main.main(["predict", "run", "pictures/dark/bad.png"]) == 2
    assert "pictures/dark/bad.png" in capsys.readouterr().err
