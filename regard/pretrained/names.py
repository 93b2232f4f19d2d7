"""Names of tensors in both directions. A table refuses what it does not know, and nothing is skipped in
silence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from regard.errors import RegardError

SHOWN = 3  # names that a message lists


class Layout(Protocol):
    """How one tensor of theirs is laid out in one or several of ours. `read` and `write` undo each other to
    the bit."""

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]: ...
    def write(self, ours: Sequence[Tensor]) -> Tensor: ...


class Same:
    """As it is."""

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        return (theirs,)

    def write(self, ours: Sequence[Tensor]) -> Tensor:
        return ours[0]


class Transposed:
    """GPT-2 keeps its matrices as inputs × outputs; several of ours may lie side by side in one."""

    def __init__(self, parts: int = 1) -> None:
        self.parts = parts

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.contiguous() for part in theirs.mT.chunk(self.parts))

    def write(self, ours: Sequence[Tensor]) -> Tensor:
        return torch.cat(tuple(ours)).mT.contiguous()


class Stacked:
    """Several of ours one below the other."""

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.contiguous() for part in theirs.chunk(self.parts))

    def write(self, ours: Sequence[Tensor]) -> Tensor:
        return torch.cat(tuple(ours))


class ByHead:
    """Queries, keys and values of one head after those of another, as GPT-NeoX has them."""

    def __init__(self, heads: int) -> None:
        self.heads = heads

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        heads = theirs.unflatten(0, (self.heads, 3, -1))
        return tuple(heads[:, i].flatten(0, 1).contiguous() for i in range(3))

    def write(self, ours: Sequence[Tensor]) -> Tensor:
        heads = [part.unflatten(0, (self.heads, -1)) for part in ours]
        return torch.stack(heads, 1).flatten(0, 2)


class Shaped:
    """The same numbers in another shape: theirs, and ours."""

    def __init__(self, theirs: tuple[int, ...], ours: tuple[int, ...]) -> None:
        self.theirs, self.ours = theirs, ours

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        return (theirs.reshape(self.ours),)

    def write(self, ours: Sequence[Tensor]) -> Tensor:
        return ours[0].reshape(self.theirs)


class Split:
    """Rows of one table of theirs, 1 n d, in several of ours: the first `first` of them, and the others."""

    def __init__(self, first: int) -> None:
        self.first = first

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        table = theirs[0]
        return table[: self.first].contiguous(), table[self.first :].contiguous()

    def write(self, ours: Sequence[Tensor]) -> Tensor:
        return torch.cat(tuple(ours))[None]


class Flipped:
    """The last row first: they count differences of places from the key, we from the query."""

    def read(self, theirs: Tensor) -> tuple[Tensor, ...]:
        return (theirs.flip(0),)

    def write(self, ours: Sequence[Tensor]) -> Tensor:
        return ours[0].flip(0)


SAME = Same()


@dataclass(frozen=True)
class Row:
    """One tensor of theirs, those of ours that hold its numbers, and how."""

    theirs: str
    ours: tuple[str, ...]
    layout: Layout = SAME


def row(theirs: str, *ours: str, layout: Layout = SAME) -> Row:
    return Row(theirs, ours, layout)


def linear(theirs: str, *ours: str, bias: bool = True, weight: Layout = SAME, joined: Layout = SAME) -> list[Row]:
    """The weight and the bias of a linear map."""
    rows = [row(f"{theirs}.weight", *(f"{name}.weight" for name in ours), layout=weight)]
    if bias:
        rows.append(row(f"{theirs}.bias", *(f"{name}.bias" for name in ours), layout=joined))
    return rows


def norm(theirs: str, ours: str, shift: bool = True) -> list[Row]:
    """The scale and the shift of a norm."""
    rows = [row(f"{theirs}.weight", f"{ours}.scale")]
    if shift:
        rows.append(row(f"{theirs}.bias", f"{ours}.shift"))
    return rows


@dataclass(frozen=True)
class Names:
    """The table of one model.

    copies     tensors of theirs that repeat another one, such as a tied head: they must be equal to it
    left_out   patterns of what a model does not need: constants, and parts of another head
    zeros      tensors that we have no part for, and which are written as zeros of these shapes
    prefix     of the body, which some files leave out
    stacks     tensors of ours that hold several of theirs one after the other, such as those of all experts
    """

    rows: tuple[Row, ...]
    copies: Mapping[str, str]
    left_out: tuple[str, ...] = ()
    zeros: Mapping[str, tuple[int, ...]] | None = None
    prefix: str = ""
    stacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def theirs(self) -> set[str]:
        """All names of theirs that a model needs."""
        return {each.theirs for each in self.rows} | {name for names in self.stacks.values() for name in names}

    def read(self, theirs: Mapping[str, Tensor], where: str) -> tuple[dict[str, Tensor], tuple[str, ...]]:
        """Our tensors by name, and what was left out."""
        found = self._named(theirs)
        known = self.theirs
        missing = sorted(known - found.keys())
        left = [name for name in found if name not in known and name not in self.copies]
        allowed = [name for name in left if any(re.fullmatch(each, name) for each in self.left_out)]
        unknown = sorted(set(left) - set(allowed))
        if missing or unknown:
            words = [_list("no place for", unknown), _list("nothing for", missing)]
            raise RegardError(
                f"the weights of {where} are not those of its configuration: "
                f"{'; '.join(part for part in words if part)}"
            )
        for copy, of in self.copies.items():
            if copy in found and of in found and not torch.equal(found[copy], found[of]):
                raise RegardError(
                    f"{where}: {copy} differs from {of}, but its configuration says that they are one; "
                    f"set tie_word_embeddings to false in its config.json"
                )
        ours: dict[str, Tensor] = {}
        for each in self.rows:
            try:
                parts_of_it = each.layout.read(found[each.theirs])
            except (RuntimeError, IndexError) as error:
                shape = tuple(found[each.theirs].shape)
                raise RegardError(f"{where}: {each.theirs} has a shape that does not fit: {shape}") from error
            ours |= dict(zip(each.ours, parts_of_it, strict=True))
        for name, parts in self.stacks.items():
            shapes = {tuple(found[part].shape) for part in parts}
            if len(shapes) > 1:
                raise RegardError(f"{where}: {parts[0]} and those beside it differ in shape: {sorted(shapes)}")
            ours[name] = torch.stack([found[part] for part in parts])
        return ours, tuple(sorted(allowed))

    def write(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Their tensors by name."""
        known = {name for each in self.rows for name in each.ours} | self.stacks.keys()
        unknown = sorted(ours.keys() - known)
        if unknown:
            raise RegardError(f"the model cannot be exported: {_list('no name for', unknown)}")
        found = {each.theirs: each.layout.write([ours[name] for name in each.ours]).contiguous() for each in self.rows}
        for name, parts in self.stacks.items():
            found |= {part: each.contiguous() for part, each in zip(parts, ours[name], strict=True)}
        for name, shape in (self.zeros or {}).items():
            found[name] = torch.zeros(shape)
        return found

    def _named(self, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Their tensors by the names of today: with the prefix of the body, and weight and bias of norms."""
        found = {_renamed(name): tensor for name, tensor in theirs.items()}
        if not self.prefix or any(name.startswith(self.prefix) for name in found):
            return found
        body = [each.theirs for each in self.rows if each.theirs.startswith(self.prefix)]
        if not any(name.removeprefix(self.prefix) in found for name in body):
            return found
        heads = {each.theirs for each in self.rows if not each.theirs.startswith(self.prefix)} | set(self.copies)
        return {name if name in heads else self.prefix + name: tensor for name, tensor in found.items()}


def _renamed(name: str) -> str:
    """Files of before 2019 call the scale of a norm gamma and its shift beta."""
    if name.endswith(".gamma"):
        return name.removesuffix("gamma") + "weight"
    if name.endswith(".beta"):
        return name.removesuffix("beta") + "bias"
    return name


def _list(what: str, names: Iterable[str]) -> str:
    names = list(names)
    if not names:
        return ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{what} {', '.join(names[:SHOWN])}{more}"
