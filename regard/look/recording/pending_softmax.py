"""A softmax waits until its weights are summed with values; then it is attention.

Weights that no softmax operator gave (exp(a) / Σ exp(a), exp(log_softmax(a)), exp(a − logsumexp(a)) and whatever
else is written out) are known by what they are used for: a tensor that follows from scores, element by element, is
summed with values along one axis, and its rows are not negative and sum to one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.look.recording.calls import Calls
from regard.look.recording.link_eager import explain_unsummed, find_mixing, link, show_unsummed
from regard.look.recording.provenance import Geometry, Node, Product, Provenance, Softmax, WeightedValues, key_of
from regard.look.recording.tap import inside_attend
from regard.look.recording.weighted_sum import RecordedWeights, Sum, close_to_one, from_weighted_sum, join, of_product

MOST = 64  # softmaxes that wait at once
EXPONENTIALS = {"exp", "exp_", "exp2", "exp2_"}
DROPPED = "attention dropout was on: these are the weights after it; call model.eval() before recording"


class SoftmaxTracker:
    """Tells `add_dense` of weights that are summed with values, and of softmaxes that met none though queries met
    keys in them."""

    def __init__(
        self,
        calls: Calls,
        provenance: Provenance,
        parameters: set[int],
        paused: Callable[[], AbstractContextManager[None]],
        add_dense: Callable[..., Any],
    ) -> None:
        self.calls, self.provenance, self.parameters = calls, provenance, parameters
        self.paused, self.add_dense = paused, add_dense
        self.pending: list[Softmax] = []  # in the order in which they ran
        calls.when_ended.append(self.forget)

    # ── waiting

    def wait(self, root: Softmax) -> None:
        """Its values have not been met."""
        self.pending.append(root)
        for old in self.pending[:-MOST]:
            self.drop(old)

    def copy_before_write(self, inputs: list[Tensor]) -> None:
        """Something is about to be written in place: weights that still wait for values are copied before."""
        for root in self.pending:
            if root.tensor is not None and any(key_of(x) == key_of(root.tensor) for x in inputs):
                root.tensor = root.tensor.clone()

    def drop(self, root: Softmax) -> None:
        """It waits no longer."""
        self.pending = [other for other in self.pending if other is not root]
        attends = root.scored or root.consumed
        if attends and not root.used and root.tensor is not None and root.tensor.shape[root.axis] > 1:
            self.report_unsummed(root)
        root.tensor = None
        root.parts.clear()

    def forget(self, ended: Any) -> None:
        """A call has ended: nobody will sum values with the weights that were waiting in it."""
        for root in [root for root in self.pending if root.owner is ended]:
            self.drop(root)

    # ── products and sums

    def product(self, name: str, left: Tensor, right: Tensor, out: Tensor) -> None:
        """A product: of weights and values, of queries and keys, or of anything else."""
        if name == "mv":
            name, right, out = "mm", right[:, None], out[:, None]
        nodes = self.provenance.node(left), self.provenance.node(right)
        weighed = any(node is not None and isinstance(node.root, Softmax) for node in nodes)
        for weights, values, on_the_right in ((left, right, False), (right, left, True)):
            node = nodes[on_the_right]
            if node is not None and isinstance(node.root, Softmax):
                self.weigh(name, node, weights, values, out, right=on_the_right)
            elif not weighed and name in ("mm", "bmm") and key_of(values) not in self.parameters:
                weighed = self.weigh_manual(name, node, weights, values, out, right=on_the_right)
        learned = key_of(left) in self.parameters or key_of(right) in self.parameters
        scored = any(self.gives_scores(x) for x in (left, right))
        if learned or weighed or name not in ("mm", "bmm", "baddbmm"):
            self.provenance.begin(out, Product())  # what it is made of need not be held
            if scored and not weighed:
                self.provenance.mark(out, scored=True)
            return
        ancestors = self.provenance.ancestors(left), self.provenance.ancestors(right)
        self.provenance.begin(out, Product(-1, left.detach(), right.detach(), *nodes, ancestors))
        self.provenance.mark(out, scored=True)

    def gives_scores(self, x: Tensor) -> bool:
        """Is it made of all pairs of two tensors, element by element, so that a projection of it is, too?"""
        node = self.provenance.node(x)
        if self.provenance.paired(x):
            return True
        if node is None or not isinstance(node.root, Product):
            return False
        return node.root.left is not None or (node.exponential and self.provenance.scored(x))

    def weigh(self, name: str, node: Node, weights: Tensor, values: Tensor, out: Tensor, *, right: bool) -> None:
        """Weights of a softmax are in a product."""
        root = node.root
        assert isinstance(root, Softmax)
        if name not in ("mm", "bmm"):
            root.lost.append(name)
            return
        found = of_product(node, weights, values, out, right=right)
        over = find_mixing(found) if root.tensor is not None else None
        if over is not None and is_normalized(found.weights):  # normalized once more, along the sum
            root.used = root.used or self.report_manual(name, found)
        elif over is not None:
            root.mixed = over
            root.lost.append(name)
            self.provenance.mark(out, softmax=root)
        elif key_of(values) not in self.parameters or root.scored:
            self.report_sum(found, name)

    def weigh_manual(
        self, name: str, node: Node | None, weights: Tensor, values: Tensor, out: Tensor, *, right: bool
    ) -> bool:
        """Something that may be weights, though no softmax gave it, is in a product. Is it?"""
        softmax, scored = self.provenance.softmax(weights), self.provenance.scored(weights)
        if softmax is not None:  # made of weights, in a way that was not followed
            length = weights.shape[-2 if right else -1]
            softmax.consumed |= softmax.tensor is not None and softmax.tensor.shape[softmax.axis] == length
            return softmax.consumed
        if not scored and not may_be_weights(node, weights):
            return False
        if node is None or not isinstance(node.root, Product):
            node = Node(Product(), Geometry.of(weights))
        if inside_attend():
            return False
        found = of_product(node, weights, values, out, right=right)
        normal = is_normalized(found.weights)
        if not normal and not scored:
            return False
        return self.report_manual(name, found, normal=normal)

    def report_manual(self, name: str, found: Sum, *, normal: bool = True) -> bool:
        """Tell of weights that multiplied values, as they were then. False: they could not be laid out."""
        own = with_own_root(found)
        if own is None:
            return False
        root = own.node.root
        assert isinstance(root, Softmax)
        if root.used:
            return True
        linked = link(own)
        if linked is None:
            if root.call is None:
                root.call, root.owner = self.calls.current, self.calls.outer
                self.wait(root)
            whole = self.join_parts(root, own)
            linked = None if whole is None else link(whole)
            if whole is None or linked is None:
                return True
            own = whole
        if own.node.dropped:
            unsure: str | None = DROPPED
        else:
            unsure = None if normal else describe(linked.kept)
        root.used = True
        self.report(linked, own, f"{name} of weights written out", unsure=unsure)
        self.drop(root)
        return True

    def softmax(self, scores: Tensor, axis: int, out: Tensor) -> None:
        root = Softmax(
            out.detach(),
            axis,
            self.provenance.node(scores),
            Geometry.of(scores),
            self.calls.current,
            self.calls.outer,
            scored=self.provenance.scored(scores),
        )
        self.provenance.begin(out, root)
        self.wait(root)

    def summed(self, name: str, args: Any, out: Tensor) -> None:
        """(weights * values).sum(axis)"""
        node = self.provenance.node(args[0])
        axes = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else None
        if axes is None or len(axes) != 1 or args[0].dim() < 2:
            return
        if node is None or not isinstance(node.root, WeightedValues):
            if self.provenance.paired(args[0]):  # as a product of queries and keys
                self.provenance.begin(out, Product())
                self.provenance.mark(out, scored=True, paired=False)
            return
        root = node.root.node.root
        if key_of(node.root.values) in self.parameters or not isinstance(root, Softmax | Product):
            return
        scored = self.provenance.scored(node.root.weights)
        found = from_weighted_sum(node.root, args[0], axes[0] % args[0].dim(), out)
        if found is None:
            return
        if isinstance(root, Softmax):
            self.report_sum(found, name)
        elif not inside_attend():
            normal = is_normalized(found.weights)
            if not normal and not scored:
                return
            self.report_manual(name, found, normal=normal)
        self.provenance.mark(out, scored=False, paired=False, softmax=None)

    def report_sum(self, found: Sum, name: str) -> None:
        """Weights were summed with values."""
        root = found.node.root
        assert isinstance(root, Softmax)
        if root.used and (found.node.changes or found.node.dropped):
            self.mark_reused(root, found)
        if root.used or root.tensor is None:
            return
        linked = link(found)
        if linked is None:
            whole = self.join_parts(root, found)
            linked = None if whole is None else link(whole)
            found = found if whole is None else whole
        if linked is not None:
            root.used = True
            root.entry = self.report(linked, found, f"softmax, {name}")
            self.drop(root)

    def join_parts(self, root: Softmax, found: Sum) -> Sum | None:
        """Perhaps some of its rows were summed, and others before: all of them, if these are the last."""
        assert root.tensor is not None
        root.parts.append(found)
        rows = root.tensor.numel() // max(1, root.tensor.shape[root.axis])
        if sum(part.starts.size for part in root.parts) == rows > found.starts.size:
            return join(root.parts)
        return None

    def mark_reused(self, root: Softmax, found: Sum) -> None:
        """The same weights are summed once more, and were changed before."""
        if root.entry is not None and root.entry.reason is None:
            steps = ", ".join(dict.fromkeys(found.node.changes)) or "dropout"
            root.entry.reason = (
                f"these weights were summed with values twice, and before the second time they went through {steps}"
            )

    def report(self, linked: RecordedWeights, found: Sum, operator: str, *, unsure: str | None = None) -> Any:
        how: dict[str, Any] = {
            "dropped": found.node.dropped,
            "changed": linked.changed,
            "changes": found.node.changes,
            "note": linked.note,
            "unsure": unsure,
        }
        return self.add_dense(linked, operator, linked.itself, **how)

    def report_unsummed(self, root: Softmax) -> None:
        """Queries met keys, a softmax followed, and no sum with values was heard: say so."""
        with self.paused():
            linked = show_unsummed(root)
            how: dict[str, Any] = {"note": linked.note, "unsure": explain_unsummed(root), "call": root.call}
            self.add_dense(linked, "softmax", linked.itself, **how)


# ── weights that no softmax operator gave


def may_be_weights(node: Node | None, weights: Tensor) -> bool:
    """Is it worth asking? `weights` are what was multiplied with values, as the product was given them."""
    if node is None or not isinstance(node.root, Product) or not weights.is_floating_point():
        return False
    row = weights.detach()
    while row.dim() > 1 and len(row):
        row = row[0]
    return node.root.left is not None or bool((row >= 0).all())


def with_own_root(found: Sum) -> Sum | None:
    """The same sum, with its weights as the place where something begins."""
    own = _without_ones(found.node.own)
    first, second = own.elements(found.starts), own.elements(found.starts + found.step)
    if first is None or second is None:
        return None
    moving = [axis for axis, (i, j) in enumerate(zip(first, second, strict=True)) if (i != j).any()]
    if len(moving) != 1:
        return None
    root = found.node.own_root
    if root is None or root.axis != moving[0]:
        tensor = found.storage.as_strided(own.sizes, own.strides, own.start)
        root = found.node.own_root = Softmax(tensor, moving[0], found.node, own, scored=True)
    return replace(found, node=Node(root, own, dropped=found.node.dropped))


def _without_ones(own: Geometry) -> Geometry:
    """Of more than four axes, those of size one are left out from the end."""
    kept = list(range(len(own.sizes)))
    for axis in reversed(range(len(own.sizes))):
        if len(kept) > 4 and own.sizes[axis] == 1:
            kept.remove(axis)
    return Geometry(tuple(own.sizes[a] for a in kept), tuple(own.strides[a] for a in kept), own.start)


def is_normalized(weights: Tensor) -> bool:
    """Are the weights not negative, and does each row sum to one? Rows of nothing but zeros have nothing to
    look at.   ... m"""
    if weights.shape[-1] < 2 or not weights.numel() or not weights.is_floating_point():
        return False
    if not (weights >= 0).all():
        return False
    total = weights.sum(-1, dtype=torch.float64)
    fits = (total - 1).abs() <= close_to_one(weights.dtype)
    return bool((fits | (total == 0)).all() and fits.any())


def describe(weights: Tensor) -> str:
    """Why these are no weights as a softmax gives them.   ... m"""
    if (weights < 0).any():
        return "no softmax was heard: what was multiplied with the values has negative entries (linear attention?)"
    total = weights.sum(-1, dtype=torch.float64)
    return (
        "no softmax was heard: the rows of what was multiplied with the values sum to "
        f"{float(total.min()):.2g} to {float(total.max()):.2g}, not to 1"
    )
