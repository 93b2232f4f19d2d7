"""What the prediction loses without a part of the input: a rectangle of an image, a span of a text, a group of
points or of nodes. It is run again without that part; what "without" means, the input says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.attention.approximate.approximation import Approximation
from regard.errors import RegardError
from regard.look.contribution import tensor_of
from regard.look.encode_arrays import round_digits
from regard.look.model_input import ModelInput, Removal
from regard.nn.attention import Attention
from regard.nn.eval_mode import eval_mode

if TYPE_CHECKING:
    from regard.look.scene import Scene


MOST_VALUES = 8  # numbers of a prediction that are told


def describe_region(given: ModelInput, answer: Any) -> dict[str, Any] | None:
    """What can be taken away of an input, as the page has it; None where nothing can, or where there is no
    prediction that would change."""
    removal = given.removal()
    if removal is None:
        return None
    rows = _rows(answer, given, removal)
    if rows is None:
        return None
    found = removal._asdict() | {"size": list(removal.size)}
    return found | {"about": removal.thing if rows > 1 else None}


def measure_loss(scene: Scene, region: Sequence[int], about: int | None = None) -> dict[str, Any]:
    """The prediction with and without a region.

    region  of an image: top, left, bottom and right, in pixels; of anything else: the numbers of the tokens,
            points or nodes that go
    about   whose prediction is meant, where each node or point has its own
    """
    given, removal = scene.given, scene.given.removal()
    rows = None if removal is None else _rows(scene.answer, given, removal)
    if removal is None or rows is None:
        raise RegardError("nobody knows what a part of this input is, so none can be taken away")
    row = rows - 1
    if rows > 1:
        row = _check_about(about, region, rows, removal.thing)
    less = given.without(region)
    with eval_mode(scene.model), silenced(scene.model, scene.silence), torch.no_grad():
        out = less.answer(scene.model, scene.model(**less.inputs))
    moved = row
    if rows > 1:
        moved -= sum(each < row for each in set(region))
    before = _row(scene.answer, given, row)
    after = _row(out, given, moved)
    if given.called is None or given.answers not in ("next", "classes"):
        return _of_numbers(before, after, given)
    return _of_classes(before, after, given)


def _check_about(about: int | None, region: Sequence[int], rows: int, thing: str) -> int:
    if about is None or not 0 <= about < rows:
        raise RegardError(f"each {thing} has a prediction of its own; choose one of 0 … {rows - 1}")
    if about in region:
        raise RegardError(f"the {thing} whose prediction is asked about must stay; take it out of the group")
    return about


def _rows(answer: Any, given: ModelInput, removal: Removal) -> int | None:
    """How many predictions there are to choose from: one, or one for each thing; None: neither."""
    try:
        outputs = tensor_of(answer)
    except ValueError:
        return None
    if given.answers == "next":
        return 1 if outputs.dim() == 3 else None
    if outputs.dim() not in (2, 3) or (outputs.dim() == 3 and len(outputs) > 1):
        return None
    rows = outputs.shape[-2]
    if rows == 1 or (removal.shape == "group" and rows == removal.size[0]):
        return rows
    return None


def _row(answer: Any, given: ModelInput, row: int) -> Tensor:
    """One prediction.   outputs"""
    outputs = tensor_of(answer).detach().float().cpu().flatten(0, -2)
    if given.answers == "next":
        return outputs[-1]
    return outputs[row]


def _of_classes(before: Tensor, after: Tensor, given: ModelInput) -> dict[str, Any]:
    """What the class, or the token, that was predicted loses, and what is predicted instead."""
    assert given.called is not None
    best, then = int(before.argmax()), int(after.argmax())
    shares = before.softmax(-1), after.softmax(-1)
    return {
        "label": given.called(best),
        "shares": [round_digits(float(share[best]), 6) for share in shares],
        "logits": [round_digits(float(logits[best]), 6) for logits in (before, after)],
        "then": [given.called(then), round_digits(float(shares[1][then]), 6)],
    }


def _of_numbers(before: Tensor, after: Tensor, given: ModelInput) -> dict[str, Any]:
    """Numbers that are predicted, in their own units where these are known."""
    if given.read_numbers is None:
        both = [[(f"output {k + 1}", float(x)) for k, x in enumerate(each)] for each in (before, after)]
    else:
        both = [list(given.read_numbers(each)) for each in (before, after)]
    pairs = list(zip(*both, strict=True))
    pairs.sort(key=lambda pair: -abs(pair[0][1] - pair[1][1]))
    return {"values": [[name, was, now] for (name, was), (_, now) in pairs[:MOST_VALUES]]}


# ── silenced heads of our own models: what a head would add is left out, everything else runs as ever


@contextmanager
def silenced(model: nn.Module, heads: Iterable[tuple[str, int]]) -> Iterator[None]:
    """Inside the block these heads (name of the layer, number) add nothing."""
    wanted: dict[str, list[int]] = {}
    for name, head in heads:
        wanted.setdefault(name, []).append(head)
    layers = dict(model.named_modules())
    handles = []
    try:
        for name, numbers in wanted.items():
            layer = layers.get(name)
            if isinstance(layer, Approximation):  # it is recorded under its own name, inside the layer
                layer = layers.get(name.rpartition(".")[0])
            if not isinstance(layer, Attention):
                raise RegardError(
                    f"only heads of regard's own attention can be silenced, and {name or 'the model'!r} is none"
                )
            if not all(0 <= head < layer.heads for head in numbers):
                raise RegardError(f"{name} has heads 0 … {layer.heads - 1}, got {numbers}")
            handles.append(layer.mix.register_forward_pre_hook(_without(layer.heads, numbers)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _without(heads: int, numbers: list[int]) -> Any:
    """A hook that clears the channels of some heads before they are mixed.   b n (h c)"""

    def clear(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        x = given[0].unflatten(-1, (heads, -1))
        quiet = torch.zeros(heads, 1, dtype=torch.bool, device=x.device)
        quiet[numbers] = True
        return (x.masked_fill(quiet, 0).flatten(-2), *given[1:])

    return clear


def can_silence(model: nn.Module) -> bool:
    return any(isinstance(module, Attention) for module in model.modules())
