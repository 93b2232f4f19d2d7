"""Which pictures there are: every form gives the same album, and what is wrong with one is said in one line."""

import gzip
import struct

import numpy as np
import pytest
from PIL import Image

from regard.data.albums import album
from regard.data.splits import TEST, TRAIN, VALIDATION

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 5)).astype(np.uint8)
LABELS = np.array([2, 10, 2, 10, 2, 10], dtype=np.uint8)


def folder(tmp_path, parts=("",)):
    for part in parts:
        for i, (pixels, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
            place = tmp_path / "pictures" / part / f"{label}"
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(place / f"{i}.png")
    return tmp_path / "pictures"


def idx(path, array, squeeze=False):
    content = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(content) if squeeze else content)


def test_a_folder_of_folders(tmp_path):
    found = album(str(folder(tmp_path)))
    assert found.labels == ("2", "10")  # as numbers, not as text
    assert found.classes.tolist() == [1, 1, 1, 0, 0, 0] or found.classes.tolist() == [0, 0, 0, 1, 1, 1]
    for path, number in zip(found.files, found.classes, strict=True):
        assert f"/{found.labels[number]}/" in path
    assert (found.splits == TRAIN).all()


def test_folders_called_train_and_test_are_splits(tmp_path):
    found = album(str(folder(tmp_path, ("train", "val", "Test"))))
    assert np.bincount(found.splits).tolist() == [6, 6, 6] and found.labels == ("2", "10")
    for path, split in zip(found.files, found.splits, strict=True):
        assert {TRAIN: "/train/", VALIDATION: "/val/", TEST: "/Test/"}[split] in path


@pytest.mark.parametrize("squeeze", [False, True])
def test_idx_files(tmp_path, squeeze):
    end = ".gz" if squeeze else ""
    for name, split in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        idx(tmp_path / f"{name}-images-idx3-ubyte{end}", PIXELS[split], squeeze)
        idx(tmp_path / f"{name}-labels-idx1-ubyte", LABELS[split])
    found = album(str(tmp_path))
    order = np.argsort(found.splits, kind="stable")
    assert np.array_equal(found.pixels[order], PIXELS)
    assert [found.labels[i] for i in found.classes[order]] == [str(each) for each in LABELS]
    assert found.splits[order].tolist() == [TRAIN] * 4 + [TEST] * 2
    alone = album(str(tmp_path / f"train-images-idx3-ubyte{end}"))
    assert np.array_equal(alone.pixels, PIXELS[:4])


def test_npz_in_its_usual_forms(tmp_path):
    np.savez(tmp_path / "a.npz", images=PIXELS, labels=LABELS)
    np.savez(tmp_path / "b.npz", x_train=PIXELS[:4] / 255, y_train=LABELS[:4, None], x_test=PIXELS[4:] / 255, y_test=LABELS[4:])
    np.savez(tmp_path / "c.npz", X=np.stack([PIXELS] * 3, 1), Y=LABELS)  # n 3 h w
    one, two, three = (album(str(tmp_path / f"{name}.npz")) for name in "abc")
    assert np.array_equal(one.pixels, PIXELS) and np.array_equal(two.pixels, PIXELS)
    assert two.splits.tolist() == [TRAIN] * 4 + [TEST] * 2
    assert three.pixels.shape == (6, 5, 5, 3) and np.array_equal(three.pixels[..., 1], PIXELS)


def test_a_table_of_paths(tmp_path):
    folder(tmp_path)
    names, splits = {2: "cat", 10: "dog"}, ["train"] * 4 + ["test"] * 2
    rows = "".join(f"pictures/{k}/{i}.png,{names[k]},{splits[i]}\n" for i, k in enumerate(LABELS))
    (tmp_path / "t.csv").write_text("file,label,split\n" + rows)
    found = album(str(tmp_path / "t.csv"))
    assert found.labels == ("cat", "dog") and found.classes.tolist() == [0, 1] * 3
    assert found.splits.tolist() == [TRAIN] * 4 + [TEST] * 2
    assert np.array_equal(np.asarray(Image.open(found.files[3])), PIXELS[3])


def test_digits_without_a_path():
    found = album(None)
    assert found.pixels.shape == (1797, 8, 8) and found.pixels.max() == 255 and len(found.labels) == 10
    assert (found.splits == TEST).sum() == 359


def wrong(tmp_path, kind):
    place = tmp_path / "data"
    place.mkdir()
    if kind == "no folders":
        Image.fromarray(PIXELS[0]).save(place / "a.png")
    elif kind == "empty folders":
        (place / "cats").mkdir()
        (place / "dogs").mkdir()
    elif kind == "one class":
        (place / "cats").mkdir()
        Image.fromarray(PIXELS[0]).save(place / "cats" / "a.png")
    elif kind == "no labels":
        idx(place / "train-images-idx3-ubyte", PIXELS)
    elif kind == "other labels":
        idx(place / "train-images-idx3-ubyte", PIXELS)
        idx(place / "train-labels-idx1-ubyte", LABELS[:3])
    elif kind == "cut off":
        idx(place / "train-images-idx3-ubyte", PIXELS)
        path = place / "train-images-idx3-ubyte"
        path.write_bytes(path.read_bytes()[:-7])
        idx(place / "train-labels-idx1-ubyte", LABELS)
    elif kind == "no idx":
        (place / "train-images-idx3-ubyte").write_bytes(b"GIF89a")
        idx(place / "train-labels-idx1-ubyte", LABELS)
    elif kind == "objects":
        np.savez(tmp_path / "o.npz", images=np.array([{}, {}], dtype=object), labels=[0, 1])
        return tmp_path / "o.npz"
    elif kind == "other arrays":
        np.savez(tmp_path / "o.npz", pixels=PIXELS, labels=LABELS)
        return tmp_path / "o.npz"
    elif kind == "negative":
        np.savez(tmp_path / "o.npz", x=PIXELS - 5.0, y=LABELS)
        return tmp_path / "o.npz"
    elif kind == "no column":
        (tmp_path / "t.csv").write_text("path,label\na.png,1\n")
        return tmp_path / "t.csv"
    elif kind == "no such split":
        (tmp_path / "t.csv").write_text("file,label,split\na.png,1,train\nb.png,2,later\n")
        return tmp_path / "t.csv"
    elif kind == "nothing there":
        (tmp_path / "t.csv").write_text("file,label\na.png,1\nb.png,2\n")
        return tmp_path / "t.csv"
    elif kind == "one picture":
        Image.fromarray(PIXELS[0]).save(tmp_path / "a.png")
        return tmp_path / "a.png"
    return place if kind != "missing" else tmp_path / "nowhere"


@pytest.mark.parametrize("kind, words", [
    ("missing", "there is no "),
    ("empty", "holds no pictures; put the pictures of each class into a folder of its own"),
    ("no folders", "holds pictures, but no folders; put"),
    ("empty folders", "holds no pictures (.png, .jpg, .jpeg, .webp, ...) in its 2 folders"),
    ("one class", "has only the class 'cats'; there must be two to tell apart"),
    ("no labels", "they should be in train-labels-idx1-ubyte"),
    ("other labels", "has 6 pictures and "),
    ("cut off", "should hold 6 × 5 × 5 bytes and holds 143; it is cut off or damaged"),
    ("no idx", "it begins with 47 49 46 38"),
    ("objects", "it holds Python objects, which are never read"),
    ("other arrays", "it has: pixels, labels"),
    ("negative", "that are no pixels"),
    ("no column", "has no column 'file', it has: path, label; say which one with --data.picture"),
    ("no such split", "line 3 of "),
    ("nothing there", "none of the 2 pictures of "),
    ("one picture", "is one picture; give the folder that has a folder for each class"),
])
def test_what_is_wrong_is_said(tmp_path, kind, words):
    path = wrong(tmp_path, kind)
    with pytest.raises((ValueError, FileNotFoundError)) as said:
        album(str(path))
    assert words in str(said.value) and "\n" not in str(said.value)
