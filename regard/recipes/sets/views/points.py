"""The elements of a set as points in space, with the attention that each gets from learned queries or from
other elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.look import encode_arrays
from regard.look.contribution import tensor_of
from regard.look.draw_figure import draw_figure
from regard.look.figure import FIGURE_FILES, Figure, Measure
from regard.look.model_input import ModelInput
from regard.look.recording.entry import Entry
from regard.look.view import View
from regard.look.views.contribution import evidence_terms, left_out, seconds, why_not
from regard.look.views.embeddings import principal
from regard.models.additive import Additive
from regard.recipes.sets.model_input import OfPoints, SetInput
from regard.recipes.sets.views.attention_roles import Role, role_of
from regard.recipes.sets.views.max_pool import Maximum, enough, maxima

if TYPE_CHECKING:
    from regard.look.scene import Scene


MOST_POINTS = 20_000  # that are drawn
MOST_NUMBERS = 3 * 2**20  # of all weights of a page
COLUMNS = 8  # numbers of a point that the page shows beside its place
SAME = 1e-5  # relative; what two sums in float32 may be apart

DECIDES = "in how many of the {} channels of this pool a point alone has the largest value, and so decides it"
ENOUGH = "; {} of all points are enough for every maximum: without the others the prediction stays the same"
EACH = "The model has no attention, and it predicts every point separately: leaving out points cannot be measured."
NO_ATTENTION = "The model has no attention."
LEFT_OUT = "how much the largest output drops without this point"


class PointsView(View):
    """The set as points in space."""

    name, order, stands_alone = "points", 10, True
    files = FIGURE_FILES

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, SetInput)

    def build(self, scene: Scene) -> dict[str, Any]:
        assert isinstance(scene.given, SetInput)
        return {"view": self.name, **points(scene.model, scene.seen, scene.out, scene.given).to_json()}

    def still(self, scene: Scene, title: str) -> Any:
        return draw_figure(scene.view(self.name) or {}, title)


def points(model: nn.Module, seen: Sequence[Entry], out: Any, given: SetInput) -> Figure:
    """The figure of the view."""
    x = given.rows.float()
    n = len(x)
    heard = [(entry, role) for entry in seen if (role := role_of(model, entry, n)) is not None]
    measures, doubt = ([], None) if heard else _without_attention(model, out, given)
    each = sum(len(entry.heads) * role.few for entry, role in heard if entry.proved)
    count = min(n, MOST_POINTS, max(1, MOST_NUMBERS // max(1, each)))
    shown = torch.linspace(0, n - 1, count).round().long()
    places, axes, drawn = place_points(x, given.columns)
    few = None
    if count < n:
        few = f"{count:,} of {n:,} points are drawn, evenly spaced; the weights are those among all points."
    return Figure(
        tab="Points",
        title="The set",
        kind="point cloud",
        thing="point",
        facts=f"{n:,} points" + (f", {count:,} of them drawn" if count < n else ""),
        count=n,
        shown=None if count == n else shown,
        axes=axes,
        places=places[shown],
        columns=given.columns[:COLUMNS],
        wide=len(given.columns),
        numbers=x[shown, :COLUMNS],
        layers=[layer(entry, role, shown) for entry, role in heard],
        measures=[measure._replace(values=measure.values[shown]) for measure in measures],
        note=" ".join(each for each in (few, drawn, doubt) if each) or None,
    )


def place_points(x: Tensor, columns: Sequence[str]) -> tuple[Tensor, list[str], str | None]:
    """Where points are drawn, what the axes are called, and what to say about it.   n d -> n 2 or n 3"""
    names = [column.lower() for column in columns]
    chosen = [names.index(axis) for axis in "xyz" if axis in names]
    if len(chosen) >= 2:
        return x[:, chosen], [columns[i] for i in chosen], None
    if x.shape[1] == 1:
        return torch.cat((x, torch.zeros_like(x)), 1), [columns[0], ""], None
    if x.shape[1] <= 3:
        return x, list(columns), None
    flat, shares = principal(x, 3)
    said = f"A point has {x.shape[1]} numbers; it is drawn by the first three principal components of all points"
    return (flat, [f"PC{i}" for i in (1, 2, 3)], f"{said}, which hold {float(shares.sum()):.0%} of their variance.")


# ---- attention


def layer(entry: Entry, role: Role, shown: Tensor) -> dict[str, Any]:
    found: dict[str, Any] = {
        "layer": entry.layer,
        "call": entry.call,
        "name": entry.name,
        "kind": role.kind,
        "what": role.what,
        "title": role.title,
        "sentence": role.sentence,
        "heads": list(entry.heads),
        "count": role.few,
        "proved": entry.proved,
        "reason": entry.reason,
        "error": encode_arrays.round_digits(float(entry.error), 2),
        "scale": None,
        "weights": None,
    }
    if entry.proved:
        found |= encode_arrays.pack_scaled(_weights_of(entry, role).cpu()[..., shown])
    return found


def _weights_of(entry: Entry, role: Role) -> Tensor:
    """The attention of each point from each learned vector, or to each.   h count n"""
    if role.kind == "among":
        return entry.summary.received[0][:, None]
    weights = entry.weights[0]
    if role.kind == "asked":
        return weights
    return weights.mT


# ---- models without attention


def _without_attention(model: nn.Module, out: Any, given: SetInput) -> tuple[list[Measure], str | None]:
    """Measures of points in a model without attention, and a note on what cannot be measured."""
    x: Tensor = given.inputs[given.points]
    if isinstance(model, Additive):
        terms = evidence_terms(model, out, given)
        return [Measure(terms.title, terms.sentence, terms.values[0])], None
    with torch.no_grad(), maxima(model) as found:
        model(**given.inputs)
    found = [each for each in found if len(each.has) == x.shape[1] and x.shape[0] == 1]
    if found:
        return _decided(model, out, given, x, found), None
    if not _out_of_whole(out):
        return [], EACH
    closed = OfPoints(model, given)
    wait = seconds(closed, x, None)
    lost = left_out(closed, x, None, wait=wait)
    if lost is None:
        return [], f"{NO_ATTENTION} {why_not('point', wait)}"
    return [Measure("leave one out", LEFT_OUT, lost[0])], None


def _out_of_whole(out: Any) -> bool:
    """Is there one prediction for the whole set?"""
    try:
        return tensor_of(out).dim() == 2
    except ValueError:
        return False


def _decided(model: nn.Module, out: Any, given: SetInput, x: Tensor, found: list[Maximum]) -> list[Measure]:
    """The points that decide each maximum. A second forward pass tests whether a few of them are enough."""
    few = enough(found)
    with torch.no_grad():
        again = model(**given.with_points(x[:, few])) if _out_of_whole(out) else None
    more = ""
    if again is not None:
        whole, rest = tensor_of(out), tensor_of(again)
        apart = float((whole - rest).abs().max() / whole.abs().max().clamp_min(1e-30))
        more = ENOUGH.format(len(few)) if apart < SAME and len(few) < x.shape[1] else ""
    return [
        Measure(
            name=f"maximum in {each.name}" + (f", call {each.call + 1}" if each.call else ""),
            sentence=DECIDES.format(each.has.shape[1]) + more,
            values=each.alone,
            signed=False,
        )
        for each in reversed(found)
    ]
