"""Layer-wise learning rates: the lower a block, the less it moves when a trained model is fine-tuned."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from regard.errors import RegardError

HEADS = ("head", "ends")  # children that are made for the targets, wherever they stand in a model
# lists with a part for each block of the list before them
BESIDE = ("norms", "biases", "messages", "merges", "attention")


def layer_rates(model: nn.Module, decay: float) -> dict[str, float]:
    """By what the learning rate of each parameter is multiplied.

    The convention is that of ELECTRA and BEiT. With D blocks:

        head, pool and last norm  1
        block d of 1 … D          decay^(D − d + 1): decay for the last block, decay^D for the first
        embeddings                decay^(D + 1)

    Blocks are the parts of an nn.ModuleList that is in no other one; lists in a list are one after the other.
    A model with several (an encoder and a decoder) counts each on its own. What comes before the first list is an
    embedding, and its D is that of the longest. A head that shares the weights of an embedding is an embedding.
    """
    powers = {id(p): power for p, power in _powers_of_blocks(model)}
    if not powers:
        raise RegardError(
            f"layer_decay needs a model with blocks (an nn.ModuleList), and {type(model).__name__} has none; "
            "leave it out"
        )
    lowest = max(powers.values()) + 1
    found: dict[str, float] = {}
    before = True  # the first block
    for name, p in model.named_parameters():
        power = powers.get(id(p))
        if power is not None:
            before = False
        elif before and name.split(".")[0] not in HEADS:
            power = lowest
        else:
            power = 0
        found[name] = decay**power
    return found


def _powers_of_blocks(model: nn.Module) -> Iterator[tuple[nn.Parameter, int]]:
    """The parameters of all blocks, each with D − d + 1."""
    previous: list[int] = []  # the power of each part of the list before
    for name, parts in _outermost_lists(model):
        if name.rpartition(".")[2] in BESIDE and len(parts) <= len(previous):
            powers = previous[: len(parts)]
            each = [(part, power) for part, power in zip(parts, powers, strict=True)]
        else:
            blocks = [_blocks_of(part) for part in parts]
            above = [sum(map(len, blocks[i + 1 :])) for i in range(len(blocks))]
            each = [
                (block, above[i] + len(inner) - k) for i, inner in enumerate(blocks) for k, block in enumerate(inner)
            ]
            previous = [count + 1 for count in above]
        for block, power in each:
            for p in block.parameters():
                yield p, power


def _blocks_of(part: nn.Module) -> list[nn.Module]:
    """The blocks of a list within a list; anything else is one block."""
    if isinstance(part, nn.ModuleList):
        return [block for each in part for block in _blocks_of(each)]
    return [part]


def _outermost_lists(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.ModuleList]]:
    """All nn.ModuleLists that are in no other one, with their names, in the order of the parameters."""
    for key, child in module.named_children():
        path = f"{name}.{key}" if name else key
        if isinstance(child, nn.ModuleList):
            yield path, child
        else:
            yield from _outermost_lists(child, path)
