"""The table of laws, and what a group element really does: the output of the moved input beside the moved
output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.look.contribution import tensor_of
from regard.look.encode_arrays import pack_array
from regard.look.model_input import ModelInput, Moved
from regard.look.view import View
from regard.symmetry.report import Finding, Report

if TYPE_CHECKING:
    from regard.look.scene import Scene


CHANNELS = 16  # of the output that are drawn
LONGEST = 64  # tokens that are drawn
HOLDS = 1e-4  # relative; float32 rounds to about 1e-6 a layer


class LawsView(View):
    """What `regard check` found, and what group elements do to this input."""

    name, order = "laws", 56

    def build(self, scene: Scene) -> dict[str, Any] | None:
        return laws(scene.model, scene.given, scene.report)


def laws(model: nn.Module, given: ModelInput, report: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The view from a report as `regard check --json` gives it; with None only what group elements do."""
    actions = _acted(model, given)
    if report is None and not actions:
        return None
    report = report or {"ok": None, "laws": []}
    rows = list(report.get("laws", []))
    found = Report(tuple(map(_finding, rows)), seed=0)
    return {
        "view": "laws",
        "ok": report.get("ok"),
        "verdict": _verdict(found) if rows else None,
        "error": report.get("error"),
        "words": found.words(),
        "rows": [row | {"place": each.place} for row, each in zip(rows, found, strict=True)],
        "actions": actions,
    }


def _finding(row: Mapping[str, Any]) -> Finding:
    """A line of the report as it was before it became JSON, which knows no infinity."""
    known = {field.name: row[field.name] for field in fields(Finding) if field.name in row}
    return Finding(**{"declared": None} | known | {"error": None if row.get("error") is None else float(row["error"])})


def _verdict(found: Report) -> str:
    """As the command line says it, and of how many laws: a law that breaks may be declared to."""
    if found.wrong:
        return f"{found.verdict}: {', '.join(each.law for each in found.wrong)}".capitalize()
    holds = sum(each.measured == "holds" for each in found)
    breaks = [each.declared == "broken" for each in found if each.measured == "broken"]
    parts = [f"{holds} law{'s' * (holds != 1)} hold{'s' * (holds == 1)}"] if holds else []
    for count, how in ((sum(breaks), "declared broken"), (len(breaks) - sum(breaks), "broken, and not promised")):
        if count:
            parts.append(f"{count} {'is' if count == 1 else 'are'} {how}")
    return ": ".join(each for each in (found.verdict, ", ".join(parts)) if each).capitalize()


@torch.no_grad()
def _acted(model: nn.Module, given: ModelInput) -> list[dict[str, Any]]:
    """Group elements tried on the input, where it is known what may be moved."""
    plain = _output(model, given)
    if plain is None:
        return []
    found = []
    called = given.called if given.answers == "classes" else None
    drawn = _components(plain, called is not None)
    names = None if called is None else [called(i) for i in drawn]
    for name, sentence, elements in given.actions(model):
        shown = [_compared(model, plain, each, drawn) for each in elements]
        kept = [each for each in shown if each is not None]
        if kept:
            low = min(each.pop("low") for each in kept)
            high = max(each.pop("high") for each in kept)
            for each in kept:
                each |= {side: _as_bytes(each[side], low, high) for side in ("left", "right")}
                best = each.pop("best")
                if called is None or len(plain) > 1:
                    each["taken"] = None
                else:
                    each["taken"] = [called(i) for i in best]
            found.append(
                {"name": name, "sentence": sentence, "scale": [low, high], "components": names, "elements": kept}
            )
    return found


def _components(plain: Tensor, classes: bool) -> list[int]:
    """The components of an output that are drawn: those that vary most, or the likeliest classes."""
    size = plain.var(0, unbiased=False) if len(plain) > 1 else plain[0]
    if len(plain) == 1 and not classes:
        return list(range(min(CHANNELS, len(size))))
    return size.topk(min(CHANNELS, len(size))).indices.sort().values.tolist()


def _output(model: nn.Module, given: ModelInput) -> Tensor | None:
    """What the model returns, as rows: one for each token, or a single one.   n c"""
    try:
        out = tensor_of(model(**given.inputs)).detach().float()
    except (ValueError, RuntimeError, IndexError):  # a place beyond the table, say
        return None
    if out.dim() == 3:
        return out[0]
    if out.dim() == 2:
        return out
    return None


def _compared(model: nn.Module, plain: Tensor, element: Moved, drawn: list[int]) -> dict[str, Any] | None:
    """f(g x) beside g f(x)."""
    left, order = _output(model, element.input), element.order
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
        "order": list(element.input.streams[0].labels) if element.input.streams else [],
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


def _as_bytes(x: Tensor, low: float, high: float) -> str:
    scaled = (x - low) / (high - low) if high > low else torch.zeros_like(x)
    return pack_array((scaled.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy())
