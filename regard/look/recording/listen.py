"""Listening beneath a model: every operation that PyTorch carries out passes by here, and is carried out as
it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from regard.look.recording.calls import Calls, in_backward
from regard.look.recording.eager import HEADS, Linked, link, mixed_over, show_alone, unheard
from regard.look.recording.flex import Flexed
from regard.look.recording.handwritten import (
    DROPPED,
    EXPONENTIALS,
    describe,
    is_normalized,
    may_be_weights,
    with_own_root,
)
from regard.look.recording.kinds import PRODUCTS, find_tensors, is_composite, is_told_by_the_tap, kind_of
from regard.look.recording.lineage import (
    Geometry,
    Lineage,
    Node,
    Noise,
    Portion,
    Product,
    Weighted,
    Weights,
    key_of,
)
from regard.look.recording.nested import NestedEar, is_nested
from regard.look.recording.operators import Fused, arguments_by_name
from regard.look.recording.scattered import SUMS, UNKNOWN, edges_by_hand
from regard.look.recording.source import Source
from regard.look.recording.sums import Sum, from_weighted_sum, join, of_product
from regard.look.recording.waiting import Waiting

Hear = Callable[..., Any]


class AttentionDispatchMode(TorchDispatchMode):
    """Hears fused attention, softmaxes whose weights are summed with values, and FlexAttention."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would wrap us so that the compiler leaves us alone, which imports it: seconds, for
        nothing."""
        return False

    def __init__(self, calls: Calls, parameters: set[int], hear: Hear, hear_edges: Hear) -> None:
        super().__init__()
        self.calls, self.parameters = calls, parameters
        self.hear, self.hear_edges = hear, hear_edges
        self.lineage = Lineage()
        self.waiting = Waiting(self.unsummed)
        self.deaf = False
        self.nested = NestedEar(calls, self.resting, hear)
        calls.when_ended.append(self.waiting.forget)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.deaf or in_backward():
            return func(*args, **kwargs)
        if isinstance(func, HigherOrderOperator):
            out = func(*args, **kwargs)
            if func.name() == "flex_attention" and self.calls.current is not None:
                self.heard(Flexed(args, kwargs, out[0]), "flex_attention", args[0], args[1])
            return out
        inputs = find_tensors((args, kwargs))
        nested = is_nested(inputs)
        if nested and (types or not is_composite(func, nested=True)):
            out = func(*args, **kwargs)
            if self.calls.current is not None:
                self.nested.note(func._schema.name.rpartition("::")[2], args, out)
            return out
        if nested or is_composite(func):
            with self, _views_as_ever():  # its parts pass by here, too
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        writes = func._schema.is_mutable
        if writes:
            self.waiting.save(inputs)
        out = func(*args, **kwargs)
        outputs = find_tensors(out)
        if outputs and not is_nested(outputs) and self.calls.current is not None:
            what = kind_of(func)
            projects = what in ("product", "convolution")
            if projects:
                moving = [x for x in inputs if key_of(x) not in self.parameters]
            else:
                moving = inputs
            self.lineage.made(moving, outputs, projects, writes)
            self.note(what, func, args, kwargs, inputs, outputs[0])
            self.lose(what, func, inputs, outputs[0])
        return out

    def note(self, what: str, func: Any, args: Any, kwargs: Any, inputs: list[Tensor], out: Tensor) -> None:
        name = func._schema.name.rpartition("::")[2]
        if what in ("pointwise", "multiply"):
            self.follow(name, inputs, out, multiplies=what == "multiply")
        elif what == "written":  # some elements of it; the others stay what they were
            self.lineage.follow(out, out, change=name)
        elif what == "copy":
            copied = inputs[-1] if name == "copy_" else inputs[0]
            if self.lineage.node(copied) is None and name == "copy_":
                self.lineage.follow(out, out, change=name)
            self.lineage.follow(copied, out)
        elif what == "product":
            first = PRODUCTS[name]
            self.product(name, args[first], args[first + 1], out)
        elif what == "convolution":
            scored = self.scores(args[0])
            self.lineage.begin(out, Product(channel=1))
            if scored:  # mixed between heads before the softmax
                self.lineage.mark_scored(out)
        elif what == "cat":
            self.lineage.join(inputs, (args[1] if len(args) > 1 else 0) % max(1, out.dim()), out)
        elif what == "native_dropout":
            self.lineage.follow(inputs[0], out, dropped=bool(args[1]) and args[2] is not False)
        elif what == "noise":
            self.lineage.begin(out, Noise())
        elif what == "softmax" and not is_told_by_the_tap():
            self.softmax(args[0], arguments_by_name(func, args, kwargs)["dim"] % max(1, out.dim()), out)
        elif what == "fused" and not is_told_by_the_tap():
            given = arguments_by_name(func, args, kwargs)
            if given["query"].dim() == 4 and not given["query"].is_nested:
                source = Fused(given, out)
                self.heard(source, name, given["query"], given["key"], dropped=source.dropout > 0)
        elif what == "sum":
            self.summed(name, args, out)
        if name in SUMS and len(args) > 3:
            node = self.lineage.node(args[3])
            along = edges_by_hand(None if node is None else node.root, args, out)
            if along is not None and not is_told_by_the_tap():
                self.hear_edges(along, False, (), unsure=UNKNOWN)

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
                    and (weights or node.exponential)
                    and not noisy
                    and other is not None
                    and view is not None
                    and _lays(node.root, x, view)
                ):
                    self.lineage.begin(out, Weighted(node, view, x.detach(), other.detach()))
                else:
                    self.lineage.follow(
                        x,
                        out,
                        change=name if weights and not noisy else None,
                        dropped=noisy and kinds[0] is not Noise,
                        exponential=name in EXPONENTIALS,
                    )
                self.lose_others(name, node, nodes)
                return
        if name in EXPONENTIALS:
            self.lineage.begin(out, Product(), exponential=True)

    def lose_others(self, name: str, followed: Node, nodes: list[tuple[Tensor, Node]]) -> None:
        """Of several weights in one operation, only the first are followed."""
        for _, node in nodes:
            if isinstance(node.root, Weights) and node.root is not followed.root:
                node.root.lost.append(name)

    def lose(self, what: str, func: Any, inputs: list[Tensor], out: Tensor) -> None:
        """Weights went through something in which they are not followed."""
        if what not in ("other", "written", "convolution"):
            return
        for x in inputs:
            node = self.lineage.node(x)
            if node is not None and isinstance(node.root, Weights) and key_of(x) != key_of(out):
                node.root.lost.append(func._schema.name.rpartition("::")[2])
                if what == "convolution":
                    node.root.mixed = HEADS

    def product(self, name: str, left: Tensor, right: Tensor, out: Tensor) -> None:
        """A product: of weights and values, of queries and keys, or of anything else."""
        if name == "mv":
            name, right, out = "mm", right[:, None], out[:, None]
        nodes = self.lineage.node(left), self.lineage.node(right)
        weighed = any(node is not None and isinstance(node.root, Weights) for node in nodes)
        for weights, values, on_the_right in ((left, right, False), (right, left, True)):
            node = nodes[on_the_right]
            if node is not None and isinstance(node.root, Weights):
                self.weigh(name, node, weights, values, out, right=on_the_right)
            elif not weighed and name in ("mm", "bmm") and key_of(values) not in self.parameters:
                weighed = self.weigh_handwritten(name, node, weights, values, out, right=on_the_right)
        learned = key_of(left) in self.parameters or key_of(right) in self.parameters
        scored = self.scores(left) or self.scores(right)
        if learned or weighed or name not in ("mm", "bmm", "baddbmm"):
            self.lineage.begin(out, Product())  # what it is made of need not be held
            if scored and not weighed:
                self.lineage.mark_scored(out)
            return
        kin = self.lineage.kin(left), self.lineage.kin(right)
        self.lineage.begin(out, Product(-1, left.detach(), right.detach(), *nodes, kin))
        self.lineage.mark_scored(out)

    def scores(self, x: Tensor) -> bool:
        """Is it made of a product of two computed tensors, element by element?"""
        node = self.lineage.node(x)
        return node is not None and isinstance(node.root, Product) and node.root.left is not None

    def weigh(
        self, name: str, node: Node, weights: Tensor, values: Tensor, out: Tensor, *, right: bool
    ) -> None:
        """Weights of a softmax are in a product."""
        root = node.root
        assert isinstance(root, Weights)
        if name not in ("mm", "bmm"):
            root.lost.append(name)
            return
        found = of_product(node, weights, values, out, right=right)
        over = mixed_over(found) if root.tensor is not None else None
        if over is not None and is_normalized(found.weights):  # normalized once more, along the sum
            root.used = root.used or self.tell_handwritten(name, found)
        elif over is not None:
            root.mixed = over
            root.lost.append(name)
        elif key_of(values) not in self.parameters or root.scored:
            self.attention(found, name)

    def weigh_handwritten(
        self, name: str, node: Node | None, weights: Tensor, values: Tensor, out: Tensor, *, right: bool
    ) -> bool:
        """Something that may be weights, though no softmax gave it, is in a product. Is it?"""
        if node is None or not may_be_weights(node, weights) or is_told_by_the_tap():
            return False
        found = of_product(node, weights, values, out, right=right)
        normal = is_normalized(found.weights)
        assert isinstance(node.root, Product)
        if not normal and node.root.left is None:
            return False
        return self.tell_handwritten(name, found, normal=normal)

    def tell_handwritten(self, name: str, found: Sum, *, normal: bool = True) -> bool:
        """Tell of weights that multiplied values, as they were then. False: they could not be laid out."""
        own = with_own_root(found)
        linked = None if own is None else link(own)
        if own is None or linked is None:
            return False
        if own.node.dropped:
            unsure: str | None = DROPPED
        else:
            unsure = None if normal else describe(linked.source.kept)
        self.told(linked, own, f"{name} of weights written out", unsure=unsure)
        return True

    def softmax(self, scores: Tensor, axis: int, out: Tensor) -> None:
        root = Weights(
            out.detach(),
            axis,
            self.lineage.node(scores),
            Geometry.of(scores),
            self.calls.current,
            self.calls.outer,
            scored=self.lineage.scored(scores),
        )
        self.lineage.begin(out, root)
        self.waiting.add(root)

    def summed(self, name: str, args: Any, out: Tensor) -> None:
        """(weights * values).sum(axis)"""
        node = self.lineage.node(args[0])
        if len(args) > 1 and isinstance(args[1], list | tuple):
            axes = args[1]
        else:
            axes = None
        if node is None or not isinstance(node.root, Weighted):
            return
        if axes is None or len(axes) != 1 or args[0].dim() < 2 or key_of(node.root.values) in self.parameters:
            return
        root = node.root.node.root
        if not isinstance(root, Weights | Product):
            return
        found = from_weighted_sum(node.root, args[0], axes[0] % args[0].dim(), out)
        if found is not None and isinstance(root, Weights):
            self.attention(found, name)
        elif found is not None and is_normalized(found.weights) and not is_told_by_the_tap():
            self.tell_handwritten(name, found)

    def attention(self, found: Sum, name: str) -> None:
        """Weights were summed with values."""
        root = found.node.root
        assert isinstance(root, Weights)
        if root.used and (found.node.changes or found.node.dropped):
            self.reused(root, found)
        if root.used or root.tensor is None:
            return
        linked = link(found)
        if linked is None:
            whole = self.complete(root, found)
            linked = None if whole is None else link(whole)
            found = found if whole is None else whole
        if linked is not None:
            root.used = True
            root.entry = self.told(linked, found, f"softmax, {name}")
            self.waiting.drop(root)

    def complete(self, root: Weights, found: Sum) -> Sum | None:
        """Perhaps some of its rows were summed, and others before: all of them, if these are the last."""
        assert root.tensor is not None
        root.parts.append(found)
        rows = root.tensor.numel() // max(1, root.tensor.shape[root.axis])
        if sum(part.starts.size for part in root.parts) == rows > found.starts.size:
            return join(root.parts)
        return None

    def reused(self, root: Weights, found: Sum) -> None:
        """The same weights are summed once more, and were changed before."""
        if root.entry is not None and root.entry.reason is None:
            steps = ", ".join(dict.fromkeys(found.node.changes)) or "dropout"
            root.entry.reason = (
                "these weights were summed with values twice, and before the second time they went through "
                f"{steps}"
            )

    def told(self, linked: Linked, found: Sum, operator: str, *, unsure: str | None = None) -> Any:
        how: dict[str, Any] = {
            "dropped": found.node.dropped,
            "changed": linked.changed,
            "changes": found.node.changes,
            "note": linked.note,
            "unsure": unsure,
        }
        return self.hear(linked.source, operator, linked.itself, **how)

    def unsummed(self, root: Weights) -> None:
        """Queries met keys, a softmax followed, and no sum with values was heard: say so."""
        with self.resting():
            linked = show_alone(root)
            how: dict[str, Any] = {"note": linked.note, "unsure": unheard(root), "call": root.call}
            self.hear(linked.source, "softmax", linked.itself, **how)

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


def _views_as_ever() -> Any:
    """Views of parameters require a gradient also in inference mode, and a product is computed in another order if
    they do. A listener is called where they no longer would."""
    return torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.ADInplaceOrView, False)


def _lays(root: Any, weights: Tensor, view: Geometry) -> bool:
    """Are weights laid over something that has channels, too?"""
    if isinstance(root, Portion) and weights.dim() > root.tensor.dim():
        return True
    return any(stride == 0 and size > 1 for size, stride in zip(view.sizes, view.strides, strict=True))
