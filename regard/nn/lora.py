"""LoRA: a linear map that stays as it is, and a small one beside it that learns."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.linear import ExpertLinear, Linear, multiply_groups

DOWN, UP = "lora_down", "lora_up"
ALPHA = 2.0  # what the small map is multiplied by


class LoRA(Linear):
    """θᵀx + b + α·UDx, with D of `rank` rows and U = 0 at first: then it is the map it was made of.
    ... d -> ... outputs

    Only U and D learn. `merge` makes one matrix of the three.
    """

    def __init__(self, of: nn.Linear, rank: int) -> None:
        super().__init__(of.in_features, of.out_features, bias=of.bias is not None)
        self.weight, self.bias = of.weight, of.bias
        self.lora_down = nn.Parameter(torch.randn(rank, of.in_features) / of.in_features**0.5)
        self.lora_up = nn.Parameter(torch.zeros(of.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        beside = F.linear(F.linear(x, self.lora_down), self.lora_up)
        return super().forward(x).add(beside, alpha=ALPHA)

    def gelu(self, x: Tensor) -> Tensor | None:
        """What the map gives is not whole without the small one."""
        return None


class ExpertLoRA(ExpertLinear):
    """The same for the maps of experts: a small map beside that of each.   r d, ends e -> r outputs"""

    def __init__(self, of: ExpertLinear, rank: int) -> None:
        nn.Module.__init__(self)
        self.experts, self.inputs, self.outputs = of.experts, of.inputs, of.outputs
        self.weight = of.weight
        self.lora_down = nn.Parameter(torch.randn(of.experts, rank, of.inputs) / of.inputs**0.5)
        self.lora_up = nn.Parameter(torch.zeros(of.experts, of.outputs, rank))

    def forward(self, x: Tensor, ends: Tensor) -> Tensor:
        beside = multiply_groups(multiply_groups(x, self.lora_down, ends), self.lora_up, ends)
        return super().forward(x, ends).add(beside, alpha=ALPHA)


def add_lora(module: nn.Module, rank: int) -> None:
    """Put a small map beside every linear map of a module. Routers stay as they are: experts keep their tokens."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is Linear:
                setattr(parent, name, LoRA(child, rank))
            elif type(child) is ExpertLinear:
                setattr(parent, name, ExpertLoRA(child, rank))


def freeze_others(model: nn.Module, learns: tuple[str, ...] = ()) -> None:
    """Only the small maps learn, and parts whose names begin with one of `learns`."""
    for name, parameter in model.named_parameters():
        small = name.rpartition(".")[2] in (DOWN, UP)
        parameter.requires_grad_(small or name.startswith(learns))


def merge(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a model without LoRA that computes the same."""
    found = dict(state)
    for name in [each for each in state if each.endswith(f".{DOWN}")]:
        stem = name.removesuffix(DOWN)
        down, up = found.pop(name), found.pop(f"{stem}{UP}")
        found[f"{stem}weight"] = found[f"{stem}weight"] + ALPHA * (up @ down)
    return found
