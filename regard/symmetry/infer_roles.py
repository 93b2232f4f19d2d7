"""What names and shapes leave open about the inputs of a model, settled by trying: which axis runs along the
tokens, and which inputs go along with them. What trying does not settle is said to be unclear, and the laws
that would have to know it are *unknown*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.symmetry.model_under_test import Subject
from regard.symmetry.record_module_calls import record_calls
from regard.symmetry.roles import Inputs, Roles, Stream
from regard.symmetry.state import log_suppressed

FEATURES_LAST = (nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.MultiheadAttention, nn.RNNBase)
FEATURES_FIRST = (nn.Conv1d, nn.ConvTranspose1d, nn.BatchNorm1d, nn.InstanceNorm1d, nn.GroupNorm)


def settle(subject: Subject) -> Roles:
    """The roles with what can be found out by running the model a few times."""
    roles = subject.roles
    if roles.edges is not None:
        return _settle_graph(subject)
    if roles.stream is not None:
        roles = _settle_axis(subject, roles.stream)
        subject = replace(subject, roles=roles)
    if roles.stream is not None:
        roles = _settle_along(subject, roles.stream)
        subject = replace(subject, roles=roles)
    return replace(roles, tables=(*roles.tables, *_tables(subject)))


# ---- graphs


def _settle_graph(subject: Subject) -> Roles:
    """Inputs with one entry for each node move with the nodes, those with one for each edge with the
    edges."""
    roles, inputs = subject.roles, subject.inputs
    if roles.nodes is None or roles.edges is None:
        return roles
    nodes, edges = inputs[roles.nodes].shape[0], inputs[roles.edges].shape[1]
    of_nodes, of_edges, fixed, unclear = list(roles.of_nodes), list(roles.of_edges), [], {}
    known = roles.names() - {roles.points}
    for name, x in inputs.items():
        if name in known or not isinstance(x, Tensor):
            continue
        count = x.shape[0] if x.dim() else 0
        if count == nodes == edges and not name.startswith("edge"):
            unclear[name] = f"there are as many nodes as edges, and {name!r} may belong to either"
        elif count == edges and (nodes != edges or name.startswith("edge")):
            of_edges.append(name)
        elif count == nodes:
            of_nodes.append(name)
        else:
            fixed.append(name)
    return replace(
        roles, of_nodes=tuple(of_nodes), of_edges=tuple(of_edges), fixed=(*roles.fixed, *fixed), unclear=unclear
    )


# ---- the axis of the tokens


def _settle_axis(subject: Subject, stream: Stream) -> Roles:
    """b n d, b c t, or n b d? By who takes the input, by what can be cut, and by what depends on what."""
    roles, x = subject.roles, subject.inputs[stream.tokens]
    if stream.axis == 1 and x.is_floating_point() and x.dim() == 3:
        axis = _axis_by_takers(subject, stream.tokens)
        if axis == 2:
            points = roles.points if roles.points != stream.tokens else None
            return replace(roles, streams=(replace(stream, axis=2), *roles.streams[1:]), points=points)
        if axis is None and not _has_as_many(subject, stream.tokens) and _only_third_resizes(subject, stream):
            why = (
                f"it is not known which axis of {stream.tokens!r} runs along the tokens: the second cannot "
                "have another size, and the third can; say it with Stream(axis=...)"
            )
            return replace(roles, unclear={**roles.unclear, stream.tokens: why})
    if stream.axis == 1 and _mixes_along_rows(subject, stream.tokens):
        if any(getattr(module, "batch_first", None) is False for module in subject.model.modules()):
            return replace(roles, streams=(replace(stream, axis=0), *roles.streams[1:]))
        if x.shape[0] > x.shape[1]:
            why = (
                f"outputs depend on each other along the first axis of {stream.tokens!r} and not along the "
                "second: it is not known which counts rows and which tokens; say it with Stream(axis=...)"
            )
            return replace(roles, unclear={**roles.unclear, "rows": why})
    return roles


def _has_as_many(subject: Subject, name: str) -> bool:
    """Has another input one entry for each entry along the second axis, as a mask of tokens has?"""
    rows, count, other = subject.inputs[name].shape
    shapes = [x.shape[:2] for key, x in subject.inputs.items() if key != name and isinstance(x, Tensor) and x.dim() > 1]
    return count != other and (rows, count) in shapes


def _only_third_resizes(subject: Subject, stream: Stream) -> bool:
    n = subject.length(subject.inputs, stream)
    if any(_runs(subject, subject.sized(subject.inputs, other)) for other in (n - 1, n // 2, 2 * n) if other > 0):
        return False
    return _resizes(subject, stream.tokens, 2)


def _axis_by_takers(subject: Subject, name: str) -> int | None:
    """Of an input b x y: a layer that takes it says where its features are, a convolution before the steps,
    most others behind. If none takes the input itself, the first counts whose features are as many as one
    axis has entries."""
    x = subject.inputs[name]
    takers = [(module, given) for module, given in _takers(subject) if given.dim() == 3 and len(given) == len(x)]
    for module, given in takers:
        if given.shape == x.shape and torch.equal(given, x):
            return 2 if isinstance(module, FEATURES_FIRST) else 1
    _, second, third = x.shape
    if not takers or second == third:
        return None
    module, given = takers[0]
    if isinstance(module, FEATURES_FIRST):
        return {second: 2, third: 1}.get(given.shape[1])
    return 1 if given.shape[2] == third else None  # as many as steps: a line over time


def _takers(subject: Subject) -> Iterator[tuple[nn.Module, Tensor]]:
    """Modules that know the axis of their features, each with the first tensor it is given."""
    try:
        with record_calls(subject.model) as calls:
            subject.run(subject.inputs)
    except Exception as error:  # it may not bear to be watched
        log_suppressed(error, "watching which module takes the input")
        return
    for call in calls.values():
        module = subject.model.get_submodule(call.name)
        if isinstance(module, (*FEATURES_LAST, *FEATURES_FIRST)) and call.inputs:
            yield module, next(iter(call.inputs.values()))


def _resizes(subject: Subject, name: str, axis: int) -> bool:
    """Does the model run with another number of entries along this axis?"""
    x = subject.inputs[name]
    size = x.shape[axis]
    for other in (size - 1, size // 2, 2 * size):
        if other > 0 and other != size and _runs(subject, _resized(subject.inputs, [name], axis, other)):
            return True
    return False


def _resized(inputs: Inputs, names: list[str], axis: int, n: int) -> Inputs:
    out = dict(inputs)
    for name in names:
        index = torch.arange(n, device=inputs[name].device) % inputs[name].shape[axis]
        out[name] = inputs[name].index_select(axis, index)
    return out


def _runs(subject: Subject, inputs: Inputs) -> bool:
    try:
        subject.run(inputs)
    except Exception as error:
        log_suppressed(error, "trying another size of an input")
        return False
    return True


def _mixes_along_rows(subject: Subject, name: str) -> bool:
    """Does an output depend on other entries along the first axis, and on none along the second? Then the
    tokens are along the first, as torch.nn has it by default."""
    x, out = subject.inputs[name], subject.output
    b, n = x.shape[:2]
    if out.dim() and out.shape[0] == n != b and n not in out.shape[1:]:
        return True
    if out.shape[:2] != (b, n) or b < 2 or n < 2:
        return False
    along_first, along_second = False, False
    for corner in (0, -1):
        changed = _differs(subject, name, corner)
        if changed is None:
            return False
        others = torch.ones(b, dtype=torch.bool), torch.ones(n, dtype=torch.bool)
        others[0][corner], others[1][corner] = False, False
        along_first = along_first or bool(changed[others[0]][:, corner].any())
        along_second = along_second or bool(changed[corner][others[1]].any())
    return along_first and not along_second


def _differs(subject: Subject, name: str, corner: int) -> Tensor | None:
    """Which outputs change when one entry of the input does.   b n"""
    x, out = subject.inputs[name], subject.output
    fresh = subject.other_values(x, torch.Generator().manual_seed(1))
    changed = x.clone()
    changed[corner, corner] = fresh[corner, corner]
    try:
        found = subject.run({**subject.inputs, name: changed})
    except Exception as error:
        log_suppressed(error, "changing one entry of the input")
        return None
    if found.shape != out.shape:
        return None
    return (found != out).flatten(2).any(2) if out.dim() > 2 else found != out


# ---- what goes along with the tokens


def _settle_along(subject: Subject, stream: Stream) -> Roles:
    """Inputs of as many rows and entries belong to the tokens if the model takes fewer of all of them, and
    not fewer of the others alone."""
    roles, inputs = subject.roles, subject.inputs
    x = inputs[stream.tokens]
    rows, n = (x.shape[1], x.shape[0]) if stream.axis == 0 else (x.shape[0], x.shape[stream.axis])
    known = roles.names() | set(roles.fixed)
    names = []
    for name, other in inputs.items():
        if name not in known and isinstance(other, Tensor) and other.dim() >= 2 and other.shape[:2] == (rows, n):
            names.append(name)
    if not names:
        return roles
    along = _going_along(subject, names, n)
    if along is None:
        words = f"it is not known whether {names[0]!r} belongs to the tokens; say it with Stream(along=...) or Roles(fixed=...)"
        return replace(roles, unclear={**roles.unclear, names[0]: words})
    found = replace(stream, along=(*stream.along, *along))
    return replace(roles, streams=(found, *roles.streams[1:]))


def _going_along(subject: Subject, names: list[str], n: int) -> list[str] | None:
    """Those of which there must be as many as tokens; None where no other number is taken."""
    for fewer in (n - 1, n // 2, 2 * n):
        if fewer < 1 or fewer == n:
            continue
        alone = subject.sized(subject.inputs, fewer)
        if _runs(subject, alone):
            return []
        if _runs(subject, _resized(alone, names, 1, fewer)):
            others = {name: [other for other in names if other != name] for name in names}
            return [name for name in names if not _runs(subject, _resized(alone, others[name], 1, fewer))]
    return None


def _tables(subject: Subject) -> list[str]:
    """Inputs that have as many entries as the batch has rows, and are none: the first row alone gives the
    same with all of it, and not with its first entry."""
    roles = subject.roles
    others = [name for name in subject.by_row.keys() - roles.names() if isinstance(subject.inputs.get(name), Tensor)]
    rows = subject.rows(subject.inputs)
    if not others or rows is None or rows < 2 or not roles.names():
        return []
    try:
        axis = 1 if roles.stream is not None and roles.stream.axis == 0 and subject.follows else 0
        whole = subject.output.select(axis, 0)
    except Exception as error:  # no such axis
        log_suppressed(error, "reading the first row of the output")
        return []
    found = []
    for name in sorted(others):
        together = subject.picked(subject.inputs, [0])
        alone = {**together, name: subject.inputs[name]}
        if not _gives(subject, together, whole, axis) and _gives(subject, alone, whole, axis):
            found.append(name)
    return found


def _gives(subject: Subject, inputs: Inputs, row: Tensor, axis: int) -> bool:
    """Is this the only row of what the model gives?"""
    try:
        out: Any = subject.run(inputs)
    except Exception as error:
        log_suppressed(error, "trying one row of an input")
        return False
    if not out.is_floating_point() or out.dim() <= axis or out.select(axis, 0).shape != row.shape:
        return False
    return out.dim() > axis and out.shape[axis] == 1 and torch.allclose(out.select(axis, 0), row, 1e-4, 1e-5)
