"""One picture of any size and mode: what cameras and programs do to it is undone, what is no picture is said."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.data.pictures import Damaged, header, read

RAMP = np.linspace(0, 255, 16 * 12).reshape(12, 16).astype(np.uint8)  # 12 high, 16 wide


def saved(tmp_path, picture, name="p.png", **how):
    picture.save(tmp_path / name, **how)
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


def test_what_is_transparent_is_white(tmp_path):
    picture = Image.fromarray(np.dstack([np.zeros((8, 8, 3), np.uint8), np.full((8, 8), 0, np.uint8)]))
    assert (read(saved(tmp_path, picture), 8, 3, "crop") == 255).all()
    palette = Image.new("P", (8, 8), 0)
    assert (read(saved(tmp_path, palette, transparency=0), 8, 1, "crop") == 255).all()


def test_a_picture_turned_by_exif_is_upright(tmp_path):
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
        path.write_text("no picture at all")
    elif kind == "cut off":
        noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
        saved(tmp_path, Image.fromarray(noise), "x.png")
        path.write_bytes(path.read_bytes()[:3000])
    elif kind == "real numbers":
        path = saved(tmp_path, Image.fromarray(np.ones((8, 8), np.float32)), "x.tiff")
    elif kind == "huge":
        saved(tmp_path, Image.new("1", (8, 8)), "x.png")
        content = bytearray(path.read_bytes())
        content[16:24] = struct.pack(">II", 20_000, 20_000)  # what the header says is believed before anything is read
        content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
        path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind, words", [
    ("text", "is no picture that can be read"), ("cut off", "is damaged: "), ("missing", "there is no picture"),
    ("real numbers", "holds real numbers"), ("huge", "pixels; make it smaller (64,000,000 at most)")])
def test_what_is_no_picture_is_said(tmp_path, kind, words):
    path = broken(tmp_path, kind)
    with pytest.raises(Damaged) as said:
        read(path, 16, 3, "crop")
    assert words in str(said.value) and "x." in str(said.value) and "\n" not in str(said.value)


def test_a_large_jpeg_is_read_small_at_once(tmp_path):
    path = saved(tmp_path, Image.new("RGB", (9_000, 8_000), (10, 200, 30)), "x.jpg")  # 72 million pixels
    found = read(path, 32, 3, "crop")
    assert found.shape == (3, 32, 32) and abs(int(found[1].mean()) - 200) < 3
