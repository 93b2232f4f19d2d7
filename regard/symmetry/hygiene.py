"""Laws of hygiene: what every good model keeps, whatever its architecture. Padding, batches, the order of
edges, repetition; time and caches are in files of their own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor

from regard.symmetry.align import Equal, Indexed, Match
from regard.symmetry.causality import CACHE, CAUSALITY
from regard.symmetry.law import (
    Earlier,
    Law,
    Others,
    Outputs,
    Pair,
    Trial,
    along_tokens,
    as_they_are,
    others_along_tokens,
    others_row_of,
    others_tokens_of_row,
    row_of,
    tokens_of_row,
    torch_generator,
)
from regard.symmetry.model_under_test import CannotTell, Subject, copied
from regard.symmetry.output import Axes
from regard.symmetry.roles import Inputs, Stream, signature
from regard.symmetry.state import log_suppressed

ROWS = 3  # of a batch
MORE_DRAWS = 6
MORE_ROWS = 7  # of some batches: what is made for the first rows only does something else to later ones


class Reordering(Law):
    """Tokens move together with their places: each output moves along with its token."""

    name = "reordering"
    counts = False

    def applies(self, subject: Subject) -> bool:
        return subject.roles.stream is not None and subject.roles.stream.places is not None

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        stream = subject.stream
        subject.require_clear()
        for k in range(count):
            n = subject.lengths[-1] if k % 3 else subject.lengths[0]
            inputs = subject.placed(subject.sized(subject.inputs, n), stream)
            order = torch.tensor(random.sample(range(n), n))
            align = Indexed(tokens=Match(n, order, n, torch.arange(n)))
            what = "tokens and places in the order " + " ".join(map(str, order.tolist()[:8])) + (" …" if n > 8 else "")
            yield Trial(
                what,
                inputs,
                subject.taken(inputs, stream, order),
                align,
                along_tokens(subject, order, torch.arange(n)),
                others_along_tokens(order, torch.arange(n)),
            )


class Padding(Law):
    """Nothing depends on what padding holds, or on how much of it there is."""

    name = "padding"

    def applies(self, subject: Subject) -> bool:
        masked = any(s.mask is not None for s in subject.roles.streams)
        return masked or bool(subject.roles.streams and _unclear_masks(subject))

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        streams = [s for s in subject.roles.streams if s.mask is not None]
        if not streams:
            unclear = _unclear_masks(subject)
            if unclear:
                tokens = subject.roles.streams[0].tokens if subject.roles.streams else next(iter(subject.inputs))
                hint = f"roles=Roles(streams=(Stream({tokens!r}, mask={unclear[0]!r}, hides=False),))"
                raise CannotTell(
                    f"it is not known what {unclear[0]!r} means; give {hint}, hides=True if it marks padding"
                )
            lengths = [name for name in subject.inputs if "length" in name]
            more = f"; {lengths[0]!r} is no mask, and nothing is known of it" if lengths else ""
            raise CannotTell(f"the model takes no mask of real tokens{more}")
        subject.require_clear()
        for stream in streams:
            given, short = subject.lengths_of(stream)[0], subject.lengths_of(stream)[-1]
            for k in range(max(2, count // len(streams))):
                side = stream.sides[k % len(stream.sides)]
                yield self.trial(subject, stream, short, side, k // len(stream.sides), random)
            for side in stream.sides:
                yield self.alone(subject, stream, short, side, random)
            for side in stream.sides if given != short else ():
                for kind in range(2):
                    yield self.trial(subject, stream, given, side, kind, random)

    def alone(self, subject: Subject, stream: Stream, n: int, side: str, random: Random) -> Trial:
        """A batch of one row, without padding and with it: a mask that is used only among other rows is none."""
        draw, length, size = torch_generator(random), max(1, n - 1), n + 3
        base = subject.picked(subject.sized(subject.inputs, n, stream), [0])
        padded = _padded(subject, base, stream, [length], size, side, draw)
        plain = subject.masked(subject.sized(base, length, stream), stream, torch.ones(1, length, dtype=torch.bool))
        if stream.places is not None and side == "left":
            plain = subject.placed(plain, stream)
        here = torch.arange(length)
        there = here if side == "right" else here + size - length
        one = torch.tensor([0])
        return Trial(
            f"a single row of {length}, and padded at the {side} to {size}",
            plain,
            padded,
            Indexed(Match(length, here, size, there), Match(1, one, 1, one)),
            tokens_of_row(subject, stream, 0, 0, here, there),
            others_tokens_of_row(subject, stream, 0, 0, here, there),
            refusable=subject.model.training,
        )

    def trial(self, subject: Subject, stream: Stream, n: int, side: str, kind: int, random: Random) -> Trial:
        """One row among others: alone and unpadded beside it in a batch, or beside other junk in the same
        places."""
        draw, row = torch_generator(random), kind % ROWS
        base = subject.more_rows(subject.sized(subject.inputs, n, stream), ROWS, draw)
        lengths = [max(1, n - 2), n, n // 2 if kind % 4 < 2 else n // 8]
        lengths = [min(n, max(2, length)) for length in lengths]
        extra = (4, 1, 0, 7)[kind % 4]
        batch = _padded(subject, base, stream, lengths, n + extra, side, draw)
        length, size = lengths[row], n + extra
        if side == "right":
            there = torch.arange(length)
        else:
            there = torch.arange(size - length, size)
        if kind % 2:
            other = _padded(subject, base, stream, lengths, size, side, torch_generator(random))
            align = Indexed(
                Match(size, there, size, there), Match(ROWS, torch.tensor([row]), ROWS, torch.tensor([row]))
            )
            what = f"other values in the padding at the {side} of row {row}"
            return Trial(
                what,
                batch,
                other,
                align,
                tokens_of_row(subject, stream, row, row, there, there),
                others_tokens_of_row(subject, stream, row, row, there, there),
                still=True,
            )
        alone = subject.masked(
            subject.sized(subject.picked(base, [row]), length, stream), stream, torch.ones(1, length, dtype=torch.bool)
        )
        if stream.places is not None and side == "left":
            alone = subject.placed(alone, stream)
        here = torch.arange(length)
        align = Indexed(Match(length, here, size, there), Match(1, torch.tensor([0]), ROWS, torch.tensor([row])))
        what = f"row of {length} alone, and padded at the {side} to {size} among rows of {', '.join(map(str, lengths))}"
        return Trial(
            what,
            alone,
            batch,
            align,
            tokens_of_row(subject, stream, 0, row, here, there),
            others_tokens_of_row(subject, stream, 0, row, here, there),
            refusable=subject.model.training,
        )


def _unclear_masks(subject: Subject) -> list[str]:
    """Inputs that look like masks and of which nothing is said."""
    return [
        p.name
        for p in signature(subject.model)
        if "mask" in p.name and p.name not in ("head_mask", "attn_mask", "src_mask")
    ]


def _padded(
    subject: Subject, base: Inputs, stream: Stream, lengths: list[int], size: int, side: str, draw: torch.Generator
) -> Inputs:
    """A batch whose rows are cut to these lengths and padded to one size with values drawn anew."""
    n = subject.length(base, stream)
    out = dict(base)
    slots = torch.arange(size)
    real = torch.stack([slots < length if side == "right" else slots >= size - length for length in lengths])
    source = torch.stack(
        [slots % n if side == "right" else (slots - (size - length)) % n for length in lengths]
    )  # b size
    for name, x in base.items():
        if isinstance(x, Tensor):
            axis = subject.token_axis(name, x, stream)
        else:
            axis = None
        if axis is None or name in (stream.mask, stream.places):
            continue
        x = _tokens_second(x, axis)  # b n ...
        index = source.to(x.device).view(*source.shape, *[1] * (x.dim() - 2)).expand(*source.shape, *x.shape[2:])
        wide = x.gather(1, index)
        if name == stream.tokens:
            keep = real.to(x.device).view(*real.shape, *[1] * (x.dim() - 2))
            wide = torch.where(keep, wide, subject.other_values(wide, draw))
        out[name] = _tokens_second(wide, axis)
    if stream.places is not None and (side == "left" or base.get(stream.places) is not None):
        out[stream.places] = (real.cumsum(1) - 1).clamp(min=0).to(base[stream.tokens].device)
    return subject.masked(out, stream, real)


def _tokens_second(x: Tensor, axis: int) -> Tensor:
    """The axis of the tokens becomes the second, or goes back from there."""
    if axis == 0:
        return x.transpose(0, 1)
    return x.transpose(1, axis)


class Neighbours(Law):
    """A row does not depend on the other rows of its batch."""

    name = "neighbours"

    def applies(self, subject: Subject) -> bool:
        return subject.rows(subject.inputs) is not None or _graphs(subject) > 1

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        subject.require_clear(rows_only=True)
        if subject.roles.edges is not None:
            yield from _beside_other_graphs(subject, random, count)
            return
        given = subject.rows(subject.inputs) or ROWS
        for k in range(count):
            inputs = subject.inputs
            if subject.roles.stream is not None:
                inputs = subject.sized(inputs, subject.lengths[0] if k < 2 else subject.lengths[-1])
            rows = max(MORE_ROWS, given) if k in (0, 3) else ROWS  # a mistake may need a batch as large as that given
            batch = subject.more_rows(inputs, rows, torch_generator(random))
            row = {0: rows - 1, 3: rows // 2}.get(k, k % ROWS) if rows > ROWS else k % ROWS
            index = torch.tensor([row])
            stream = subject.roles.stream
            if k % 4 == 3 and stream is not None and stream.mask is not None and subject.length(batch) > 3:
                yield self.beside_shorter(subject, subject.picked(batch, list(range(ROWS))), stream, row % ROWS)
            elif k % 2 == 0:
                yield Trial(
                    f"row {row} alone, and among {rows}",
                    subject.picked(batch, [row]),
                    batch,
                    Indexed(rows=Match(1, torch.tensor([0]), rows, index)),
                    row_of(subject, 0, row),
                    others_row_of(0, row),
                    refusable=subject.model.training,  # batch norm in training takes no batch of one
                )
            else:
                yield Trial(
                    f"other rows beside row {row} of {rows}",
                    batch,
                    subject.with_other_rows(batch, row, torch_generator(random)),
                    Indexed(rows=Match(rows, index, rows, index)),
                    row_of(subject, row, row),
                    others_row_of(row, row),
                    refusable=rows > ROWS,
                    still=True,
                )
        if count > MORE_DRAWS:
            yield from self.redrawn(subject, random)

    def redrawn(self, subject: Subject, random: Random) -> Iterator[Trial]:
        """Many other rows beside the same ones: they may flip a branch now and then."""
        batch = subject.more_rows(subject.short, ROWS, torch_generator(random))
        for k in range(MORE_DRAWS):
            row = k % ROWS
            index = torch.tensor([row])
            yield Trial(
                f"other rows beside row {row} of {ROWS}",
                batch,
                subject.with_other_rows(batch, row, torch_generator(random)),
                Indexed(rows=Match(ROWS, index, ROWS, index)),
                row_of(subject, row, row),
                others_row_of(row, row),
                still=True,
            )

    def beside_shorter(self, subject: Subject, batch: Inputs, stream: Stream, row: int) -> Trial:
        """A padded row among rows that have no padding, and among rows that have as much of it."""
        n = subject.length(batch)
        kept = torch.arange(n - 2)
        shorter = (torch.arange(n) < n - 2).expand(ROWS, n)
        longer = shorter | (torch.arange(ROWS) != row)[:, None]
        first, second = (subject.masked(batch, stream, real) for real in (longer, shorter))
        rows = torch.tensor([row])
        align = Indexed(Match(n, kept, n, kept), Match(ROWS, rows, ROWS, rows))
        outputs = tokens_of_row(subject, stream, row, row, kept, kept)
        others = others_tokens_of_row(subject, stream, row, row, kept, kept)
        what = f"row {row} of {n - 2} among rows of {n}, and of {n - 2}"
        return Trial(what, first, second, align, outputs, others)


def _graphs(subject: Subject) -> int:
    """How many graphs there are side by side, by the input `batch` that says in which a node is."""
    if "batch" not in subject.roles.of_nodes:
        return 0
    return int(subject.inputs["batch"].max()) + 1


def _beside_other_graphs(subject: Subject, random: Random, count: int) -> Iterator[Trial]:
    """The nodes of all other graphs get other values."""
    graphs = _graphs(subject)
    if graphs < 2:
        raise CannotTell("there is one graph only; with several, an input `batch` says in which a node is")
    roles, inputs, out = subject.roles, subject.inputs, subject.output
    nodes = len(inputs["batch"])
    if not out.dim() or out.shape[0] not in (graphs, nodes) or graphs == nodes:
        raise CannotTell(f"the output {tuple(out.shape)} has no entry for each of {graphs} graphs or {nodes} nodes")
    for k in range(count):
        graph = k % graphs
        inside = inputs["batch"] == graph
        kept = inside.nonzero().flatten().cpu() if out.shape[0] == nodes else torch.tensor([graph])
        changed = dict(inputs)
        for name in (roles.nodes, *roles.of_nodes):
            if name is None or name == "batch" or not inputs[name].is_floating_point():
                continue
            x = inputs[name]
            own = inside.view(-1, *[1] * (x.dim() - 1))
            changed[name] = torch.where(own, x, subject.other_values(x, torch_generator(random)))
        here = inside.nonzero().flatten().cpu()
        one = torch.tensor([graph])
        align = Indexed(Match(nodes, here, nodes, here), Match(graphs, one, graphs, one))

        def outputs(first: Tensor, second: Tensor, kept: Tensor = kept) -> Pair:
            index = kept.to(first.device)
            return first.index_select(0, index), second.index_select(0, index)

        yield Trial(f"other values in the graphs beside graph {graph}", inputs, changed, align, outputs)


class Determinism(Law):
    """The same input gives the same output again, whatever the model was called on in between."""

    name = "determinism"

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        def others(axes: Axes, first: Tensor, second: Tensor) -> Pair:
            return first, second

        runs = [subject.inputs, *[subject.short] * max(2, count // 2)]
        for k, inputs in enumerate(runs):
            yield Trial(f"run {k + 2}, with nothing changed", inputs, inputs, Equal(), as_they_are, others)
        if subject.writes:
            what = f"a second run on the same tensors, after the first has changed {', '.join(subject.writes)}"
            yield Trial(what, subject.inputs, partial(_run_twice, subject), Equal(), as_they_are, others)
        for what, between in _between(subject, torch_generator(random)):
            yield Trial(
                f"before and after a run on {what}",
                subject.short,
                lambda state: subject.call(subject.short),
                Equal(),
                as_they_are,
                others,
                earlier=(Earlier(partial(_first_on, subject, between), None),),
                afresh=True,
            )


def _run_twice(subject: Subject, state: Any) -> Any:
    """What the second of two runs on the same tensors gives."""
    inputs = copied(subject.inputs)
    subject.call_with(inputs)
    return subject.call_with(inputs)


def _between(subject: Subject, draw: torch.Generator) -> Iterator[tuple[str, Inputs]]:
    """Other inputs that the model takes: other values of the same shape, with padding in other places, and more tokens."""
    if subject.start is None:
        return
    short, stream = subject.short, subject.roles.stream
    found = {
        "other values": {
            **short,
            **{name: subject.other_values(short[name], draw) for name in sorted(subject.values(short))},
        }
    }
    if stream is not None and stream.mask is not None and subject.length(short) > 2:
        n, rows = subject.length(short), subject.rows(short) or 1
        found["other values, padded"] = subject.masked(
            found["other values"], stream, (torch.arange(n) < n - 2).expand(rows, n)
        )
    if subject.roles.stream is not None and subject.length(subject.inputs) != subject.length(short):
        found["another number of tokens"] = subject.inputs
    for what, inputs in found.items():
        try:
            subject.run(inputs)
        except Exception as error:  # values that this model does not take
            log_suppressed(error, f"running on {what}")
            continue
        yield what, inputs


def _first_on(subject: Subject, inputs: Inputs, state: Any) -> None:
    """The first run of a model is on these inputs."""
    subject.restart()
    subject.run(inputs)


class EdgeOrder(Law):
    """The edges of a graph are listed in another order, with all that belongs to them."""

    name = "edge_order"

    def applies(self, subject: Subject) -> bool:
        return subject.roles.edges is not None and subject.roles.nodes is not None

    def trials(self, subject: Subject, random: Random, count: int) -> Iterator[Trial]:
        subject.require_clear()
        roles, inputs = subject.roles, subject.inputs
        if roles.edges is None:
            raise CannotTell("none of the inputs is a list of edges; say which with Roles(edges=...)")
        n = inputs[roles.edges].shape[1]
        if n < 2:
            raise CannotTell("one edge has no order; give more of them")
        for k in range(count):
            order = list(range(n))[::-1] if k == 0 else random.sample(range(n), n)
            index = torch.tensor(order, device=inputs[roles.edges].device)
            moved = {name: inputs[name].index_select(0, index) for name in roles.of_edges}
            moved[roles.edges] = inputs[roles.edges].index_select(1, index)
            what = "edges in reverse order" if k == 0 else "edges in another order"
            outputs, others = _along_edges(subject, n, index)
            align = Indexed(tokens=Match(n, index.cpu(), n, torch.arange(n)))
            yield Trial(what, inputs, {**inputs, **moved}, align, outputs, others)


def _along_edges(subject: Subject, count: int, order: Tensor) -> tuple[Outputs, Others]:
    """What has one entry for each edge moves along; nothing is said of other outputs that may, or may not."""
    nodes = subject.inputs[subject.roles.nodes].shape[0] if subject.roles.nodes is not None else None
    main = subject.output
    follows = main.dim() > 0 and main.shape[0] == count
    if follows and count == nodes:
        raise CannotTell("there are as many nodes as edges, and the output may follow either")

    def outputs(first: Tensor, second: Tensor) -> Pair:
        return (first.index_select(0, order) if follows else first), second

    def others(axes: Axes, first: Tensor, second: Tensor) -> Pair | None:
        if count in first.shape:
            return None
        return first, second

    return outputs, others


REORDERING, PADDING, NEIGHBOURS = Reordering(), Padding(), Neighbours()
EDGE_ORDER, DETERMINISM = EdgeOrder(), Determinism()
HYGIENE: tuple[Law, ...] = (REORDERING, PADDING, NEIGHBOURS, CAUSALITY, CACHE, EDGE_ORDER, DETERMINISM)
