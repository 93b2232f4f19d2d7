"""Which images there are: every form gives the same labelled images, and what is wrong with one is said in one line."""

import gzip
import os
import re
import shutil
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from regard.data.splits import TEST, TRAIN, VALIDATION
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.recipe import RECIPE

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 5)).astype(np.uint8)
LABELS = np.array([2, 10, 2, 10, 2, 10], dtype=np.uint8)


def find(path, **options):
    """What a training finds there."""
    config = ImagesConfig(path=None if path is None else str(path), **options)
    found = RECIPE.supervised.read(config)
    target = RECIPE.supervised.find_target(found, config)
    return SimpleNamespace(
        labels=target.classes,
        classes=target.encode(found.cells),
        files=None if found.files is None else [found.files(i) for i in range(len(found))],
        pixels=found.about.get("pixels"),
        splits=np.zeros(len(found), np.uint8) if found.splits is None else found.splits,
        notes=found.notes,
    )


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
    found = find(folder(tmp_path))
    assert found.labels == ("2", "10")  # as numbers, not as text
    assert found.classes.tolist() == [1, 1, 1, 0, 0, 0] or found.classes.tolist() == [0, 0, 0, 1, 1, 1]
    for path, number in zip(found.files, found.classes, strict=True):
        assert f"/{found.labels[number]}/" in path
    assert (found.splits == TRAIN).all()


def test_folders_called_train_and_test_are_splits(tmp_path):
    found = find(folder(tmp_path, ("train", "val", "Test")))
    assert np.bincount(found.splits).tolist() == [6, 6, 6] and found.labels == ("2", "10")
    for path, split in zip(found.files, found.splits, strict=True):
        assert {TRAIN: "/train/", VALIDATION: "/val/", TEST: "/Test/"}[split] in path


@pytest.mark.parametrize("squeeze", [False, True])
def test_idx_files(tmp_path, squeeze):
    end = ".gz" if squeeze else ""
    for name, split in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        idx(tmp_path / f"{name}-images-idx3-ubyte{end}", PIXELS[split], squeeze)
        idx(tmp_path / f"{name}-labels-idx1-ubyte", LABELS[split])
    found = find(tmp_path)
    order = np.argsort(found.splits, kind="stable")
    assert np.array_equal(found.pixels[order], PIXELS)
    assert [found.labels[i] for i in found.classes[order]] == [str(each) for each in LABELS]
    assert found.splits[order].tolist() == [TRAIN] * 4 + [TEST] * 2
    alone = find(tmp_path / f"train-images-idx3-ubyte{end}")
    assert np.array_equal(alone.pixels, PIXELS[:4])


def test_npz_in_its_usual_forms(tmp_path):
    np.savez(tmp_path / "a.npz", images=PIXELS, labels=LABELS)
    np.savez(
        tmp_path / "b.npz",
        x_train=PIXELS[:4] / 255,
        y_train=LABELS[:4, None],
        x_test=PIXELS[4:] / 255,
        y_test=LABELS[4:],
    )
    np.savez(tmp_path / "c.npz", X=np.stack([PIXELS] * 3, 1), Y=LABELS)  # n 3 h w
    one, two, three = (find(tmp_path / f"{name}.npz") for name in "abc")
    assert np.array_equal(one.pixels, PIXELS) and np.array_equal(two.pixels, PIXELS)
    assert two.splits.tolist() == [TRAIN] * 4 + [TEST] * 2
    assert three.pixels.shape == (6, 5, 5, 3) and np.array_equal(three.pixels[..., 1], PIXELS)


def test_a_table_of_paths(tmp_path):
    folder(tmp_path)
    names, splits = {2: "cat", 10: "dog"}, ["train"] * 4 + ["test"] * 2
    rows = "".join(f"pictures/{k}/{i}.png,{names[k]},{splits[i]}\n" for i, k in enumerate(LABELS))
    (tmp_path / "t.csv").write_text("file,label,split\n" + rows)
    found = find(tmp_path / "t.csv")
    assert found.labels == ("cat", "dog") and found.classes.tolist() == [0, 1] * 3
    assert found.splits.tolist() == [TRAIN] * 4 + [TEST] * 2
    assert np.array_equal(np.asarray(Image.open(found.files[3])), PIXELS[3])


def test_marks_between_columns_and_parquet(tmp_path):
    folder(tmp_path)
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    names, kinds = [f"pictures/{k}/{i}.png" for i, k in enumerate(LABELS)], LABELS.tolist()
    for mark, name in ((";", "a.csv"), ("\t", "b.tsv")):
        rows = "".join(f"{path}{mark}{kind}\n" for path, kind in zip(names, kinds, strict=True))
        (tmp_path / name).write_text(f"where{mark}kind\n{rows}")
    parquet.write_table(arrow.table({"where": names, "kind": kinds}), tmp_path / "c.parquet")
    absolute = "".join(f"{tmp_path / path},{kind}\n" for path, kind in zip(names, kinds, strict=True))
    (tmp_path / "d.csv").write_text("where,kind\n" + absolute)
    for name in ("a.csv", "b.tsv", "c.parquet", "d.csv"):
        found = find((tmp_path / name), image="where", label="kind")
        assert found.labels == ("2", "10") and found.classes.tolist() == [0, 1] * 3
        assert np.array_equal(np.asarray(Image.open(found.files[3])), PIXELS[3])


def test_what_lies_about_in_a_folder_is_passed_over_or_noted(tmp_path):
    place = folder(tmp_path)
    (place / "2" / ".thumbs").mkdir()
    (place / "2" / "deeper" / "still").mkdir(parents=True)
    (place / "2" / "x.png").mkdir()
    (place / "empty").mkdir()
    (place / ".git").mkdir()
    taken, passed = (
        ("2/UPPER.PNG", "2/deeper/still/ü 図.png"),
        ("2/.hid.png", "2/.thumbs/t.png", "2/notes.txt", ".git/g.png"),
    )
    for name in (*taken, *passed, "loose.png"):
        (place / name).write_bytes((place / "2" / "0.png").read_bytes())
    (place / "2" / "up").symlink_to("..")
    (place / "2" / "round").symlink_to("round")
    (place / "2" / "gone.png").symlink_to("nowhere.png")  # to be named when it is read
    (place / "linked").symlink_to(place / "10")  # a class may be elsewhere
    found = find(place)
    names = {path.removeprefix(f"{place}/2/") for path in found.files if f"{place}/2/" in path}
    assert names == {"0.png", "2.png", "4.png", "UPPER.PNG", "deeper/still/ü 図.png", "gone.png"}
    assert found.labels == ("10", "2", "linked") and len(found.files) == 12
    assert found.notes == (
        f"{place / 'empty'} holds no images, so it is no class",
        f"left out: 1 image of {place} in no folder of a class",
        "skipped files whose names are not those of images: 1 .txt",
    )


def test_what_is_passed_over_is_counted_by_its_ending(tmp_path):
    place = folder(tmp_path)
    for name in ("2/a.CR2", "2/b.cr2", "10/deeper/c.cr2", "2/notes.txt", "10/README", "labels.csv", "10/.hidden.txt"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).touch()
    said = "skipped files whose names are not those of images: 3 .cr2, 1 without an ending, 1 .csv, 1 .txt"
    assert find(place).notes == (f"{said}; RAW images are not read, convert them to JPEG or PNG",)
    for path in place.rglob("*.png"):
        path.rename(path.with_suffix(".cr2"))
    with pytest.raises(ValueError, match=r"images \(.png.*2.*skipped.*9 .cr2, 1"):
        find(place)
    for number in range(9):
        (place / "2" / f"x.a{number}").touch()
    shutil.copy(__file__, place / "2" / "y.png")
    shutil.copy(__file__, place / "10" / "y.png")
    assert ": 9 .cr2, 1 without an ending, 1 .a0, 1 .a1, 1 .a2, 8 others; RAW" in find(place).notes[0]


def test_the_same_letters_are_the_same_class_and_any_bytes_are_a_name(tmp_path):
    for name in (b"train/caf\xc3\xa9", b"test/cafe\xcc\x81", b"train/t\xe9", b"train/tea"):
        place = os.fsencode(tmp_path) + b"/p/" + name
        os.makedirs(place)
        Image.fromarray(PIXELS[0]).save(os.fsdecode(place) + "/1.png")
    found = find(tmp_path / "p")
    assert found.labels == ("café", "tea", "t\ufffd") and found.splits.sum() == TEST


def test_npz_of_other_people(tmp_path):
    shape = {
        "train_images": PIXELS,
        "train_labels": LABELS[:, None],
        "val_images": PIXELS,
        "val_labels": LABELS[:, None],
    }
    np.savez(tmp_path / "med.npz", **shape)
    found = find(tmp_path / "med.npz")
    assert np.bincount(found.splits).tolist() == [6, 6] and found.labels == ("2", "10")
    np.savez(tmp_path / "named.npz", x=PIXELS > 99, y=np.array([b"cat", b"dog"] * 3))
    found = find(tmp_path / "named.npz")
    assert found.labels == ("cat", "dog") and np.array_equal(found.pixels, np.where(PIXELS > 99, 255, 0))


def test_numbers_become_bytes_by_one_measure(tmp_path):
    deep = PIXELS.astype(np.uint16) * 257
    np.savez(tmp_path / "deep.npz", x_train=deep, y_train=LABELS, x_test=deep[:2] // 400, y_test=LABELS[:2])
    found = find(tmp_path / "deep.npz")
    assert np.array_equal(found.pixels[:6], PIXELS)
    assert found.pixels[6:].max() <= 1  # dark beside the others, though its numbers are those of bytes


def test_digits_without_a_path():
    found = find(None)
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
    elif kind == "collections":
        for name in ("balanced", "letters"):
            idx(place / f"emnist-{name}-train-images-idx3-ubyte", PIXELS)
    elif kind in ("damaged gz", "cut gz", "bomb", "huge", "no pixels"):
        idx(place / "train-labels-idx1-ubyte", LABELS)
        path = place / "train-images-idx3-ubyte.gz"
        idx(
            path,
            np.zeros((6, 5, 0 if kind == "no pixels" else 5), np.uint8) if kind != "bomb" else PIXELS,
            squeeze=True,
        )
        packed = path.read_bytes()
        if kind == "damaged gz":
            path.write_bytes(packed[:10] + b"\xff" * 8 + packed[18:])
        elif kind == "cut gz":
            path.write_bytes(packed[:-12])
        elif kind == "bomb":
            path.write_bytes(gzip.compress(gzip.decompress(packed) + bytes(1_000_000)))
        elif kind == "huge":
            path.write_bytes(bytes([0, 0, 8, 3]) + b"\xff" * 12 + bytes(50))
    elif kind == "damaged npz":
        np.savez_compressed(tmp_path / "o.npz", images=np.zeros((60, 50, 50), np.uint8), labels=np.arange(60))
        content = bytearray((tmp_path / "o.npz").read_bytes())
        content[60:80] = b"\xff" * 20
        (tmp_path / "o.npz").write_bytes(content)
        return tmp_path / "o.npz"
    elif kind in ("text as npz", "one-hot", "flat", "alpha", "not finite"):
        labels = {"one-hot": np.eye(2)[LABELS // 10], "not finite": LABELS + np.nan}.get(kind, LABELS)
        pixels = {"flat": PIXELS.reshape(6, 25), "alpha": np.stack([PIXELS] * 4, -1)}.get(kind, PIXELS)
        np.savez(tmp_path / "o.npz", x=pixels, y=labels)
        if kind == "text as npz":
            (tmp_path / "o.npz").write_text("no arrays")
        return tmp_path / "o.npz"
    elif kind == "one deeper":
        for name in ("Cat", "Dog"):
            (place / "Pets" / name).mkdir(parents=True)
            Image.fromarray(PIXELS[0]).save(place / "Pets" / name / "a.png")
    elif kind in ("splits and more", "flat splits"):
        for name in ("train/a", "train/b", "extra") if kind == "splits and more" else ("train", "test"):
            (place / name).mkdir(parents=True)
            Image.fromarray(PIXELS[0]).save(place / name / "a.png")
    elif kind == "no path":
        (tmp_path / "t.csv").write_text("file,label\na.png,1\n,2\n")
        return tmp_path / "t.csv"
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
    elif kind == "one image":
        Image.fromarray(PIXELS[0]).save(tmp_path / "a.png")
        return tmp_path / "a.png"
    return place if kind != "missing" else tmp_path / "nowhere"


@pytest.mark.parametrize(
    "kind, words",
    [
        ("missing", "there is no "),
        ("empty", "images.*images"),
        ("no folders", "holds images.*folders; put"),
        ("empty folders", r"images \(\.png.*2"),
        ("one class", "'cats'.*tell apart"),
        ("no labels", "train-labels-idx1-ubyte"),
        ("other labels", "has 6 images and "),
        ("cut off", "6 × 5 × 5 bytes.*143.*cut.*damaged"),
        ("no idx", "it begins with 47 49 46 38"),
        ("objects", "Python.*never"),
        ("collections", "holds several collections: emnist-balanced, emnist-letters; put.*files.*into.*folder"),
        ("damaged gz", "is damaged: "),
        ("cut gz", "damaged: Compressed"),
        ("bomb", "hold 6 × 5 × 5 bytes.*holds more"),
        ("huge", "should hold 4294967295 × 4294967295 × 4294967295 bytes"),
        ("no pixels", "images.*5 × 0 pixels"),
        ("damaged npz", "or is damaged"),
        ("text as npz", r"not.*\.npz file, whatever.*name"),
        ("one-hot", r"labels.*shape \(6, 2\).*'y'.*image \(if"),
        ("flat", r"images.*shape \(6, 25\).*'x'.*n h"),
        ("alpha", r"images.*shape \(6, 5, 5, 4\).*n h"),
        ("not finite", "labels.*finite.*'y'"),
        ("one deeper", r"'Pets'.*tell apart\..*classes.*Cat.*Dog.*--data "),
        ("splits and more", "train.*classes.*splits"),
        ("flat splits", "test.*train.*classes"),
        ("no path", "line 3 of .*'file'; fill"),
        ("other arrays", "it has: pixels, labels"),
        ("negative", "that are no pixels"),
        ("no column", r"'file'.*label.*--data\.image"),
        ("no such split", "line 3 of "),
        ("nothing there", "none of the 2 images of "),
        ("one image", "image; give.*folder.*folder.*class"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, kind, words):
    path = wrong(tmp_path, kind)
    with pytest.raises((ValueError, FileNotFoundError)) as said:
        find(path)
    assert re.search(words, str(said.value)) and "\n" not in str(said.value)
