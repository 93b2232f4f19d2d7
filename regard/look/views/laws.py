"""The table of laws, and what a group element really does: the output of the moved input beside the moved output."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.look.contribution import tensor_of
from regard.look.model_input import Given, Tokens
from regard.look.pack import packed
from regard.symmetry.report import Finding, Report

CHANNELS = 16  # of the output that are drawn
LONGEST = 64  # tokens that are drawn
MOVED = "tokens change places with each other; a model that does not know order moves its outputs along"
SHIFTED = "every place grows by the same number; a model that knows only how far tokens are apart gives the same outputs"
REORDERED = "the things of the set come in another order; what is said of the whole stays, what is said of each moves along"
RENAMED = "nodes get other numbers, in the edges too; what is said of the graph stays, what is said of each node moves along"
ROLLED = "the picture moves by {} and comes in again at the other side"
TURNED = "the picture turns by quarter turns"
HOLDS = 1e-4  # relative; float32 rounds to about 1e-6 a layer

PLACES = ("where", "position_ids")  # inputs that hold the place of each token


@dataclass(frozen=True)
class Element:
    """One group element: the moved input, and where each output should come from then; None: outputs stay."""

    label: str
    moved: Given
    order: list[int] | None


def laws(model: nn.Module, given: Given, report: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The view from a report as `regard check --json` gives it; with None only what group elements do."""
    actions = acted(model, given)
    if report is None and not actions:
        return None
    report = report or {"ok": None, "laws": []}
    rows = list(report.get("laws", []))
    found = Report(tuple(map(finding, rows)), seed=0)
    return {
        "view": "laws",
        "ok": report.get("ok"),
        "verdict": verdict(found) if rows else None,
        "error": report.get("error"),
        "words": found.words(),
        "rows": [row | {"place": each.place} for row, each in zip(rows, found, strict=True)],
        "actions": actions,
    }


def finding(row: Mapping[str, Any]) -> Finding:
    """A line of the report as it was before it became JSON, which knows no infinity."""
    known = {field.name: row[field.name] for field in fields(Finding) if field.name in row}
    return Finding(
        **{"declared": None} | known | {"error": None if row.get("error") is None else float(row["error"])}
    )


def verdict(found: Report) -> str:
    """As the command line says it, and of how many laws: a law that breaks may be declared to."""
    if found.wrong:
        return f"{found.verdict}: {', '.join(each.law for each in found.wrong)}".capitalize()
    holds = sum(each.measured == "holds" for each in found)
    breaks = [each.declared == "broken" for each in found if each.measured == "broken"]
    parts = [f"{holds} law{'s' * (holds != 1)} hold{'s' * (holds == 1)}"] if holds else []
    for count, how in (
        (sum(breaks), "declared broken"),
        (len(breaks) - sum(breaks), "broken, and not promised"),
    ):
        parts += [f"{count} {'is' if count == 1 else 'are'} {how}"] if count else []
    return ": ".join(each for each in (found.verdict, ", ".join(parts)) if each).capitalize()


@torch.no_grad()
def acted(model: nn.Module, given: Given) -> list[dict[str, Any]]:
    """Group elements tried on the input, where it is known what may be moved."""
    plain = output(model, given)
    if plain is None:
        return []
    found = []
    called = given.called if given.answers == "classes" else None
    drawn = components(plain, called is not None)
    names = None if called is None else [called(i) for i in drawn]
    for name, sentence, elements in families(model, given):
        shown = [compared(model, plain, each, drawn) for each in elements]
        kept = [each for each in shown if each is not None]
        if kept:
            low = min(each.pop("low") for each in kept)
            high = max(each.pop("high") for each in kept)
            for each in kept:
                each |= {side: as_bytes(each[side], low, high) for side in ("left", "right")}
                best = each.pop("best")
                each["taken"] = None if called is None or len(plain) > 1 else [called(i) for i in best]
            found.append(
                {
                    "name": name,
                    "sentence": sentence,
                    "scale": [low, high],
                    "components": names,
                    "elements": kept,
                }
            )
    return found


def components(plain: Tensor, classes: bool) -> list[int]:
    """The components of an output that are drawn: those that vary most, or the likeliest classes."""
    size = plain.var(0, unbiased=False) if len(plain) > 1 else plain[0]
    if len(plain) == 1 and not classes:
        return list(range(min(CHANNELS, len(size))))
    return size.topk(min(CHANNELS, len(size))).indices.sort().values.tolist()


def families(model: nn.Module, given: Given) -> Iterator[tuple[str, str, list[Element]]]:
    """Kinds of group elements that can be tried on this input, with a few elements each."""
    if given.ids is not None:
        n = given.inputs[given.ids].shape[1]
        if not 2 <= n <= LONGEST:
            return
        pairs = dict.fromkeys(((0, 1), (0, n - 1), (n // 3, 2 * n // 3), (n - 2, n - 1), (1, n // 2)))
        swaps = [swapped(n, i, j) for i, j in pairs if i != j]
        yield "swap two tokens", MOVED, [Element(label, given.moved(order), order) for label, order in swaps]
        orders = [
            (f"roll by {k}", [(i - k) % n for i in range(n)])
            for k in dict.fromkeys((1, 2, n // 2))
            if 0 < k < n
        ]
        orders.append(("backwards", list(range(n))[::-1]))
        yield "another order", MOVED, [Element(label, given.moved(order), order) for label, order in orders]
        name = next((each for each in PLACES if each in inspect.signature(model.forward).parameters), None)
        if name is not None:
            shifted = [(k, given.inputs | {name: torch.arange(n)[None] + k}) for k in (1, 2, 5, 10)]
            elements = [
                Element(f"{k} places on", replace(given, inputs=inputs), None) for k, inputs in shifted
            ]
            yield "shift the places", SHIFTED, elements
    elif given.kind == "image" and given.grid is not None:
        pixels = given.inputs[given.pixels]
        step = given.patch or pixels.shape[-1] // given.grid[1]
        moves = [k * step for k in range(1, min(4, given.grid[1]))]
        rolled = {f"{move} pixel{'s' * (move > 1)} to the right": pixels.roll(move, -1) for move in moves}
        far = f"{step} pixel{'s' * (step > 1)}" if given.patch is None else f"whole patches of {step} pixels"
        yield "roll the picture", ROLLED.format(far), of_pictures(given, rolled)
        if pixels.shape[-1] == pixels.shape[-2]:
            yield (
                "turn the picture",
                TURNED,
                of_pictures(given, {f"{90 * k}°": pixels.rot90(k, (-2, -1)) for k in (1, 2, 3)}),
            )
    elif given.cloud is not None:
        yield (
            "another order",
            REORDERED,
            [Element(label, reordered(given, order), order) for label, order in orders_of(given)],
        )
    elif given.network is not None:
        elements = [Element(label, renamed(given, order), order) for label, order in orders_of(given)]
        yield "other names of the nodes", RENAMED, elements


def orders_of(given: Given) -> list[tuple[str, list[int]]]:
    """A few orders of the things of a set, or of the nodes of a graph."""
    name = (
        given.cloud.input
        if given.cloud is not None
        else given.network.nodes
        if given.network is not None
        else ""
    )
    n = given.inputs[name].shape[1 if given.cloud is not None else 0]
    mixed = torch.randperm(n, generator=torch.Generator().manual_seed(0)).tolist()
    return [
        ("backwards", list(range(n))[::-1]),
        ("roll by 1", [(i - 1) % n for i in range(n)]),
        ("mixed", mixed),
    ]


def reordered(given: Given, order: list[int]) -> Given:
    assert given.cloud is not None
    things = given.with_things(given.inputs[given.cloud.input][:, order])
    return replace(given, inputs=things, streams=labels_moved(given, order))


def labels_moved(given: Given, order: list[int]) -> tuple[Tokens, ...]:
    return tuple(replace(stream, labels=tuple(stream.labels[i] for i in order)) for stream in given.streams)


def renamed(given: Given, order: list[int]) -> Given:
    """Node i is now what node order[i] was, in the edges and in whatever else there is one of for each node."""
    assert given.network is not None
    n, now = len(order), torch.empty(len(order), dtype=torch.long)
    now[order] = torch.arange(n)
    of_nodes = {
        name: x[order]
        for name, x in given.inputs.items()
        if isinstance(x, Tensor) and x.dim() and len(x) == n
    }
    network = given.network
    (edges,) = (name for name, x in given.inputs.items() if getattr(x, "edges", x) is network.edges)
    inputs = given.inputs | of_nodes | {edges: now[network.edges]}
    return replace(given, inputs=inputs, streams=labels_moved(given, order))


def swapped(n: int, i: int, j: int) -> tuple[str, list[int]]:
    order = list(range(n))
    order[i], order[j] = j, i
    return f"swap {i + 1} and {j + 1}", order


def of_pictures(given: Given, moved: Mapping[str, Tensor]) -> list[Element]:
    return [
        Element(label, replace(given, inputs=given.inputs | {given.pixels: x}), None)
        for label, x in moved.items()
    ]


def output(model: nn.Module, given: Given) -> Tensor | None:
    """What the model returns, as rows: one for each token, or a single one.   n c"""
    try:
        out = tensor_of(model(**given.inputs)).detach().float()
    except (ValueError, RuntimeError, IndexError):  # a place beyond the table, say
        return None
    return out[0] if out.dim() == 3 else out if out.dim() == 2 else None


def compared(model: nn.Module, plain: Tensor, element: Element, drawn: list[int]) -> dict[str, Any] | None:
    """f(g x) beside g f(x)."""
    left, order = output(model, element.moved), element.order
    if order is not None and len(plain) > LONGEST:
        return None
    follows = order is not None and len(plain) == len(order)
    right = plain[order] if follows and order is not None else plain
    if left is None or left.shape != right.shape:
        return None
    size = plain.abs().max().clamp_min(1e-30)
    error = float((left - right).abs().max() / size)
    shown = [x[:, drawn] for x in (left, right)]
    return {
        "label": element.label,
        "order": list(element.moved.streams[0].labels) if element.moved.streams else [],
        "n": shown[0].shape[0],
        "c": shown[0].shape[1],
        "left": shown[0],
        "right": shown[1],
        "low": float(min(x.min() for x in shown)),
        "high": float(max(x.max() for x in shown)),
        "best": [int(x[0].argmax()) for x in (left, right)],
        "error": float(f"{error:.2g}"),
        "holds": error < HOLDS,
    }


def as_bytes(x: Tensor, low: float, high: float) -> str:
    scaled = (x - low) / (high - low) if high > low else torch.zeros_like(x)
    return packed((scaled.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy())
