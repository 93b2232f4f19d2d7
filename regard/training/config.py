"""How a model is trained: the settings of the loop, of the optimiser and of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config import check_positive, check_sizes
from regard.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained. A budget in minutes is planned from the first steps, and planned again as steps
    turn out faster or slower."""

    minutes: float | None = 2.0  # the budget in minutes
    steps: int | None = None  # the budget in steps; it replaces minutes
    batch: int = 32  # rows in a batch
    accumulate: int = 1  # batches per step: same as one batch this many times larger, with the memory of one
    # muon: Muon for the matrices of the body, AdamW for the rest; adam: weight decay is part of the gradient
    optimiser: Literal["muon", "adamw", "adam", "sgd"] = "muon"
    # the peak learning rate; None: 0.02 for muon, 0.001 for adamw and adam, 0.1 for sgd
    lr: float | None = None
    adam_lr: float | None = None  # peak learning rate of the AdamW beside muon; None: 0.3 of lr
    momentum: float | None = (
        None  # None: 0.95 for muon, 0.9 for sgd (AdamW has 0.9 and 0.95, Adam 0.9 and 0.999)
    )
    weight_decay: float = 0.1  # of matrices; not of norms, biases and embeddings
    decay_all: bool = False  # weight decay also for norms, biases and embeddings
    # by what the learning rate falls from each block to the one below it, in fine-tuning (0.8, say); 1: the same for all
    layer_decay: float = 1.0
    warmup: int = 20  # steps in which the learning rate rises
    decay: float = 0.6  # share of the steps, at the end, in which the learning rate falls to 0
    clip: float | None = 1.0  # largest norm of the gradient; None: no clipping
    # auto: bfloat16 where the hardware multiplies it at full speed
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False  # torch.compile: slow to start, faster after
    recompute: bool = False  # recompute activations in the backward pass: less memory, a third more time
    # decay (0.999, say) of a moving average of the weights, which is evaluated and saved; None: no average
    average: float | None = None
    # steps between evaluations on the validation split; None: ten in a run, fewer in a short one
    evaluate_every: int | None = None
    # the weights that are kept: those with the lowest validation loss, the highest validation accuracy, or the
    # highest bleu of translations (of equal ones, the lowest loss); auto: accuracy for classes, else loss
    keep: str = "auto"
    # stop after this many evaluations without better weights (see keep); None: never
    patience: int | None = None
    save_minutes: float = 5.0  # minutes between checkpoints; better weights are saved at once
    save_every: int | None = None  # steps between checkpoints instead
    # write checkpoints beside the training, from a copy in memory: it goes on sooner and needs that memory
    save_beside: bool = False
    # train once for each of so many seeds, from `seed` on, and give mean and standard deviation; None: once
    seeds: int | None = None
    seed: int = 0  # the same seed, steps and threads give the same losses, bit for bit on a CPU
    device: str = "auto"  # auto: an accelerator if there is one
    # threads of the processor; None: all, or with a budget in minutes one if steps are faster with it
    threads: int | None = None
    # train with so many processes on this machine, each on its slice of the batch; None: one, or as many as torchrun
    # started
    processes: int | None = None
    # ddp: every process has all weights; fsdp: each has a part of them; auto: fsdp if they would not fit otherwise
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"
    timeout: float = 10.0  # minutes after which a process that does not answer is given up
    tensorboard: bool = False  # also write TensorBoard events
    # keep a few examples of the test (or validation) split in the run, for its report and for regard look
    examples: bool = True
    # also record who trained it, on which machine, in which folder and with which command
    provenance: bool = False

    def __post_init__(self) -> None:
        check_sizes(self)
        check_positive(self, "batch", "accumulate", "save_minutes", "timeout")
        optional = ("minutes", "steps", "lr", "adam_lr", "clip", "evaluate_every", "patience", "save_every")
        check_positive(
            self, *(name for name in (*optional, "threads", "processes") if getattr(self, name) is not None)
        )
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
        if not 0 < self.layer_decay <= 1:
            raise RegardError(f"layer_decay must be above 0 and at most 1, got {self.layer_decay}")
        if self.seeds is not None and self.seeds < 2:
            raise RegardError(f"seeds must be at least 2, got {self.seeds}; leave it out to train once")
        if self.steps is None and self.minutes is None:
            raise RegardError(
                "training needs a budget, got minutes=None and steps=None; give minutes or steps"
            )
        if self.steps is None and self.decay > 0.9:
            raise RegardError(
                "decay must be at most 0.9 with a budget in minutes, because the first steps are timed "
                f"before the number of steps is known, got {self.decay}; give steps instead"
            )
        if self.adam_lr is not None and self.optimiser != "muon":
            raise RegardError(f"adam_lr goes with muon, got optimiser={self.optimiser!r}; give lr")
        if self.momentum is not None and self.optimiser in ("adamw", "adam"):
            raise RegardError(
                f"momentum goes with muon or sgd, got optimiser={self.optimiser!r}; leave it out"
            )

    @property
    def peak_lr(self) -> float:
        if self.lr is None:
            return {"muon": 0.02, "adamw": 1e-3, "adam": 1e-3, "sgd": 0.1}[self.optimiser]
        return self.lr
