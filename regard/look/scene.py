"""One run of a model on one input, with everything a page shows of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.look.contribution import tensor_of
from regard.look.features import convolved
from regard.look.model_input import Given
from regard.look.record import record
from regard.look.recording.entry import Seen
from regard.look.silence import silenced
from regard.look.streams import Streams
from regard.look.views import history
from regard.look.views.answers import answers
from regard.look.views.attention import attention
from regard.look.views.confusion import confusion
from regard.look.views.contribution import contribution
from regard.look.views.embeddings import embeddings
from regard.look.views.features import features
from regard.look.views.filters import filters
from regard.look.views.graph import graph
from regard.look.views.image import image
from regard.look.views.laws import laws
from regard.look.views.points import names_of_few, points
from regard.look.views.positions import positions
from regard.look.where import Looked, looked, windows_of
from regard.runs.run import Run

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Scene:
    """The data of a page, and the input and the recording it was made from."""

    data: dict[str, Any]
    seen: Seen
    given: Given
    looked: Looked | None = None  # where it looks, over a picture


def gather(
    model: nn.Module,
    given: Given,
    *,
    name: str,
    run: Run | None = None,
    report: Mapping[str, Any] | None = None,
    silence: Sequence[tuple[str, int]] = (),
    number: int = 0,
    tsne: bool = True,
) -> Scene:
    """Run the model on the input and gather all views that apply.

    report   what `regard check` found, as plain data
    silence  heads that are to add nothing: name of the layer, number of the head
    number   which recording of a served page this is
    tsne     lay tokens out by t-SNE, too: loading it takes a second or two
    """
    with at_rest(model), silenced(model, silence):
        with torch.no_grad(), record(model, states=True) as seen, convolved(model) as maps:
            out = model(**given.inputs)
        streams = Streams(given, names_of_few(model, seen, given))
        answer = out if given.judged is None else judged(model, given)
        matters, over = contribution(model, answer, given, seen, streams), looked(model, seen, given)
        views = [
            image(given, over, matters),
            points(model, seen, out, given),
            graph(seen, out, given),
            attention(seen, streams, windows_of(model, seen, given)),
            answers(answer, given),
            matters,
            features(maps, seen.states, given.grid) if given.picture is not None else None,
            embeddings(model, seen.states, given, streams, tsne=tsne),
            positions(model),
            filters(model),
            laws(model, given, report),
            None if run is None else confusion(run),
            None if run is None else history.curves(run),
            None if run is None else history.samples(run),
            history.about(model, name, run),
        ]
    numbers = {entry.name: entry.layer for entry in seen}
    data = frame(model, name, seen, run) | {
        "record": number,
        "input": asked(given),
        "streams": streams.data(),
        "notes": [
            *given.notes,
            *doubts(seen),
            *(view["note"] for view in views if view is not None and view.get("note")),
        ],
        "silenced": [[numbers[layer], head] for layer, head in silence],
        "views": [view for view in views if view is not None],
    }
    return Scene(data, seen, given, over)


@torch.no_grad()
def judged(model: nn.Module, given: Given) -> Tensor:
    """What is answered after several looks, as `regard predict` does it.   1 classes"""
    assert given.judged is not None
    return given.judged.answer(
        lambda x: tensor_of(model(**given.inputs | {given.pixels: x})), given.inputs[given.pixels]
    )


def asked(given: Given) -> dict[str, Any]:
    """What was given, in words."""
    views = None if given.judged is None else given.judged.views
    named = {"name": given.name, "truth": given.truth, "views": views}
    return {"kind": given.kind, "text": given.text, "target": given.target, **named}


def frame(model: nn.Module, name: str, seen: Seen, run: Run | None) -> dict[str, Any]:
    """What every page begins with."""
    size = sum(parameter.numel() for parameter in model.parameters())
    layers = f"{seen.layers} attention layer{'s' * (seen.layers != 1)}"
    parts = [
        type(model).__name__,
        layers,
        f"{in_short(size)} parameters",
        *([] if run is None else score(run)),
    ]
    return {"format": FORMAT, "title": name, "subtitle": " · ".join(parts), "live": None}


def score(run: Run) -> list[str]:
    """What the test split gave, or the best of the validation split."""
    for split, found in history.scores(run).items():
        count = f" of {found['count']}" if "count" in found else ""
        return [
            ", ".join(f"{key} {value}" for key, value in found.items() if key != "count")
            + f" ({split}{count})"
        ]
    return []


def in_short(count: int) -> str:
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return str(count)


def doubts(seen: Seen) -> list[str]:
    """A sentence for what is not shown because it is not proved."""
    unproved = [entry for entry in seen if not entry.proved]
    if not unproved:
        return []
    count = f"{len(unproved)} of {len(seen)} attentions"
    return [f"{count} are not shown, because their weights are not proved: {unproved[0].reason}."]


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """In eval mode, and then as it was."""
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
