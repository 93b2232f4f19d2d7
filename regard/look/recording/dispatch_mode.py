"""Listening beneath a model: every operation that PyTorch carries out passes by here, and is carried out as
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from regard.look.recording.calls import Calls, in_backward
from regard.look.recording.edges import SUMS, UNKNOWN, edges_by_hand
from regard.look.recording.fused import FUSED, Flexed, Fused, NestedSoftmaxes, arguments_by_name, is_nested
from regard.look.recording.link_eager import HEADS
from regard.look.recording.pending_softmax import EXPONENTIALS, SoftmaxTracker
from regard.look.recording.provenance import (
    EdgeSoftmax,
    Geometry,
    Node,
    Noise,
    Product,
    Provenance,
    Softmax,
    WeightedValues,
    key_of,
)
from regard.look.recording.tap import inside_attend
from regard.look.recording.weighted_sum import Source

Add = Callable[..., Any]


class AttentionDispatchMode(TorchDispatchMode):
    """Hears fused attention, softmaxes whose weights are summed with values, and FlexAttention."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would wrap us so that the compiler leaves us alone, which imports it: seconds, for
        nothing."""
        return False

    def __init__(self, calls: Calls, parameters: set[int], add_dense: Add, add_edges: Add) -> None:
        super().__init__()
        self.calls, self.parameters = calls, parameters
        self.add_dense, self.add_edges = add_dense, add_edges
        self.provenance = Provenance()
        self.is_paused = False
        self.nested = NestedSoftmaxes(calls, self.paused, add_dense)
        self.softmaxes = SoftmaxTracker(calls, self.provenance, parameters, self.paused, add_dense)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.is_paused or in_backward():
            return func(*args, **kwargs)
        if isinstance(func, HigherOrderOperator):
            out = func(*args, **kwargs)
            if func.name() == "flex_attention" and self.calls.current is not None:
                self.heard(Flexed(args, kwargs, out[0]), "flex_attention", args[0], args[1])
            return out
        inputs = find_tensors((args, kwargs))
        nested = is_nested(inputs)
        if nested and (types or not is_composite(func, *NESTED_KEYS)):
            out = func(*args, **kwargs)
            if self.calls.current is not None:
                self.nested.note(name_of(func), args, out)
            return out
        operation = meaning_of(func)
        if nested or operation.composite:
            with self, _views_as_ever():  # its parts pass by here, too
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        if operation.writes:
            self.softmaxes.copy_before_write(inputs)
        out = func(*args, **kwargs)
        outputs = find_tensors(out)
        if not outputs or is_nested(outputs) or self.calls.current is None:
            return out
        if operation.kind != "other" or not self.provenance.is_view(inputs, outputs):
            self.note(operation, func, args, kwargs, inputs, outputs)
        return out

    def note(
        self, operation: Operation, func: Any, args: Any, kwargs: Any, inputs: list[Tensor], outputs: list[Tensor]
    ) -> None:
        """What follows from an operation that made something new, or wrote on something."""
        name, what, out = operation.name, operation.kind, outputs[0]
        projects = what in ("product", "convolution")
        moving = [x for x in inputs if key_of(x) not in self.parameters] if projects else inputs
        self.provenance.made(moving, outputs, projects, operation.writes)
        if what in ("pointwise", "multiply"):
            self.follow(name, inputs, out, multiplies=what == "multiply")
        elif what == "written":  # some elements of it; the others stay what they were
            self.provenance.follow(out, out, change=name)
        elif what == "copy":
            copied = inputs[-1] if name == "copy_" else inputs[0]
            if self.provenance.node(copied) is None and name == "copy_":
                self.provenance.follow(out, out, change=name)
            self.provenance.follow(copied, out)
        elif what == "product":
            first = PRODUCTS[name]
            self.softmaxes.product(name, args[first], args[first + 1], out)
        elif what == "convolution":
            scored = self.softmaxes.gives_scores(args[0])
            self.provenance.begin(out, Product(channel=1))
            if scored:  # mixed between heads before the softmax
                self.provenance.mark(out, scored=True)
        elif what == "cat":
            self.provenance.join(inputs, (args[1] if len(args) > 1 else 0) % max(1, out.dim()), out)
        elif what == "native_dropout":
            self.provenance.follow(inputs[0], out, dropped=bool(args[1]) and args[2] is not False)
        elif what == "noise":
            self.provenance.begin(out, Noise())
        elif what == "softmax" and not inside_attend():
            self.softmaxes.softmax(args[0], arguments_by_name(func, args, kwargs)["dim"] % max(1, out.dim()), out)
        elif what == "fused" and not inside_attend():
            given = arguments_by_name(func, args, kwargs)
            if given["query"].dim() == 4 and not given["query"].is_nested:
                source = Fused(given, out)
                self.heard(source, name, given["query"], given["key"], dropped=source.dropout > 0)
        elif what == "sum":
            self.softmaxes.summed(name, args, out)
        if name in SUMS and len(args) > 3:
            node = self.provenance.node(args[3])
            along = edges_by_hand(None if node is None else node.root, args, out)
            if along is not None and not inside_attend():
                self.add_edges(along, False, (), unsure=UNKNOWN)
        if what in ("other", "written", "convolution"):
            self.note_lost(operation, inputs, out)

    # ── what each operation tells

    def follow(self, name: str, inputs: list[Tensor], out: Tensor, *, multiplies: bool) -> None:
        """Element by element. Of several operands, weights matter most, then scores, then what was
        projected."""
        nodes = [(x, node) for x in inputs if (node := self.provenance.node(x)) is not None]
        noisy = any(isinstance(node.root, Noise) for _, node in nodes)
        if are_paired(nodes, out):
            self.provenance.mark(out, paired=True)
        for kinds in ((Softmax, EdgeSoftmax), (Product,), (Noise,)):
            for x, node in nodes:
                if not isinstance(node.root, kinds):
                    continue
                other = next((y for y in inputs if y is not x), None)
                view = Geometry.of(x).spread(out.shape)
                weights = kinds[0] is Softmax
                if (
                    multiplies
                    and (weights or node.exponential or self.provenance.scored(x))
                    and not noisy
                    and other is not None
                    and view is not None
                    and _lays(node.root, x, view)
                ):
                    self.provenance.begin(out, WeightedValues(node, view, x.detach(), other.detach()))
                else:
                    self.provenance.follow(
                        x,
                        out,
                        change=name if weights and not noisy else None,
                        dropped=noisy and kinds[0] is not Noise,
                        exponential=name in EXPONENTIALS,
                    )
                self.note_lost_others(name, node, nodes)
                return
        if name in EXPONENTIALS:
            self.provenance.begin(out, Product(), exponential=True)

    def note_lost_others(self, name: str, followed: Node, nodes: list[tuple[Tensor, Node]]) -> None:
        """Of several weights in one operation, only the first are followed."""
        for _, node in nodes:
            if isinstance(node.root, Softmax) and node.root is not followed.root:
                node.root.lost.append(name)

    def note_lost(self, operation: Operation, inputs: list[Tensor], out: Tensor) -> None:
        """Weights went through something in which they are not followed."""
        for x in inputs:
            node = self.provenance.node(x)
            if node is not None and isinstance(node.root, Softmax) and key_of(x) != key_of(out):
                node.root.lost.append(operation.name)
                if operation.kind == "convolution":
                    node.root.mixed = HEADS
                    self.provenance.mark(out, softmax=node.root)

    def heard(self, source: Source, operator: str, q: Tensor, k: Tensor, **how: Any) -> None:
        """Attention of which queries and keys are known."""
        self.add_dense(source, operator, self.itself(q, k), **how)

    def itself(self, q: Tensor, k: Tensor) -> bool:
        """Do queries and keys come from the same tokens?"""
        return bool(self.provenance.ancestors(q) & self.provenance.ancestors(k))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What we compute ourselves is not heard."""
        before, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = before


def _views_as_ever() -> Any:
    """Views of parameters require a gradient also in inference mode, and a product is computed in another
    order if they do. A listener is called where they no longer would."""
    return torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.ADInplaceOrView, False)


def are_paired(nodes: list[tuple[Tensor, Node]], out: Tensor) -> bool:
    """Are two projected tensors combined so that each element of one meets each of the other along some
    axes?"""
    views = [Geometry.of(x).spread(out.shape) for x, node in nodes if isinstance(node.root, Product)]
    spread = [
        {axis for axis, stride in enumerate(view.strides) if stride == 0 and view.sizes[axis] > 1}
        for view in views
        if view is not None
    ]
    return len(spread) == 2 and bool(spread[0] - spread[1]) and bool(spread[1] - spread[0])


def _lays(root: Any, weights: Tensor, view: Geometry) -> bool:
    """Are weights laid over something that has channels, too?"""
    if isinstance(root, EdgeSoftmax) and weights.dim() > root.tensor.dim():
        return True
    return any(stride == 0 and size > 1 for size, stride in zip(view.sizes, view.strides, strict=True))


# ── what an operation of PyTorch means

PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1}  # where the first factor is
NESTED_KEYS = ("CPU", "NestedTensorCPU", "NestedTensorCUDA", "CompositeImplicitAutogradNestedTensor")
CONVOLUTIONS = {"convolution", "_convolution", "conv1d", "conv2d", "mkldnn_convolution", "cudnn_convolution"}
SOFTMAXES = {"_softmax", "_safe_softmax"}
COPIES = {"clone", "_to_copy", "copy_", "contiguous", "alias", "lift_fresh"}
# each element stays in its place, though PyTorch does not say so
IN_PLACE = {
    "native_layer_norm",
    "_fused_rms_norm",
    "native_group_norm",
    "_log_softmax",
    "masked_fill",
    "tril",
    "triu",
    "index_fill",
}


class Operation(NamedTuple):
    """What an operation means to a listener."""

    name: str
    kind: str
    writes: bool
    composite: bool


@cache
def meaning_of(operator: Any) -> Operation:
    name, writes = name_of(operator), operator._schema.is_mutable
    pointwise = name in IN_PLACE or torch.Tag.pointwise in operator.tags
    return Operation(name, _kind_of(name, pointwise, writes), writes, is_composite(operator, "CPU"))


def name_of(operator: Any) -> str:
    return operator._schema.name.rpartition("::")[2]


@cache
def is_composite(operator: Any, *own: str) -> bool:
    """Is it only a name for other operations, with no way of its own? Inference mode hands over such names (matmul,
    softmax) as they are. Nested tensors have ways of their own for many of them."""
    has = partial(torch._C._dispatch_has_kernel_for_dispatch_key, operator.name())
    return has("CompositeImplicitAutograd") and not any(map(has, own))


def _kind_of(name: str, pointwise: bool, writes: bool) -> str:
    for kinds, answer in (
        (FUSED, "fused"),
        (PRODUCTS, "product"),
        (CONVOLUTIONS, "convolution"),
        (SOFTMAXES, "softmax"),
        (COPIES, "copy"),
    ):
        if name in kinds:
            return answer
    if name in ("sum", "cat", "native_dropout"):
        return name
    if name.startswith("bernoulli"):
        return "noise"
    if pointwise:
        return "multiply" if name == "mul" else "pointwise"
    return "written" if writes else "other"


def find_tensors(value: Any) -> list[Tensor]:
    """All tensors of a call, in order."""
    if isinstance(value, Tensor):
        return [value]
    found: list[Tensor] = []
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return found
    for each in value:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, (tuple, list, dict)):
            found += find_tensors(each)
    return found
