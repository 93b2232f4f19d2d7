"""Freed memory stays while the heap is kept, and goes back after it. In processes of their own: a heap has a history."""

import platform
import subprocess
import sys

import pytest

# Blocks that are together more than glibc keeps by itself.
SCRIPT = """
from pathlib import Path
from contextlib import nullcontext
import ctypes, os, sys
from regard.training.memory import retain_freed_memory

SIZE, COUNT = int(sys.argv[2]) * 2**20, 12

def use():
    blocks = [ctypes.create_string_buffer(SIZE) for _ in range(COUNT)]
    for block in blocks:
        ctypes.memset(block, 1, SIZE)

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

before = resident()
with retain_freed_memory() if sys.argv[1] == "kept" else nullcontext():
    use()
    inside = resident() - before
print(inside / (SIZE * COUNT), (resident() - before) / (SIZE * COUNT))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
@pytest.mark.parametrize("how, stays", [("kept", True), ("as it comes", False)])
@pytest.mark.parametrize("megabytes", [24, 48])  # 48: more than glibc lets live in its heap by itself
def test_freed_memory_stays_while_the_heap_is_kept_and_goes_back_after_it(how, stays, megabytes):
    command = [sys.executable, "-c", SCRIPT, how, str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    inside, after = map(float, done.stdout.split())
    assert (inside > 0.9) is stays, done.stdout
    assert after < 0.1, done.stdout


def test_elsewhere_nothing_changes(monkeypatch):
    from regard.training import memory

    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert memory.glibc() is None
    with memory.retain_freed_memory():
        pass


def test_blocks_may_be_nested(monkeypatch):
    from regard.training import memory

    calls = []
    monkeypatch.setattr(memory, "keep", lambda: calls.append("keep"))
    monkeypatch.setattr(memory, "_give_back", lambda: calls.append("give back"))
    with memory.retain_freed_memory(), memory.retain_freed_memory():
        assert calls == ["keep"]
    assert calls == ["keep", "give back"]
    with pytest.raises(KeyError), memory.retain_freed_memory():
        raise KeyError
    assert calls == ["keep", "give back"] * 2
