"""When a checkpoint is written: at once, or beside the training from a copy in memory; and what is published of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from regard.runs.run import Run
from regard.training.checkpoint import Checkpoint, Checkpoints
from regard.training.facts import Facts
from regard.training.step import Stepper


class Saves:
    """The checkpoints of a training. beside: write them in a thread, while the next steps are computed

    One is written at a time. What counts is as before: latest.json names a checkpoint once it is whole. So a kill
    while one is written loses the steps since the one before.
    """

    def __init__(self, run: Run, beside: bool) -> None:
        self.run, self.beside = run, beside
        self.checkpoints = Checkpoints(run.state)
        self.writing: dict[str, Any] | None = None  # the facts of the checkpoint that is being written
        self.thread: threading.Thread | None = None
        self.error: BaseException | None = None

    def has(self, facts: Facts) -> bool:
        """Is the last checkpoint, or the one that is being written, up to date?"""
        kept = self.checkpoints.kept
        last = kept[0].facts if kept else None
        if self.writing is not None:
            last = self.writing
        return last is not None and Facts(**last | {"seconds": facts.seconds}) == facts

    def save(self, stepper: Stepper, facts: Facts) -> None:
        """Write a checkpoint of this step; publish the model if it is the best, or if none was evaluated yet."""
        self.wait()
        if not self.beside:
            self._write(facts.step, stepper.write_state, asdict(facts))
            return
        self.writing = asdict(facts)
        folder = self.checkpoints.folder / str(facts.step)
        work = (facts.step, stepper.copy_state(folder), self.writing)
        self.thread = threading.Thread(target=self._try, args=work, name="checkpoint")
        self.thread.start()

    def wait(self) -> None:
        """Until nothing is being written; raises what went wrong there."""
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        self.writing = None
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def publish(self, checkpoint: Checkpoint) -> None:
        self.run.publish(checkpoint.weights())

    def _try(self, *work: Any) -> None:
        try:
            self._write(*work)
        except BaseException as error:
            self.error = error

    def _write(self, step: int, state: Callable[..., None], facts: dict[str, Any]) -> None:
        made = self.checkpoints.save(step, state, facts)
        if facts["best_step"] in (step, None):
            self.publish(made)
