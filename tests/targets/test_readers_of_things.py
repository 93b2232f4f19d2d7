"""Sets and graphs from files and from what came with a model; what cannot be read is told in one line."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.models.decoder import Decoder
from regard.models.deep_sets import DeepSets
from regard.models.encoder import Encoder
from regard.models.graph_net import GraphNet
from regard.models.mlp import MLP
from regard.models.point_net import PointNet
from regard.models.set_transformer import SetTransformer
from regard.recipes.graphs.reader import GraphReader
from regard.recipes.sets.foreign_reader import SetReader
from regard.symmetry.roles import Roles, Stream
from regard.targets.open import open_target
from tests.look.scenes import reader_for

ROLES = Roles(streams=(Stream("x", mask="real"),))
GRAPH = Roles(nodes="x", edges="edges")
THREE = {"x": torch.zeros(2, 4, 3)}


@pytest.fixture
def reader():
    return SetReader(ROLES, THREE)


def written(path, content):
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    return str(path)


@pytest.mark.parametrize(
    "model, kind",
    [
        (SetTransformer, SetReader),
        (DeepSets, SetReader),
        (PointNet, SetReader),
        (MLP, SetReader),
        (GraphNet, GraphReader),
        (Decoder, None),
        (Encoder, None),
    ],
)
def test_which_models_are_of_sets_and_graphs(model, kind):
    made, inputs = model.tiny()
    found = reader_for(made, inputs)
    assert type(found) is kind if kind else found is None


def test_vectors_of_a_model_that_says_nothing_are_points_if_they_could_be():
    layer = nn.TransformerEncoderLayer(16, 2, batch_first=True)
    assert reader_for(layer, {"src": torch.zeros(1, 5, 16)}) is None
    assert isinstance(reader_for(layer, {"src": torch.zeros(1, 5, 3)}), SetReader)
    said = Roles(streams=(Stream("src"),))
    assert isinstance(reader_for(layer, {"src": torch.zeros(1, 5, 16)}, said), SetReader)
    ordered = Roles(streams=(Stream("src", places="where"),))
    assert reader_for(layer, {"src": torch.zeros(1, 5, 16)}, ordered) is None


def test_functions_of_the_users_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "from regard.models.point_net import PointNet\nfrom regard.models.graph_net import GraphNet\n"
    (tmp_path / "of_things.py").write_text(code + "points = PointNet.tiny\nnodes = GraphNet.tiny\n")
    given = open_target("of_things:points").reader.read()
    assert given.kind == "points" and given.inputs["x"].shape == (1, 12, 3) and given.columns == ("x", "y", "z")
    given = open_target("of_things:nodes").reader.read("4")
    assert given.kind == "graph" and given.inputs["x"].shape == (11, 3) and given.centre == 4
    assert given.streams[0].labels[:2] == ("0", "1")


def test_a_row_without_its_padding():
    x, real = torch.arange(24.0).view(2, 4, 3), torch.tensor([[True, False, True, True], [True] * 4])
    given = SetReader(ROLES, {"x": x, "real": real}).read()
    assert given.inputs["x"].tolist() == x[:1, [0, 2, 3]].tolist() and given.inputs["real"].tolist() == [[True] * 3]
    hidden = Roles(streams=(Stream("x", mask="padding", hides=True),))
    given = SetReader(hidden, {"x": x, "padding": ~real}).read()
    assert given.inputs["x"].shape == (1, 3, 3) and given.inputs["padding"].tolist() == [[False] * 3]
    shorter = given.with_points(given.inputs["x"][:, 1:])
    assert shorter["x"].shape == (1, 2, 3) and shorter["padding"].shape == (1, 2)


def test_files(reader, tmp_path):
    rows = np.array([[1.0, 2, 3], [4, 5, 6]])
    for name, save in (
        ("a.npy", np.save),
        ("b.npz", lambda p, x: np.savez(p, points=x, other=x[:1])),
        ("c.npz", np.savez),
    ):
        save(tmp_path / name, rows)
        assert reader.read(str(tmp_path / name)).inputs["x"].tolist() == [rows.tolist()]
        assert reader.read((tmp_path / name).read_bytes()).inputs["x"].tolist() == [rows.tolist()]
    given = reader.read(written(tmp_path / "d.csv", b"height, y ,x\n1,2,3\n4,5,6\n"))
    assert given.columns == ("height", "y", "x") and given.inputs["x"].tolist() == [rows.tolist()]
    assert reader.read(b"1,2,3\n4,5,6\n").columns == ("x", "y", "z")


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("b.csv", b"1,2,3\n1,two,3\n", r"b\.csv.*has texts.*'two'"),
        ("d.csv", b"1,2\n", r"d\.csv.*element.*3.*2"),
        ("e.npy", np.zeros((0, 3)), "the set is empty"),
        ("k.txt", b"1,2,3", r"k\.txt is not a point cloud"),
    ],
)
def test_what_cannot_be_read(reader, tmp_path, name, content, words):
    with pytest.raises(ValueError, match=words) as error:
        reader.read(written(tmp_path / name, content))
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(reader):
    with pytest.raises(ValueError, match="file 'nowhere.npy'; give.*path"):
        reader.read("nowhere.npy")
    # and no path that is no more
    with pytest.raises(ValueError, match="the file.*has texts.*'x' .line 2"):
        reader.read(b"1,2,3\n1,2,x\n")


def test_graphs_from_files(tmp_path):
    inputs = {"x": torch.zeros(2, 3), "edges": torch.tensor([[0], [1]])}
    reader = GraphReader(GRAPH, inputs, labels=["here", "there"], truth=["cat", None], classes=["cat", "dog"])
    given = reader.read("there")
    assert given.centre == 1 and given.classes == ("cat", None) and given.called(1) == "dog"
    with pytest.raises(ValueError, match="node 'nowhere'; nodes.*here, there"):
        reader.read("nowhere")
    x, edges = np.ones((3, 3), dtype=np.float32), np.array([[0, 1], [1, 2]])
    np.savez(tmp_path / "a.npz", x=x, edges=edges, labels=np.array([0, 1, 1]))
    for given in (reader.read(str(tmp_path / "a.npz")), reader.read((tmp_path / "a.npz").read_bytes())):
        assert given.labels == ("0", "1", "2") and given.classes == ("0", "1", "1")
        assert given.edges.tolist() == edges.tolist() and given.inputs["x"].shape == (3, 3)
    np.savez(tmp_path / "b.npz", x=np.ones((3, 2), dtype=np.float32), edges=edges)
    with pytest.raises(ValueError, match="b.npz.*node.*3 numbers.*2"):
        reader.read(str(tmp_path / "b.npz"))
    np.savez(tmp_path / "c.npz", x=x, edges=np.array([[0], [3]]))
    with pytest.raises(ValueError, match="target 3.*nodes.*0 … 2"):
        reader.read((tmp_path / "c.npz").read_bytes())
