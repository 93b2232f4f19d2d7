"""Meshes in files: what trimesh writes is read alike; what is wrong is one line with the file; what is no surface is
repaired, or refused in one line."""

import json
import struct

import numpy as np
import pytest
import torch
import trimesh

from regard.data.meshes import READERS, find_meshes, read_mesh, read_obj, read_off
from regard.data.surface import Mesh, repair_mesh
from regard.errors import RegardError
from regard.nn.mesh_geometry import HalfEdges
from regard.recipes.meshes.made_meshes import _icosphere, measure_roundness


@pytest.mark.parametrize("ending", [".ply", ".off", ".obj", ".stl", ".glb", "ascii.stl", "ascii.ply"])
def test_what_another_library_writes_is_the_same_surface(ending, tmp_path):
    points, faces = _icosphere(2)
    points = points * [1, 2, 3] + 7
    whole = trimesh.Trimesh(points, faces, process=False)
    path = tmp_path / f"ball.{ending.rpartition('.')[2]}"
    if ending == "ascii.stl":
        path.write_text(trimesh.exchange.stl.export_stl_ascii(whole))
    elif ending == "ascii.ply":
        path.write_bytes(trimesh.exchange.ply.export_ply(whole, encoding="ascii"))
    else:
        whole.export(path)
    mesh, repairs = read_mesh(str(path))
    assert len(mesh.points) == len(points) and len(mesh.faces) == len(faces)
    assert repairs.sentence is None and repairs.merged == (3 * len(faces) - len(points) if "stl" in ending else 0)
    corners = lambda p, f: np.sort(p[f].reshape(len(f), 9).round(4), 0)  # noqa: E731
    np.testing.assert_allclose(corners(mesh.points, mesh.faces).sum(1), corners(points, faces).sum(1), atol=0.05)
    assert measure_roundness(mesh.points - 7, mesh.faces) == pytest.approx(
        measure_roundness(points - 7, faces), rel=1e-4
    )


def test_a_scene_has_its_parts_where_its_nodes_say(tmp_path):
    box = trimesh.creation.box()
    scene = trimesh.Scene()
    for k, turn in enumerate((np.eye(4), trimesh.transformations.rotation_matrix(0.7, [1, 2, 3]))):
        turn[:3, 3] = 5 * k
        scene.add_geometry(box, node_name=f"node {k}", transform=turn)
    scene.export(tmp_path / "two.glb")
    mesh, _ = read_mesh(str(tmp_path / "two.glb"))
    np.testing.assert_allclose(mesh.points.min(0), scene.bounds[0], atol=1e-5)
    np.testing.assert_allclose(mesh.points.max(0), scene.bounds[1], atol=1e-5)


OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
OFF = "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n"
PLY = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement face 1\n"
PLY += "property list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n"
STL = "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n"


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("a.obj", OBJ + "f 1 2 9\n", r"a.obj .*face 1 names a vertex .*3 vertices"),
        ("a.obj", OBJ + "f 1 2 -4\n", r"face 1 names a vertex .*3 vertices"),
        ("a.obj", OBJ + "f 1 x 3\n", r"line 4: .*'x'"),
        ("a.obj", OBJ + "f 1 2\n", r"face 1 .*2 corners"),
        ("a.obj", "v 1 two 3\n", r"line 1: .*'two'"),
        ("a.obj", OBJ + "f 0 1 2\n", r"face 1 names a vertex .*3 vertices"),
        ("a.obj", "v 1 2\n", r"line 1: .*three numbers, got 2"),
        ("a.obj", OBJ, r"a.obj: a mesh needs triangles"),
        ("a.off", OFF + "3 0 1 7\n", r"face 1 names a vertex .*3 vertices"),
        ("a.ply", PLY + "3 0 1 7\n", r"face 1 names a vertex .*3 vertices"),
        ("a.stl", STL + "endloop\nfacet\nouter loop\nvertex 1 1\n", r"cut off within triangle 2"),
        ("a.stl", STL.replace("1 0 0", "1 z 0"), r"'z'"),
        ("a.stl", STL.replace("vertex 0 1 0\n", "endloop\n"), r"triangle 1 .*three corners"),
        ("a.stl", STL, r"cut off within triangle 1"),
        ("a.stl", b"\0" * 80 + struct.pack("<I", 2**31) + b"\0" * 50, r"134 bytes .*2,147,483,648 triangles"),
        ("a.off", OFF.replace("1 0 0", "nan 0 0") + "3 0 1 2\n", r"vertex 1 has NaN"),
        ("a.obj", OBJ + "f 1 1 2\n", r"the same corner twice"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n", r"area of 0"),
        ("a.xyz", "", r"give one of .ply, .off, .obj, .stl, .glb"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_file(name, text, words, tmp_path):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RegardError, match=words) as refused:
        read_mesh(str(path))
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)


def glb(content, binary=b"\0" * 48, version=2):
    described = json.dumps(content).encode()
    described += b" " * (-len(described) % 4)
    parts = (
        struct.pack("<I4s", len(described), b"JSON") + described + struct.pack("<I4s", len(binary), b"BIN\0") + binary
    )
    return b"glTF" + struct.pack("<II", version, 12 + len(parts)) + parts


GLB = {
    "buffers": [{"byteLength": 48}],
    "bufferViews": [{"buffer": 0, "byteLength": 36}, {"buffer": 0, "byteOffset": 36, "byteLength": 12}],
    "accessors": [
        {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"},
        {"bufferView": 1, "componentType": 5125, "count": 3, "type": "SCALAR"},
    ],
    "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
    "nodes": [{"mesh": 0}],
    "scenes": [{"nodes": [0]}],
}
TRIANGLE = np.array([0, 0, 0, 1, 0, 0, 0, 1, 0], "<f4").tobytes() + np.array([0, 1, 2], "<u4").tobytes()


@pytest.mark.parametrize(
    "change, words",
    [
        ({"buffers": [{"uri": "../secret.bin", "byteLength": 48}]}, "in another file"),
        ({"nodes": [{"mesh": 0, "children": [0]}]}, "without end"),
        ({"nodes": [{"children": [k + 1] * 60_000} for k in range(9)] + [{"mesh": 0}]}, "without end"),
        ({"nodes": [{"mesh": 4}]}, "number 4 of its meshes"),
        ({"nodes": [{"mesh": 0, "scale": [1, 2]}]}, "size 2 into shape"),
        (
            {"accessors": [{**GLB["accessors"][0], "count": 4_000_000_000}, GLB["accessors"][1]]},
            "promises 4,000,000,000 rows",
        ),
        ({"accessors": [{**GLB["accessors"][0], "byteOffset": -8}, GLB["accessors"][1]]}, "cut off"),
        ({"accessors": [GLB["accessors"][0], {**GLB["accessors"][1], "componentType": 7}]}, "of a usual kind"),
        ({"accessors": [{**GLB["accessors"][0], "count": 2}, GLB["accessors"][1]]}, "names vertex 2, but there are 2"),
        ({"meshes": "many"}, "number 0 of its meshes"),
        ({"meshes": [{"primitives": [{"attributes": {}, "extensions": {"KHR_draco_mesh_compression": {}}}]}]}, "Draco"),
        ({"meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "mode": 1}]}]}, "needs triangles"),
    ],
)
def test_a_glb_file_is_read_with_care_and_nothing_else_is_opened(change, words, tmp_path):
    path = tmp_path / "a.glb"
    path.write_bytes(glb(GLB, TRIANGLE))
    mesh, _ = read_mesh(str(path))
    assert mesh.points.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]] and mesh.faces.tolist() == [[0, 1, 2]]
    path.write_bytes(glb(GLB | change, TRIANGLE))
    with pytest.raises(RegardError, match=words) as refused:
        read_mesh(str(path))
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)


def test_a_glb_file_that_shows_a_mesh_too_often_does_not_fill_the_memory(tmp_path, monkeypatch):
    path = tmp_path / "a.glb"
    path.write_bytes(glb(GLB | {"scenes": [{"nodes": [0] * 90_000}]}, TRIANGLE))
    monkeypatch.setattr("regard.data.glb.most_unpacked", lambda: 2**20)
    with pytest.raises(RegardError, match="too many for the memory"):
        read_mesh(str(path))


SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"


@pytest.mark.parametrize(
    "text, faces",
    [
        ("mtllib ../x.mtl\no a\n" + SQUARE + "usemtl m\nf 1/1/1 2//3 3/2\ng b\nf 1 3 4\n", [[0, 1, 2], [0, 2, 3]]),
        (SQUARE + "f -4 -3 -2 -1 # all of them\n" + SQUARE + "f -4 -3 -2\n", [[0, 1, 2], [0, 2, 3], [4, 5, 6]]),
        ((SQUARE + "f 1 2 \\\n3\n").replace("\n", "\r\n").replace(" ", "\t"), [[0, 1, 2]]),
        (SQUARE.replace(" 0\n", " 0 .5 .5 .5\n") + "v -1 .5 0\n  f 1 2 3 4 5\n", [[0, 1, 2], [0, 2, 3], [0, 3, 4]]),
    ],
    ids=["groups", "counted from the last", "tabs and long lines", "colours and five corners"],
)
def test_an_obj_file_is_one_mesh_however_it_is_written(text, faces):
    mesh = read_obj(text.encode())
    assert mesh.faces.tolist() == faces
    assert mesh.points[:4].tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    "head, more",
    [("OFF8", ""), ("COFF 8", " 255 0 0 255"), ("NOFF\n8", " 0 0 1"), ("STCNOFF\n8", " 0 0 1 1 0 0 .5 .5")],
)
def test_an_off_file_may_have_more_than_places(head, more):
    points = np.arange(24.0).reshape(8, 3)
    rows = "".join(f"{x} {y} {z}{more} # {x}\n" for x, y, z in points.tolist())
    mesh = read_off(f"{head} 2 0\n{rows}\n3 0 1 7 255 0 0\n4 0 1 2 3\n".encode())
    np.testing.assert_array_equal(mesh.points, points)
    assert mesh.faces.tolist() == [[0, 1, 7], [0, 1, 2], [0, 2, 3]]


def test_folders_hold_meshes_by_class(tmp_path):
    (tmp_path / "round").mkdir()
    for name in ("round/a.OFF", "b.obj", ".hidden.obj", "c.txt"):
        (tmp_path / name).write_text(OBJ)
    found = find_meshes(str(tmp_path))
    assert [(file.path.rpartition("/")[2], file.label) for file in found] == [("b.obj", None), ("a.OFF", "round")]
    (tmp_path / "none").mkdir()
    with pytest.raises(RegardError, match="holds no meshes"):
        find_meshes(str(tmp_path / "none"))
    assert set(READERS) == {".ply", ".off", ".obj", ".stl", ".glb"}


# ── repairs


def strip(count=9, twist=True):
    """A band that closes, twisted by half a turn (Möbius) or not."""
    angle = 2 * np.pi * np.arange(count) / count
    lean = angle / 2 if twist else 0 * angle
    out = np.stack((np.cos(angle), np.sin(angle), 0 * angle), -1)
    side = np.cos(lean)[:, None] * out + np.sin(lean)[:, None] * [0, 0, 1.0]
    points = np.concatenate((out - 0.3 * side, out + 0.3 * side))
    faces = []
    for i in range(count):
        j = (i + 1) % count
        a, b, c, d = i, j, j + count, i + count
        if twist and j == 0:
            b, c = c, b
        faces += [(a, b, c), (a, c, d)]
    return points, np.array(faces)


def test_triangles_that_disagree_are_turned_over_and_closed_surfaces_look_outward():
    points, faces = _icosphere(2)
    mixed = faces.copy()
    mixed[::3] = mixed[::3, ::-1]
    mesh, repairs = repair_mesh(Mesh(points, mixed))
    assert repairs.turned == len(faces[::3]) and np.array_equal(np.sort(mesh.faces, 1), np.sort(faces, 1))
    inward, _ = repair_mesh(Mesh(points, faces[:, ::-1]))
    for each in (mesh, inward):
        a, b, c = np.moveaxis(each.points[each.faces], 1, 0)
        assert (np.cross(a, b) * c).sum() > 0
        HalfEdges.of(torch.from_numpy(each.faces).T, len(each.points))


@pytest.mark.parametrize(
    "points, faces, done",
    [
        (strip()[0], strip()[1], {"cut": 1, "split": 2}),  # Möbius
        ([*np.eye(3, 3).tolist(), [0, 0, 0], [5, 5, 5]], [[0, 1, 3]], {"isolated": 2}),
        (
            [[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0]],
            [[0, 1, 2], [0, 1, 3], [0, 1, 4]],
            {"cut": 1, "split": 4},
        ),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]], [[0, 1, 2], [0, 3, 4]], {"split": 1}),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [1, 2, 0], [0, 0, 1]], {"degenerate": 1, "double": 1}),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [1, 4, 5]], {"merged": 2}),
    ],
    ids=["twisted band", "isolated vertices", "three pages of a book", "two triangles at a corner", "twice", "seam"],
)
def test_what_is_no_surface_is_repaired(points, faces, done):
    mesh, repairs = repair_mesh(Mesh(np.array(points, dtype=float), np.array(faces)))
    for name, count in done.items():
        assert getattr(repairs, name) == count, repairs
    assert bool(repairs.sentence) == (set(done) != {"merged"})
    HalfEdges.of(torch.from_numpy(np.ascontiguousarray(mesh.faces.T)), len(mesh.points))  # it has an order now
    again, nothing = repair_mesh(Mesh(mesh.points + np.arange(len(mesh.points))[:, None], mesh.faces))
    assert np.array_equal(again.faces, mesh.faces) and nothing.sentence is None


def test_labels_move_with_their_vertices():
    points = [[0, 0, 0], [9, 9, 9], [1, 0, 0], [0, 1, 0], [0, 0, 0], [-1, 0, 0], [0, -1, 0]]
    mesh, _ = repair_mesh(Mesh(np.array(points, dtype=float), np.array([[0, 2, 3], [4, 5, 6]]), np.arange(7)))
    assert mesh.labels.tolist() == [0, 0, 2, 3, 5, 6]
    np.testing.assert_array_equal(mesh.points, np.array(points)[[0, 0, 2, 3, 5, 6]])
