"""One image of any size and mode: what cameras and programs do to it is undone, what is no image is said."""

import os
import re
import struct
import time
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data import image_files as module
from regard.data.image_files import Damaged, header, read

RAMP = np.linspace(0, 255, 16 * 12).reshape(12, 16).astype(np.uint8)  # 12 high, 16 wide


def saved(tmp_path, image, name="p.png", **how):
    image.save(tmp_path / name, **how)
    return tmp_path / name


def test_pixels_of_the_right_size_come_back_as_they_are(tmp_path):
    square = RAMP[:, :12]
    assert np.array_equal(read(saved(tmp_path, Image.fromarray(square)), 12, 1, "crop"), square[None])
    colour = np.stack((square, square[::-1], square.T), -1)
    assert np.array_equal(read(saved(tmp_path, Image.fromarray(colour)), 12, 3, "crop"), colour.transpose(2, 0, 1))


def test_sixteen_bits_are_scaled_and_not_cut_off(tmp_path):
    deep = RAMP[:, :12].astype(np.uint16) * 257
    found = read(saved(tmp_path, Image.fromarray(deep)), 12, 1, "crop")
    assert np.array_equal(found[0], RAMP[:, :12])


def test_sixteen_bits_in_other_forms(tmp_path):
    deep = RAMP[:, :12].astype(np.uint16) * 257
    assert np.array_equal(read(saved(tmp_path, Image.fromarray(deep), "x.tif"), 12, 1, "crop")[0], RAMP[:, :12])
    (tmp_path / "x.pgm").write_bytes(b"P5\n12 12\n65535\n" + deep.byteswap().tobytes())
    assert np.array_equal(read(tmp_path / "x.pgm", 12, 1, "crop")[0], RAMP[:, :12])
    # an array of bytes that was saved with too many bits
    bytes_in_it = Image.fromarray(RAMP[:, :12].astype(np.uint16))
    assert np.array_equal(read(saved(tmp_path, bytes_in_it), 12, 1, "crop")[0], RAMP[:, :12])


@pytest.mark.parametrize(
    "mode, name, how",
    [
        ("CMYK", "x.jpg", {"quality": 95}),
        ("P", "x.png", {}),
        ("LA", "x.png", {}),
        ("RGBA", "x.webp", {"lossless": True}),
        ("L", "x.bmp", {}),
        ("RGB", "x.tif", {"compression": "tiff_lzw"}),
        ("RGB", "x.avif", {"quality": 100}),
        ("RGB", "x.jfif", {"format": "JPEG"}),
        ("RGB", "x.jp2", {}),
    ],
)
def test_modes_and_formats_show_the_same_image(tmp_path, mode, name, how):
    grey = np.add.outer(4 * np.arange(32), 3 * np.arange(32)).astype(np.uint8)  # which all modes can show
    found = read(saved(tmp_path, Image.fromarray(grey).convert(mode), name, **how), 32, 3, "crop")
    assert np.abs(found.astype(int) - grey).max() <= 8


def test_one_bit_is_black_and_white(tmp_path):
    half = Image.new("1", (12, 12), 1)
    half.paste(0, (0, 0, 6, 12))
    for name in ("x.png", "x.tif", "x.pbm", "x.gif"):
        found = read(saved(tmp_path, half, name), 12, 1, "crop")[0]
        assert (found[:, :6] == 0).all() and (found[:, 6:] == 255).all()


def test_of_an_animation_the_first_image_is_taken(tmp_path):
    first, then = Image.new("RGB", (8, 8), "red"), Image.new("RGB", (8, 8), "blue")
    path = saved(tmp_path, first, "x.gif", save_all=True, append_images=[then, then])
    assert read(path, 8, 3, "crop")[:, 4, 4].tolist() == [255, 0, 0]


def test_what_is_transparent_is_white(tmp_path):
    image = Image.fromarray(np.dstack([np.zeros((8, 8, 3), np.uint8), np.full((8, 8), 0, np.uint8)]))
    assert (read(saved(tmp_path, image), 8, 3, "crop") == 255).all()
    palette = Image.new("P", (8, 8), 0)
    assert (read(saved(tmp_path, palette, transparency=0), 8, 1, "crop") == 255).all()


def test_an_image_turned_by_exif_is_upright(tmp_path):
    lying = Image.fromarray(np.zeros((4, 8, 3), np.uint8))
    lying.putpixel((0, 0), (255, 255, 255))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by 90 degrees
    path = saved(tmp_path, lying, exif=exif)
    assert header(path)[:2] == (4, 8)
    found = read(path, 8, 1, "pad")[0]  # 4 wide and 8 high, in the middle
    assert found[0].argmax() == 5 and found.shape == (8, 8) and (found[:, :2] == 0).all()


def test_the_three_ways_to_a_square(tmp_path):
    wide = np.zeros((10, 30), np.uint8)
    wide[:, 10:20] = 255
    path = saved(tmp_path, Image.fromarray(wide))
    assert (read(path, 10, 1, "crop") == 255).all()  # the middle of it
    padded, stretched = read(path, 30, 1, "pad")[0], read(path, 10, 1, "stretch")[0]
    assert (padded[:10] == 0).all() and (padded[10:20] == wide).all()
    assert 0.25 < stretched.mean() / 255 < 0.42


def test_grey_and_colour_become_each_other(tmp_path):
    grey = read(saved(tmp_path, Image.fromarray(RAMP[:, :12])), 12, 3, "crop")
    assert grey.shape == (3, 12, 12) and np.array_equal(grey[0], grey[2])
    red = Image.new("RGB", (8, 8), (255, 0, 0))
    assert (read(saved(tmp_path, red), 8, 1, "crop") == 76).all()  # the eye's weight of red


def broken(tmp_path, kind):
    path = tmp_path / "x.png"
    if kind == "text":
        path.write_text("no image at all")
    elif kind == "cut off":
        noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
        saved(tmp_path, Image.fromarray(noise), "x.png")
        path.write_bytes(path.read_bytes()[:3000])
    elif kind == "real numbers":
        path = saved(tmp_path, Image.fromarray(np.ones((8, 8), np.float32)), "x.tiff")
    elif kind == "huge":
        saved(tmp_path, Image.new("1", (8, 8)), "x.png")
        content = bytearray(path.read_bytes())
        # what the header says is believed before anything is read
        content[16:24] = struct.pack(">II", 20_000, 20_000)
        content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
        path.write_bytes(content)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "circle":
        path.symlink_to("x.png")
    elif kind == "whole numbers":
        path = saved(tmp_path, Image.fromarray(np.full((8, 8), 70_000, np.int32)), "x.tif")
    elif kind == "program":  # what pillow would hand to Ghostscript
        path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    return path


@pytest.mark.parametrize(
    "kind, words",
    [
        ("text", "is not a readable image"),
        ("cut off", "is damaged: "),
        ("missing", "there is no image"),
        ("real numbers", "holds real numbers"),
        ("huge", r"pixels; make.*smaller \(64,000,000"),
        ("empty", "is empty"),
        ("folder", "is a folder, not an image"),
        ("pipe", "is no file"),
        ("circle", "there is no image"),
        ("whole numbers", "holds whole numbers.*0.*70,000.*nothing says.*black.*white"),
        ("program", "is not a readable image"),
    ],
)
def test_what_is_no_image_is_said(tmp_path, kind, words):
    path = broken(tmp_path, kind)
    with pytest.raises(Damaged) as said:
        read(path, 16, 3, "crop")
    assert re.search(words, str(said.value)) and "x." in str(said.value) and "\n" not in str(said.value)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    "name, mode",
    [
        ("x.png", "RGBA"),
        ("x.png", "P"),
        ("x.jpg", "RGB"),
        ("x.webp", "RGBA"),
        ("x.bmp", "P"),
        ("x.gif", "P"),
        ("x.tif", "RGB"),
        ("x.ppm", "RGB"),
        ("x.jp2", "RGB"),
    ],
)
def test_whatever_bytes_it_holds_it_is_an_image_or_damaged(tmp_path, name, mode):
    draw = np.random.default_rng(0)
    exif = Image.Exif()
    exif[0x0112] = 6
    how = {"exif": exif} if name in ("x.png", "x.jpg", "x.webp", "x.tif") else {}
    good = saved(
        tmp_path, Image.fromarray(draw.integers(0, 256, (20, 24, 3)).astype(np.uint8)).convert(mode), name, **how
    )
    content, refused = good.read_bytes(), 0
    for trial in range(120):
        other = bytearray(content[: draw.integers(1, len(content))] if trial % 4 == 0 else content)
        for place in draw.integers(0, min(len(other), 40 if trial % 2 else 10**6), 3):
            other[place] = draw.integers(0, 256)
        good.write_bytes(other)
        for look in (header, lambda path: read(path, 8, 3, "crop")):
            try:
                look(good)
            except Damaged as error:
                refused += "\n" not in str(error)
    assert refused > 10


def test_large_images_are_decoded_one_at_a_time(tmp_path, monkeypatch):
    path, inside, most = saved(tmp_path, Image.new("L", (64, 64))), [], []
    monkeypatch.setattr(module, "ALONE_FROM", 64 * 64)

    def slow(*what):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()
        return RAMP

    monkeypatch.setattr(module, "fit_square", slow)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: read(path, 8, 1, "crop"), range(6)))
    assert max(most) == 1
    monkeypatch.setattr(module, "ALONE_FROM", 64 * 64 + 1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: read(path, 8, 1, "crop"), range(12)))
    assert max(most) > 1


def test_a_large_jpeg_is_read_small_at_once(tmp_path):
    # so large that pillow warns
    path = saved(tmp_path, Image.new("RGB", (10_000, 9_000), (10, 200, 30)), "x.jpg")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        module.pillow.cache_clear()
        found = read(path, 32, 3, "crop")
    assert found.shape == (3, 32, 32) and abs(int(found[1].mean()) - 200) < 3 and not heard


def test_a_jpeg_that_comes_in_passes_is_held_whole_and_must_be_smaller(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_PIXELS", 10_000)
    image = Image.new("L", (200, 200), 70)
    assert abs(int(read(saved(tmp_path, image, "x.jpg"), 8, 1, "crop").mean()) - 70) < 3
    with pytest.raises(Damaged, match="x.jpg.*200 × 200 pixels"):
        read(saved(tmp_path, image, "x.jpg", progressive=True), 8, 1, "crop")


def huge(path, side):
    """A small JPEG that says of itself that it is large."""
    content = bytearray(saved(path, Image.new("L", (8, 8)), "x.jpg").read_bytes())
    start = content.index(b"\xff\xc0")
    content[start + 5 : start + 9] = side.to_bytes(2, "big") * 2
    (path / "x.jpg").write_bytes(content)
    return path / "x.jpg"


def test_the_limits_that_are_said_are_those_that_count(tmp_path):
    """Of a JPEG more than of others, and both in the message, in the page and in the code."""
    jpeg, others = 2 * Image.MAX_IMAGE_PIXELS, module.MOST_PIXELS
    said = (
        f"x.jpg has too many pixels; make it smaller ({others:,} at most, of a JPEG that is not progressive {jpeg:,})"
    )
    refused = huge(tmp_path, 20_000)
    for look in (header, lambda path: read(path, 8, 1, "crop")):
        with pytest.raises(Damaged, match=re.escape(said)):
            look(refused)
    assert 13_000**2 < jpeg < 14_000**2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert header(huge(tmp_path, 13_000))[:2] == (13_000, 13_000)
        assert read(tmp_path / "x.jpg", 8, 1, "crop").shape == (1, 8, 8)
    page = " ".join((Path(__file__).parents[2] / "docs" / "images.md").read_text("utf-8").split())
    assert (
        f"more than {others // 10**6} million pixels (a JPEG that is not progressive: {jpeg // 10**6} million" in page
    )


@pytest.mark.parametrize("name, content, said", [
    ("photo.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC.*JPEG.*PNG"),
    ("photo.jpg", b"\0\0\0\x18ftypheix\0\0\0\0mif1heic", "HEIC.*JPEG.*PNG"),
    ("photo.NEF", b"some bytes", "RAW.*JPEG.*PNG"),
    ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG.*JPEG.*PNG"),
    ("x.png", b"bytes",
     "image.*PNG, JPEG, WebP, BMP, GIF, TIFF, PPM, JPEG 2000.*AVIF"),
    ("photo.png", b"", "is empty"),
    ("cut.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF", "damaged.*JPEG.*follows"),
])  # fmt: skip
def test_a_format_that_is_not_read_is_named(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Damaged) as error:
        read(tmp_path / name, 8, 1, "crop")
    if "HEIF" not in module.formats() and "AVIF" in module.formats():
        assert str(error.value).startswith(f"{tmp_path / name} is ") and re.search(said, str(error.value))
