"""Files are whole or not there, checked by their sums, and never unpickled."""

import errno
import io
import json
import os
import pickle
import stat

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import files

WRITERS = {
    "bytes": lambda path: files.write_bytes(path, b"new"),
    "text": lambda path: files.write_text(path, "neu: ä"),
    "json": lambda path: files.write_json(path, {"new": 1}),
    "tensors": lambda path: files.write_tensors(path, {"new": torch.ones(3)}),
}
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


def failing(code):
    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    return fail


def torch_archive(path):
    torch.save({"w": torch.ones(2)}, path)


def bare_pickle(path):
    path.write_bytes(pickle.dumps({"w": [1, 2]}))


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────


@writers
def test_writes_a_new_file_and_replaces_an_old_one(tmp_path, write):
    path = tmp_path / "file"
    write(path)
    first = path.read_bytes()
    path.write_bytes(b"old")
    write(str(path))
    assert path.read_bytes() == first
    assert os.listdir(tmp_path) == ["file"]


@writers
@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("old", [b"old", None])
def test_a_failing_disk_leaves_things_as_they_were(tmp_path, monkeypatch, write, step, old):
    path = tmp_path / "file"
    if old:
        path.write_bytes(old)
    monkeypatch.setattr(os, step, failing(errno.EIO))
    with pytest.raises(OSError, match=f"^cannot write {path}: Input/output error$") as error:
        write(path)
    assert error.value.errno == errno.EIO
    assert os.listdir(tmp_path) == (["file"] if old else [])
    assert not old or path.read_bytes() == old


@writers
def test_a_full_disk_is_said_in_one_line(tmp_path, monkeypatch, write):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(OSError, match=f"^cannot write {path}.*disk.*full") as error:
        write(path)
    assert error.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_disk_that_fills_up_while_safetensors_writes_is_a_full_disk(tmp_path, monkeypatch):
    import safetensors.torch

    def full(tensors, filename, metadata):
        filename.write_bytes(b"half")
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(OSError, match="the disk is full"):
        files.write_tensors(tmp_path / "file", {"w": torch.ones(2)})
    assert os.listdir(tmp_path) == []


def test_a_disk_that_is_really_full(tmp_path):
    """/dev/full takes no byte; written to as the temporary file would be."""
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")

    def write():
        with files._replacing(tmp_path / "file") as part:
            os.unlink(part)
            os.symlink("/dev/full", part)
            part.write_bytes(b"x")

    with pytest.raises(OSError, match="^cannot write.*disk.*full"):
        write()
    assert os.listdir(tmp_path) == []


def test_an_interrupt_removes_the_half_written_file(tmp_path, monkeypatch):
    def interrupt(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_text(tmp_path / "file", "x")
    assert os.listdir(tmp_path) == []


def test_file_then_name_then_folder_are_synced(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(handle):
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"file of {os.fstat(handle).st_size}")
        fsync(handle)

    def watched_replace(a, b):
        steps.append("replace")
        assert os.path.dirname(a) == os.path.dirname(b)
        replace(a, b)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    files.write_bytes(tmp_path / "file", b"12345")
    assert steps == ["file of 5", "replace", "folder"]


@pytest.mark.parametrize("code, raises", [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_synced(tmp_path, monkeypatch, code, raises):
    fsync = os.fsync

    def only_files(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            failing(code)()
        fsync(handle)

    monkeypatch.setattr(os, "fsync", only_files)
    if raises:
        with pytest.raises(OSError, match="written.*disk.*not confirm.*Input/output error"):
            files.write_text(tmp_path / "file", "x")
    else:
        files.write_text(tmp_path / "file", "x")
    assert (tmp_path / "file").read_text() == "x"


def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    files.write_bytes(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@writers
def test_a_new_file_has_the_usual_permissions(tmp_path, write):
    (tmp_path / "usual").write_bytes(b"")
    write(tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_missing_folder_and_a_folder_in_the_way(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"there is no folder {tmp_path}/no; make it first"):
        files.write_text(tmp_path / "no" / "file", "x")
    with pytest.raises(IsADirectoryError, match=f"{tmp_path}.*folder"):
        files.write_text(tmp_path, "x")


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=30)  # each is synced to the disk
@given(value=json_values)
def test_json_there_and_back(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "value.json"
    try:
        files.write_json(path, value)
    except UnicodeEncodeError:  # a lone surrogate is no text
        return
    assert files.read_json(path) == value


@pytest.mark.parametrize(
    "value, words", [(float("nan"), "write .*x.json.*JSON"), ({1, 2}, "write .*x.json.*JSON: Object.*type")]
)
def test_what_is_no_json_is_not_written(tmp_path, value, words):
    with pytest.raises(ValueError, match=words):
        files.write_json(tmp_path / "x.json", value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "data, words",
    [
        (b'{"a": 1,\n "b" 2}', "x.json.*JSON.*2.*6: Expecting ':'"),
        (b"", "x.json.*JSON.*1.*1"),
        (b'{"a": NaN}', "x.json.*JSON: NaN.*JSON"),
        (b'"\xff"', r"x.json.*JSON.*UTF-8 \(byte 1\)"),
        (pickle.dumps({"a": 1}), "x.json is a pickle .*never opened"),
    ],
)
def test_bad_json_says_where(tmp_path, data, words):
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=words) as error:
        files.read_json(path)
    assert "\n" not in str(error.value)


READERS = [files.read_json, files.read_tensors, files.read_metadata, files.read_array, files.read_arrays]


@pytest.mark.parametrize("read", [*READERS, files.checksum])
def test_a_missing_file_is_named(tmp_path, read):
    with pytest.raises(FileNotFoundError, match=f"^there is no file {tmp_path}/gone$"):
        read(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=f"gone \\(there is no folder {tmp_path}/no either\\)$"):
        read(tmp_path / "no" / "gone")
    with pytest.raises(IsADirectoryError, match=f"{tmp_path}.*folder"):
        read(tmp_path)


# ── tensors ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_tensors_there_and_back(tmp_path):
    path = tmp_path / "x.safetensors"
    weight = torch.randn(4, 3, requires_grad=True)
    tensors = {
        "a": weight,
        "tied": weight,
        "turned": weight.T,
        "row": weight[1],
        "half": torch.ones(2).bfloat16(),
        "flag": torch.tensor(True),
        "empty": torch.zeros(0, 3),
        "also empty": torch.zeros(0),
    }
    files.write_tensors(path, tensors, {"step": "3"})
    back = files.read_tensors(path)
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(back[name], tensor.detach(), rtol=0, atol=0)
        assert back[name].dtype == tensor.dtype
    assert files.read_metadata(path) == {"step": "3"}
    files.write_tensors(path, {})
    assert files.read_tensors(path) == files.read_metadata(path) == {}


def test_tensors_already_read_survive_a_new_file(tmp_path):
    path = tmp_path / "x.safetensors"
    files.write_tensors(path, {"a": torch.arange(5)})
    old = files.read_tensors(path)
    files.write_tensors(path, {"a": torch.zeros(5)})
    assert old["a"].tolist() == [0, 1, 2, 3, 4]


def test_metadata_is_text(tmp_path):
    with pytest.raises(ValueError, match="x: metadata.*3.*'step'"):
        files.write_tensors(tmp_path / "x", {}, {"step": 3})


@pytest.mark.parametrize("read", [files.read_tensors, files.read_metadata])
def test_only_safetensors_are_read_as_tensors(tmp_path, read):
    path = tmp_path / "x.safetensors"
    for plant in (torch_archive, bare_pickle):
        plant(path)
        with pytest.raises(ValueError, match=r"\(as torch.save makes\).*never"):
            read(path)
    path.write_bytes(b"hello, this is not one")
    with pytest.raises(ValueError, match="x.safetensors.*damaged"):
        read(path)
    files.write_tensors(path, {"a": torch.ones(100)})
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="x.safetensors.*damaged"):
        read(path)


def test_a_header_that_begins_like_a_pickle_is_none(tmp_path):
    """A header of 640 bytes begins with the two bytes that mark a pickle."""
    path = tmp_path / "x.safetensors"
    for length in range(500, 600, 4):
        files.write_tensors(path, {"a": torch.ones(1)}, {"pad": "x" * length})
        if path.read_bytes()[:2] == b"\x80\x02":
            break
    else:
        pytest.fail("no header of 640 bytes was made")
    assert files.read_tensors(path)["a"] == 1


# ── arrays ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_arrays_are_read(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3))
    np.savez(tmp_path / "one.npz", images=np.arange(3))
    np.savez_compressed(tmp_path / "two.npz", images=np.arange(3), labels=np.arange(2))
    assert files.read_array(tmp_path / "x.npy").tolist() == [0, 1, 2]
    assert files.read_array(tmp_path / "one.npz").tolist() == [0, 1, 2]
    assert files.read_array(tmp_path / "two.npz", "labels").tolist() == [0, 1]
    assert list(files.read_arrays(tmp_path / "two.npz")) == ["images", "labels"]
    with pytest.raises(ValueError, match="two.npz.*arrays images, labels"):
        files.read_array(tmp_path / "two.npz")
    with pytest.raises(ValueError, match="two.npz.*arrays images, labels.*'label'"):
        files.read_array(tmp_path / "two.npz", "label")
    with pytest.raises(ValueError, match="x.npy.*'images'"):
        files.read_array(tmp_path / "x.npy", "images")
    with pytest.raises(ValueError, match="x.npy.*not.*.npz file, whatever.*name"):
        files.read_arrays(tmp_path / "x.npy")


OBJECTS = np.array([{}, []], dtype=object)


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    "name, plant, words",
    [
        ("x.npy", bare_pickle, "x.npy is a pickle .*never opened"),
        ("x.npz", torch_archive, "x.npz is a pickle .*never opened"),
        ("x.npy", lambda path: path.write_bytes(npy(OBJECTS)), "x.npy.*Python.*never"),
        ("x.npz", lambda path: np.savez(path, a=OBJECTS), "x.npz.*'a' of Python objects.*never"),
        (
            "x.npz",
            lambda path: np.savez(path, a=np.ones(3), b=np.ones(600, dtype=object)),
            "x.npz.*'b' of Python objects.*never",  # its pickle is shorter than 600 pointers
        ),
        ("x.npy", lambda path: path.write_bytes(b"1,2,3"), "x.npy.*not.*.npy file, whatever.*name"),
        ("x.npy", lambda path: path.write_bytes(npy(np.arange(9))[:-3]), "x.npy.*damaged"),
        ("x.npz", lambda path: path.write_bytes(b"PK\x03\x04 broken"), "x.npz.*damaged"),
    ],
)
def test_what_is_no_plain_array_is_refused(tmp_path, name, plant, words):
    plant(tmp_path / name)
    with pytest.raises(ValueError, match=words) as error:
        files.read_array(tmp_path / name)
    assert "\n" not in str(error.value)


class Trap:
    """Unpickling this makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("form", ["pickle", "array"])
def test_nothing_is_ever_run(tmp_path, read, form):
    sprung, path = tmp_path / "sprung", tmp_path / "file"
    path.write_bytes(pickle.dumps(Trap(sprung)) if form == "pickle" else npy(np.array([Trap(sprung)], dtype=object)))
    with pytest.raises(ValueError, match="file"):
        read(path)
    assert not sprung.exists()


# ── checksums ───────────────────────────────────────────────────────────────────────────────────────────────


def test_checksums(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # the standard's own example
    assert files.checksum(path) == known
    files.verify(path, known)
    files.verify(path, known.upper())
    path.write_bytes(b"abd")
    found = files.checksum(path)
    with pytest.raises(ValueError, match=f"x.*SHA-256.*{found}.*{known}"):
        files.verify(path, known)


def test_json_on_disk_is_for_people(tmp_path):
    files.write_json(tmp_path / "x.json", {"σ": [1]})
    text = (tmp_path / "x.json").read_text("utf-8")
    assert text == json.dumps({"σ": [1]}, indent=2, ensure_ascii=False) + "\n"
