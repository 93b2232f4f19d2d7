"""One run of a model on one input, with everything a page shows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

import torch
from torch import nn

from regard.errors import RegardError
from regard.look.ablation import describe_region, silenced
from regard.look.model_input import ModelInput
from regard.look.record import record
from regard.look.recording.entry import Seen
from regard.look.token_streams import Streams
from regard.look.view import View
from regard.look.views.attention import AttentionView
from regard.look.views.classes import ClassesView
from regard.look.views.contribution import ContributionView, EvidenceView
from regard.look.views.embeddings import EmbeddingsView
from regard.look.views.experts import ExpertsView
from regard.look.views.filters import FiltersView
from regard.look.views.history import AboutView, CurvesView, SamplesView, best_scores
from regard.look.views.laws import LawsView
from regard.look.views.outcome import ConfusionView, OutcomeView
from regard.look.views.positions import PositionsView
from regard.nn.eval_mode import eval_mode
from regard.runs.run import Run

FORMAT = 1
T = TypeVar("T")

# What every page shows, where it applies.
COMMON: tuple[View, ...] = (
    OutcomeView(),
    AttentionView(),
    ExpertsView(),
    ClassesView(),
    EvidenceView(),
    ContributionView(),
    EmbeddingsView(),
    PositionsView(),
    FiltersView(),
    LawsView(),
    ConfusionView(),
    CurvesView(),
    SamplesView(),
    AboutView(),
)


class Scene:
    """What was seen of a model while it ran on an input. Views read it; `data` is the page that they make of
    it.

    answer    what the model says: what it returned (`out`), or what it says after several looks
    recorded  what each view listened to, by its name
    """

    def __init__(
        self,
        model: nn.Module,
        given: ModelInput,
        *,
        name: str,
        run: Run | None,
        report: Mapping[str, Any] | None,
        tsne: bool,
    ) -> None:
        self.model, self.given, self.name, self.run, self.report, self.tsne = (model, given, name, run, report, tsne)
        self.views: tuple[View, ...] = ()
        self.silence: Sequence[tuple[str, int]] = ()  # heads that add nothing
        self.seen: Any = ()
        self.out: Any = None
        self.answer: Any = None
        self.recorded: dict[str, Any] = {}
        self.streams = Streams(given)
        self.data: dict[str, Any] = {}
        self._made: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What several views need, made when the first of them asks."""
        if name not in self._made:
            self._made[name] = make()
        found: T = self._made[name]
        return found

    def view(self, name: str) -> dict[str, Any] | None:
        """The data of a view; None if it is not shown."""
        views = [view for view in self.views if view.name == name]
        if views:
            return self.once(f"view {name}", lambda: views[0].build(self))
        return None

    def still(self, title: str = "") -> Any:
        """The figure of what was looked at: of the first view that has one."""
        drawn = (view.still(self, title) for view in self.views if self.view(view.name) is not None)
        found = next((figure for figure in drawn if figure is not None), None)
        if found is None:
            raise RegardError(f"there is nothing to draw of {self.name}; the page says why")
        return found


def gather(
    model: nn.Module,
    given: ModelInput,
    *,
    name: str,
    views: Iterable[View] = (),
    run: Run | None = None,
    report: Mapping[str, Any] | None = None,
    silence: Sequence[tuple[str, int]] = (),
    number: int = 0,
    tsne: bool = True,
) -> Scene:
    """Run the model on the input and build all views that apply.

    views    those of this kind of data, besides what every page shows
    report   what `regard check` found, as plain data
    silence  heads that are to add nothing: name of the layer, number of the head
    number   which recording of a served page this is
    tsne     lay tokens out by t-SNE, too: loading it takes a second or two
    """
    scene = Scene(model, given, name=name, run=run, report=report, tsne=tsne)
    scene.silence = silence
    scene.views = tuple(view for view in _in_order(views) if view.applies(given))
    with eval_mode(model), silenced(model, silence):
        with torch.no_grad(), ExitStack() as listening:
            seen = scene.seen = listening.enter_context(record(model, states=True))
            scene.recorded = {view.name: listening.enter_context(view.record(model)) for view in scene.views}
            scene.out = model(**given.inputs)
        scene.streams = Streams(given, given.learned_vectors(model, seen))
        scene.answer = given.answer(model, scene.out)
        built = [data for view in scene.views if (data := scene.view(view.name)) is not None]
    numbers = {entry.name: entry.layer for entry in seen}
    scene.data = _page_frame(model, name, seen, run) | {
        "record": number,
        "input": given.describe(),
        "streams": scene.streams.data(),
        "notes": [*given.notes, *doubts(seen), *(view["note"] for view in built if view.get("note"))],
        "region": describe_region(given, scene.answer),
        "silenced": [[numbers[layer], head] for layer, head in silence],
        "views": built,
    }
    return scene


def _in_order(views: Iterable[View]) -> list[View]:
    """Views of a kind of data and those of every page, in the order of their tabs."""
    return sorted([*views, *COMMON], key=lambda view: view.order)


def _page_frame(model: nn.Module, name: str, seen: Seen, run: Run | None) -> dict[str, Any]:
    """What every page begins with."""
    size = sum(parameter.numel() for parameter in model.parameters())
    layers = [f"{seen.layers} attention layer{'s' * (seen.layers != 1)}"] if seen.layers else []
    parts = [type(model).__name__, *layers, f"{in_short(size)} parameters", *([] if run is None else _score(run))]
    return {"format": FORMAT, "title": name, "subtitle": " · ".join(parts), "live": None}


def _score(run: Run) -> list[str]:
    """What the test split gave, or the best of the validation split."""
    for split, found in best_scores(run).items():
        count = f" of {found['count']}" if "count" in found else ""
        measures = ", ".join(f"{key} {value}" for key, value in found.items() if key != "count")
        return [f"{measures} ({split}{count})"]
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
