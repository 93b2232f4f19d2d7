"""The colours of the page (web/scripts/03-colours.js) for stills, so that one thing has one colour wherever
it is seen.

Colours are OKLCH: lightness, chroma, hue.
"""

from __future__ import annotations

import math

from torch import Tensor

Colour = tuple[float, float, float]  # red, green and blue from 0 to 1

SPEAKS_FOR: Colour = (255 / 255, 176 / 255, 32 / 255)  # the prediction, or reached by attention, over an image
SPEAKS_AGAINST: Colour = (96 / 255, 156 / 255, 255 / 255)
GROUND: Colour = (16 / 255, 18 / 255, 22 / 255)  # of bars, where nothing is coloured
HEADS = (
    (0.52, 0.16, 258), (0.70, 0.15, 60), (0.60, 0.12, 168), (0.62, 0.19, 350), (0.76, 0.10, 222), (0.50, 0.16, 32),
    (0.82, 0.15, 98), (0.44, 0.13, 310),
)  # fmt: skip
FEW = 8  # numbers of which each counts
EVEN = 3  # times the mean: a map that nowhere has more stays faint
FAINT = 0.1  # of a logit: odds change by a tenth. What changes a prediction by less everywhere stays faint


def of_head(number: int) -> Colour:
    """More than eight: the same hues, lighter and darker by turns."""
    lightness, chroma, hue = HEADS[number % len(HEADS)]
    turn = number // len(HEADS)
    step = (0.13 if turn % 2 else -0.1) * math.ceil(turn / 2)
    return _oklch(lightness + step, chroma * (0.8 if turn else 1), hue + 9 * turn)


def _oklch(lightness: float, chroma: float, hue: float) -> Colour:
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    l, m, s = (
        (lightness + x * a + y * b) ** 3
        for x, y in ((0.3963377774, 0.2158037573), (-0.1055613458, -0.0638541728), (-0.0894841775, -1.291485548))
    )
    linear = (
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    )
    inside = [min(1.0, max(0.0, x)) for x in linear]
    red, green, blue = (12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055 for x in inside)
    return red, green, blue


def scale_of(values: Tensor) -> tuple[float, float]:
    """From where to where a map of attention is coloured: from its mean, which is nothing, to its largest."""
    mean = float(values.mean())
    return mean, max(EVEN * mean, float(values.max()), mean + 1e-12)


def reach(values: Tensor, least: float = 0.0) -> float:
    """A size that all but a few numbers stay below, `least` or more: one that stands out must not hide the
    others."""
    sizes = values.flatten().abs().sort().values
    nearly, largest = float(sizes[int(0.99 * (len(sizes) - 1))]), float(sizes[-1])
    return max(nearly if len(sizes) > FEW and largest > 2 * nearly > 0 else largest, least) or 1.0
