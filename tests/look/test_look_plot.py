"""The picture of a run: what it is drawn from, and that it can be drawn at any moment."""

import io

import pytest
from PIL import Image

from regard.look.plot import columns, drawn_curves, smoothed


def events(steps, every):
    for step in range(1, steps + 1):
        yield {"step": step, "event": "step", "loss": 4 / step, "seconds": 0.1}
        if step % every == 0:
            yield {"step": step, "event": "validation", "loss": 5 / step, "accuracy": 0.5, "seconds": 0.1}
    yield {"step": steps, "event": "note", "text": "a note is not drawn", "seconds": 0.1}


@pytest.mark.parametrize("steps, every", [(0, 1), (1, 1), (1, 2), (2, 1), (300, 30)])
def test_it_is_drawn_at_any_moment(steps, every):
    image = Image.open(io.BytesIO(drawn_curves(list(events(steps, every)), "mine")))
    assert image.format == "PNG" and image.size == (840, 480)


def test_what_is_drawn():
    assert columns([{"step": 3, "loss": 0.5}, {"step": 4, "loss": 0.25}]) == ([3, 4], [0.5, 0.25])


def test_smoothed_does_not_lag():
    line = [float(i) for i in range(200)]
    assert smoothed(line)[:-4] == pytest.approx(line[:-4])          # the mean of both sides: a straight line stays
    assert smoothed(line)[-1] == pytest.approx(197)                 # what comes after the end is not known
    assert smoothed([]) == [] and smoothed([2.0]) == [2.0]
    jagged = [float(i % 2) for i in range(1000)]
    assert all(abs(loss - 0.5) < 0.02 for loss in smoothed(jagged)[100:-100])
