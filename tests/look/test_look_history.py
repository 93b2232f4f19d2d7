"""What a run tells of itself: the same words for a loss as everywhere else, and settings by their whole names."""

from dataclasses import replace

from torch import nn

from regard.look.plot import drawn_curves
from regard.look.views import history
from regard.runs.evaluations import LAST
from regard.runs.number_format import say_loss
from regard.runs.run_config import RunConfig


class Told:
    """A run with these settings and looks at its validation split."""

    def __init__(self):
        data = {"path": None, "augment": {"crop": 0.125, "flip": False}}
        self.config = RunConfig(regard="0", data=data, processor={"labels": ["a", "b"], "skipped": []})

    def metrics(self):
        return [
            {"event": "validation", "step": step, "loss": loss}
            for step, loss in ((10, 0.0302), (20, 0.030149), (30, 0.2))
        ]

    def environment(self):
        return {"torch": "2", "machine": {"cores": 2}}


def test_the_best_loss_is_written_as_in_the_terminal():
    best = history.curves(Told())["best"]
    assert best == {"which": "best", "point": [20, 0.030149], "said": "loss 0.0301"}
    assert history.best_scores(Told())["validation"]["loss"] == say_loss(0.030149) == "0.0301"
    assert drawn_curves(Told().metrics(), "run").startswith(b"\x89PNG")


def test_the_last_weights_are_not_called_the_best():
    run = Told()
    run.config = replace(run.config, keep=LAST)
    assert history.curves(run)["best"] == {"which": "last", "point": [30, 0.2], "said": "loss 0.2000"}


def test_settings_are_told_by_their_whole_names():
    rows = dict(history.about(nn.Linear(2, 2), "mine", Told())["rows"])
    assert rows["data.augment.crop"] == "0.125" and rows["data.augment.flip"] == "no" and "data.path" not in rows
    assert rows["processor.labels"] == "a, b" and rows["processor.skipped"] == "none" and rows["machine.cores"] == "2"
