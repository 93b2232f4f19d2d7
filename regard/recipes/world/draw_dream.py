"""A dream as an animation: CartPole and Pendulum as they are, images as images, anything else as curves."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import files
from regard.data.array import Array
from regard.data.image_files import pillow

if TYPE_CHECKING:
    from regard.recipes.world.dream import Dream

WIDTH, HEIGHT = 300, 200  # of one picture, in pixels
PAPER, INK, PALE = "#ffffff", "#222222", "#cccccc"
REAL, DREAMED = "#2171b5", "#d55e00"
FRAMES = 200  # of an animation, at most
LEFT = 130  # pixels for the names of curves
IMAGE = 176  # pixels of the side of an image
CURVES = 6  # numbers of an observation that are drawn
MILLISECONDS = 40  # of a frame
FINE = 3  # a side of a pixel is drawn as so many, whose mean is shown: edges are smooth


def write_gif(dream: Dream, environment: str | None, names: Sequence[str], out: str) -> None:
    """Write an animation: the real episode on the left, the dream on the right; of curves both in one picture.
    names: of the numbers of an observation"""
    pillow()  # or say what to install
    draw = SCENES.get(environment or "")
    count = len(dream.real)
    shown = np.unique(np.linspace(0, count - 1, min(FRAMES, count)).round().astype(int))
    if dream.images is not None:
        pictures = [_images(dream, int(t)) for t in shown]
    elif draw is None:
        pictures = [_curves(dream, int(t), names) for t in shown]
    else:
        pictures = [_side_by_side(dream, int(t), draw) for t in shown]
    buffer = io.BytesIO()
    first, *others = [picture.quantize(32) for picture in pictures]
    first.save(buffer, format="GIF", save_all=True, append_images=others, duration=MILLISECONDS, loop=0)
    files.write_bytes(out, buffer.getvalue())


class _Pen:
    """Draws on a picture in whose places a pixel is 1."""

    def __init__(self, width: int) -> None:
        from PIL import Image, ImageDraw

        self.image = Image.new("RGB", (width * FINE, HEIGHT * FINE), PAPER)
        self.fine = ImageDraw.Draw(self.image)
        self.texts: list[tuple[tuple[float, float], str, str]] = []

    def line(self, places: Sequence[float], fill: str, width: int = 1) -> None:
        self.fine.line([FINE * each for each in places], fill=fill, width=FINE * width, joint="curve")

    def rectangle(self, places: Sequence[float], fill: str) -> None:
        self.fine.rectangle([FINE * each for each in places], fill=fill)

    def ellipse(self, places: Sequence[float], fill: str) -> None:
        self.fine.ellipse([FINE * each for each in places], fill=fill)

    def text(self, place: tuple[float, float], words: str, fill: str) -> None:
        self.texts.append((place, words, fill))

    def finish(self) -> Any:
        """The picture, with its texts on top."""
        from PIL import ImageDraw

        image = self.image.reduce(FINE)
        plain = ImageDraw.Draw(image)
        for place, words, fill in self.texts:
            plain.text(place, words, fill=fill)
        return image


def _side_by_side(dream: Dream, t: int, draw: Callable[[_Pen, Array, int, str], None]) -> Any:
    pen = _Pen(2 * WIDTH)
    for left, observation, colour, name in (
        (0, dream.real[t], REAL, "real"),
        (WIDTH, dream.dreamed[t], DREAMED, "dreamed"),
    ):
        draw(pen, observation, left, colour)
        pen.text((left + 8, 6), f"{name}, step {t}", fill=INK)
    pen.line((WIDTH, 0, WIDTH, HEIGHT), fill=PALE)
    return pen.finish()


def _cart_pole(pen: _Pen, observation: Array, left: int, colour: str) -> None:
    """x from −2.4 to 2.4, the angle from upright."""
    ground = HEIGHT - 40
    middle = left + WIDTH / 2 + float(np.clip(observation[0], -3, 3)) / 2.4 * (WIDTH / 2 - 30)
    pen.line((left + 10, ground, left + WIDTH - 10, ground), fill=PALE, width=2)
    pen.rectangle((middle - 20, ground - 12, middle + 20, ground + 8), fill=INK)
    angle = float(observation[2])
    tip = (middle + 90 * math.sin(angle), ground - 12 - 90 * math.cos(angle))
    pen.line((middle, ground - 12, *tip), fill=colour, width=7)


def _pendulum(pen: _Pen, observation: Array, left: int, colour: str) -> None:
    """cos and sin of the angle from upright."""
    middle, height = left + WIDTH / 2, HEIGHT / 2 + 8
    angle = math.atan2(float(observation[1]), float(observation[0]))
    tip = (middle - 75 * math.sin(angle), height - 75 * math.cos(angle))
    pen.line((middle, height, *tip), fill=colour, width=9)
    pen.ellipse((middle - 5, height - 5, middle + 5, height + 5), fill=INK)


SCENES: dict[str, Callable[[_Pen, Array, int, str], None]] = {
    "CartPole-v0": _cart_pole,
    "CartPole-v1": _cart_pole,
    "Pendulum-v1": _pendulum,
}


def _images(dream: Dream, t: int) -> Any:
    """The real image on the left, the dreamed one on the right."""
    pen = _Pen(2 * WIDTH)
    left, top = (WIDTH - IMAGE) // 2, HEIGHT - IMAGE - 4
    for number, images in enumerate((dream.images, dream.dreamed_images)):
        assert images is not None
        enlarged = to_picture(images[t]).resize((IMAGE * FINE, IMAGE * FINE), 0)
        pen.image.paste(enlarged, ((left + number * WIDTH) * FINE, top * FINE))
    pen.text((8, 4), f"real, step {t}", fill=REAL)
    pen.text((WIDTH + 8, 4), "dreamed", fill=DREAMED)
    return pen.finish()


def to_picture(image: Array) -> Any:
    """An image of bytes for pillow.   h w c"""
    from PIL import Image

    colours = image.shape[2]
    plain = image if colours == 3 else np.repeat(image[..., :1], 3, 2)
    return Image.fromarray(np.ascontiguousarray(image[..., :3] if colours == 4 else plain))


def _curves(dream: Dream, t: int, names: Sequence[str]) -> Any:
    """Each number of an observation until step t; the dream over the real one."""
    pen = _Pen(2 * WIDTH)
    count = min(CURVES, dream.real.shape[1])
    row = (HEIGHT - 20) / count
    across = np.linspace(LEFT, 2 * WIDTH - 10, max(2, len(dream.real)))
    pen.text((8, 4), f"step {t}", fill=INK)
    pen.text((80, 4), "real", fill=REAL)
    pen.text((120, 4), "dreamed", fill=DREAMED)
    for number in range(count):
        top = 20 + row * number
        both = np.concatenate((dream.real[:, number], dream.dreamed[:, number]))
        low, high = float(both.min()), float(both.max())
        size = (high - low) or 1.0
        pen.text((8, top + row / 2 - 6), names[number], fill=INK)
        pen.line((LEFT, top + row - 1, 2 * WIDTH - 10, top + row - 1), fill=PALE)
        for values, colour in ((dream.real, REAL), (dream.dreamed, DREAMED)):
            up = top + row - 4 - (values[: t + 1, number] - low) / size * (row - 8)
            points = np.stack((across[: t + 1], up), 1)
            if t == 0:
                points = np.add(points, [[-1.0, 0.0], [1.0, 0.0]])  # a dot
            pen.line(points.reshape(-1).tolist(), fill=colour, width=2)
    return pen.finish()
