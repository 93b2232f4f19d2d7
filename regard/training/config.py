"""How a model is trained: the settings of the loop, of the optimiser and of the budget."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from regard.config import Amount, Fraction, Natural, Positive, Rare, Seed, Share, Size, Weight, config
from regard.errors import RegardError

Processes = Annotated[int, Field(ge=1, le=256)]
Threads = Annotated[int, Field(ge=1, le=4096)]


@config
class TrainConfig:
    """How a model is trained. A budget in minutes is planned from the first steps, and planned again as steps
    turn out faster or slower."""

    minutes: Amount | None = 2.0  # the budget in minutes
    steps: Positive | None = None  # the budget in steps; it replaces minutes
    batch: Size = 32  # rows in a batch
    # batches per step: same as one batch this many times larger, with the memory of one
    accumulate: Rare[Size] = 1
    # muon: Muon for the matrices of the body, AdamW for the rest; adam: weight decay is part of the gradient
    optimiser: Literal["muon", "adamw", "adam", "sgd"] = "muon"
    # the peak learning rate; None: 0.02 for muon, 0.001 for adamw and adam, 0.1 for sgd
    lr: Amount | None = None
    adam_lr: Rare[Amount | None] = None  # peak learning rate of the AdamW beside muon; None: 0.3 of lr
    # None: 0.95 for muon, 0.9 for sgd (AdamW has 0.9 and 0.95, Adam 0.9 and 0.999)
    momentum: Rare[Share | None] = None
    weight_decay: Rare[Weight] = 0.1  # of matrices; not of norms, biases and embeddings
    decay_all: Rare[bool] = False  # weight decay also for norms, biases and embeddings
    # by what the learning rate falls from each block to the one below it, in fine-tuning (0.8, say); 1: the same for all
    layer_decay: Rare[Annotated[float, Field(gt=0, le=1)]] = 1.0
    warmup: Rare[Natural] = 20  # steps in which the learning rate rises
    decay: Rare[Fraction] = 0.6  # share of the steps, at the end, in which the learning rate falls to 0
    clip: Rare[Amount | None] = 1.0  # largest norm of the gradient; None: no clipping
    # auto: bfloat16 where the hardware multiplies it at full speed
    precision: Rare[Literal["auto", "float32", "bfloat16"]] = "auto"
    compile: Rare[bool] = False  # torch.compile: slow to start, faster after
    # recompute activations in the backward pass: less memory, a third more time
    recompute: Rare[bool] = False
    # decay (0.999, say) of a moving average of the weights, which is evaluated and saved; None: no average
    average: Rare[Share | None] = None
    # steps between evaluations on the validation split; None: ten in a run, fewer in a short one
    evaluate_every: Positive | None = None
    # the weights that are kept: those with the lowest validation loss, the highest validation accuracy, or the
    # highest bleu of translations (of equal ones, the lowest loss); auto: accuracy for classes, else loss
    keep: Rare[str] = "auto"
    # stop after this many evaluations without better weights (see keep); None: never
    patience: Positive | None = None
    save_minutes: Rare[Amount] = 5.0  # minutes between checkpoints; better weights are saved at once
    save_every: Rare[Positive | None] = None  # steps between checkpoints instead
    # write checkpoints beside the training, from a copy in memory: it goes on sooner and needs that memory
    save_beside: Rare[bool] = False
    # train once for each of so many seeds, from `seed` on, and give mean and standard deviation; None: once
    seeds: Annotated[int, Field(ge=2, le=1024)] | None = None
    seed: Seed = 0  # the same seed, steps and threads give the same losses, bit for bit on a CPU
    device: str = "auto"  # auto: an accelerator if there is one
    # threads of the processor; None: all, or with a budget in minutes one if steps are faster with it
    threads: Rare[Threads | None] = None
    # train with so many processes on this machine, each on its slice of the batch; None: one, or as many as torchrun
    # started
    processes: Processes | None = None
    # ddp: every process has all weights; fsdp: each has a part of them; auto: fsdp if they would not fit otherwise
    parallel: Rare[Literal["auto", "ddp", "fsdp"]] = "auto"
    timeout: Rare[Amount] = 10.0  # minutes after which a process that does not answer is given up
    tensorboard: Rare[bool] = False  # also write TensorBoard events
    # keep a few examples of the test (or validation) split in the run, for its report and for regard look
    examples: Rare[bool] = True
    # also record who trained it, on which machine, in which folder and with which command
    provenance: Rare[bool] = False

    def __post_init__(self) -> None:
        if self.steps is None and self.minutes is None:
            raise RegardError("training needs a budget, got minutes=None and steps=None; give minutes or steps")
        if self.steps is None and self.decay > 0.9:
            raise RegardError(
                "must be at most 0.9 with a budget in minutes, because the first steps are timed before the "
                f"number of steps is known, got {self.decay}; give steps instead",
                option="decay",
            )
        if self.adam_lr is not None and self.optimiser != "muon":
            raise RegardError(f"goes with muon, got optimiser={self.optimiser!r}; give lr", option="adam_lr")
        if self.momentum is not None and self.optimiser in ("adamw", "adam"):
            raise RegardError(
                f"goes with muon or sgd, got optimiser={self.optimiser!r}; leave it out", option="momentum"
            )

    @property
    def peak_lr(self) -> float:
        if self.lr is None:
            return {"muon": 0.02, "adamw": 1e-3, "adam": 1e-3, "sgd": 0.1}[self.optimiser]
        return self.lr
