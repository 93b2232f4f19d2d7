"""Optimisers: which rule updates which parameter, at which learning rate, and the average of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.linear import ExpertLinear
from regard.training.config import TrainConfig
from regard.training.muon import Muon
from regard.training.rules import SGD, Adam, AdamW, Rule

# The rate of a linear map of sparse features, whatever the rate of the others is: their vector has about length 1,
# so that this is about as fast as gradient descent may be (1 and 3 learn as well).
SPARSE_LR, SPARSE_MOMENTUM = 2.0, 0.9

MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.MultiheadAttention, ExpertLinear)


@dataclass(frozen=True)
class Split:
    """The parameters of a model by name: matrices of its body, other matrices, linear maps of sparse features,
    and the rest (norms, biases, embeddings)."""

    body: dict[str, Tensor]
    matrices: dict[str, Tensor]
    sparse: dict[str, Tensor]
    rest: dict[str, Tensor]


def split(model: nn.Module) -> Split:
    """Whose weights are a matrix: those of linear maps, of experts, of convolutions and nn.MultiheadAttention; tables
    of vectors are not.

    The body is what is repeated (inside an nn.ModuleList), or, where nothing is, all but the first and the
    last matrix. What a head shares with an embedding is an embedding. A module whose features are mostly zero
    says so by `sparse_features = True`.
    """
    tables = {
        id(p) for each in model.modules() if not isinstance(each, MATRICES) for p in each.parameters(recurse=False)
    }
    repeated = {id(p) for each in model.modules() if isinstance(each, nn.ModuleList) for p in each.parameters()}
    rare = {
        id(p)
        for each in model.modules()
        if getattr(each, "sparse_features", False)
        for p in each.parameters(recurse=False)
    }
    named: dict[str, Tensor] = {name: p for name, p in model.named_parameters() if p.requires_grad}
    found = {name: p for name, p in named.items() if p.dim() >= 2 and id(p) not in tables}
    body = {name: p for name, p in found.items() if id(p) in repeated} or dict(list(found.items())[1:-1])
    others = {name: p for name, p in found.items() if name not in body}
    sparse = {name: p for name, p in named.items() if id(p) in rare}
    rest = {name: p for name, p in named.items() if name not in found and name not in sparse}
    return Split(body, others, sparse, rest)


class Optimiser:
    """Rules for all parameters of a model, whose state is tensors by name."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = [rule for rule in rules if rule.parameters]
        self.parameters = [p for rule in self.rules for p in rule.parameters.values()]

    def gradients(self) -> list[Tensor]:
        return [p.grad for p in self.parameters if p.grad is not None]

    def step(self, factor: float) -> None:
        """Move the parameters, with this share of the learning rate, and forget their gradients."""
        for rule in self.rules:
            rule.step(rule.lr * factor)
        for p in self.parameters:
            p.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """The whole state."""
        return {
            f"{key}/{name}": tensor
            for rule in self.rules
            for key, values in rule.state.items()
            for name, tensor in values.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned."""
        wanted = self.tensors()
        for name in sorted(wanted.keys() | tensors.keys()):
            if name not in wanted or name not in tensors or wanted[name].shape != tensors[name].shape:
                raise RegardError(f"the saved state is of another optimiser or model: '{name}' does not fit")
            wanted[name].copy_(tensors[name])


def make(model: nn.Module, config: TrainConfig, muon: type[Muon] = Muon) -> Optimiser:
    """The optimiser of a config. muon: the class of Muon

    muon: Muon for the matrices of the body, AdamW at `adam_lr` for everything else. adamw, adam, sgd: one rule
    for all. Linear maps of sparse features have their own, see `_make_sparse`. With `layer_decay` there is one
    rule for each depth, see `layer_rates`.
    """
    parts, lr, decay = split(model), config.peak_lr, config.weight_decay
    spared = decay if config.decay_all else 0.0
    if not (parts.body or parts.matrices or parts.sparse or parts.rest):
        raise RegardError(f"{type(model).__name__} has no parameters to train; set requires_grad on at least one")
    rates = {} if config.layer_decay == 1 else layer_rates(model, config.layer_decay)
    matrices, sparse = parts.body | parts.matrices, _make_sparse(model, parts)
    momentum = config.momentum

    def rules(cls: Any, parameters: Mapping[str, Tensor], lr: float, decay: float, *more: Any) -> list[Rule]:
        return [cls(some, lr * rate, decay, *more) for some, rate in _by_rate(parameters, rates)]

    if config.optimiser == "sgd":
        momentum = 0.9 if momentum is None else momentum
        first = rules(SGD, matrices, lr, decay, momentum)
        return Optimiser([*first, *rules(SGD, parts.rest, lr, spared, momentum), *sparse])
    if config.optimiser in ("adamw", "adam"):
        adam = AdamW if config.optimiser == "adamw" else Adam
        return Optimiser([*rules(adam, matrices, lr, decay), *rules(adam, parts.rest, lr, spared), *sparse])
    momentum = 0.95 if momentum is None else momentum
    adam_lr = 0.3 * lr if config.adam_lr is None else config.adam_lr
    body = _by_rate(parts.body, rates)
    first = [muon(some, lr * rate, decay, momentum, _stacked(model, some)) for some, rate in body]
    rest = rules(AdamW, parts.rest, adam_lr, spared)
    return Optimiser([*first, *rules(AdamW, parts.matrices, adam_lr, decay), *rest, *sparse])


def _stacked(model: nn.Module, parameters: Mapping[str, Tensor]) -> dict[str, int]:
    """Parameters that are several matrices, and how many: projections of nn.MultiheadAttention, weights of experts."""
    of_experts = {
        id(p) for each in model.modules() if isinstance(each, ExpertLinear) for p in each.parameters(recurse=False)
    }
    found = {name: p.shape[0] for name, p in parameters.items() if id(p) in of_experts}
    for name, p in parameters.items():
        if name.endswith("in_proj_weight") and p.shape[0] % p.shape[1] == 0:
            found[name] = p.shape[0] // p.shape[1]
    return found


def _by_rate(parameters: Mapping[str, Tensor], rates: Mapping[str, float]) -> Iterator[tuple[dict[str, Tensor], float]]:
    """The parameters whose learning rates are multiplied by the same number, and this number; 1 where `rates` has
    none."""
    groups: dict[float, dict[str, Tensor]] = {}
    for name, p in parameters.items():
        groups.setdefault(rates.get(name, 1.0), {})[name] = p
    for rate, group in groups.items():
        yield group, rate


def _make_sparse(model: nn.Module, parts: Split) -> list[Rule]:
    """Gradient descent with an L2 penalty for each module with sparse features: logistic regression.

    AdamW would move the weight of a word that was seen once as far as that of a frequent one. The penalty (the
    module's `penalty`) holds the weights however many steps there are.
    """
    rules: list[Rule] = []
    for each in model.modules():
        own = {id(p) for p in each.parameters(recurse=False)}
        found = {name: p for name, p in parts.sparse.items() if id(p) in own}
        if found:
            rules.append(SGD(found, SPARSE_LR, getattr(each, "penalty", 0.0), SPARSE_MOMENTUM))
    return rules


# ── learning rates by depth: the lower a block, the less it moves when a trained model is fine-tuned


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


# ── the average of the weights


class Average:
    """a ← a + (1 − β_t)·(w − a) after each step, β_t = min(β, (1 + t)/(10 + t)): so that the start is soon
    forgotten.

    Buffers are not averaged: the model's own go with the average.
    """

    def __init__(self, model: nn.Module, beta: float) -> None:
        self.beta = beta
        self.parameters = [p for p in model.parameters() if p.requires_grad and p.is_floating_point()]
        self.values = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def add(self, step: int) -> None:
        """Take in the weights after a step, counted from 0."""
        torch._foreach_lerp_(self.values, list(self.parameters), 1 - min(self.beta, (1 + step) / (10 + step)))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model with the averaged weights, for a while. Only pointers are exchanged."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def load(self, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        """Go on from the state_dict that the model had `in_place`."""
        with self.in_place(), torch.no_grad():
            named = dict(model.named_parameters())
            for name, tensor in tensors.items():
                if name in named:
                    named[name].copy_(tensor)

    def _exchange(self) -> None:
        for i, parameter in enumerate(self.parameters):
            parameter.data, self.values[i] = self.values[i], parameter.data


# ── the learning rate at each step


ROUNDING = 1e-12  # of shares


def schedule(step: int, done: float, *, warmup: int, decay: float) -> float:
    """The share of the learning rate at a step, counted from 0, when the share `done` of the training is done:
    it rises for `warmup` steps, holds, and falls to zero in the last `decay` of the training.
    """
    rise = min(1.0, (step + 1) / warmup) if warmup else 1.0
    left = 1 - done
    if left >= decay - ROUNDING:
        return rise
    return min(rise, left / decay)


def last_before_decay(steps: int, decay: float) -> int:
    """The largest step at which `schedule` does not fall yet."""
    return int(steps * (1 - decay) + 1e-9)
