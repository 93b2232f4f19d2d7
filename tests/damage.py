"""Ways in which files break: bits that flip, ends that are lost, other things in their place. All are drawn from a seed."""

import random
import shutil


def flipped(data, bit):
    """The same bytes with one bit turned."""
    found = bytearray(data)
    found[bit // 8] ^= 1 << bit % 8
    return bytes(found)


def some_bits(data, count, seed=0):
    """Numbers of bits, spread over all of the data: the first and the last bytes are among them."""
    bits = 8 * len(data)
    if bits <= count:
        return list(range(bits))
    ends = [0, 63, bits - 9, bits - 1]
    return ends + random.Random(seed).sample([*range(1, 63), *range(64, bits - 9)], count - 4)


def cut(path, share):
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])


def zero_tail(path):
    """As a file system may leave a file whose last blocks were never written."""
    data = path.read_bytes()
    kept = 2 * len(data) // 3
    path.write_bytes(data[:kept] + bytes(len(data) - kept))


def append(path):
    path.write_bytes(path.read_bytes() + b"\0")


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def become_folder(path):
    remove(path)
    path.mkdir()


def become_pickle(path):
    path.write_bytes(b"\x80\x04K\x01.")


WAYS = {
    "cut in half": lambda path: cut(path, 0.5),
    "without its last byte": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "zeros at its end": zero_tail,
    "only zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a byte too many": append,
    "missing": remove,
    "a folder": become_folder,
    "a pickle": become_pickle,
    "doubled": lambda path: path.write_bytes(2 * path.read_bytes()),
}


def each_way(path):
    """Break a file in each way, one after the other, and put it back each time."""
    data = path.read_bytes()
    for name, way in WAYS.items():
        way(path)
        yield name
        if path.is_dir():
            shutil.rmtree(path)
        path.write_bytes(data)
