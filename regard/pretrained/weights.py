"""What was read of other people's files: a config of ours, and the tensors for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard import registry
from regard.data.chat_template import ChatTemplate
from regard.errors import RegardError
from regard.models.memory_estimate import OnlyShapes, build_within_memory


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A model of ours with weights of others.

    kind       of the model, by its name in the registry
    origin     where it is from: "llama", or "gguf llama"
    predicts   "tokens", "classes" or "features"
    labels     names of its classes, where it has some
    tokenizer  the content of a tokenizer.json; None: there was none
    ends       ids that end a text
    chat       how it was taught to read messages; None: it has no chat template
    images     how images are prepared: their size, mean and standard deviation; None: nothing was said
    notes      what a reader should know, such as tensors that were left out
    """

    kind: str
    config: Any
    state: Mapping[str, Tensor]
    origin: str
    predicts: str = "tokens"
    labels: tuple[str, ...] = ()
    tokenizer: dict[str, Any] | None = None
    ends: tuple[int, ...] = ()
    chat: ChatTemplate | None = None
    images: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    where: str = ""
    left_out: tuple[str, ...] = ()  # names of their tensors that the model does not need

    def check(self) -> None:
        """Raise unless each parameter of the model has a tensor of its shape, without NaN and infinity."""
        cls = registry.find("models", self.kind)
        with torch.random.fork_rng(devices=[]), torch.device("meta"), OnlyShapes():
            wanted = {name: tuple(tensor.shape) for name, tensor in cls(self.config).state_dict().items()}
        found = {name: tuple(tensor.shape) for name, tensor in self.state.items()}
        for name in sorted(wanted.keys() | found.keys()):
            if wanted.get(name) != found.get(name):
                raise RegardError(
                    f"the weights of {self.where} do not fit its configuration: '{name}' is "
                    f"{found.get(name, 'missing')} in the file and {wanted.get(name, 'unknown')} in the model"
                )
        for name, tensor in self.state.items():
            if not bool(tensor.isfinite().all()):
                raise RegardError(f"the weights of {self.where} cannot be used: '{name}' holds NaN or infinity")

    def build(self) -> nn.Module:
        """The model, ready for use."""
        self.check()
        model = build_within_memory(registry.find("models", self.kind), self.config)
        model.load_state_dict(dict(self.state))
        return model.eval()
