"""What a user sees of a run on images: a figure beside each prediction, and a page with validation images in it."""

import json
import os
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.look import encode_arrays, report
from regard.recipes.images import draw
from regard.recipes.images.augment import average_views
from regard.recipes.images.defaults import MODELS
from regard.recipes.images.model_input import ImageInput, MultiView
from regard.recipes.prediction import Prediction
from regard.runs.number_format import say_percent
from regard.runs.run import Run
from regard.targets.open import open_target
from regard.verbs import generate, main, train, train_run
from regard.verbs.look import look
from regard.verbs.predict import predict
from tests.look.scenes import gather
from tests.recipes.images.test_images_command import SMALL

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder of colour images in two classes, one of them damaged, and a small run on them."""
    place = tmp_path_factory.mktemp("looked")
    draw = np.random.default_rng(0)
    for i in range(40):
        folder = place / "pictures" / ("red" if i % 2 else "blue")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 80, (16, 16, 3))
        pixels[4:12, 4:12, 0 if i % 2 else 2] = 230
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i // 2:02}.png")
    (place / "pictures" / "blue" / "bad.png").write_text("no image")
    return place


@pytest.fixture(autouse=True)
def at_home(home, monkeypatch, no_report):
    monkeypatch.chdir(home)
    monkeypatch.setenv("REGARD_CACHE", str(home / "cache"))


def run_of(kind="lenet", **options):
    """Trained once for all tests."""
    name = "-".join([kind, *map(str, options.values())])
    how = SMALL[kind] | {"train.batch": 8, "train.evaluate_every": 1000} | options
    if not os.path.isdir(name):
        train.train("images", data="pictures", model=kind, out=name, steps=2, options=how, observers=[])
    return name


def predict_command(capsys, *words):
    code = main.main(["predict", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("given", ["pictures/red/03.png", Path("pictures/red/03.png"), [Path("pictures/red/03.png")]])
def test_from_python_one_image_may_be_given_as_it_is(given):
    (answer,) = predict(run_of(), given)
    assert answer.input == "pictures/red/03.png" and answer.error is None


@pytest.mark.parametrize("given", [torch.zeros(1, 3, 16, 16), [torch.zeros(3, 16, 16)], 3])
def test_what_is_no_path_is_refused_and_the_model_offered(given):
    with pytest.raises(ValueError, match=r"(Tensor|int).*regard\.load\('.*lenet'\)"):
        predict(run_of(), given)


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_draws_where_it_looked(kind, capsys):
    code, out, err = predict_command(capsys, run_of(kind), "pictures/red/03.png", "--out", f"{kind}.png")
    assert (code, err) == (0, "") and out.splitlines()[1:] == ["where it looked:", f"  {kind}.png"]
    assert Path(f"{kind}.png").read_bytes().startswith(PNG)


def test_a_folder_gets_a_file_for_each_and_a_sheet_shows_all(capsys, tmp_path):
    given = ["pictures/red/03.png", "pictures/blue/03.png", "pictures/red/04.png"]
    code, out, _ = predict_command(capsys, run_of(), *given, "--json", "--out", f"{tmp_path}/new/folder")
    files = [json.loads(line)["picture"] for line in out.splitlines()]
    assert code == 0
    assert [os.path.basename(file) for file in files] == ["red-03-looked.png", "blue-03-looked.png", "04-looked.png"]
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == sorted(map(os.path.basename, files))
    code, out, _ = predict_command(capsys, run_of(), *given, "--out", f"{tmp_path}/all.svg")
    assert code == 0 and out.count("all.svg") == 1
    words = (tmp_path / "all.svg").read_text()
    assert words.count("what the model saw") == 3 and words.count("when a part is greyed out") == 3


def test_answers_come_as_soon_as_they_are_known(capsys, tmp_path, monkeypatch):
    given = ["pictures/red/03.png", "nowhere.png", "pictures/red/03.png", "pictures/blue/03.png"]
    save, told = draw.plot.save, []

    def saved(figure, file):
        told.append(capsys.readouterr().out)
        return save(figure, file)

    monkeypatch.setattr(draw.plot, "save", saved)
    assert predict_command(capsys, run_of(), *given, "--out", f"{tmp_path}/each/")[0] == 1
    first, second = told  # what is given twice is drawn once
    assert first == "" and second.count("red/03.png") == 2  # what was said before the last one was drawn
    told.clear()
    code, out, _ = predict_command(capsys, run_of(), *given, "--json", "--out", f"{tmp_path}/all.png")
    assert (code, out) == (1, "") and [json.loads(line)["input"] for line in told[0].splitlines()] == given
    assert (tmp_path / "all.png").exists()


def test_a_long_list_of_drawings_is_counted(capsys, tmp_path, monkeypatch):
    given = ["pictures/red/03.png", "pictures/blue/03.png"]
    each = [f"  {tmp_path}/red-03-looked.png", f"  {tmp_path}/blue-03-looked.png"]
    for most, said in ((2, each), (1, [f"  2 files in {tmp_path}"])):
        monkeypatch.setattr("regard.verbs.predict.LISTED", most)
        code, out, _ = predict_command(capsys, run_of(), *given, "--out", str(tmp_path))
        assert code == 0 and out.splitlines()[2:] == ["where it looked:", *said]


def test_from_python_an_answer_says_why_there_is_none():
    (answer,) = predict(run_of(), "nowhere.png")
    assert answer.format() == answer.error == "there is no image nowhere.png" and not answer.labels


def test_one_that_cannot_be_read_does_not_keep_the_others_from_being_answered(capsys, tmp_path):
    Path("pictures/red/short.png").write_bytes(Path("pictures/red/03.png").read_bytes()[:90])
    given = ["pictures/red/03.png", "pictures/red/short.png", "nowhere.png", "pictures/blue/03.png"]
    try:
        code, out, err = predict_command(capsys, run_of(), *given, "--out", str(tmp_path / "all.svg"))
        first, second, *rest = out.splitlines()
        assert code == 1 and first.endswith("pictures/red/03.png") and second.endswith("pictures/blue/03.png")
        assert rest == ["where it looked:", f"  {tmp_path}/all.svg"]
        first, second = err.splitlines()
        assert first.startswith("regard: pictures/red/short.png is damaged: ")
        assert second == "regard: there is no image nowhere.png"
        sheet = (tmp_path / "all.svg").read_text()
        assert (
            sheet.count("what the model saw") == 2
            and "<!-- " in sheet
            and "red/03.png" in sheet
            and "blue/03.png" in sheet
        )
        code, out, err = predict_command(capsys, run_of(), *given, "--json")
        found = [json.loads(line) for line in out.splitlines()]
        assert (code, err) == (1, "") and [each["input"] for each in found] == given
        assert [each.keys() - {"input"} for each in found] == [{"labels"}, {"error"}, {"error"}, {"labels"}]
        alone = predict(run_of(), given[-1:])[0]
        # each prediction is of its own image
        assert found[-1]["labels"] == pytest.approx(alone.labels, abs=1e-6)
        code, out, err = predict_command(capsys, run_of(), *given[1:3], "--out", str(tmp_path / "none.png"))
        assert (code, out, err.count("\n")) == (2, "", 2) and not (tmp_path / "none.png").exists()
    finally:
        Path("pictures/red/short.png").unlink()


def test_a_folder_and_a_pattern_stand_for_all_images_in_them(capsys, tmp_path):
    deeper = tmp_path / "photos" / "deeper"
    deeper.mkdir(parents=True)
    for name in ("photos/b.png", "photos/a.PNG", "photos/deeper/c.png", "photos/.hidden.png", "photos/[1].png"):
        shutil.copy("pictures/red/03.png", tmp_path / name)
    (tmp_path / "photos" / "notes.txt").write_text("no image, and nobody asked for it")
    assert predict_command(capsys, run_of(), f"{tmp_path}/photos/b.png", "--out", f"{tmp_path}/photos/")[0] == 0
    assert (tmp_path / "photos" / "b-looked.png").exists()  # drawn there, and no input of the next command

    def answered(*words):
        code, out, _ = predict_command(capsys, run_of(), *words, "--json")
        assert code == 0
        return [os.path.relpath(json.loads(line)["input"], tmp_path / "photos") for line in out.splitlines()]

    assert answered(str(tmp_path / "photos")) == ["[1].png", "a.PNG", "b.png", "deeper/c.png"]
    assert answered(f"{tmp_path}/photos/*") == ["[1].png", "a.PNG", "b-looked.png", "b.png"]  # as it says
    assert answered(f"{tmp_path}/photos/**/?.png", f"{tmp_path}/photos/b.png") == ["b.png", "deeper/c.png", "b.png"]
    assert answered(f"{tmp_path}/photos/[1].png") == ["[1].png"]  # a file of that name is no pattern
    for given, said in ((f"{tmp_path}/photos/*.jpg", "matches no images"), (f"{tmp_path}/empty", "holds no images")):
        (tmp_path / "empty").mkdir(exist_ok=True)
        code, _, err = predict_command(capsys, run_of(), given)
        assert (
            code == 2
            and err.startswith(f"regard: {given} {said}; those are files in .png, .jpg")
            and err.count("\n") == 1
        )


def test_names_that_are_equal_are_told_apart_by_their_folders():
    given = ["cat/1.png", "dog/1.png", "dog/2.png", "a/x/1.png", "b/x/1.png", "1.png"]
    called = draw.told_apart(given)
    named = [called[each] for each in given]
    assert named == ["cat/1.png", "dog/1.png", "2.png", "a/x/1.png", "b/x/1.png", "1.png"]
    assert draw.told_apart(["a.png", "./a.png", "b.png"]) == {"a.png": "a.png", "./a.png": "a.png", "b.png": "b.png"}
    assert draw.names([*named, "cat-1.png", "cat-1.jpg", "dog/1.png"]) == [
        "cat-1-looked.png",
        "dog-1-looked.png",
        "2-looked.png",
        "a-x-1-looked.png",
        "b-x-1-looked.png",
        "1-looked.png",
        "cat-1-png-looked.png",
        "cat-1-jpg-looked.png",
        "dog-1-png-looked.png",
    ]
    assert draw.names(["1.png", "1.png", "1.png"]) == ["1-looked.png", "1-png-looked.png", "1-2-looked.png"]


def test_what_is_drawn_says_what_it_is(monkeypatch):
    lines = []
    monkeypatch.setattr(draw.overlays, "draw_lines", lambda rows: lines.extend(rows) or draw.plot.plotter().figure())
    (answer,) = predict(run_of("vit", **{"data.views": "flip"}), ["pictures/red/03.png"], out="vit-flip.png")
    (label, share), *_ = answer.labels.items()
    assert lines[0].words.startswith(f"{label} {say_percent(share)} (then ")
    assert "03.png; the prediction averages several views (flip)" in lines[0].words
    first, second = (overlay.title for overlay in lines[0].overlays)
    assert first == "rollout of attention, one layer,\nto the mean of all patches"
    assert (
        second.startswith("occlusion map: how much the logit drops\nwhen a patch is greyed out") and "orange" in second
    )
    model = generate.load("vit-flip")
    x = open_target("vit-flip").reader.read("pictures/red/03.png").inputs["x"]
    grey, side = x.clone(), model.config.patch
    grey[..., :side, side : 2 * side] = 0
    number = Run.open("vit-flip").config.labels.index(label)
    with torch.no_grad():
        lost = (model(x) - model(grey))[0, number]
    assert float(lines[0].overlays[1].map[0, 1]) == pytest.approx(float(lost), abs=1e-5)


def test_images_of_another_size_grey_and_turned(capsys, tmp_path):
    y, x = np.mgrid[0:30, 0:50]
    image = Image.fromarray(np.stack([5 * x, 8 * y, 250 - 5 * x], -1).astype(np.uint8))
    image.convert("L").save(tmp_path / "grey.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", exif=exif)
    image.convert("RGBA").save(tmp_path / "clear.webp")
    given = [str(tmp_path / name) for name in ("grey.png", "turned.jpg", "clear.webp")]
    assert predict_command(capsys, run_of(), *given, "--out", str(tmp_path / "three.pdf"))[0] == 0
    upright = open_target(run_of()).reader.read(given[1]).image
    wanted = (
        np.asarray(image.rotate(-90, expand=True).crop((0, 10, 30, 40)).resize((16, 16), Image.Resampling.BILINEAR))
        / 255
    )
    assert float((upright - torch.from_numpy(wanted).permute(2, 0, 1)).abs().mean()) < 0.03


@pytest.mark.parametrize("out, said", [
    ("looked.gif", r"--out.*\.png, \.svg, \.pdf.*'looked\.gif'"),
    ("pictures/red/03.png", r"--out pictures/red/03\.png.*inputs"),
    ("plain", "--out plain.*suffix"),
])  # fmt: skip
def test_where_it_cannot_be_drawn_is_one_line(capsys, out, said):
    Path("plain").touch()
    code, shown, err = predict_command(capsys, run_of(), "pictures/red/03.png", "--out", out)
    assert (code, shown) == (2, "") and err.startswith("regard: ") and err.count("\n") == 1
    assert re.search(said, err)


def test_a_sheet_is_not_endless(capsys):
    code, _, err = predict_command(capsys, run_of(), *["pictures/red/03.png"] * 41, "--out", "all.png")
    assert code == 2 and re.search("^regard: .*40 images.*41.*--out looked/\n$", err)


def test_only_images_are_drawn(capsys):
    path = shutil.copytree(run_of(), "other-run")
    Run.open(path).update(recipe="graphs")
    code, _, err = predict_command(capsys, path, "words", "--out", "looked.png")
    assert code == 2 and re.search("--out.*csv.*looked.png.*other-run.*graphs", err)


def test_a_name_with_signs_of_mathematics_is_only_a_name(tmp_path):
    answer = Prediction(input="a/b$x$.png", labels={"$1": 0.75, "c": 0.25})
    assert (
        draw.overlays.prediction_title(list(answer.labels.items()), "b$x$.png") == "$1 75.0% (then c 25.0%)   b$x$.png"
    )
    line = draw.overlays.Line("$1 75% $x", torch.rand(3, 4, 4), [])
    draw.plot.save(draw.overlays.draw_lines([line]), tmp_path / "signs.png")


# ── the page ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_crowd_is_what_the_run_was_validated_on(monkeypatch):
    kept = []
    whole = train_run.prepare_job

    def prepared(*what):
        kept.append(whole(*what))
        return kept[-1]

    monkeypatch.setattr(train_run, "prepare_job", prepared)
    name = run_of("resnet", **{"train.seed": 3})
    batch = next(iter(kept[0].source.validation()))
    crowd = open_target(name).reader.read("pictures/red/03.png").crowd()
    assert torch.equal((crowd.images * 255).round().byte(), batch["x"])
    labels = Run.open(name).config.labels
    assert [
        labels.index(label) for label in crowd.labels
    ] == batch.target.tolist() and crowd.what == "validation images"
    torch.testing.assert_close(crowd.x, kept[0].processor.scale(batch["x"].float() / 255))


def test_data_that_has_changed_or_gone_is_no_crowd(home):
    name = run_of()
    shutil.copy("pictures/red/03.png", "pictures/red/one-more.png")
    try:
        assert open_target(name).reader.read("pictures/red/03.png").crowd() is None
    finally:
        os.remove("pictures/red/one-more.png")
    os.rename("pictures", "elsewhere")
    try:
        assert open_target(name).reader.read("elsewhere/red/03.png").crowd() is None
        assert main.main(["look", name, "--input", "elsewhere/red/03.png", "--out", "gone.html"]) == 0
    finally:
        os.rename("elsewhere", "pictures")


def views_of(path):
    data = json.loads(path.read_text().partition('type="application/json">')[2].partition("</script>")[0])
    return data, {view["view"]: view for view in data["views"]}


@pytest.mark.parametrize("views, said", [("one", None), ("shifts", "5 views (shifts)"), ("turns", "4 views (turns)")])
def test_the_page_gives_the_answer_of_predict(views, said):
    name = run_of("vit", **{"data.views": views, "train.seed": 5})
    (answer,) = predict(name, ["pictures/red/03.png"])
    data, shown = views_of(look(name, "pictures/red/03.png", out=f"{name}.html"))
    assert dict(shown["classes"]["likely"]) == pytest.approx(answer.labels, rel=1e-3)
    assert data["input"]["views"] == said and any("as it stands" in note for note in data["notes"]) == (
        said is not None
    )
    (label, share), *_ = answer.labels.items()
    assert shown["contribution"]["answer"].startswith(
        f"{label!r}, the most likely prediction of the whole (probability {share:.3g})"
    )
    x, model = open_target(name).reader.read("pictures/red/03.png").inputs["x"], generate.load(name)
    with torch.no_grad():
        alone = float(model(x).softmax(-1)[0, Run.open(name).config.labels.index(label)])
    assert (abs(alone - share) < 1e-6) == (said is None)  # several views are seen to differ from one


def test_what_matters_is_that_of_the_answer_of_all_views():
    """Of one view the model says one class, of all of them another: that one is explained."""

    class Picky(torch.nn.Module):
        def forward(self, x):
            left, right = x[..., : x.shape[-1] // 2].sum((1, 2, 3)), x[..., x.shape[-1] // 2 :].sum((1, 2, 3))
            return torch.stack((left, 2 * right), -1)

    x = torch.zeros(1, 1, 4, 4)
    x[..., :2] = 1.0
    judge = MultiView(views="2 views (flip)", predict=partial(average_views, views="flip"))
    how = {"pixels": "x", "grid": (1, 2), "image": torch.rand(3, 4, 4), "answers": "classes", "called": str}
    scene = gather(Picky(), ImageInput(inputs={"x": x}, judged=judge, **how), name="picky", tsne=False)
    shown = {view["view"]: view for view in scene.data["views"]}
    assert shown["classes"]["likely"][0][0] == "1"  # as it stands it would be 0
    values = {column["name"]: column["values"] for column in shown["contribution"]["columns"]}
    assert values["leave one out"] == [0.0, 0.0]  # nothing speaks for 1 in the image as it stands


def test_the_page_says_which_image_it_is_and_what_it_is_labelled_with(tmp_path):
    name = run_of()
    shutil.copy("pictures/red/03.png", tmp_path / "mine.png")
    shutil.copy("pictures/red/03.png", tmp_path / "04.png")
    for given, called, truth in [
        ("pictures/red/03.png", "03.png", "red"), ("pictures/blue/03.png", "03.png", "blue"),
        (str(tmp_path / "mine.png"), "mine.png", None), (str(tmp_path / "04.png"), "04.png", None),  # another of that name
    ]:  # fmt: skip
        read = open_target(name).reader.read(given)
        assert (read.name, read.truth) == (called, truth)
    example = open_target(name).reader.read()
    assert example.name.endswith(".png") and example.truth in ("red", "blue")
    assert open_target(name).reader.read(Path("pictures/red/03.png").read_bytes()).name is None


def test_the_page_has_the_confusion_of_the_run():
    name = shutil.copytree(run_of(), "confused")
    written = {"split": "validation", "labels": ["blue", "red"], "counts": [[3, 1], [0, 70_000]]}
    Run.open("confused").write("confusion.json", written)
    _, shown = views_of(look(name, "pictures/red/03.png", out="confused.html"))
    assert shown["confusion"]["labels"] == ["blue", "red"] and shown["confusion"]["split"] == "validation"
    assert encode_arrays.unpack_array(shown["confusion"]["counts"], "u4", 2, 2).tolist() == written["counts"]
    report.instead(Run.open(name), "no reason")
    assert "confusion" in views_of(Path("confused/report.html"))[1]
    assert "confusion" not in views_of(look(run_of(), "pictures/red/03.png", out="plain.html"))[1]


@pytest.mark.parametrize("kind", ["swin", "groupcnn"])
def test_a_page_of_a_run_is_small_and_has_all_views(kind):
    path = look(run_of(kind), "pictures/blue/03.png", out=f"{kind}.html")
    text = path.read_text()
    _, views = views_of(path)
    assert {"image", "contribution", "features", "embeddings", "classes"} <= views.keys() and len(text) < 1_000_000
    assert views["embeddings"]["items"][0]["name"] == "validation images" and views["embeddings"]["sheets"]
    assert ("attention" in views) == (kind == "swin") == bool(views["image"]["layers"])
    assert "filters" in views  # of Swin those that make a token of a patch


@pytest.mark.parametrize("kind", ["vit", "swin", "densenet"])
def test_a_still_of_every_kind(kind):
    look(run_of(kind), "pictures/blue/03.png", out=f"still-{kind}.svg")
    words = Path(f"still-{kind}.svg").read_text()
    assert ("layer 1, head 1" in words) == (kind != "densenet") and ("rollout of all layers" in words) == (
        kind != "densenet"
    )
    assert ("leave one out" in words) == (kind == "densenet")
