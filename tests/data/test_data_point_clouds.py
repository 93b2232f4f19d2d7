"""Clouds in files: every format there and back, points on surfaces by area, and what is wrong named with file and line."""

import io
import pickle

import numpy as np
import pytest

from regard.data.batch import generator
from regard.data.meshes import read_off, read_ply
from regard.data.point_clouds import find_clouds, read_cloud
from regard.data.surface import Surface, areas, random_turns
from regard.recipes.sets.solids import SOLIDS, draw_solids, fit_in_ball, mesh

POINTS = np.random.default_rng(0).normal(size=(17, 3))
SQUARE = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0.0]])
OFF = "OFF\n4 1 0\n" + "".join(f"{x} {y} {z}\n" for x, y, z in SQUARE) + "4 0 1 2 3\n"


def ply(order, points=POINTS, faces=(), extra=False):
    """A PLY file, written by hand: with an element that nobody asked for between the two, if `extra`."""
    kind = {"<": "binary_little_endian", ">": "binary_big_endian", "": "ascii"}[order]
    head = f"ply\nformat {kind} 1.0\ncomment made for a test\nelement vertex {len(points)}\n"
    head += "property double x\nproperty double y\nproperty double z\nproperty uchar label\n"
    head += "element lamp 2\nproperty list uchar short rays\nproperty float power\n" if extra else ""
    head += f"element face {len(faces)}\nproperty list uchar int vertex_indices\nproperty uchar red\n" if faces else ""
    body = io.BytesIO()
    if order == "":
        body.write("".join(f"{x!r} {y!r} {z!r} {i % 2}\n" for i, (x, y, z) in enumerate(points.tolist())).encode())
        body.write(b"2 5 6 0.5\n0 1.5\n" if extra else b"")
        body.write("".join(f"{len(face)} {' '.join(map(str, face))} 9\n" for face in faces).encode())
    else:
        for i, row in enumerate(points):
            body.write(np.array(row, order + "f8").tobytes() + bytes([i % 2]))
        if extra:
            body.write(b"\x02" + np.array([5, 6], order + "i2").tobytes() + np.array(0.5, order + "f4").tobytes())
            body.write(b"\x00" + np.array(1.5, order + "f4").tobytes())
        for face in faces:
            body.write(bytes([len(face)]) + np.array(face, order + "i4").tobytes() + b"\x09")
    return (head + "end_header\n").encode() + body.getvalue()


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def read(path, count=None):
    return read_cloud(str(path), count, generator(0))


# ── formats ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_format_comes_back_as_it_was_written(tmp_path):
    np.save(tmp_path / "a.npy", POINTS)
    np.savez(tmp_path / "a.npz", points=POINTS, labels=np.arange(17) % 3)
    np.savez(tmp_path / "b.npz", POINTS)
    np.savetxt(tmp_path / "a.csv", POINTS, delimiter=",", header="x,y,z", comments="", fmt="%.17g")
    np.savetxt(tmp_path / "b.csv", POINTS, delimiter=" ", fmt="%.17g")
    for order, name in (("", "text"), ("<", "little"), (">", "big")):
        write(tmp_path / f"{name}.ply", ply(order, extra=True))
    for name in ("a.npy", "a.npz", "b.npz", "a.csv", "b.csv", "text.ply", "little.ply", "big.ply"):
        assert (read(tmp_path / name).points == POINTS).all(), name
    assert read(tmp_path / "a.npz").labels.tolist() == (np.arange(17) % 3).tolist()
    assert read(tmp_path / "big.ply").labels.tolist() == (np.arange(17) % 2).tolist()
    np.save(tmp_path / "line.npy", np.arange(4))
    assert read(tmp_path / "line.npy").points.tolist() == [[0], [1], [2], [3]]
    np.save(tmp_path / "empty.npy", np.zeros((0, 3)))
    assert read(tmp_path / "empty.npy").points.shape == (0, 3)


@pytest.mark.parametrize("order", ["", "<", ">"])
def test_faces_of_a_ply_are_those_of_an_off(order):
    polygons = [[0, 1, 2, 3], [0, 1, 2]]
    mine = read_ply(ply(order, SQUARE, polygons, extra=True))
    off = OFF.replace("4 1 0", "4 2 0").replace("\n0 0", "\n# a comment\n0 0", 1) + "3 0 1 2 255 0 0\n"
    triangles = [[0, 1, 2], [0, 2, 3], [0, 1, 2]]
    for theirs in (read_off(off.encode()), read_off(off.replace("OFF\n", "OFF").encode())):
        assert (mine.points == theirs.points).all()
        assert mine.faces.tolist() == theirs.faces.tolist() == triangles
    assert mine.labels.tolist() == [0, 1, 0, 1]


def test_a_mesh_has_as_many_points_as_are_asked_for(tmp_path):
    path = write(tmp_path / "a.off", OFF)
    assert read(path, 50).points.shape == (50, 3) and read(path).points.shape == (1024, 3)
    few = read(write(tmp_path / "a.ply", ply("<")), 5)
    assert few.points.shape == (5, 3) and len(few.labels) == 5


# ── surfaces ────────────────────────────────────────────────────────────────────────────────────────────────


def test_points_on_a_surface_follow_its_area():
    """A square of area 1 beside one of area 3: a quarter of the points, evenly spread within."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 3], [0, 1, 3.0]])
    faces = np.array([[0, 1, 2], [0, 2, 3], [3, 2, 4], [3, 4, 5]])
    assert areas(corners[faces]).tolist() == [0.5, 0.5, 1.5, 1.5]
    points = Surface(corners, faces).sample(40_000, generator(1))
    flat = points[points[:, 2] == 0]
    assert abs(len(flat) / 40_000 - 0.25) < 0.01
    counts = np.histogram2d(flat[:, 0], flat[:, 1], bins=4, range=[[0, 1], [0, 1]])[0]
    assert (abs(counts / len(flat) - 1 / 16) < 0.01).all()


def test_turns_are_rotations_without_a_direction_of_their_own():
    turns = random_turns(4000, generator(0))
    np.testing.assert_allclose(turns @ turns.transpose(0, 2, 1), np.broadcast_to(np.eye(3), turns.shape), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(turns), 1)
    assert abs(turns.mean(0)).max() < 0.03  # the mean over SO(3) is zero
    assert abs((turns**2).mean(0) - 1 / 3).max() < 0.02
    upright = random_turns(2000, generator(0), upright=True)
    assert (upright[:, 2] == [0, 0, 1]).all() and abs(upright[:, :2, :2].mean(0)).max() < 0.05


def test_solids_are_what_they_are_called():
    """Areas and volumes of closed forms; the flux through the surface is three times the volume, so nothing is open."""

    def area_and_volume(name):
        vertices, faces = mesh(name)
        corners = vertices[faces]
        flux = np.einsum("fi, fi -> f", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6
        assert abs(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).sum(0)).max() < 1e-9, (
            name
        )  # closed
        return areas(corners).sum(), abs(flux)

    assert len(SOLIDS) == 12
    known = {
        "cube": (6, 1),
        "octahedron": (4 * 3**0.5, 4 / 3),
        "tetrahedron": (3**0.5 * 3, 2**0.5 * 3**0.5 / 4),
        "sphere": (4 * np.pi, 4 / 3 * np.pi),
        "torus": (4 * np.pi**2 * 0.8 * 0.35, 2 * np.pi**2 * 0.8 * 0.35**2),
        "cylinder": (2 * np.pi * 0.7 * (1.4 + 0.7), np.pi * 0.49 * 1.4),
    }
    for name in SOLIDS:
        found = area_and_volume(name)
        if name in known:
            np.testing.assert_allclose(
                found, known[name], rtol=1e-9 if name in ("cube", "octahedron", "tetrahedron") else 0.01
            )


def test_clouds_of_solids_are_turned_and_fit_into_a_ball():
    kinds = np.arange(12)
    clouds = draw_solids(kinds, 100, generator(0))
    np.testing.assert_allclose(np.linalg.norm(clouds, axis=-1).max(-1), 1)
    np.testing.assert_allclose(clouds.mean(1), 0, atol=1e-12)
    upright = draw_solids(np.array([10] * 50), 200, generator(0), "none")  # a tetrahedron stands on a face
    assert (abs(upright[:, :, 2] - upright[:, :, 2].min(1, keepdims=True)) < 0.05).mean() > 0.2
    assert fit_in_ball(np.zeros((0, 3))).shape == (0, 3) and (fit_in_ball(np.ones((4, 3))) == 0).all()


# ── folders and what is wrong ───────────────────────────────────────────────────────────────────────────────


def test_a_folder_names_its_classes(tmp_path):
    for name in ("cup/a.npy", "cup/old/b.npy", "plate/a.csv", ".hidden/x.npy", "plate/readme.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, "1 2 3")
    assert [(file.path.removeprefix(f"{tmp_path}/"), file.label) for file in find_clouds(str(tmp_path))] == [
        ("cup/a.npy", "cup"),
        ("cup/old/b.npy", "cup"),
        ("plate/a.csv", "plate"),
    ]


def pickled():
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    return stream.getvalue()


def cut(content, by=9):
    return (content if isinstance(content, bytes) else content.encode())[:-by]


def saved(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("a.npy", pickled(), "a.npy.*pickle"),
        ("a.npy", pickle.dumps(POINTS), "a.npy.*pickle"),
        ("a.npy", cut(saved(POINTS)), "a.npy.*damaged"),
        ("a.npy", b"", "a.npy.*npy file"),
        ("a.npy", saved(np.zeros((2, 2, 2))), r"float64.*shape \(2, 2, 2\)"),
        ("a.npy", saved(np.array(["x"])), "must hold numbers"),
        ("a.npy", saved(np.array([[1, 2], [3, np.nan]])), "a.npy.*NaN.*infinity.*point 2"),
        ("a.npz", b"PK\x03\x04 nothing", "a.npz.*damaged"),
        ("a.csv", "1,2,3\n4,5\n", "line 1.*a.csv.*3 values.*2 columns"),
        ("a.csv", "x,y\n1,2\n3,four\n", "a.csv.*'four'.*line 3"),
        ("a.csv", "1,2\n\nnan,3\n", "a.csv.*missing.*line 3"),
        ("a.csv", "x,y,z\n", "a.csv.*points"),
        ("a.ply", "plyx", "a.ply.*must begin with 'ply'"),
        ("a.ply", ply("").replace(b"double x", b"half x"), "a.ply.*header.*'property half x'"),
        ("a.ply", ply("").replace(b"format ascii 1.0\n", b""), "has no format"),
        ("a.ply", ply("").replace(b"double x", b"double u"), "vertices.*x, y.*y.*label"),
        ("a.ply", cut(ply(""), 200), "a.ply.*cut off"),
        ("a.ply", cut(ply("<")), "a.ply.*cut off"),
        ("a.ply", cut(ply(">", SQUARE, [[0, 1, 2]])), "a.ply.*cut off"),
        ("a.ply", ply("", SQUARE, [[0, 1, 4]]), "a.ply.*face 1.*4 vertices"),
        ("a.ply", ply("", SQUARE, [[0, 1]]), "face 1 has 2 corners"),
        ("a.ply", ply("").replace(b"end_header\n", b"end_header\n1 2 x 0\n"), "a.ply.*'x'"),
        ("a.ply", ply("").replace(b"end_header\n", b"end_header\n1 2\n"), "a.ply.*more numbers"),
        ("a.off", "off-road", "a.off.*must begin with OFF"),
        ("a.off", "COFFEE", "a.off.*first line must be OFF"),
        ("a.off", "OFF\n", "a.off.*number of vertices"),
        ("a.off", cut(OFF, 12), "a.off.*promises 4 vertices.*1 faces.*has 4 lines"),
        ("a.off", OFF.replace("2.0 1.0", "2.0 one"), "a.off.*'one'"),
        ("a.off", OFF.replace("0 1 2 3", "0 1 2 7"), "a.off.*face 1.*4 vertices"),
        ("a.off", OFF.replace("4 0 1 2 3", "4 0 1 2"), "a.off.*face 1 promises 4 corners"),
        ("a.off", OFF.replace("4 0 1 2 3", "3 0 0 0"), "mesh needs.*triangle"),
        ("a.off", OFF.replace("2.0 1.0", "nan 1.0"), "a.off.*vertex.*NaN"),
        ("a.txt", "1 2", "a.txt.*cloud"),
    ],
)
def test_what_is_wrong_is_one_clear_line(tmp_path, name, content, words):
    with pytest.raises(ValueError, match=words) as caught:
        read(write(tmp_path / name, content), 20)
    assert "\n" not in str(caught.value)


def test_arrays_that_do_not_say_what_they_are(tmp_path):
    np.savez(tmp_path / "a.npz", first=POINTS, second=POINTS)
    with pytest.raises(ValueError, match="array 'points'.*second"):
        read(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", points=POINTS, labels=np.zeros(3))
    with pytest.raises(ValueError, match=r"labels of shape \(3,\) for 17 points"):
        read(tmp_path / "b.npz")
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="holds no point clouds"):
        find_clouds(str(tmp_path / "none"))
