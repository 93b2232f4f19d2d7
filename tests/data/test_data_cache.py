"""What was made before is found again, and what was used longest ago is dropped; nobody who reads it notices."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from regard.data import cache

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
