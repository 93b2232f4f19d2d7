"""A graph as nodes and edges, each edge as strong as the attention along it; of a large graph, what lies
around one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.look import encode_arrays
from regard.look.contribution import tensor_of
from regard.look.draw_figure import draw_figure
from regard.look.figure import FIGURE_FILES, Figure, Groups
from regard.look.model_input import ModelInput
from regard.look.recording.entry import Entry
from regard.look.view import View
from regard.recipes.graphs.layout import around, laid_out
from regard.recipes.graphs.model_input import CLASSES, GraphInput, sort_names

if TYPE_CHECKING:
    from regard.look.scene import Scene


WHOLE = 400  # the largest graph that is drawn whole, in nodes
NEAR = 300  # nodes of a larger graph that are drawn
HOPS = 2
READABLE = 12  # neighbours of the node that is shown first
LARGEST = 4  # of each row, where every node attends to every node
CLASS_NAMES = ("predicted class", "true class")  # which have the same classes

NO_ATTENTION = "The model passes messages along the edges without attention, so all edges are drawn alike."


class GraphView(View):
    """The graph as nodes and edges."""

    name, order, stands_alone = "graph", 10, True
    files = FIGURE_FILES

    def applies(self, given: ModelInput) -> bool:
        return isinstance(given, GraphInput)

    def build(self, scene: Scene) -> dict[str, Any]:
        assert isinstance(scene.given, GraphInput)
        return {"view": self.name, **graph(scene.seen, scene.out, scene.given).to_json()}

    def still(self, scene: Scene, title: str) -> Any:
        return draw_figure(scene.view(self.name) or {}, title)


def graph(seen: Sequence[Entry], out: Any, given: GraphInput) -> Figure:
    """The figure of the view."""
    n = len(given.labels)
    edges = given.edges.detach().cpu()
    centre = _typical(edges, n) if given.centre is None else given.centre
    shown = torch.arange(n) if n <= WHOLE else around(edges, n, centre, HOPS, NEAR)
    inside = Inside(shown, n)
    drawn = inside.joined(edges)[0]
    lists = [drawn]
    layers = [_layer(entry, inside, lists) for entry in seen if _is_of_nodes(entry, n)]
    place = laid_out(drawn, len(shown))
    part = (
        f"Of {n:,} nodes the {len(shown):,} nearest to node {given.labels[centre]!r} are drawn, at most "
        f"{HOPS} edges away; nodes at the rim have neighbours that are not drawn."
    )
    notes = [part if len(shown) < n else None, NO_ATTENTION if not layers else None]
    return Figure(
        tab="Graph",
        title="The graph",
        kind="graph",
        thing="node",
        facts=f"{n:,} nodes" + (f", {len(shown):,} of them drawn" if len(shown) < n else ""),
        count=n,
        shown=shown if len(shown) < n else None,
        axes=("", ""),
        places=place,
        labels=[given.labels[i] for i in shown.tolist()],
        centre=int((shown == centre).nonzero()[0]) if len(shown) < n or given.centre is not None else None,
        edges=lists,
        layers=layers,
        groups=_colours(out, given, shown),
        note=" ".join(each for each in notes if each) or None,
    )


def _typical(edges: Tensor, n: int) -> int:
    """The node with most neighbours, except hubs with more than a page can show clearly."""
    both = torch.cat((edges, edges.flip(0)), 1)
    pairs = (both[0] * n + both[1])[both[0] != both[1]].unique()
    neighbours = torch.bincount(pairs // n, minlength=n)
    modest = neighbours.where(neighbours <= READABLE, -1)
    return int((modest if bool((modest > 0).any()) else neighbours).argmax())


class Inside:
    """Some of the nodes, numbered anew."""

    def __init__(self, shown: Tensor, n: int) -> None:
        self.count, self.shown = len(shown), shown
        self.number = torch.full((n,), -1)
        self.number[shown] = torch.arange(self.count)

    def joined(self, edges: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The edges among them without duplicates; the weights of duplicates are added.
        2 e, h e"""
        source, target = self.number[edges]
        kept = (source >= 0) & (target >= 0)
        codes, which = (target[kept] * self.count + source[kept]).unique(return_inverse=True)
        each = torch.zeros(0, int(kept.sum())) if weights is None else weights[:, kept].float()
        total = torch.zeros(len(each), len(codes)).index_add_(1, which, each)
        return torch.stack((codes % max(1, self.count), codes // max(1, self.count))), total

    def keys_of(self, entry: Entry) -> Tensor:
        """At how many nodes each of them looks, of all that there are: an even share is one over that."""
        n = len(self.number)
        if entry.kind != "edges":
            return torch.full((self.count,), n)
        source, target = _along(entry)[0]
        pairs = (target * n + source).unique()
        return torch.bincount(pairs // n, minlength=n)[self.shown]


def _is_of_nodes(entry: Entry, n: int) -> bool:
    """Along edges, or among all nodes of the graph."""
    return entry.kind == "edges" or (entry.kind == "self" and entry.shape[0] == 1 and entry.shape[2:] == (n, n))


def _layer(entry: Entry, inside: Inside, lists: list[Tensor]) -> dict[str, Any]:
    """One attention; its edges are added to the lists if they are not among them."""
    found: dict[str, Any] = {
        "layer": entry.layer,
        "call": entry.call,
        "name": entry.name,
        "heads": list(entry.heads),
        "full": entry.kind != "edges",
        "proved": entry.proved,
        "reason": entry.reason,
        "error": encode_arrays.round_digits(float(entry.error), 2),
        "list": 0,
        "keys": None,
        "scale": None,
        "weights": None,
    }
    if not entry.proved:
        return found
    edges, weights = inside.joined(*(_along(entry) if entry.kind == "edges" else _strongest(entry)))
    keys = inside.keys_of(entry)
    number = next((k for k, other in enumerate(lists) if torch.equal(other, edges)), len(lists))
    if number == len(lists):
        lists.append(edges)
    return found | {"list": number, "keys": keys.tolist()} | encode_arrays.pack_scaled(weights)


def _along(entry: Entry) -> tuple[Tensor, Tensor]:
    assert entry.edges is not None
    return entry.edges.cpu(), entry.weights.cpu()


def _strongest(entry: Entry) -> tuple[Tensor, Tensor]:
    """The largest weights of each row of full attention, those of one head beside those of another.
    2 e, h e"""
    weights = entry.weights[0].cpu()  # h n n
    n = weights.shape[-1]
    best = weights.topk(min(LARGEST, n), dim=-1).indices
    wanted = torch.zeros(weights.shape, dtype=torch.bool).scatter_(-1, best, True).any(0)
    target, source = wanted.nonzero().T
    return torch.stack((source, target)), weights[:, target, source]


# ---- colours of nodes


def _colours(out: Any, given: GraphInput, shown: Tensor) -> list[Groups]:
    """What nodes can be coloured by. A class has its colour by its place among the names of all classes, so
    that it is the same in every run and for predicted and true classes."""
    known = _known(CLASS_NAMES[1], given.classes, shown, ()), _known("node label", given.kinds, shown, given.kind_names)
    found = [each for each in (_predicted(out, given, shown), *known) if each is not None]
    shared = {name for called, _, names in found if called in CLASS_NAMES for name in names}
    groups = []
    for called, each, names in found:
        order = sort_names(shared if called in CLASS_NAMES else names)
        place = {name: k for k, name in enumerate(order)}
        groups.append(Groups(called, order, torch.tensor([place.get(name or "", -1) for name in each])))
    return groups


Named = tuple[str, list[str | None], set[str]]  # what groups are called, that of each node, all that there are


def _predicted(out: Any, given: GraphInput, shown: Tensor) -> Named | None:
    """The class that the model gives to each node, or the number of its largest output."""
    try:
        outputs = tensor_of(out)
    except ValueError:
        return None
    if outputs.dim() != 2 or len(outputs) != len(given.labels) or not 2 <= outputs.shape[1] <= CLASSES:
        return None
    best = outputs.detach().argmax(-1).cpu()[shown].tolist()
    name, names = "largest output", [f"output {k}" for k in range(outputs.shape[1])]
    if given.called is not None and given.answers == "classes":
        name, names = CLASS_NAMES[0], [given.called(k) for k in range(outputs.shape[1])]
    return name, [names[k] for k in best], set(names)


def _known(name: str, of_each: Sequence[str | None] | None, shown: Tensor, more: Sequence[str]) -> Named | None:
    """What the data says each node is, such as the atom of a molecule, if there are few. more: names that other graphs of
    the data have, too"""
    if of_each is None:
        return None
    names = {each for each in (*more, *of_each) if each}
    if not 1 <= len(names) <= CLASSES:
        return None
    return name, [of_each[i] for i in shown.tolist()], names
