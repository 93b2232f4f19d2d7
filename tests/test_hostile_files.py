"""Hostile files × readers: whatever a file holds, and whatever it is, a reader reads it or says in one line what
is wrong. It does not wait, it does not fill the memory, and it raises nothing but errors with words.

Each reader runs in a thread with a deadline, under a limit of memory that a bomb would break.
"""

import gzip
import io
import json
import os
import resource
import socket
import struct
import sys
import threading
import tracemalloc
import zipfile
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from regard import files, machine
from regard.data import image_files, tokenizer
from regard.data.batch import generator
from regard.data.image_arrays import read_npz
from regard.data.meshes import read_mesh
from regard.data.point_clouds import read_cloud
from regard.data.tables import read_table
from regard.errors import RegardError
from regard.look.reader import at_path
from regard.recipes.graphs.formats.files import read_graphs
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.model_input import open_image
from regard.recipes.images.read_images import find_images
from regard.recipes.sets.config import SetsConfig
from regard.recipes.sets.read_table import read_table as read_sets
from regard.recipes.text.config import LabelledTextConfig
from regard.recipes.text.read_texts import read_given_text, read_table_of_texts
from regard.runs.run import Run
from regard.targets.open import open_target

SECONDS = 20  # for one reader of one file; the rule is 60
MEMORY = 1 << 30  # bytes that Python may have more while it reads


# ── files


def npy(shape, dtype="<f8", data=b""):
    """A .npy file that claims a shape."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def npz(**members):
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return found.getvalue()


def lying_npz():
    """A small archive whose directory says that its member unpacks to a million million bytes."""
    whole = bytearray(npz(points=npy((10,), data=bytes(80))))
    for mark, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = whole.find(mark) + place
        whole[at : at + 4] = struct.pack("<I", 0xFFFFFFF0)
    return bytes(whole)


@cache
def bomb_npz():
    """A few megabytes that unpack to 8 GB: one block of zeros, told again and again."""
    packer, parts = zlib.compressobj(9, zlib.DEFLATED, -15), []
    head = npy((2**30,))
    parts.append(packer.compress(head))
    block = bytes(1 << 24)
    crc = zlib.crc32(head)
    for _ in range(8):  # the rest is only claimed: 128 MB are enough to see whether somebody unpacks
        parts.append(packer.compress(block))
        crc = zlib.crc32(block, crc)
    parts.append(packer.flush())
    data = b"".join(parts)
    size = 0xFFFFFFFE
    name = b"points.npy"
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 0, crc, len(data), size, len(name), 0) + name
    central = (
        struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 8, 0, 0, crc, len(data), size, len(name), 0, 0, 0, 0, 0, 0)
        + name
    )
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(central), len(local) + len(data), 0)
    return local + data + central + end


def png(width, height, data=b""):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def bpe(**changes):
    """A small tokenizer.json with something changed."""
    made = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "?": 2}, "unk_token": "?"},
    }
    return json.dumps(made | changes).encode()


def doubling(times):
    """Each step makes two letters of one."""
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    return {"type": "Sequence", "normalizers": [step] * times}


def split_by(expression):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


def run_of(**sections):
    return json.dumps({"regard": "0.1.0", "format": 1, "recipe": "text", "kind": "decoder"} | sections).encode()


def gpt2(**sizes):
    return json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]} | sizes).encode()


CONTENTS = {
    "empty": b"",
    "one byte": b"\x00",
    "nul": b"a,b\n1,\x002\n" * 3,
    "not utf-8": b"a,b\n\xff\xfe\xfa,2\n" * 3,
    "utf-16": "a,b\n1,2\n".encode("utf-16"),
    "only commas": b"," * 100_000,
    "only quotes": b'"' * 100_001,
    "one long cell": b"a,b\n" + b"x" * 300_000 + b",1\n",
    "one endless line": b"1" * (17 * 2**20),
    "many columns": b"1," * 200_000 + b"\n",
    "ragged": b"a,b\n1\n1,2,3\n",
    "not numbers": b"set,target,x\n1,a,nan\n1,a,inf\n2,b,1e999\n",
    "long number": b"source,target\n0," + b"9" * 5000 + b"\n",
    "large number": b"source,target\n0,999999999999999\n",
    "deep json": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"model":' * 50_000 + b"1" + b"}" * 50_000,
    "long json number": b'{"model": ' + b"9" * 10_000 + b"}",
    "json nan": b'{"model": NaN}',
    "json twice": b'{"regard": "1"}{"regard": "1"}',
    "a list": b"[1, 2]",
    "a text": b'"text"',
    "null": b"null",
    "pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "npy of a million million": npy((10**12,)),
    "npy of more": npy((10**30, 10**30)),
    "npy of nothing again and again": npy((10**18,), "|V0"),
    "npy of empty texts": npy((10**15,), "<U0"),
    "npy negative": npy((-5, 3)),
    "npy of objects": npy((3,), "|O"),
    "npy without end": b"\x93NUMPY\x01\x00\xff\xff{'descr': ",
    "npy header of brackets": b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000,
    "npz of a million million": npz(points=npy((10**12,)), edges=npy((2, 10**12), "<i8"), images=npy((10**6, 999, 999))),
    "npz with a pickle": npz(points=npy((3,), "|O")),
    "npz that lies": lying_npz(),
    "npz with nothing": npz(),
    "npz cut off": npz(points=npy((4, 3), data=bytes(96)))[:60],
    "npz with odd edges": npz(edges=npy((2, 1), "<i8", struct.pack("<2q", 0, 2**62)), x=npy((1, 1), data=bytes(8))),
    "npz with odd rows": npz(
        edges=npy((2, 1), "<i8", bytes(16)),
        feat_indptr=npy((2,), "<i8", struct.pack("<2q", 0, 10**9)),
        feat_indices=npy((1,), "<i8", bytes(8)),
        feat_shape=npy((2,), "<i8", struct.pack("<2q", 1, 10**12)),
    ),
    "npz with odd graphs": npz(edges=npy((2, 1), "<i8", bytes(16)), of=npy((1,), "<i8", struct.pack("<q", 2**60))),
    "gzip": gzip.compress(bytes(1 << 20)),
    "gzip bomb": gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**31, 2**12, 2**12) + bytes(1 << 24)),
    "gzip cut off": gzip.compress(b"abc" * 1000)[:30],
    "idx of too much": bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**31, 2**31, 2**31),
    "png bomb": png(50_000, 50_000, bytes(10_000)),
    "png of a side": png(2**31 - 1, 1),
    "png without pixels": png(0, 0),
    "png cut off": png(8, 8, bytes(200))[:50],
    "gif": b"GIF89a\xff\xff\xff\xff\x00\x00\x00;",
    "bmp": b"BM" + struct.pack("<IHHIIiiHHIIiiII", 100, 0, 0, 54, 40, 2**31 - 1, -(2**31), 1, 24, *[0] * 6),
    "ppm": b"P6\n99999 99999\n255\n",
    "ply of many": b"ply\nformat ascii 1.0\nelement vertex 999999999999\nproperty float x\nend_header\n1\n",
    "ply of less than none": b"ply\nformat binary_little_endian 1.0\nelement vertex -1\nproperty float x\nend_header\n",
    "ply without columns": b"ply\nformat binary_little_endian 1.0\nelement vertex 1000000000\nend_header\n",
    "ply with odd lists": b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nelement face 1\n"
    b"property list uchar int vertex_indices\nend_header\n1\ninf 1 2 3\n",
    "off of many": b"OFF\n999999999999 999999999999 0\n0 0 0\n",
    "off of long numbers": b"OFF\n" + b"9" * 5000 + b" 1 0\n",
    "off of less than none": b"OFF\n-5 -5 0\n0 0 0\n",
    "parquet": b"PAR1" + bytes(100) + b"PAR1",
    "torch": b"PK\x03\x04" + b"archive/data.pkl",
    "tokenizer of a large id": bpe(model={"type": "WordLevel", "vocab": {"a": 4_294_967_295}, "unk_token": "a"}),
    "tokenizer of odd ids": bpe(model={"type": "WordLevel", "vocab": {"a": -1, "b": 1.5}, "unk_token": "a"}),
    "tokenizer without model": bpe(model=None),
    "tokenizer with a broken expression": bpe(pre_tokenizer=split_by("([")),
    "tokenizer of an unknown kind": bpe(model={"type": "Nothing"}),
    "tokenizer of broken merges": bpe(model={"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "zz"]]}),
    "tokenizer that explodes": bpe(normalizer=doubling(60)),
    "tokenizer that is deep": bpe(normalizer=json.loads('{"a":' * 400 + "1" + "}" * 400)),
    "tokenizer that is very deep": bpe(normalizer=json.loads('{"a":' * 900 + "1" + "}" * 900)),
    "tokenizer with an odd added token": bpe(added_tokens=[{"id": 2**31, "content": "x"}]),
    "tokenizer with added tokens that are none": bpe(added_tokens=[3]),
    "tokenizer that is no object": bpe(model="BPE"),
    "tokenizer that backtracks": bpe(pre_tokenizer=split_by("(a+)+$|((ab)*)*c")),
    "tokenizer with a list of tokens": bpe(model={"type": "BPE", "vocab": ["a", None], "merges": []}),
    "words without the space": bpe(model={"type": "WordLevel", "vocab": {"<unknown>": 0, "a": 1}, "unk_token": "b"}),
    "a run of another program": b'{"regard": 5, "format": [1]}',
    "a run of odd sections": run_of(model=3, data=[], train="x"),
    "a large run": run_of(model={"vocab": 10**18, "dim": 10**9, "depth": 10**9}, train={}),
    "a deep run": run_of(model={"vocab": 10, "depth": 10**9}, train={}, data={}),
    "a large model": gpt2(n_layer=10**9, n_embd=768),
    "a wide model": gpt2(n_layer=2, n_embd=12_000_000, n_head=12),
    "a model of odd sizes": gpt2(n_layer=-1, n_embd="x"),
}  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A function that gives a hostile file a name with a certain ending."""
    folder = tmp_path_factory.mktemp("hostile")

    def write(name, ending):
        path = folder / f"{name.replace(' ', '-')}{ending}"
        if not path.exists():
            path.write_bytes(CONTENTS[name])
        return path

    return write


# ── readers


def folder_with(path, name):
    """A folder that holds a file, or whatever it is, under another name."""
    folder = path.parent / f"folder-{name}-{path.name}"
    folder.mkdir(exist_ok=True)
    if not os.path.lexists(folder / name):
        (folder / name).symlink_to(path)
    return folder


READERS = {
    "json": (".json", files.read_json),
    "array": (".npy", files.read_array),
    "arrays": (".npz", files.read_arrays),
    "tensors": (".safetensors", files.read_tensors),
    "tokenizer": (".json", tokenizer.load),
    "points as npy": (".npy", lambda path: read_cloud(str(path), None, generator(0))),
    "points as npz": (".npz", lambda path: read_cloud(str(path), None, generator(0))),
    "points as csv": (".csv", lambda path: read_cloud(str(path), None, generator(0))),
    "points as ply": (".ply", lambda path: read_cloud(str(path), None, generator(0))),
    "points as off": (".off", lambda path: read_cloud(str(path), None, generator(0))),
    "a mesh as obj": (".obj", lambda path: read_mesh(str(path))),
    "a mesh as stl": (".stl", lambda path: read_mesh(str(path))),
    "a mesh as glb": (".glb", lambda path: read_mesh(str(path))),
    "a table": (".csv", lambda path: read_table(str(path))),
    "a table as parquet": (".parquet", lambda path: read_table(str(path))),
    "sets as a table": (".csv", lambda path: read_sets(str(path), SetsConfig(), "learn", ("x",), each=None)),
    "a graph as csv": (".csv", lambda path: read_graphs(str(path))),
    "a graph as npz": (".npz", lambda path: read_graphs(str(path))),
    "an image": (".png", lambda path: open_image(str(path))),
    "pixels": (".png", lambda path: image_files.read(path, 8, 3, "crop")),
    "images as npz": (".npz", read_npz),
    "images as idx": ("-images-idx3-ubyte", lambda path: find_images(str(path), ImagesConfig(image="image"))),
    "images as gzip": ("-images-idx3-ubyte.gz", lambda path: find_images(str(path), ImagesConfig(image="image"))),
    "images as a table": (".csv", lambda path: find_images(str(path), ImagesConfig(image="image"))),
    "a text": (".txt", lambda path: read_given_text(str(path))),
    "texts as csv": (".csv", lambda path: read_table_of_texts(str(path), LabelledTextConfig(), "learn")),
    "texts as jsonl": (".jsonl", lambda path: read_table_of_texts(str(path), LabelledTextConfig(), "learn")),
    "a run": (".json", lambda path: Run.open(folder_with(path, "config.json"))),
    "a target": (".json", lambda path: open_target(folder_with(path, "config.json"))),
    "what a page sends": ("", lambda path: page_reader(path.read_bytes())),
}


def page_reader(data):
    with at_path(data) as path:
        return read_cloud(str(path), None, generator(0))


def try_out(reader, path):
    """What a reader does with a file: an error of one line, or nothing wrong, in time and with little memory."""
    outcome = []

    def run():
        try:
            outcome.append(("read", reader(path)))
        except BaseException as error:
            outcome.append(("raised", error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert outcome, f"it still reads after {SECONDS} seconds"
    kind, found = outcome[0]
    if kind == "raised":
        assert isinstance(found, RegardError | OSError), f"{type(found).__name__}: {found}"
        words = str(found)
        assert words.strip() and "\n" not in words.strip() and len(words) < 2000, words[:500]
        assert not words.startswith("[Errno") or isinstance(found, OSError)


@pytest.fixture(autouse=True)
def little_time(monkeypatch):
    monkeypatch.setattr("regard.data.trial.SECONDS", 1.5)


@pytest.fixture(scope="module", autouse=True)
def little_memory():
    """A bomb that goes off is an error here, and not the end of the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/status", encoding="ascii") as file:
        now = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (now + 3 * MEMORY, hard))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@pytest.mark.parametrize("reader", READERS)
def test_hostile_content(written, reader):
    ending, read = READERS[reader]
    wrong = {}
    for name in CONTENTS:
        try:
            try_out(read, written(name, ending))
        except AssertionError as error:
            wrong[name] = str(error).splitlines()[0][:300]
    assert wrong == {}


ODD_FILES = ("pipe", "zeros", "terminal", "folder", "socket", "dangling", "circle", "missing")


def make_odd(kind, path):
    """Something that is no regular file, under a name."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind in ("zeros", "terminal"):
        path.symlink_to({"zeros": "/dev/zero", "terminal": "/dev/tty"}[kind])
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            here = os.getcwd()
            os.chdir(path.parent)  # such a name may not be long
            try:
                one.bind(path.name)
            finally:
                os.chdir(here)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "circle":
        path.symlink_to(path.name)


@pytest.mark.parametrize("reader", [name for name in READERS if name != "what a page sends"])
def test_what_is_no_file(tmp_path, reader):
    ending, read = READERS[reader]
    for kind in ODD_FILES:
        path = tmp_path / f"{kind}{ending}"
        make_odd(kind, path)
        outcome = []

        def run(path=path, outcome=outcome):
            try:
                outcome.append(read(path))
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(5)
        assert outcome, f"{reader} waits for ever at a {kind}"
        if kind == "folder" and not isinstance(outcome[0], Exception):
            continue  # some read folders
        if reader == "a text":
            continue  # what is no file is a text
        assert isinstance(outcome[0], RegardError | OSError), (kind, outcome[0])
        assert str(outcome[0]).strip() and "\n" not in str(outcome[0]), kind


def test_a_bomb_is_not_unpacked(tmp_path):
    """Refused by what its directory says, before a byte of it is unpacked."""
    path = tmp_path / "bomb.npz"
    path.write_bytes(bomb_npz())
    for read in (files.read_arrays, files.read_array, lambda path: read_cloud(str(path), None, generator(0))):
        tracemalloc.start()
        with pytest.raises(RegardError, match="bomb.npz"):
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**26


def test_a_large_file_is_not_read_whole(tmp_path):
    """A file without blocks has any size and takes none of the disk."""
    for name, read in (
        ("large.json", files.read_json),
        ("large.txt", lambda path: read_given_text(str(path))),
        ("large.csv", lambda path: read_table(str(path))),
        ("large.png", lambda path: open_image(str(path))),
    ):
        path = tmp_path / name
        with open(path, "wb") as file:
            file.truncate(2**36)
        try_out(read, path)
        with pytest.raises((RegardError, OSError)):
            read(path)


def test_there_are_many_cases():
    """So that nobody takes a column or a row away without noticing."""
    assert len(CONTENTS) >= 75 and len(READERS) >= 28 and len(ODD_FILES) == 8


def test_a_regular_file_is_asked_after_it_is_open(tmp_path, monkeypatch):
    """Between a look at a path and its opening it can become something else: what is open is what counts."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(Path, "is_file", lambda self, **how: True)
    monkeypatch.setattr(os.path, "isfile", lambda path: True)
    for read in (files.read_json, lambda path: open_image(str(path)), lambda path: read_given_text(str(path))):
        with pytest.raises(RegardError, match="not a regular file"):
            read(pipe)
    open_files = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(RegardError):
            files.read_json(pipe)
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_unpacked_sizes_are_told(tmp_path):
    np.savez(tmp_path / "fine.npz", points=np.zeros((4, 3)))
    assert files.read_arrays(tmp_path / "fine.npz")["points"].shape == (4, 3)
    assert 2**26 < files.most_unpacked() < 2**45


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no such limit")
def test_a_container_counts_with_its_own_memory(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text(f"{2**14}\n")
    monkeypatch.setattr(machine, "OF_A_CGROUP", (str(tmp_path / "memory.max"),))
    np.savez_compressed(tmp_path / "large.npz", points=np.zeros(2**12))
    with pytest.raises(RegardError, match="4,096"):
        files.read_arrays(tmp_path / "large.npz")
