"""What was made before is found again, and what was used longest ago is dropped; nobody who reads it notices."""

import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from regard.data import cache
from regard.data.cache import cache_folder
from tests.damage import WAYS, flipped, some_bits

BYTES = np.dtype(np.uint8)


def entry(folder, name, size=100, made=None, what="pixels"):
    """An entry of this many bytes, all of them its size."""

    def write(out):
        if made is not None:
            made.append(name)
        out.write(bytes([size]) * size)
        return {"tokens": size}

    mapped, about = cache.ids(folder, name, BYTES, write, what=what)
    assert about["tokens"] == size and (mapped == size).all() and len(mapped) == size
    return mapped


def used(folder, name, when):
    os.utime(folder / "pixels" / name / "about.json", ns=(when, when))


def there(folder, what="pixels"):
    return sorted(path.name for path in (folder / what).iterdir())


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(cache, "MOST_BYTES", 300)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def test_what_was_used_longest_ago_goes_first(tmp_path):
    for when, name in enumerate("abc", 1):
        entry(tmp_path, name)
        used(tmp_path, name, when)
    made = []
    entry(tmp_path, "a", made=made)  # is used again, not made again
    assert not made and there(tmp_path) == ["a", "b", "c"]
    entry(tmp_path, "d", 150)
    assert there(tmp_path) == ["a", "d"]  # and nothing of what is gone
    entry(tmp_path, "b", made=made)
    assert made == ["b"] and there(tmp_path) == ["b", "d"]


def test_the_one_that_is_asked_for_stays_however_large(tmp_path):
    entry(tmp_path, "a")
    entry(tmp_path, "tokens are of another kind", what="tokens")
    entry(tmp_path, "large", 251)
    used(tmp_path, "large", 10**19 // 2)  # by a clock that is ahead
    entry(tmp_path, "larger", 252)
    assert there(tmp_path) == ["larger"] and len(there(tmp_path, "tokens")) == 1


def test_who_reads_what_is_dropped_reads_on(tmp_path):
    mapped = entry(tmp_path, "a", 200)
    used(tmp_path, "a", 1)
    entry(tmp_path, "b", 200)
    assert there(tmp_path) == ["b"] and (mapped == 200).all()


def test_one_that_is_dropped_between_two_looks_is_made_again(tmp_path, monkeypatch):
    entry(tmp_path, "a")
    whole, dropped = np.memmap, []

    def memmap(path, **how):
        if not dropped:
            dropped.append(path)
            shutil.rmtree(path.parent)  # as another process might, at the worst moment
        return whole(path, **how)

    monkeypatch.setattr(np, "memmap", memmap)
    made = []
    entry(tmp_path, "a", made=made)
    assert made == ["a"] and dropped


def test_the_page_says_how_much_is_kept(monkeypatch):
    monkeypatch.undo()
    page = (Path(__file__).parents[2] / "docs" / "images.md").read_text("utf-8")
    assert f"at most {cache.MOST_BYTES // 10**9} GB of decoded images" in page


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────


def later(path):
    """As if it was changed a second after it was made: the clock of files is coarse."""
    if path.exists():
        now = path.stat().st_mtime_ns + 10**9
        os.utime(path, ns=(now, now))


@pytest.mark.parametrize("file", ["ids", "about.json"])
def test_a_damaged_entry_is_made_again(tmp_path, file):
    """Every flipped bit, and every other way in which a file breaks, a second after it was written."""
    entry(tmp_path, "a")
    path = tmp_path / "pixels" / "a" / file
    data, made, count = path.read_bytes(), [], 0
    for bit in some_bits(data, 60):
        path.write_bytes(flipped(data, bit))
        later(path)
        entry(tmp_path, "a", made=made)
        count += 1
    for way in WAYS.values():
        way(path)
        later(path)
        entry(tmp_path, "a", made=made)
        count += 1
    assert made == ["a"] * count
    entry(tmp_path, "a", made=made)
    assert len(made) == count == 60 + len(WAYS)


def test_a_file_or_a_folder_in_place_of_an_entry(tmp_path):
    made = []
    (tmp_path / "pixels" / "a" / "ids").mkdir(parents=True)
    (tmp_path / "pixels" / "b").write_text("a file")
    entry(tmp_path, "a", made=made)
    entry(tmp_path, "b", made=made)
    entry(tmp_path, "a", made=made)
    assert made == ["a", "b"]


def test_what_was_found_out_is_found_out_again_when_it_is_damaged(tmp_path):
    found = []

    def find():
        found.append(1)
        return {"mean": [0.25, 1.5], "words": "Σ"}

    def ask():
        assert cache.cached_json(tmp_path, "x", find, what="pictures") == {"mean": [0.25, 1.5], "words": "Σ"}

    ask()
    path = tmp_path / "pictures" / "x.json"
    data, count = path.read_bytes(), 1
    for bit in some_bits(data, 60):
        path.write_bytes(flipped(data, bit))
        ask()
        count += 1
    for name, way in WAYS.items():
        way(path)
        ask()
        count += 1
        if name == "a folder":  # stays, and the answer is found out every time
            path.rmdir()
            ask()
            count += 1
    ask()
    assert len(found) == count


def test_what_a_killed_process_left_is_swept(tmp_path):
    entry(tmp_path, "a")
    folder = tmp_path / "pixels"
    for name, old in ((".b.01234567.part", True), (".c.01234567.part", False)):
        (folder / name).mkdir()
        (folder / name / "ids").write_bytes(b"half")
        if old:
            for path in (folder / name / "ids", folder / name):
                os.utime(path, (1, 1))
    cache.cached_json(tmp_path, "y", dict, what="pixels")
    for name, old in ((".y.json.01234567.part", True), (".z.json.01234567.part", False)):
        (folder / name).write_bytes(b"half")
        if old:
            os.utime(folder / name, (1, 1))
    cache.cached_json(tmp_path, "z", dict, what="pixels")
    assert there(tmp_path) == [".c.01234567.part", ".z.json.01234567.part", "a", "y.json", "z.json"]


# ── whose it is ─────────────────────────────────────────────────────────────────────────────────────────────


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_private(tmp_path, monkeypatch):
    (tmp_path / "tokens").mkdir(mode=0o755)  # made by an older version
    entry(tmp_path, "a", what="tokens")
    entry(tmp_path, "a")
    cache.cached_json(tmp_path, "x", dict, what="pictures")
    assert {name: mode(tmp_path / name) for name in ("tokens", "pixels", "pictures")} == dict.fromkeys(
        ("tokens", "pixels", "pictures"), 0o700
    )
    monkeypatch.delenv("REGARD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "regard").mkdir(parents=True, mode=0o755)
    assert mode(cache_folder()) == 0o700
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "given"))
    assert mode(cache_folder()) == 0o700
    os.chmod(tmp_path / "given", 0o755)
    assert mode(cache_folder()) == 0o755  # whoever names a folder decides about it; those in it are private


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    entry(tmp_path, "a")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ValueError, match="pixels belongs to another user.*REGARD_CACHE"):
        entry(tmp_path, "a")
    monkeypatch.delattr(os, "geteuid")  # Windows
    entry(tmp_path, "a")
