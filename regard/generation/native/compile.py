"""The native step, compiled on first use with the compiler that is there, and kept in the cache.

Only step.cpp of this package is ever compiled. What is in the cache is compared with its checksum before it is loaded.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from regard import files
from regard.data.cache import cache_folder, make_private
from regard.errors import RegardError
from regard.generation.native.library import Library

SOURCE = Path(__file__).with_name("step.cpp")
SWITCH = "REGARD_NATIVE"  # off, or one of PATHS, instead of what the processor has
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++20", "-O3", "-fPIC", "-shared", "-pthread", "-fno-math-errno", "-fno-trapping-math", "-w")
# ways through the source, the fastest first: the number it has there, what the processor must have, and flags for it
PATHS: dict[str, tuple[int, frozenset[str], tuple[str, ...]]] = {
    "avx512": (
        2,
        frozenset(("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "fma", "f16c")),
        ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx2", "-mfma", "-mf16c"),
    ),
    "avx2": (1, frozenset(("avx2", "fma", "f16c")), ("-mavx2", "-mfma", "-mf16c")),
    "plain": (0, frozenset(), ()),
}
LONGEST = 120  # seconds
SHOWN = 120  # characters of what a compiler says
FILE, SEAL = "step.so", "about.json"


class NoNative(RegardError):
    """The native step cannot be used here; the message says why."""


def load_library(path: str | None = None, note: Callable[[str], None] = lambda _: None) -> Library:
    """The compiled step. path: one of PATHS; None: the fastest that the processor has. Raise NoNative if there is no
    way to it. note: told what takes time or is not as usual."""
    if path is None:
        path = os.environ.get(SWITCH) or choose_path()
    if path == "off":
        raise NoNative(f"{SWITCH}=off")
    if path not in PATHS:
        raise RegardError(f"{SWITCH} must be off or one of {', '.join(PATHS)}, got {path!r}")
    if not PATHS[path][1] <= processor_features():
        raise NoNative(f"this processor has no {path}")
    return _load(path, note)


def choose_path() -> str:
    """The fastest way that the processor has."""
    features = processor_features()
    return next(name for name, (_, needed, _) in PATHS.items() if needed <= features)


@lru_cache(maxsize=1)
def processor_features() -> frozenset[str]:
    """What the processor says that it can do, as Linux names it; nothing where that is not known."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("flags"):
                return frozenset(line.partition(":")[2].split())
    return frozenset()


_loaded: dict[tuple[str, str], Library] = {}


def _load(path: str, note: Callable[[str], None]) -> Library:
    command = find_compiler()
    name = _name(path, command)
    if (path, name) in _loaded:
        return _loaded[path, name]
    try:
        parent = make_private(cache_folder() / "native")
        folder = parent / name
        if not _is_whole(folder):
            note("compiling the native step (once)")
            _compile_into(folder, path, command)
        found = Library(folder / FILE, path)
    except OSError as error:
        note(f"the native step is compiled for this process only: {error}")
        found = _load_unkept(path, command)
    _loaded[path, name] = found
    return found


def find_compiler() -> tuple[str, ...]:
    """The command that compiles C++: $CXX, or the first of COMPILERS."""
    given = os.environ.get("CXX")
    if given:
        words = tuple(shlex.split(given))
        if not words or shutil.which(words[0]) is None:
            raise NoNative(f"there is no compiler {given!r}, which CXX names")
        return words
    for name in COMPILERS:
        if shutil.which(name) is not None:
            return (name,)
    raise NoNative("there is no C++ compiler (install g++ or clang++)")


def _name(path: str, command: tuple[str, ...]) -> str:
    """Of what is compiled: another one when the source, the compiler or the flags differ."""
    compiler = Path(shutil.which(command[0]) or command[0]).resolve()
    status = compiler.stat()
    told = [path, platform.machine(), *command, str(compiler), str(status.st_size), str(status.st_mtime_ns)]
    told += [*FLAGS, *PATHS[path][2], SOURCE.read_text("utf-8")]
    return f"{path}-{hashlib.sha256(chr(0).join(told).encode()).hexdigest()[:32]}"


def _is_whole(folder: Path) -> bool:
    """Is the library there, and as it was compiled?"""
    try:
        return bool(files.read_sealed(folder / SEAL)["checksum"] == _checksum(folder / FILE))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _checksum(file: Path) -> str:
    return files.checksum_of(file.read_bytes())


def _compile_into(folder: Path, path: str, command: tuple[str, ...]) -> None:
    """Compile beside the folder; it gets its name last, so that another process finds all of it or nothing."""
    part = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.part"
    try:
        part.mkdir(mode=0o700)
        files.sweep(folder.parent)
        _compile(part / FILE, path, command)
        files.write_sealed(part / SEAL, {"checksum": _checksum(part / FILE)})
        if _is_whole(folder):  # another process was sooner
            return
        shutil.rmtree(folder, ignore_errors=True)
        try:
            os.rename(part, folder)
        except OSError:
            if not _is_whole(folder):
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _load_unkept(path: str, command: tuple[str, ...]) -> Library:
    """Where nothing can be kept: a folder of this process, which is gone once the library is loaded."""
    try:
        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            _compile(Path(folder) / FILE, path, command)
            return Library(Path(folder) / FILE, path)
    except OSError as error:
        raise NoNative(f"the native step cannot be written anywhere: {error}") from error


def _compile(out: Path, path: str, command: tuple[str, ...]) -> None:
    number, _, more = PATHS[path]
    words = [*command, *FLAGS, *more, f"-DREGARD_PATH={number}", str(SOURCE), "-o", str(out)]
    try:
        done = subprocess.run(words, capture_output=True, timeout=LONGEST, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired as error:
        raise NoNative(f"{command[0]} did not end within {LONGEST} s") from error
    except OSError as error:
        raise NoNative(f"{command[0]} cannot be started: {error.strerror}") from error
    if done.returncode or not out.exists():
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"it ended with {done.returncode}"]
        said = next((line for line in lines if "error" in line), lines[0])
        raise NoNative(f"{command[0]} cannot compile it: {said[:SHOWN]}")
