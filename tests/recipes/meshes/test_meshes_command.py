"""Meshes in one command: train on synthetic surfaces, folders and tables, resume, evaluate, check, predict, look."""

import csv
import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.data.surface import Mesh
from regard.look.draw_figure import draw_figure
from regard.recipes.base import get_recipe, problem_of_run
from regard.recipes.example import Example
from regard.recipes.meshes import made_meshes
from regard.recipes.meshes.config import MeshesConfig
from regard.recipes.meshes.made_meshes import FAMILIES, MADE, draw_mesh, measure_roundness
from regard.recipes.meshes.processor import MeshesProcessor
from regard.recipes.meshes.view import show_mesh
from regard.recipes.request import TrainRequest
from regard.runs.load import load_model
from regard.training.progress import Observer
from regard.verbs import train

SMALL = {"train.batch": 4, "train.evaluate_every": 1000, "model.hidden": 4, "model.depth": 2}
QUIET = [Observer()]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch, request):
    request.getfixturevalue("no_report")
    monkeypatch.setattr(made_meshes, "JUDGED", 8)  # meshes are enough to see that there is a measure
    monkeypatch.setattr(made_meshes, "USUAL", 16)
    monkeypatch.chdir(tmp_path)


def trained(out="run", steps=3, data=None, **options):
    how = SMALL | {name.replace("__", "."): value for name, value in options.items()}
    return train.train("meshes", data=data, out=out, steps=steps, options=how, observers=QUIET)


def join(meshes):
    """Meshes as a batch."""
    processor = MeshesProcessor(MeshesConfig())
    return processor.collate([processor.encode(Example({"mesh": mesh})) for mesh in meshes])


def write_off(path, points, faces):
    lines = ["OFF", f"{len(points)} {len(faces)} 0", *(" ".join(map(str, p)) for p in points)]
    path.write_text("\n".join([*lines, *(f"3 {a} {b} {c}" for a, b, c in faces)]) + "\n")


def write_ply(path, points, faces, labels):
    head = (
        f"ply\nformat ascii 1.0\nelement vertex {len(points)}\nproperty float x\nproperty float y\nproperty float z\n"
    )
    head += f"property int label\nelement face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    rows = [f"{x} {y} {z} {label}" for (x, y, z), label in zip(points, labels, strict=True)]
    path.write_text(head + "\n".join([*rows, *(f"3 {a} {b} {c}" for a, b, c in faces)]) + "\n")


@pytest.fixture
def solids(tmp_path):
    """Boxes and rings, ten of each."""
    random = np.random.default_rng(0)
    for kind in ("box", "torus"):
        (tmp_path / "solids" / kind).mkdir(parents=True)
        for i in range(10):
            write_off(tmp_path / "solids" / kind / f"{i}.off", *FAMILIES[kind](random))
    return str(tmp_path / "solids")


# ── synthetic surfaces


@pytest.mark.parametrize("family", FAMILIES)
def test_synthetic_surfaces_are_closed_and_look_outward(family):
    points, faces = FAMILIES[family](np.random.default_rng(1))
    a, b, c = np.moveaxis(points[faces], 1, 0)
    assert (np.cross(a, b) * c).sum() > 0
    edges = np.sort(np.concatenate((faces[:, :2], faces[:, 1:], faces[:, ::2])), 1)
    _, times = np.unique(edges, axis=0, return_counts=True)
    assert (times == 2).all()
    euler = len(points) - len(times) + len(faces)
    assert euler == (0 if family == "torus" else 2)


def test_mirror_images_have_the_same_scalars_so_that_filters_without_direction_cannot_tell_them_apart():
    """A network of scalars gives a screw and its mirror image the same; with arrows it does not."""
    points, faces = FAMILIES["left screw"](np.random.default_rng(0))
    mirrored = points * [1, 1, -1]
    other = faces[:, ::-1].copy()  # still seen from outside
    outputs = {}
    for orders in (0, 1):
        torch.manual_seed(0)
        config = regard.registry.find("models", "meshnet").Config(outputs=2, hidden=8, depth=2, orders=orders)
        model = regard.registry.find("models", "meshnet")(config).double()
        meshes = [Mesh(points, faces), Mesh(mirrored, other)]
        batch = join(meshes)
        with torch.no_grad():
            outputs[orders] = model(batch["points"].double(), batch["faces"], of=batch["of"])
    apart = {orders: float((out[0] - out[1]).abs().max()) for orders, out in outputs.items()}
    assert apart[0] < 1e-6 and apart[1] > 1e-4


def test_roundness_is_one_for_a_sphere_and_does_not_depend_on_size():
    from regard.recipes.meshes.made_meshes import _icosphere

    points, faces = _icosphere(12)
    assert measure_roundness(points, faces) == pytest.approx(1, abs=0.02)
    assert measure_roundness(3 * points, faces) == pytest.approx(measure_roundness(points, faces))
    mesh, target = draw_mesh("roundness", np.random.default_rng(0))
    assert 0 < target < 1 and np.isfinite(mesh.points).all()


@pytest.mark.parametrize("task", MADE)
def test_train_evaluate_and_check(task):
    run = trained(data=task, steps=2)
    found = regard.evaluate(run.path)
    assert found.split == "test" and found.count == 8
    assert ("accuracy" in found.measures) == (MADE[task].number is None)
    model = load_model(run)
    report = regard.check(model, model.sample_inputs(), laws=["gauge", "rotation", "relabelling"], trials=3)
    assert report.ok and report["gauge"].measured == "holds"


def test_a_run_that_stopped_goes_on_to_the_same_losses():
    class Stops(Observer):
        """Ctrl-C after two steps."""

        def stepped(self, step, loss, tokens, seconds):
            if step == 2:
                signal.raise_signal(signal.SIGINT)

    def losses(run):
        return [event["loss"] for event in run.metrics() if event["event"] == "step"]

    whole = trained(out="whole", steps=4)
    train.train("meshes", out="half", steps=4, options=SMALL, observers=[Stops()])
    again = train.train("meshes", out="half", resume=True, observers=QUIET)
    assert len(losses(whole)) == 4 and losses(whole) == losses(again)


# ── files


def test_a_folder_of_meshes_by_class(solids, tmp_path):
    run = trained(data=solids, steps=2)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["processor"]["target"]["classes"] == ["box", "torus"]
    assert config["counts"]["train"] + config["counts"]["validation"] == 20
    found = list(regard.predict(run.path, [f"{solids}/box"]))
    assert len(found) == 10 and set(found[0].labels) == {"box", "torus"}
    (missing,) = regard.predict(run.path, [f"{solids}/none.off"])
    assert "none.off" in missing.error and "\n" not in missing.error
    assert regard.evaluate(run.path, data=solids).count == 20
    (tmp_path / "solids" / "cone").mkdir()
    write_off(tmp_path / "solids" / "cone" / "a.off", [[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    with pytest.raises(ValueError, match="class 'cone', but the model knows box, torus"):
        regard.evaluate(run.path, data=solids)
    other = trained(out="other", data=solids)
    assert other.config.processor["target"]["classes"] == ["box", "cone", "torus"]


def test_a_number_for_each_mesh_from_a_table(solids, tmp_path):
    with open(tmp_path / "sizes.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "grams"])
        writer.writerows([f"{kind}/{i}.off", i + 0.5] for kind in ("box", "torus") for i in range(10))
    options = {"data__targets": str(tmp_path / "sizes.csv"), "data__target": "grams", "model__sized": True}
    run = trained(data=solids, steps=2, **options)
    (found,) = regard.predict(run.path, [f"{solids}/box/3.off"])
    assert list(found.values) == ["grams"]
    assert "loss" in regard.evaluate(run.path).measures
    model = load_model(run)
    assert "scalings" not in str(model.symmetry)
    with pytest.raises(ValueError, match="has no column 'kilos'"):
        trained(out="a", data=solids, **options | {"data__target": "kilos"})
    (tmp_path / "sizes.csv").write_text("file,grams\nbox/0.off,1.5\n")
    with pytest.raises(ValueError, match=r"no target for box/1.off"):
        trained(out="b", data=solids, **options)


def test_a_class_for_each_vertex(tmp_path):
    random = np.random.default_rng(0)
    (tmp_path / "bodies").mkdir()
    for i in range(6):
        points, faces = FAMILIES["peanut"](random)
        write_ply(tmp_path / "bodies" / f"{i}.ply", points, faces, (points[:, 2] > 0).astype(int))
    run = trained(data=str(tmp_path / "bodies"), steps=2)
    (found,) = regard.predict(run.path, [str(tmp_path / "bodies" / "0.ply")])
    assert len(found.each) > 100 and set(found.each[0].labels) == {"0", "1"}
    model = load_model(run)
    given = problem_of_run(run).reader(run, model).read()
    with torch.no_grad():
        figure = show_mesh(model, model(**given.inputs), given)
    assert figure.groups[0].names == ["0", "1"] and figure.measures[-1].name == "Gauss curvature"
    assert len(draw_figure(figure.to_json(), "").axes) == 1 + len(figure.measures)
    write_ply(tmp_path / "bodies" / "6.ply", points, faces, points[:, 2] * 0)
    other = tmp_path / "bodies" / "7.off"
    write_off(other, points, faces)
    with pytest.raises(ValueError, match="7.off has no labels for its vertices"):
        trained(out="other", data=str(tmp_path / "bodies"))


def test_a_mesh_does_not_depend_on_those_beside_it():
    random = np.random.default_rng(0)
    meshes = [Mesh(*FAMILIES[kind](random)) for kind in ("star", "torus", "box")]
    model, _ = regard.registry.find("models", "meshnet").tiny()

    def outputs(some):
        batch = join(some)
        return model.double()(batch["points"].double(), batch["faces"], of=batch["of"])

    with torch.no_grad():
        torch.testing.assert_close(outputs(meshes), torch.cat([outputs([mesh]) for mesh in meshes]))
        rounded = join(meshes)
        with torch.autocast("cpu", torch.bfloat16):
            half = model.float()(rounded["points"], rounded["faces"], of=rounded["of"])
        torch.testing.assert_close(half.double(), outputs(meshes), atol=0.02, rtol=0.1)


def test_contributions_sum_to_the_logits():
    run = trained(data="shapes", steps=2)
    model = load_model(run)
    given = problem_of_run(run).reader(run, model).read("3")
    with torch.no_grad():
        out = model(**given.inputs)[0]
        each = model.contributions(given.places, given.triangles)
    torch.testing.assert_close(each.sum(0) + model.head.bias, out)
    assert given.name == "Mesh 3 of the synthetic task shapes" and given.truth in FAMILIES
    for action in given.actions(model):
        for moved in action.elements:
            with torch.no_grad():
                torch.testing.assert_close(model(**moved.input.inputs)[0], out, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="called 1, 2, 3"):
        problem_of_run(run).reader(run, model).read("third")


def test_what_a_page_sends_is_read_by_its_content(solids):
    run = trained(data=solids, steps=1)
    reader = problem_of_run(run).reader(run, load_model(run))
    data = Path(f"{solids}/box/0.off").read_bytes()
    assert len(reader.read(data).places) == len(reader.read(f"{solids}/box/0.off").places)
    text = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
    assert len(reader.read(text).places) == 3
    with pytest.raises(ValueError, match="the file .*face 1 names a vertex that is not there; it has 3 vertices"):
        reader.read(text.replace(b"f 1 2 3", b"f 1 2 9"))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"data.task": "shape"}, "did you mean 'shapes'"),
        ({"data.folds": 3}, "--train.seeds 3"),
        ({"data.targets": "a.csv"}, "give it with --data"),
        ({"model.orders": -1}, "orders"),
        ({"model.dropout": 1.0}, "dropout"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(options, words):
    with pytest.raises(ValueError, match=words):
        TrainRequest(recipe=get_recipe("meshes"), options=options).settings()
    with pytest.raises(FileNotFoundError, match="did you mean screws"):
        MeshesProcessor(MeshesConfig(path="screw")).read("screw", want="learn")
