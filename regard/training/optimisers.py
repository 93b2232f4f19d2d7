"""Optimisers: which rule updates which parameter, and at which learning rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.linear import ExpertLinear
from regard.training.config import TrainConfig
from regard.training.layer_rates import layer_rates
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
    sparse = _make_sparse(model, parts)
    matrices = parts.body | parts.matrices
    if config.optimiser == "sgd":
        momentum = 0.9 if config.momentum is None else config.momentum
        return Optimiser(
            [
                *(SGD(some, lr * rate, decay, momentum) for some, rate in _by_rate(matrices, rates)),
                *(SGD(some, lr * rate, spared, momentum) for some, rate in _by_rate(parts.rest, rates)),
                *sparse,
            ]
        )
    if config.optimiser in ("adamw", "adam"):
        rule = AdamW if config.optimiser == "adamw" else Adam
        return Optimiser(
            [
                *(rule(some, lr * rate, decay) for some, rate in _by_rate(matrices, rates)),
                *(rule(some, lr * rate, spared) for some, rate in _by_rate(parts.rest, rates)),
                *sparse,
            ]
        )
    if config.adam_lr is None:
        adam_lr = 0.3 * lr
    else:
        adam_lr = config.adam_lr
    momentum = 0.95 if config.momentum is None else config.momentum
    return Optimiser(
        [
            *(
                muon(some, lr * rate, decay, momentum, _stacked(model, some))
                for some, rate in _by_rate(parts.body, rates)
            ),
            *(AdamW(some, adam_lr * rate, decay) for some, rate in _by_rate(parts.matrices, rates)),
            *(AdamW(some, adam_lr * rate, spared) for some, rate in _by_rate(parts.rest, rates)),
            *sparse,
        ]
    )


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
