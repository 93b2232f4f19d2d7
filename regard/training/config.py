"""How a model is trained: the settings of the loop, of the optimiser and of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config import check_positive
from regard.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained. A budget in minutes becomes a number of steps once, after a short timing, and
    stays that."""

    minutes: float | None = 2.0  # the budget in minutes
    steps: int | None = None  # the budget as a number of steps; minutes then do not count
    batch: int = 32  # rows in a batch
    accumulate: int = 1  # batches in a step: the same as one batch so many times larger, in the memory of one
    # muon: for the matrices of the body, with AdamW for the rest
    optimiser: Literal["muon", "adamw", "sgd"] = "muon"
    # the learning rate at its highest; None: 0.02 for muon, 0.001 for adamw, 0.1 for sgd
    lr: float | None = None
    adam_lr: float | None = None  # of the AdamW that goes with muon; None: 0.3 of lr
    momentum: float | None = None  # None: 0.95 for muon, 0.9 for sgd (AdamW has 0.9 and 0.95)
    weight_decay: float = 0.1  # of matrices; norms, biases and embeddings have none
    decay_all: bool = False  # weight decay for norms, biases and embeddings, too
    warmup: int = 20  # steps in which the learning rate rises
    decay: float = 0.6  # share of the steps, at the end, in which the learning rate falls to zero
    clip: float | None = 1.0  # the largest norm of the gradient; None: as it comes
    # auto: bfloat16 where the hardware multiplies it at full speed
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False  # torch.compile: slow to start, faster after
    recompute: bool = False  # recompute activations in the backward pass: less memory, a third more time
    # keep an exponential average of the weights (0.999, say), and judge and publish that
    average: float | None = None
    # steps between looks at the validation split; None: ten in a run, fewer in a short one
    evaluate_every: int | None = None
    patience: int | None = None  # stop after so many looks without a better validation loss; None: never
    save_minutes: float = 5.0  # minutes between checkpoints, besides those of a new best
    save_every: int | None = None  # steps between checkpoints instead
    seed: int = 0  # the same seed, steps and threads give the same losses, bit for bit on a CPU
    device: str = "auto"  # auto: an accelerator if there is one
    tensorboard: bool = False  # also write TensorBoard events

    def __post_init__(self) -> None:
        check_positive(self, "batch", "accumulate", "save_minutes")
        optional = ("minutes", "steps", "lr", "adam_lr", "clip", "evaluate_every", "patience", "save_every")
        check_positive(self, *(name for name in optional if getattr(self, name) is not None))
        for name, low, high in (
            ("weight_decay", 0, None),
            ("warmup", 0, None),
            ("decay", 0, 1),
            ("seed", 0, None),
        ):
            value = getattr(self, name)
            if not value >= low or (high is not None and value > high):
                if high is None:
                    limits = f"at least {low}"
                else:
                    limits = f"from {low} to {high}"
                raise RegardError(f"{name} must be {limits}, got {value}")
        for name in ("momentum", "average"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise RegardError(f"{name} must be at least 0 and below 1, got {value}")
        if self.steps is None and self.minutes is None:
            raise RegardError("a training needs a budget; give minutes or steps")
        if self.steps is None and self.decay > 0.9:
            raise RegardError(
                "decay must be at most 0.9 with a budget in minutes, because the first steps are timed "
                f"before the number of steps is known, got {self.decay}; give steps instead"
            )
        if self.adam_lr is not None and self.optimiser != "muon":
            raise RegardError(f"adam_lr goes with muon, got optimiser={self.optimiser!r}; give lr")
        if self.momentum is not None and self.optimiser == "adamw":
            raise RegardError("momentum goes with muon or sgd, got optimiser='adamw'; leave it out")

    @property
    def peak_lr(self) -> float:
        if self.lr is None:
            return {"muon": 0.02, "adamw": 1e-3, "sgd": 0.1}[self.optimiser]
        return self.lr
