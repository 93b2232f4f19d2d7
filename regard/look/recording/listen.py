"""Listening beneath a model: every operation that PyTorch carries out passes by here, and is carried out as
it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from regard.look.recording.calls import Calls, in_backward
from regard.look.recording.eager import Linked, Sum, from_weighted_sum, link, of_product
from regard.look.recording.flex import Flexed
from regard.look.recording.lineage import (
    Geometry,
    Lineage,
    Noise,
    Portion,
    Product,
    Weighted,
    Weights,
    key_of,
)
from regard.look.recording.operators import FUSED, Fused, arguments_by_name
from regard.look.recording.source import Source
from regard.look.recording.tapped import CODES

PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1}  # where the first factor is
CONVOLUTIONS = {"convolution", "_convolution", "conv1d", "conv2d", "mkldnn_convolution", "cudnn_convolution"}
SOFTMAXES = {"_softmax", "_safe_softmax"}
COPIES = {"clone", "_to_copy", "copy_", "contiguous", "alias", "lift_fresh"}
# each element stays in its place, though PyTorch does not say so
IN_PLACE = {
    "native_layer_norm",
    "_fused_rms_norm",
    "native_group_norm",
    "masked_fill",
    "tril",
    "triu",
    "index_fill",
}
PENDING = 8  # softmaxes that wait for values at once

Hear = Callable[..., None]


@cache
def _kind(operator: Any) -> str:
    """What an operation means to a listener."""
    name = operator._schema.name.rpartition("::")[2]
    for kinds, answer in (
        (FUSED, "fused"),
        (PRODUCTS, "product"),
        (CONVOLUTIONS, "convolution"),
        (SOFTMAXES, "softmax"),
    ):
        if name in kinds:
            return answer
    if name in COPIES:
        return "copy"
    if name in ("sum", "cat", "native_dropout"):
        return name
    if name.startswith("bernoulli"):
        return "noise"
    if name in IN_PLACE or torch.Tag.pointwise in operator.tags:
        if name == "mul":
            return "multiply"
        return "pointwise"
    if operator._schema.is_mutable:
        return "written"
    return "other"


@cache
def _composite(operator: Any) -> bool:
    """Is it only a name for other operations? Inference mode hands over such names (matmul, softmax) as they
    are."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(operator.name(), "CompositeImplicitAutograd") and not has(operator.name(), "CPU")


def _told_by_the_tap() -> bool:
    """Is our own `attend` or `mix` at work, which tell more than can be heard?"""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code in CODES:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


class AttentionDispatchMode(TorchDispatchMode):
    """Hears fused attention, softmaxes whose weights are summed with values, and FlexAttention."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would wrap us so that the compiler leaves us alone, which imports it: seconds, for
        nothing."""
        return False

    def __init__(self, calls: Calls, parameters: set[int], hear: Hear) -> None:
        super().__init__()
        self.calls, self.parameters, self.hear = calls, parameters, hear
        self.lineage = Lineage()
        self.pending: list[Weights] = []
        self.deaf = False
        calls.when_ended.append(self.forget)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.deaf or in_backward():
            return func(*args, **kwargs)
        if isinstance(func, HigherOrderOperator):
            out = func(*args, **kwargs)
            if func.name() == "flex_attention" and self.calls.current is not None:
                self.heard(Flexed(args, kwargs, out[0]), "flex_attention", args[0], args[1])
            return out
        if _composite(func):
            with self:  # its parts pass by here, too
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        inputs = _tensors((args, kwargs))
        writes = func._schema.is_mutable
        if writes:
            self.save(inputs)
        out = func(*args, **kwargs)
        outputs = _tensors(out)
        if outputs and self.calls.current is not None:
            what = _kind(func)
            projects = what in ("product", "convolution")
            if projects:
                moving = [x for x in inputs if key_of(x) not in self.parameters]
            else:
                moving = inputs
            self.lineage.made(moving, outputs, projects, writes)
            self.note(what, func, args, kwargs, inputs, outputs[0])
        return out

    def note(self, what: str, func: Any, args: Any, kwargs: Any, inputs: list[Tensor], out: Tensor) -> None:
        name = func._schema.name.rpartition("::")[2]
        if what in ("pointwise", "multiply"):
            self.follow(name, inputs, out, multiplies=what == "multiply")
        elif what == "written":  # some elements of it; the others stay what they were
            self.lineage.follow(out, out, change=name)
        elif what == "copy":
            self.lineage.follow(inputs[-1] if name == "copy_" else inputs[0], out)
        elif what == "product":
            first = PRODUCTS[name]
            self.product(name, args[first], args[first + 1], out)
        elif what == "convolution":
            self.lineage.begin(out, Product(channel=1))
        elif what == "cat":
            self.lineage.join(inputs, (args[1] if len(args) > 1 else 0) % max(1, out.dim()), out)
        elif what == "native_dropout":
            self.lineage.follow(inputs[0], out, dropped=bool(args[1]) and args[2] is not False)
        elif what == "noise":
            self.lineage.begin(out, Noise())
        elif what == "softmax" and not _told_by_the_tap():
            self.softmax(args[0], arguments_by_name(func, args, kwargs)["dim"] % max(1, out.dim()), out)
        elif what == "fused" and not _told_by_the_tap():
            given = arguments_by_name(func, args, kwargs)
            if given["query"].dim() == 4 and not given["query"].is_nested:
                source = Fused(given, out)
                self.heard(source, name, given["query"], given["key"], dropped=source.dropout > 0)
        elif what == "sum":
            self.summed(name, args, out)

    # ── what each operation tells

    def follow(self, name: str, inputs: list[Tensor], out: Tensor, *, multiplies: bool) -> None:
        """Element by element. Of several operands, weights matter most, then scores, then what was
        projected."""
        nodes = [(x, node) for x in inputs if (node := self.lineage.node(x)) is not None]
        noisy = any(isinstance(node.root, Noise) for _, node in nodes)
        for kinds in ((Weights, Portion), (Product,), (Noise,)):
            for x, node in nodes:
                if not isinstance(node.root, kinds):
                    continue
                other = next((y for y in inputs if y is not x), None)
                view = Geometry.of(x).spread(out.shape)
                weights = kinds[0] is Weights
                if (
                    multiplies
                    and weights
                    and not noisy
                    and other is not None
                    and view is not None
                    and _lays(node.root, x, view)
                ):
                    self.lineage.begin(out, Weighted(node, view, other.detach()))
                else:
                    self.lineage.follow(
                        x, out, change=name if weights and not noisy else None, dropped=weights and noisy
                    )
                return

    def product(self, name: str, left: Tensor, right: Tensor, out: Tensor) -> None:
        if name in ("mm", "bmm"):
            for weights, values, on_the_right in ((left, right, False), (right, left, True)):
                node = self.lineage.node(weights)
                if (
                    node is not None
                    and isinstance(node.root, Weights)
                    and key_of(values) not in self.parameters
                ):
                    self.attention(of_product(node, weights, values, out, right=on_the_right), name)
        learned = key_of(left) in self.parameters or key_of(right) in self.parameters
        if learned or name not in ("mm", "bmm", "baddbmm"):
            self.lineage.begin(out, Product())
            return
        kin = self.lineage.kin(left), self.lineage.kin(right)
        nodes = self.lineage.node(left), self.lineage.node(right)
        if any(node is not None and isinstance(node.root, Weights) for node in nodes):
            self.lineage.begin(out, Product())  # an output of attention: what it is made of need not be held
        else:
            self.lineage.begin(out, Product(-1, left.detach(), right.detach(), *nodes, kin))

    def softmax(self, scores: Tensor, axis: int, out: Tensor) -> None:
        root = Weights(out.detach(), axis, self.lineage.node(scores), Geometry.of(scores), self.calls.outer)
        self.lineage.begin(out, root)
        self.pending.append(root)
        for old in self.pending[:-PENDING]:
            old.tensor = None
        self.pending = self.pending[-PENDING:]

    def summed(self, name: str, args: Any, out: Tensor) -> None:
        """(weights * values).sum(axis)"""
        node = self.lineage.node(args[0])
        if len(args) > 1 and isinstance(args[1], list | tuple):
            axes = args[1]
        else:
            axes = None
        if (
            node is None
            or not isinstance(node.root, Weighted)
            or not isinstance(node.root.node.root, Weights)
        ):
            return
        if axes is None or len(axes) != 1 or args[0].dim() < 2 or key_of(node.root.values) in self.parameters:
            return
        found = from_weighted_sum(node.root, args[0], axes[0] % args[0].dim(), out)
        if found is not None:
            self.attention(found, name)

    def attention(self, found: Sum, name: str) -> None:
        """Weights were summed with values."""
        root = found.node.root
        assert isinstance(root, Weights)
        if root.used or root.tensor is None:
            return
        linked = link(found)
        if linked is not None:
            root.used = True
            self.told(linked, found, f"softmax, {name}")
            self.drop(root)

    def told(self, linked: Linked, found: Sum, operator: str) -> None:
        source = linked.source
        if linked.kin is not None:
            itself = bool(linked.kin[0] & linked.kin[1])
        else:
            itself = source.n == source.m and source.n > 1
        how: dict[str, Any] = {
            "dropped": found.node.dropped,
            "changes": found.node.changes,
            "note": linked.note,
        }
        self.hear(source, operator, itself, **how)

    def heard(self, source: Source, operator: str, q: Tensor, k: Tensor, **how: Any) -> None:
        """Attention of which queries and keys are known."""
        self.hear(source, operator, self.itself(q, k), **how)

    def itself(self, q: Tensor, k: Tensor) -> bool:
        """Do queries and keys come from the same tokens?"""
        return bool(self.lineage.kin(q) & self.lineage.kin(k))

    @contextmanager
    def resting(self) -> Iterator[None]:
        """What we compute ourselves is not heard."""
        before, self.deaf = self.deaf, True
        try:
            yield
        finally:
            self.deaf = before

    # ── what is held, and for how long

    def save(self, inputs: list[Tensor]) -> None:
        """Something is about to be written in place: weights that still wait for values are copied before."""
        for root in self.pending:
            if root.tensor is not None and any(key_of(x) == key_of(root.tensor) for x in inputs):
                root.tensor = root.tensor.clone()

    def drop(self, root: Weights) -> None:
        root.tensor = None
        self.pending = [other for other in self.pending if other is not root]

    def forget(self, ended: Any) -> None:
        """A call has ended: nobody will sum values with the weights that were waiting in it."""
        for root in [root for root in self.pending if root.owner is ended]:
            self.drop(root)


def _lays(root: Any, weights: Tensor, view: Geometry) -> bool:
    """Are weights laid over something that has channels, too?"""
    if isinstance(root, Portion) and weights.dim() > root.tensor.dim():
        return True
    return any(stride == 0 and size > 1 for size, stride in zip(view.sizes, view.strides, strict=True))


def _tensors(value: Any) -> list[Tensor]:
    """All tensors of a call, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [x for each in value for x in _tensors(each)]
    if isinstance(value, dict):
        return [x for each in value.values() for x in _tensors(each)]
    return []
