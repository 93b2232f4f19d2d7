"""The figure of a run: what it is drawn from, and that it can be drawn at any moment."""

import html
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from regard import Rotary
from regard.look import plot
from regard.look.plot import columns, drawn_curves, smooth
from regard.look.record import record
from regard.models.vit import ViT


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
    assert smooth(line)[:-4] == pytest.approx(line[:-4])  # the mean of both sides: a straight line stays
    assert smooth(line)[-1] == pytest.approx(197)  # what comes after the end is not known
    assert smooth([]) == [] and smooth([2.0]) == [2.0]
    jagged = [float(i % 2) for i in range(1000)]
    assert all(abs(loss - 0.5) < 0.02 for loss in smooth(jagged)[100:-100])


# ---- stills


@pytest.fixture(scope="module")
def seen():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(1, 6, 16)
    with torch.no_grad(), record(model) as seen:
        model(x, x, x)
    return seen


def test_all_heads_are_drawn_as_they_are(seen):
    figure = plot.heads(seen, title="mine")
    *maps, bar = figure.axes
    drawn = [axis.images[0].get_array() for axis in maps]
    assert len(drawn) == 4 and maps[0].get_ylabel() == "layer 1" and [axis.get_title() for axis in maps][3] == "head 4"
    assert bar.get_xlabel() == "weight, as a share of the largest of its map"
    for image, weights in zip(drawn, seen[0].weights[0], strict=True):
        np.testing.assert_allclose(image, weights, rtol=1e-6)


def test_a_matrix_names_its_tokens(seen):
    words = ["a", " b", "c\n", "$d", "e", "f"]
    axis = plot.matrix(seen[0].weights[0, 1], words, words).axes[0]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["a", "·b", "c↵", r"\$d", "e", "f"]
    assert [label.get_rotation() for label in axis.get_xticklabels()] == [0, 90, 90, 90, 0, 0]
    np.testing.assert_allclose(axis.images[0].get_array(), seen[0].weights[0, 1], rtol=1e-6)
    with pytest.raises(ValueError, match=r"matrix draws one head, n m, got \(1, 4, 6, 6\)"):
        plot.matrix(seen[0].weights)
    with pytest.raises(ValueError, match="keys must name 6 tokens, got 2"):
        plot.matrix(seen[0].weights[0, 1], None, ["a", "b"])


def test_maps_lie_over_the_image():
    figure = plot.overlay(torch.rand(3, 8, 8), torch.rand(2, 4, 4), titles=["one", "two"])
    assert [len(axis.images) for axis in figure.axes] == [1, 2, 2] and figure.axes[2].get_title() == "two"
    with pytest.raises(ValueError, match=r"image.*draw.*3 h.*1 h.*\(8, 8, 3\)"):
        plot.overlay(torch.rand(8, 8, 3), torch.rand(2, 4, 4))
    with pytest.raises(ValueError, match="title.*2 maps.*1"):
        plot.overlay(torch.rand(3, 8, 8), torch.rand(2, 4, 4), titles=["one"])


@pytest.mark.parametrize(
    "title", ["run, test split", "a run with a name far longer than its figure is wide, test split"]
)
@pytest.mark.parametrize("classes", [2, 3, 30])
def test_the_title_of_a_confusion_matrix_is_not_cut_off(title, classes):
    counts = torch.eye(classes, dtype=torch.long)
    figure = plot.confusion(counts, [f"class {i}" for i in range(classes)], title=title)
    figure.canvas.draw()
    words, inside = figure._suptitle.get_window_extent(), figure.bbox
    assert inside.x0 <= words.x0 and words.x1 <= inside.x1 and words.y1 <= inside.y1
    said = figure._suptitle.get_text()
    assert " ".join(said.split()) == f"{title} 100% right"
    # over the matrix, and not in it
    assert words.y0 >= max(axis.get_window_extent().y1 for axis in figure.axes)


def test_the_row_of_a_class_token_is_no_line():
    model, inputs = ViT.tiny()
    with torch.no_grad(), record(model.eval()) as found:
        model(**inputs)
    figure = plot.heads(found)
    figure.draw_without_rendering()
    first, last = (axis.get_window_extent() for axis in (figure.axes[0], figure.axes[4]))
    assert found[1].shape[2] == 1 and last.height > 0.5 * first.height


def test_positions_are_drawn():
    axes = plot.positions(Rotary(8), 20).axes
    assert axes[2].lines[0].get_ydata()[0] == pytest.approx(1) and len(axes[2].lines[0].get_ydata()) == 20


def test_a_still_ends_as_it_is_called(seen, tmp_path):
    plot.save(plot.heads(seen), tmp_path / "x.pdf")
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(ValueError, match="still ends.*.png, .svg, .pdf.*'x.gif'"):
        plot.save(plot.heads(seen), "x.gif")
    with pytest.raises(ValueError, match="attention.*draw among 0 entries"):
        plot.heads([])


def test_a_notebook_shows_the_page_in_a_frame(seen):
    shown = seen._repr_html_()
    # all of it is quoted
    assert shown.startswith("<iframe") and shown.count("<iframe") == 1 and "<script" not in shown
    page = html.unescape(shown.partition('srcdoc="')[2].rpartition('"></iframe>')[0])
    data = json.loads(page.partition('type="application/json">')[2].partition("</script>")[0])
    assert data["views"][0]["layers"][0]["heads"] == [0, 1, 2, 3] and data["subtitle"] == "1 attention, 1 layer"
