"""Safe files. What is written is there whole or not at all: a temporary file in the same folder, synced, then
renamed over the old one, which stays untouched if anything fails. What is read is JSON, safetensors or plain
numpy: nothing is ever unpickled, because a pickle may run any code. Errors are one line: which file, what is
wrong, what to do.

Every write that must survive a power cut goes through here, so that a test can replay it to every moment.
"""

import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import stat
import time
import zipfile
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError
from regard.machine import UNKNOWN, memory_of_machine

if TYPE_CHECKING:
    import numpy as np
    import torch

    Array = np.ndarray[Any, np.dtype[Any]]

PathLike = str | os.PathLike[str]

ABANDONED = 3600.0  # seconds; what is being written grows every second, so nobody writes this any more
SEAL = "sha256"  # the key of a sealed file
MOST_JSON = 2**27  # bytes of a JSON file: the largest vocabularies have a quarter of them


# ── writing


def write_bytes(path: PathLike, data: bytes) -> None:
    """Write a file, whole or not at all."""
    with _replacing(path) as part, open(part, "wb") as file:
        file.write(data)


def write_stream(path: PathLike, write: Callable[[Path], None]) -> None:
    """Let a function write a file that need not fit into memory, whole or not at all: it gets another path."""
    with _replacing(path) as part:
        write(part)


def write_text(path: PathLike, text: str) -> None:
    """Write text in UTF-8, lines ending as they are, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_array(path: PathLike, array: "Array") -> None:
    """Write an .npy file, whole or not at all."""
    import numpy as np

    with _replacing(path) as part, open(part, "wb") as file:
        np.save(file, array, allow_pickle=False)


def write_arrays(path: PathLike, arrays: Mapping[str, "Array"]) -> None:
    """Write an .npz file, compressed, whole or not at all."""
    import numpy as np

    with _replacing(path) as part, open(part, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def write_json(path: PathLike, value: Any) -> None:
    """Write readable JSON, whole or not at all; nan and infinity, which JSON does not have, are refused."""
    try:
        text = json_text(value, indent=2)
    except (TypeError, ValueError) as error:
        raise RegardError(f"cannot write {path}: not possible in JSON: {error}") from error
    write_text(path, text + "\n")


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON, to be written or printed. Raise a ValueError for nan and infinity, which JSON does
    not have."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def write_tensors(
    path: PathLike, tensors: Mapping[str, "torch.Tensor"], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors by name in safetensors form, whole or not at all.

    Any device and any strides will do. Tensors that share memory (tied weights) are each written in full.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    for key, text in (metadata or {}).items():
        if not isinstance(text, str):
            raise RegardError(f"cannot write {path}: metadata must be text, got {text!r} for '{key}'")
    plain: dict[str, torch.Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        plain[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    with _replacing(path) as part:
        try:
            save_file(plain, part, dict(metadata) if metadata else None)
        except SafetensorError as error:  # it hides the system's error number inside its text
            full = f"os error {errno.ENOSPC}" in str(error)
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error


def append_text(path: PathLike, text: str, sync: bool = False) -> None:
    """Add text to the end of a file; `sync`: and wait until the disk has it."""
    path = Path(path)
    new = not path.exists()
    try:
        with open(path, "a", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            if sync:
                os.fsync(file.fileno())
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full; free some space, then go on with --resume" if full else error.strerror
        raise say_again(error, f"cannot write {path}: {reason}") from error
    if sync and new:
        _sync_folder(path.parent)


def make_folder(path: PathLike, parents: bool = False) -> list[Path]:
    """Make a folder, so that it survives a power cut; `parents`: and those above it. Returns those that this
    process made, the innermost first."""
    made: list[Path] = []
    path = Path(path)
    if parents and not path.parent.is_dir():
        made = make_folder(path.parent, parents)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not path.is_dir():
            raise
        return made
    _sync_folder(path.parent)
    return [path, *made]


def sweep(folder: PathLike, names: Container[str] = (), older: float = ABANDONED) -> list[Path]:
    """Remove the half-written files and folders that killed processes left in a folder; returns them.

    names: files that nobody else can be writing now, so that theirs go however young they are; others go when
    nobody wrote to them for `older` seconds.
    """
    found = find_abandoned(folder, names, older)
    for part in found:
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part, ignore_errors=True)
        else:
            with suppress(OSError):
                part.unlink()
    return found


def find_abandoned(folder: PathLike, names: Container[str] = (), older: float = ABANDONED) -> list[Path]:
    """What `sweep` would remove."""
    found = []
    for part in sorted(Path(folder).glob(".*.part")):
        match = _PART.fullmatch(part.name)
        with suppress(OSError):
            inside = part.iterdir() if part.is_dir() and not part.is_symlink() else ()
            newest = max(each.lstat().st_mtime for each in (part, *inside))
            if (match and match[1] in names) or time.time() - newest > older:
                found.append(part)
    return found


_PART = re.compile(r"\.(.+)\.[0-9a-f]{8}\.part")


@contextmanager
def _replacing(path: PathLike) -> Iterator[Path]:
    """A new file beside `path` to write into; afterwards it takes the place of `path`, or is gone if anything
    fails."""
    target = Path(os.path.realpath(path))  # a link keeps pointing at what is replaced
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {target.parent}; make it first")
    part = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        mode = (target if target.exists() else part).stat().st_mode
        yield part
        _sync(part, os.O_RDWR)
        os.chmod(part, stat.S_IMODE(mode))  # an old file keeps its permissions, a new one has the usual
        os.replace(part, target)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        with suppress(OSError):  # after success it has already moved away
            os.unlink(part)
    _sync_folder(target.parent)


def _sync(path: Path, mode: int) -> None:
    handle = os.open(path, mode)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync(path: PathLike) -> None:
    """Wait until the disk has a file that something else wrote, and its name."""
    path = Path(path)
    _sync(path, os.O_RDONLY)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """So that the new name survives a power cut, too. Some systems cannot sync a folder, and need not."""
    try:
        _sync(folder, os.O_RDONLY)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES):
            message = f"{folder} was written to, but the disk does not confirm it: {error.strerror}"
            raise say_again(error, message) from error


def _cannot_write(path: PathLike, error: OSError) -> OSError:
    full = "the disk is full; free some space and try again (what was there before is untouched)"
    reason = full if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
    return say_again(error, f"cannot write {path}: {reason}")


def say_again(error: OSError, message: str) -> OSError:
    """The same kind of error in our words. (An OSError made from number and words would print as "[Errno
    ...".)"""
    told = type(error)(message)
    told.errno = error.errno
    return told


# ── reading


def read_json(path: PathLike) -> Any:
    """What a JSON file holds."""
    with _reading(path) as file:
        data = read_bounded(file, MOST_JSON, path)
    return parse_json(data, path)


def read_bytes(path: PathLike) -> bytes:
    """All bytes of a file."""
    with _reading(path) as file:
        return file.read()


def parse_json(data: bytes, path: PathLike) -> Any:
    """The value of JSON that was read from a file."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise RegardError(f"{path} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from error
    except UnicodeDecodeError as error:
        _refuse_pickle(path)
        raise RegardError(f"{path} is not JSON: it is not text in UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise RegardError(f"{path} is not JSON that can be read: it is nested too deeply") from error
    except ValueError as error:
        raise RegardError(f"{path} is not JSON: {error}") from error


def read_tensors(path: PathLike) -> dict[str, "torch.Tensor"]:
    """The tensors of a safetensors file by name, on the CPU."""
    from safetensors.torch import load_file

    with _reading_safetensors(path):
        return load_file(path)


def read_metadata(path: PathLike) -> dict[str, str]:
    """The metadata of a safetensors file, without its tensors."""
    from safetensors import safe_open

    with _reading_safetensors(path), safe_open(path, framework="numpy") as file:
        return dict(file.metadata() or {})


def read_array(path: PathLike, key: str | None = None) -> "Array":
    """The array of a .npy file, or the one called `key` of a .npz file (no key is needed if there is only
    one)."""
    import numpy as np

    if _head(path).startswith(b"PK"):
        arrays = read_arrays(path)
        if key is None and len(arrays) == 1:
            return next(iter(arrays.values()))
        if key not in arrays:
            asked = "say which by key" if key is None else f"not '{key}'"
            raise RegardError(f"{path} holds the arrays {', '.join(arrays) or '(none)'}; {asked}")
        return arrays[key]
    if key is not None:
        raise RegardError(f"{path} is no .npz file, so there is no '{key}' in it; leave the key out")
    with _reading_numpy(path, b"\x93NUMPY", "a .npy file") as file:
        _check_header(file, os.fstat(file.fileno()).st_size)
        file.seek(0)
        array: Array = np.load(file, allow_pickle=False)
        return array


def read_arrays(path: PathLike) -> dict[str, "Array"]:
    """All arrays of a .npz file by name."""
    import numpy as np

    with _reading_numpy(path, b"PK", "a .npz file") as file, np.load(file, allow_pickle=False) as arrays:
        for name in arrays.zip.namelist():
            if not name.endswith(".npy"):
                raise RegardError(f"it holds '{name}', which is no array")
        _check_unpacked(arrays.zip)
        return {name: arrays[name] for name in arrays.files}


def _check_unpacked(archive: zipfile.ZipFile) -> None:
    """Raise for an archive that would be larger than a quarter of the memory, and for an array that claims to
    have more numbers than there are bytes for it."""
    size, most = sum(info.file_size for info in archive.infolist()), most_unpacked()
    if size > most:
        raise RegardError(f"its arrays would have {size:,} bytes; at most {most:,} are unpacked here")
    for info in archive.infolist():
        with archive.open(info) as file:
            _check_header(file, info.file_size, info.filename.removesuffix(".npy"))


class _PythonObjects(Exception):
    """An array of Python objects; the text says which."""


def _check_header(file: Any, size: int, name: str | None = None) -> None:
    """Raise if the header of a .npy file of this size promises more than it can hold, or Python objects. name:
    of the array, in an archive"""
    import numpy as np

    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        raise _PythonObjects("an array" if name is None else f"the array '{name}'")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * max(1, dtype.itemsize) > size:
        claimed = " × ".join(f"{each:,}"[:40] for each in shape)
        raise RegardError(f"it claims {claimed} of {dtype}, more than its {size:,} bytes can hold")


def most_unpacked() -> int:
    """Bytes that one file may become: a quarter of the memory."""
    memory = memory_of_machine()
    return 2**32 if memory == UNKNOWN else memory // 4


def open_regular(path: PathLike) -> BufferedReader:
    """A file opened for reading bytes. A pipe, a device or a socket, at which a program may wait for ever, is
    refused without waiting; it may be one by the time that a path was looked at, so what is open is asked."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        kind = os.fstat(handle).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(kind):
            raise RegardError(f"{path} is not a regular file (a device or a pipe); save its content in a file first")
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bounded(file: BufferedReader, most: int, path: PathLike) -> bytes:
    """All bytes of a file that has no more than so many."""
    size = os.fstat(file.fileno()).st_size
    if size <= most:
        data = file.read(size + 1)  # no more is asked for than there is: Python sets it aside first
        if len(data) <= most:
            return data
    raise RegardError(f"{path} has more than {most:,} bytes, which is more than such a file may have")


@contextmanager
def readable_as(path: PathLike, what: str) -> Iterator[None]:
    """Whatever the reader of a file raises about its content, in one line: readers of odd content raise
    anything, from OverflowError to struct.error."""
    try:
        yield
    except (RegardError, OSError, MemoryError, ImportError):
        raise
    except Exception as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise RegardError(f"{path} is not {what}, or is damaged: {words}") from error


@contextmanager
def _reading(path: PathLike) -> Iterator[BufferedReader]:
    """The file opened for reading bytes, with an error that names it and says what is there instead."""
    try:
        with open_regular(path) as file:
            yield file
    except FileNotFoundError as error:
        folder = Path(path).absolute().parent
        where = "" if folder.is_dir() else f" (there is no folder {folder} either)"
        raise FileNotFoundError(f"there is no file {path}{where}") from error
    except IsADirectoryError as error:
        raise IsADirectoryError(f"cannot read {path}: it is a folder; give the name of a file") from error
    except PermissionError as error:
        raise PermissionError(f"cannot read {path}: permission denied") from error


@contextmanager
def _reading_safetensors(path: PathLike) -> Iterator[None]:
    from safetensors import SafetensorError

    _head(path)
    try:
        yield
    except SafetensorError as error:
        _refuse_pickle(path)
        raise RegardError(f"{path} is not a safetensors file, or is damaged: {error}") from error


@contextmanager
def _reading_numpy(path: PathLike, magic: bytes, wanted: str) -> Iterator[BufferedReader]:
    if not _head(path).startswith(magic):
        _refuse_pickle(path)
        raise RegardError(f"{path} is not {wanted}, whatever its name")
    try:
        with open_regular(path) as file:  # opened here, because numpy leaves a damaged one open
            yield file
    except MemoryError:
        raise
    except Exception as error:  # numpy and zipfile raise anything, such as tokenize.TokenError
        _refuse_pickle(path)
        if isinstance(error, _PythonObjects):
            raise RegardError(
                f"{path} holds {error} of Python objects (a pickle); {_NEVER}; save it as plain numbers"
            ) from error
        raise RegardError(f"{path} is not {wanted}, or is damaged: {error}") from error


_NEVER = "pickles are never opened, because they can run any code"


def _refuse_pickle(path: PathLike) -> None:
    """Raise if the file looks like a pickle: the protocol mark, or the archive that torch.save makes."""
    head = _head(path)
    pickled = len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5
    if head.startswith(b"PK") and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            pickled = any(name.endswith(".pkl") for name in archive.namelist())
    if pickled:
        raise RegardError(f"{path} is a pickle (as torch.save makes); {_NEVER}; convert it to safetensors first")


def _head(path: PathLike) -> bytes:
    with _reading(path) as file:
        return file.read(16)


def _no_constant(text: str) -> Any:
    raise RegardError(f"{text} is no JSON number")


# ── checksums


def checksum(path: PathLike) -> str:
    """The file's SHA-256 in hex, read piece by piece."""
    with _reading(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum_of(data: bytes) -> str:
    """The same of bytes in memory."""
    return hashlib.sha256(data).hexdigest()


def verify(path: PathLike, expected: str) -> None:
    """Raise if the file's SHA-256 is another one."""
    found = checksum(path)
    if found != expected.lower():
        raise RegardError(f"{path} was damaged or changed: its SHA-256 is {found}, expected {expected}")


def write_sealed(path: PathLike, value: Mapping[str, Any]) -> None:
    """Write JSON with a checksum of its own inside."""
    write_text(path, _sealed(value))


def read_sealed(path: PathLike) -> dict[str, Any]:
    """What `write_sealed` wrote. Raise if a single byte of it is another one."""
    data = read_bytes(path)
    found = parse_json(data, path)
    if isinstance(found, dict):
        found.pop(SEAL, None)
        if _sealed(found).encode("utf-8") == data:
            return found
    raise RegardError(f"{path} was damaged or changed: it does not fit the checksum inside it")


def _sealed(value: Mapping[str, Any]) -> str:
    seal = checksum_of(json_text(value).encode("utf-8"))
    return json_text({**value, SEAL: seal}, indent=2) + "\n"
