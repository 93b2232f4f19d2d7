"""Recording: exact attention of any PyTorch model, while it runs as it always does."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from regard.attention import tap
from regard.attention.tap import Implied, Mixed, Told
from regard.errors import RegardError
from regard.look.recording.calls import Call, Calls
from regard.look.recording.dispatch_mode import AttentionDispatchMode
from regard.look.recording.edges import EdgeSource, record_edges
from regard.look.recording.entry import DecodeLoops, Entry, Seen, summarize
from regard.look.recording.proof import doubt, find_gaps, prove
from regard.look.recording.provenance import key_of
from regard.look.recording.tap import Tapped, TappedImplied, TappedMix, source_along
from regard.look.recording.weighted_sum import Source, slim

FAST = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
NOTE_FAST = "torch.nn's fast path, which shows nothing, was turned off while recording"
NAMED = 6  # layers in an error
NOTE_COMPILED = "compiled code ran in its ordinary, eager form while recording"


@contextmanager
def record(
    model: nn.Module,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    rows: Sequence[int] | slice | None = None,
    keep: str = "weights",
    top: int | None = None,
    states: bool = False,
) -> Iterator[Seen]:
    """Record every attention that happens in the model inside the block.

    >>> with record(model) as seen:
    ...     model(x)
    >>> seen[0].name, seen[0].weights, seen[0].error

    Our own models tell by themselves; beneath any other the operations of PyTorch are heard (fused attention,
    FlexAttention, a softmax whose weights are summed with values, message passing along edges). Outputs stay
    what they are, bit for bit, but for torch.nn's encoder fast path and compiled models: those run in their
    ordinary form, and the entry says so.

    layers  numbers (places where attention happens, counted as they are met) or beginnings of dotted names;
            None: all
    heads   numbers; None: all
    rows    queries: numbers, negative from the end, or a slice; None: all
    keep    "weights", computed when asked for, or "summary": entropy, distance, received and the `top`
            largest of each row
    states  keep what each block puts out, too, in `seen.states`
    """
    wanted = Wanted(model, layers, heads, rows, keep, top)
    calls = Calls(model, states=states)
    seen = Seen(calls.states)
    recorder = Recorder(calls, wanted, seen, compiled=_is_compiled(model))
    with ExitStack() as stack:
        stack.enter_context(calls.followed())
        stack.enter_context(_ordinary_ways())
        stack.enter_context(record_edges(model, recorder.mode.provenance, recorder.add_edges))
        stack.enter_context(tap.listen(recorder.add_tapped))
        stack.callback(recorder.mode.provenance.traces.clear)
        stack.enter_context(recorder.mode)
        yield seen
    wanted.check_met(recorder.places)


class Wanted:
    """What of all that is heard should be kept, checked."""

    def __init__(self, model: Any, layers: Any, heads: Any, rows: Any, keep: Any, top: Any) -> None:
        if not isinstance(model, nn.Module):
            raise RegardError(f"record takes a torch.nn.Module, got {type(model).__name__}")
        if keep not in ("weights", "summary"):
            raise RegardError(f"keep must be 'weights' or 'summary', got {keep!r}")
        if top is not None and (type(top) is not int or top < 1):
            raise RegardError(f"top must be a whole number above zero, got {top!r}")
        for name, value, types in (
            ("layers", layers, (int, str)),
            ("heads", heads, (int,)),
            ("rows", rows, (int, slice)),
        ):
            if value is None or (name == "rows" and isinstance(value, slice)):
                continue
            if (
                isinstance(value, str)
                or not isinstance(value, Sequence)
                or not all(isinstance(each, types) for each in value)
            ):
                raise RegardError(f"{name} must be a list such as [0, 2], got {value!r}")
            if name != "rows" and any(isinstance(each, int) and each < 0 for each in value):
                raise RegardError(
                    f"{name} are counted from 0 as they are met, got {value!r}; record all and take the last"
                )
        self.layers, self.heads, self.rows, self.keep, self.top = layers, heads, rows, keep, top

    def layer(self, number: int, name: str) -> bool:
        if self.layers is None:
            return True
        return any(
            number == each if isinstance(each, int) else f"{name}.".startswith(f"{each}.") for each in self.layers
        )

    def check_met(self, places: Mapping[tuple[str, int], int]) -> None:
        """Something of what was asked for is there, if anything is."""
        if places and not any(self.layer(number, name) for (name, _), number in places.items()):
            met = ", ".join(f"{number} {name}" for (name, _), number in list(places.items())[:NAMED])
            rest = ", …" if len(places) > NAMED else ""
            raise RegardError(
                f"layers={list(self.layers)} were asked for, and attention happened in others: {met}{rest}"
            )

    def heads_of(self, count: int, name: str) -> list[int] | None:
        if self.heads is None:
            return None
        if any(head >= count for head in self.heads):
            raise RegardError(
                f"heads={list(self.heads)} were asked for, but {name or 'the model'} has {count}, from 0 on"
            )
        return list(self.heads)

    def rows_of(self, count: int, name: str) -> torch.Tensor | None:
        if self.rows is None:
            return None
        if isinstance(self.rows, slice):
            return torch.arange(count)[self.rows]
        if any(not -count <= row < count for row in self.rows):
            raise RegardError(f"rows={list(self.rows)} were asked for, but {name or 'the model'} has {count} queries")
        return torch.tensor([row % count for row in self.rows], dtype=torch.long)


class Recorder:
    """Makes an entry of whatever is heard, with its proof."""

    def __init__(self, calls: Calls, wanted: Wanted, seen: Seen, *, compiled: bool) -> None:
        self.calls, self.wanted, self.seen, self.compiled = calls, wanted, seen, compiled
        self.places: dict[tuple[str, int], int] = {}
        self.shelf: list[torch.Tensor] = []
        self.loops = DecodeLoops()
        parameters = {
            key for module in calls.names for p in module.parameters(recurse=False) if (key := key_of(p)) is not None
        }
        self.fast = torch.backends.mha.get_fastpath_enabled()
        self.mode = AttentionDispatchMode(calls, parameters, self.add_dense, self.add_edges)

    def add_tapped(self, heard: Told) -> None:
        """Our own attention."""
        if self.calls.current is None:
            return
        with self.mode.paused():
            if isinstance(heard, Implied):
                self.add_dense(TappedImplied(heard), heard.name, heard.itself, implied=heard.implied)
                return
            dropped = (heard.dropout if isinstance(heard, Mixed) else heard.terms.dropout) > 0
            along = source_along(heard)
            if along is not None:
                self.add_edges(along, dropped, ())
            elif isinstance(heard, Mixed):
                if heard.scores.dim() == 4:
                    itself = not heard.cross and heard.scores.shape[2] == heard.scores.shape[3]
                    self.add_dense(TappedMix(heard), "mix", itself, dropped=dropped)
            else:
                self.add_dense(Tapped(heard), heard.kernel, self.mode.itself(heard.q, heard.k), dropped=dropped)

    def add_dense(
        self,
        source: Source,
        operator: str,
        itself: bool,
        *,
        dropped: bool = False,
        changed: float = 0.0,
        changes: tuple[str, ...] = (),
        note: str | None = None,
        unsure: str | None = None,
        call: Call | None = None,
        implied: str | None = None,
    ) -> Entry | None:
        """Dense attention. `unsure` says why it cannot be proved, whatever its sums are; `call` is where it
        happened, if that is not where we are."""
        call, layer = self.place(call)
        if call is None:
            return None
        with self.mode.paused():
            shape = source.b, source.h, source.n, source.m
            source.choose(self.wanted.heads_of(source.h, call.name), self.wanted.rows_of(source.n, call.name))
            proof, dtype = prove(source), source.out.dtype
            reason = unsure or doubt(proof, dtype, dropped=dropped, changed=changed, changes=changes)
            if self.wanted.keep == "summary":
                kept = summarize(source, self.wanted.top, itself=itself)
            else:
                kept = None
            said = None if implied is None else f"implied weights: {implied}"
            values, source.errors = source.v, proof.errors
            if kept is None:
                source = slim(source)
                source.hold(self.shelf)
            self.seen.entries.append(
                Entry(
                    name=call.name,
                    call=call.number,
                    layer=layer,
                    kind="self" if itself else "cross",
                    operator=operator,
                    heads=tuple(range(shape[1])) if source.numbers is None else source.numbers,
                    shape=shape,
                    dtype=dtype,
                    error=proof.error,
                    errors=proof.errors,
                    alike=proof.alike,
                    reason=reason,
                    note=self.notes(note, said, find_gaps(proof) if reason is None else None),
                    implied=implied,
                    rows=None if source.rows is None else tuple(source.rows.tolist()),
                    top=self.wanted.top,
                    source=None if kept is not None else source,
                    kept=kept,
                )
            )
            self.loops.add(self.seen.entries[-1], values)
            return self.seen.entries[-1]

    def add_edges(
        self, source: EdgeSource, dropped: bool, changes: tuple[str, ...], *, unsure: str | None = None
    ) -> None:
        """Attention along edges. It is as long as the list of edges, so it is always kept."""
        call, layer = self.place()
        if call is None:
            return
        with self.mode.paused():
            count, heads = source.kept.shape
            source.choose(self.wanted.heads_of(heads, call.name))
            proof = source.prove()
            source.hold()
            self.seen.entries.append(
                Entry(
                    name=call.name,
                    call=call.number,
                    layer=layer,
                    kind="edges",
                    operator="softmax over edges",
                    heads=source.numbers,
                    shape=(heads, count),
                    dtype=source.out.dtype,
                    error=proof.error,
                    errors=proof.errors,
                    alike=proof.alike,
                    reason=unsure or doubt(proof, source.out.dtype, dropped=dropped, changes=changes),
                    note=self.notes(),
                    top=self.wanted.top,
                    source=source,
                )
            )

    def place(self, call: Call | None = None) -> tuple[Call | None, int]:
        """The call in which it happens and the number of the place, or None if it is not wanted."""
        call = call or self.calls.current
        if call is None:
            return None, -1
        layer = self.places.setdefault((call.name, call.heard), len(self.places))
        call.heard += 1
        self.calls.mark_block()
        return (call if self.wanted.layer(layer, call.name) else None), layer

    def notes(self, *notes: str | None) -> str | None:
        """What a reader should know of the way in which this was computed."""
        found = [note for note in notes if note is not None]
        modules = [call.module for call in self.calls.stack]
        if self.fast and not torch.is_grad_enabled() and any(isinstance(m, FAST) and not m.training for m in modules):
            found.append(NOTE_FAST)
        if self.compiled:
            found.append(NOTE_COMPILED)
        return "; ".join(found) or None


def _is_compiled(model: nn.Module) -> bool:
    """Is some module of it compiled?"""
    return any(hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None) is not None for m in model.modules())


@contextmanager
def _ordinary_ways() -> Iterator[None]:
    """Turn off, for a while, the ways of computing attention in which nothing can be heard."""
    flex: Any = sys.modules.get("torch.nn.attention.flex_attention")
    flag = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"  # FlexAttention called as it is compiles itself otherwise
    before, plain = torch.backends.mha.get_fastpath_enabled(), getattr(flex, flag, None)
    with ExitStack() as stack:
        # nothing is compiled if it was never imported, and importing it takes seconds
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        try:
            torch.backends.mha.set_fastpath_enabled(False)
            if plain is not None:
                setattr(flex, flag, True)
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(before)
            if plain is not None:
                setattr(flex, flag, plain)
