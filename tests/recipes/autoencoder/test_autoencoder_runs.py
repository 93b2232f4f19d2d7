"""Autoencoders from the command line: train, generate, predict, evaluate, resume, start a classifier; and what goes
wrong, each in one line."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.batch import Batch
from regard.errors import RegardError
from regard.recipes.autoencoder.autoencode import Autoencode
from regard.recipes.autoencoder.evaluation import CodeEvaluation, evaluate_codes
from regard.recipes.autoencoder.task import Reconstruct
from regard.recipes.job import Split
from regard.runs.run import Run
from regard.training.loop import NotANumber
from regard.training.progress import Observer
from regard.verbs.evaluate import evaluate
from regard.verbs.load import load
from regard.verbs.main import main
from regard.verbs.predict import predict
from regard.verbs.train import train


class Killed(BaseException):
    """As a signal that nobody catches."""


class Killer(Observer):
    def stepped(self, step, loss, size, seconds):
        if step == 7:
            raise Killed


QUICK = {"train.threads": 1, "train.batch": 32, "model.hidden": 16, "model.latent": 2}


def fit(out, data=None, kind=None, steps=6, report=False, **options):
    how = {**QUICK, "train.evaluate_every": steps, **{k.replace("__", "."): v for k, v in options.items()}}
    return train("autoencoder", data=data, model=kind, out=out, steps=steps, options=how, observers=[], report=report)


def pixels_of(path):
    with Image.open(path) as image:
        return np.array(image)


def size_of(path):
    return pixels_of(path).shape[::-1]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data: small images, a table, point clouds; and a VAE of the digits."""
    folder = tmp_path_factory.mktemp("autoencoder")
    draw = np.random.default_rng(0)
    pixels = (draw.random((40, 8, 8)) < 0.4).astype(np.uint8) * 255
    np.savez(folder / "bits.npz", x_train=pixels, x_val=pixels[:8], x_test=pixels[:8])
    Image.fromarray(pixels[0]).save(folder / "one.png")
    Image.fromarray(pixels[1]).save(folder / "two.png")
    with open(folder / "rows.csv", "w", newline="") as file:
        rows = [(round(x, 3), round(2 * x + 1, 3), "uv"[i % 2]) for i, x in enumerate(draw.normal(size=60))]
        csv.writer(file).writerows([("a", "b", "label"), *rows])
    (folder / "clouds").mkdir()
    for i in range(8):
        np.save(folder / "clouds" / f"{i}.npy", draw.normal(size=(20, 3)))
    fit(folder / "vae", folder / "bits.npz", steps=8, report=True)
    return folder


def test_a_run_has_its_elbo_its_pictures_and_a_model_that_loads(place):
    run = Run.open(place / "vae")
    last = [event for event in run.metrics() if event["event"] == "validation"][-1]
    assert last["elbo"] < 0 and last["loss"] == pytest.approx(-last["elbo"]) and "KL" in last
    for name in ("samples.png", "reconstructions.png", "latent.png", "report.html", "laws.json"):
        assert (place / "vae" / name).exists(), name
    model = load(place / "vae")
    assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 2)
    assert run.config.model["likelihood"] == "bernoulli"


def test_generate_writes_a_sheet_a_folder_and_arrays(place, tmp_path, capsys):
    run = str(place / "vae")
    assert main(["generate", run, "--count", "5", "--out", str(tmp_path / "sheet.png")]) == 0
    assert size_of(tmp_path / "sheet.png") == (172, 115)  # 3 × 2 images of 8 pixels, enlarged 7 times
    assert main(["generate", run, "--count", "5", "--out", str(tmp_path / "some") + "/"]) == 0
    assert sorted(path.name for path in (tmp_path / "some").iterdir()) == [f"{i}.png" for i in range(1, 6)]
    assert main(["generate", run, "--count", "5", "--out", str(tmp_path / "a.npz")]) == 0
    images = np.load(tmp_path / "a.npz")["images"]
    assert images.shape == (5, 8, 8) and images.dtype == np.uint8
    assert (pixels_of(tmp_path / "some" / "1.png") == images[0]).all()
    assert "5 samples" in capsys.readouterr().out


def test_generate_near_an_input_and_between_two(place, tmp_path):
    run, one, two = (str(place / name) for name in ("vae", "one.png", "two.png"))
    out = str(tmp_path / "a.npz")
    assert main(["generate", run, "--between", one, two, "--steps", "3", "--out", out]) == 0
    images = np.load(out)["images"]
    model = load(run)
    x = torch.stack([torch.from_numpy(pixels_of(each) / 255).float()[None] for each in (one, two)])
    ends = (model.reconstruct(x)[:, 0] * 255).round().byte().detach().numpy()
    assert (images[[0, 2]] == ends).all() and len(images) == 3
    assert main(["generate", run, "--near", one, "--spread", "0", "--count", "2", "--out", out]) == 0
    assert (np.load(out)["images"] == ends[0]).all()
    assert main(["generate", run, "--near", one, "--spread", "3", "--count", "2", "--out", out]) == 0
    assert not (np.load(out)["images"][0] == ends[0]).all()


def test_predict_gives_errors_codes_and_clean_images(place, tmp_path, capsys):
    run, one, two = (str(place / name) for name in ("vae", "one.png", "two.png"))
    clean, codes = str(tmp_path / "clean.png"), str(tmp_path / "codes.npz")
    assert main(["predict", run, one, two, "--codes", codes, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    held = np.load(codes)
    np.testing.assert_allclose(held["codes"], [line["code"] for line in lines], rtol=1e-5)
    assert list(held["names"]) == [one, two] and lines[0]["values"]["RMSE"] > 0
    assert main(["predict", run, one, "--out", clean]) == 0
    assert size_of(clean) == (8, 8)
    assert main(["predict", run, one, two, "--out", clean]) == 0
    assert size_of(clean) == (115, 115)  # two of them, each above what came back
    assert main(["predict", run, str(place / "rows.csv"), one]) == 1
    assert len(predict(run, [np.zeros((9, 9), dtype=np.uint8)])) == 1


def test_reconstructions_in_a_folder_have_the_names_of_their_inputs(place, tmp_path, capsys):
    run, out = str(place / "vae"), tmp_path / "clean"
    for name in ("one", "two"):
        (tmp_path / f"{name}.png").write_bytes((place / f"{name}.png").read_bytes())
    (tmp_path / "lost.png").write_bytes(b"no image")
    (tmp_path / "list.csv").write_text("file,kind\none.png,a\nlost.png,b\ntwo.png,c\n")
    assert main(["predict", run, str(tmp_path / "list.csv"), "--out", str(out)]) == 1
    assert sorted(path.name for path in out.iterdir()) == ["one.png", "two.png"]
    assert "lost.png is not a readable image" in capsys.readouterr().err
    assert main(["predict", run, str(out / "one.png"), str(tmp_path / "one.png"), "--out", f"{tmp_path}/n"]) == 0
    assert sorted(path.name for path in (tmp_path / "n").iterdir()) == ["1.png", "2.png"]
    (answer, broken, _) = predict(run, str(tmp_path / "list.csv"))
    assert answer.row["kind"] == "a" and broken.row["kind"] == "b" and "lost.png" in broken.error


def test_inputs_are_never_overwritten(place, tmp_path, capsys):
    run, one = str(place / "vae"), tmp_path / "photos" / "1.png"
    one.parent.mkdir()
    one.write_bytes((place / "one.png").read_bytes())
    (tmp_path / "list.csv").write_text("file\nphotos/1.png\n")
    folder, given = str(one.parent), str(one)
    for words in (
        ["predict", run, folder, "--out", folder],
        ["predict", run, given, "--out", folder],
        ["predict", run, given, "--out", given],
        ["predict", run, str(tmp_path / "list.csv"), "--out", folder],
        ["generate", run, "--near", given, "--count", "2", "--out", folder],
        ["generate", run, "--between", given, given, "--out", given],
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert "lost; give another" in error and error.count("\n") == 1
    assert one.read_bytes() == (place / "one.png").read_bytes()
    assert main(["generate", run, "--count", "1", "--out", f"{tmp_path}/a.png"]) == 0
    assert "1 sample\n" in capsys.readouterr().out


def test_evaluate_estimates_log_p_and_more_samples_raise_it(place):
    few, many = (evaluate(place / "vae", options={"samples": k}) for k in (1, 200))
    assert isinstance(many, CodeEvaluation) and many.count == 8
    assert many.measures["elbo"] <= many.measures["log p(x)"]
    assert few.measures["log p(x)"] < many.measures["log p(x)"]
    assert many.to_json()["samples"] == 200 and "200" in many.format()
    other = evaluate(place / "vae", place / "bits.npz")
    assert other.measures["elbo"] == pytest.approx(many.measures["elbo"])


def test_rows_of_a_table(place, tmp_path, capsys):
    run = fit(tmp_path / "rows", place / "rows.csv")
    assert run.config.processor["fitted"]["columns"] == ["a", "b"] and run.config.model["sigma"] == "each"
    assert main(["generate", str(run.path), "--count", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a,b" and len(lines) == 5
    out = tmp_path / "answers.csv"
    assert main(["predict", str(run.path), str(place / "rows.csv"), "--out", str(out)]) == 0
    table = list(csv.DictReader(out.read_text().splitlines()))
    assert len(table) == 60 and {"a", "answer(a)", "answer(RMSE)"} <= set(table[0])
    (tmp_path / "one.csv").write_text("a,b\n1,3\n")
    found = predict(run.path, str(tmp_path / "one.csv"))[0]
    assert found.values["a"] != found.values["b"]
    for given in ([{"a": 1, "b": 3}], np.array([[1.0, 3.0]])):
        assert predict(run.path, given)[0].values == found.values


def test_point_clouds_in_any_order_have_one_code(place, tmp_path):
    run = fit(tmp_path / "clouds", place / "clouds", data__points=12)
    assert run.config.model["body"] == "set"
    model = load(run.path)
    x = torch.randn(2, 12, 3)
    torch.testing.assert_close(model(x), model(x[:, torch.randperm(12)]))
    (file,), (array,) = (
        predict(run.path, [each]) for each in (place / "clouds" / "0.npy", np.load(place / "clouds/0.npy"))
    )
    assert file.values == array.values and file.code == array.code
    assert main(["generate", str(run.path), "--count", "2", "--out", str(tmp_path / "c.npz")]) == 0
    assert np.load(tmp_path / "c.npz")["points"].shape == (2, 12, 3)
    assert main(["generate", str(run.path), "--count", "2", "--out", str(tmp_path / "c.csv")]) == 0
    assert len((tmp_path / "c.csv").read_text().splitlines()) == 25


@pytest.mark.parametrize("kind", ["autoencoder", "denoising"])
def test_models_without_a_prior_sample_as_codes_of_training_inputs_are(place, tmp_path, kind, capsys):
    run = fit(tmp_path / kind, place / "bits.npz", kind, report=True)
    assert main(["generate", str(run.path), "--count", "3", "--out", str(tmp_path / "a.npz")]) == 0
    assert "no prior" in capsys.readouterr().err
    (run.path / "codes.json").unlink()
    assert main(["generate", str(run.path), "--out", str(tmp_path / "a.npz")]) == 2
    assert "--near" in capsys.readouterr().err


@pytest.mark.parametrize("more", [{}, {"model__warmup": 8, "model__samples": 2, "data__binarise": "dynamic"}])
def test_a_killed_run_goes_on_bit_for_bit(place, tmp_path, more):
    options = {"train__save_every": 3, "train__average": 0.9, **more}
    whole = fit(tmp_path / "whole", place / "bits.npz", steps=9, **options)
    how = {**QUICK, "train.evaluate_every": 9, **{k.replace("__", "."): v for k, v in options.items()}}
    with pytest.raises(Killed):
        train(
            "autoencoder", data=place / "bits.npz", out=tmp_path / "cut", steps=9, options=how,
            observers=[Killer()], report=False,
        )  # fmt: skip
    again = train(
        "autoencoder", data=place / "bits.npz", out=tmp_path / "cut", steps=9, options=how, resume=True,
        observers=[], report=False,
    )  # fmt: skip
    losses = [[e["loss"] for e in run.metrics() if e["event"] == "step"] for run in (whole, again)]
    assert losses[0] == losses[1] and len(losses[0]) == 9
    assert whole.model_file.read_bytes() == again.model_file.read_bytes()


def test_warm_up_raises_beta_step_by_step(place, tmp_path):
    cold = fit(tmp_path / "cold", place / "bits.npz", steps=2, model__warmup=1_000_000, model__beta=50.0)
    warm = fit(tmp_path / "warm", place / "bits.npz", steps=2, model__beta=50.0)
    first = [next(e["loss"] for e in run.metrics() if e["event"] == "step") for run in (cold, warm)]
    assert first[0] < first[1]


def test_a_classifier_of_images_starts_from_the_encoder(tmp_path):
    small = {"model__body": "vit", "model__dim": 8, "model__depth": 2, "model__heads": 2, "model__patch": 4}
    hidden = {"model__noise_kind": "patches", "model__noise": 0.5}
    run = fit(tmp_path / "masked", kind="denoising", **small, **hidden)
    how = {"train.threads": 1, "train.warmup": 0, "train.lr": 1e-9, "train.adam_lr": 1e-9}
    tuned = train("images", start=run.path, out=tmp_path / "tuned", steps=1, options=how, observers=[], report=False)
    assert tuned.config.kind == "vit" and tuned.config.model["dim"] == 8
    mine, theirs = load(tuned.path).state_dict(), load(run.path).body.encoder.state_dict()
    for name, tensor in theirs.items():
        if not name.startswith("head."):
            torch.testing.assert_close(mine[name], tensor, atol=1e-5, rtol=0)
    assert mine["head.weight"].shape == (10, 8)
    with pytest.raises(RegardError, match="denoising.*lenet"):
        train("images", model="lenet", start=run.path, out=tmp_path / "no", steps=1, observers=[])
    plain = fit(tmp_path / "plain")
    with pytest.raises(RegardError, match="vae.*resnet9"):
        train("images", start=plain.path, out=tmp_path / "no", steps=1, observers=[])


# ---- what goes wrong


@pytest.mark.parametrize(
    "options, words",
    [
        ({"model.likelihood": "bernoulli", "data.binarise": "none"}, ["bernoulli", "data.binarise dynamic"]),
        ({"model.likelihood": "gaussian", "data.binarise": "dynamic"}, ["gaussian", "bernoulli"]),
        ({"model.body": "set"}, ["set", "mlp or conv or vit"]),
    ],
)
def test_a_likelihood_or_body_that_does_not_suit_the_data_is_told_in_one_line(tmp_path, options, words):
    with pytest.raises(RegardError) as error:
        train("autoencoder", out=tmp_path / "no", steps=1, options=options, observers=[])
    assert all(word in str(error.value) for word in words), str(error.value)
    assert "\n" not in str(error.value) and not (tmp_path / "no").exists()


def test_real_numbers_of_a_table_do_not_suit_a_bernoulli_or_bytes(place, tmp_path):
    for likelihood in ("bernoulli", "discretised"):
        with pytest.raises(RegardError, match=rf"{likelihood}.*gaussian"):
            fit(tmp_path / "no", place / "rows.csv", model__likelihood=likelihood)


def test_a_collapsed_posterior_is_told_with_what_to_do(place, tmp_path):
    run = fit(tmp_path / "flat", place / "bits.npz", steps=1)
    weights = load(run.path)
    with torch.no_grad():
        weights.body.encoder[-1].weight.zero_()
        weights.body.encoder[-1].bias.zero_()
    batch = Batch({"x": torch.zeros(4, 1, 8, 8, dtype=torch.uint8)}, torch.zeros(4))
    split = Split(name="test", count=4, unit="images", batches=lambda: [batch])
    flat = evaluate_codes(weights, Reconstruct(Autoencode().open(run)), split)
    assert "collapsed" in flat.details() and "--model.beta" in flat.details() and flat.measures["KL"] == 0


def test_a_loss_that_is_no_number_is_told_in_one_line(place, tmp_path):
    with pytest.raises(NotANumber) as error:
        fit(tmp_path / "no", place / "rows.csv", steps=40, train__lr=1e30, train__clip=None, train__warmup=0)
    assert "train.lr" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--count", "0"], ["count", "0"]),
        (["--between", "one.png"], ["--between", "two"]),
        (["--between", "one.png", "two.png", "--near", "one.png"], ["--near"]),
        (["--near", "gone.png"], ["gone.png"]),
        (["--out", "a.csv"], ["a.csv", ".png", ".npz"]),
        (["--out", "no/a.png"], ["no"]),
        (["--spread", "-1", "--near", "one.png"], ["spread"]),
        (["--cuont", "3"], ["--count"]),
    ],
)
def test_wrong_words_of_generate_are_told_in_one_line(place, monkeypatch, capsys, words, said):
    monkeypatch.chdir(place)
    assert main(["generate", "vae", *words]) == 2
    found = capsys.readouterr().err.strip()
    assert all(word in found for word in said) and "\n" not in found, found


def test_a_run_without_its_data_still_generates_and_is_looked_at(place, tmp_path):
    shutil.copytree(place / "vae", tmp_path / "vae")
    config = json.loads((tmp_path / "vae" / "config.json").read_text())
    assert config["recipe"] == "autoencoder"
    assert main(["look", str(tmp_path / "vae"), "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").stat().st_size > 10_000
