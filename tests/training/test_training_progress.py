"""What is told to whom: lines, the bar, the file of metrics, TensorBoard."""

import io
import itertools
import math
import re
import sys
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from regard.runs.new_run import create_run
from regard.runs.number_format import say_loss, say_time
from regard.runs.run import Run
from regard.runs.run_config import RunConfig
from regard.training.progress import Bar, Board, Lines, Metrics, Observer, Result, Speed, how_to_go_on, watch
from tests.training.cases import losses, says, train


@pytest.fixture
def steady(monkeypatch):
    """A clock that goes on by a millisecond whenever it is read: what is shown, and when, does not depend on the machine."""
    ticks = itertools.count(10**6)
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) / 1000)


def test_lines(tmp_path, steady):
    stream = io.StringIO()
    train(tmp_path / "run", observers=[Lines(stream, every=0)], sample=lambda model: "a sample")
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("step 1/12  loss ") and " tokens/s  0:0" in lines[0] and lines[0].endswith(" left")
    assert lines[4].startswith("step 4/12  loss ") and "  validation " in lines[4] and lines[4].endswith("%")
    assert [line for line in lines if "sample" in line] == ["── sample after step 12 ──", "a sample"]
    assert lines[-2].startswith("12 steps in 0:0") and "; best validation " in lines[-2]
    assert lines[-1].startswith("kept: the weights of step ")


def test_lines_are_rare_by_default(tmp_path, steady):
    stream = io.StringIO()
    train(tmp_path / "run", observers=[Lines(stream)], evaluate_every=12)
    assert [line.split()[0] for line in stream.getvalue().splitlines()] == ["step", "step", "12", "kept:"]


def test_a_long_training_is_few_lines(tmp_path):
    stream = io.StringIO()
    lines = Lines(stream, every=0)
    lines.started(create_run(tmp_path, {}), 5000, 0)
    for step in range(1, 5001):
        lines.stepped(step, 1.0, 10, 0.1)
        if step % 5 == 0:
            lines.evaluated(step, {"loss": 1.0})
            lines.sampled(step, "words")
    assert len(stream.getvalue().splitlines()) <= 25 and "sample after step 5,000" in stream.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_bar(tmp_path, terminal, steady):
    stream = io.StringIO()
    bar = Bar(Console(file=stream, force_terminal=terminal, width=160))
    train(tmp_path / "run", observers=[bar], sample=lambda model: "[b]a sample[/b]")
    shown = stream.getvalue()
    assert "12/12" in shown and "tokens/s" in shown and "validation" in shown and "kept: the weights of step " in shown
    assert "[b]a sample[/b]" in shown  # a text is no markup
    assert not bar.progress.live.is_started


def test_the_bar_is_taken_down_when_it_fails(tmp_path):
    class Fails:
        def stepped(self, *facts):
            raise RuntimeError("no")

    bar = Bar(Console(file=io.StringIO(), force_terminal=True))
    with pytest.raises(RuntimeError):
        train(tmp_path / "run", observers=[bar, Fails()])
    assert not bar.progress.live.is_started
    assert len(Run.open(tmp_path / "run").metrics()) == 1  # and what was heard is in the file


def test_where_it_goes(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert isinstance(watch(), Lines)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert isinstance(watch(), Bar)


def test_a_resumed_run_and_notes_are_told(tmp_path):
    run = create_run(tmp_path, {})
    plain, fancy = io.StringIO(), io.StringIO()
    bar = Bar(Console(file=fancy, force_terminal=True, width=200))
    for observer, stream in ((Lines(plain), plain), (bar, fancy)):
        observer.started(run, None, 30)
        observer.noted("mind the [gap]")
        observer.decided(40)
        observer.ended(Result(step=31, steps=40, reason="stopped"))
        observer.described("3 rows, 2 weights")
        observer.concluded("test accuracy 75.0% of 12 [rows]")
        assert "test accuracy 75.0% of 12 [rows]\n" in stream.getvalue()
        observer.sampled(40, "once [upon]")
        assert "3 rows, 2 weights" in stream.getvalue()
        assert "── sample after step 40 ──" in stream.getvalue() and "once [upon]" in stream.getvalue()
        assert f"going on from step 30 in {tmp_path}" in stream.getvalue()
        assert "note: mind the [gap]" in stream.getvalue()
        assert re.search("step 31 of 40.*--resume", stream.getvalue())


@pytest.mark.parametrize(
    "loss, said",
    [
        (2.34567, "2.3457"),
        (0.01, "0.0100"),
        (0.0058642, "0.00586"),
        (3.2e-7, "3.20e-07"),
        (0.0, "0.0000"),
        (-0.00123, "-0.00123"),
        (math.nan, "nan"),
    ],
)
def test_a_small_loss_can_be_read(loss, said):
    assert say_loss(loss) == said


def test_how_to_go_on_is_the_whole_command(tmp_path):
    def said(**sections):
        return Result(
            step=3,
            steps=9,
            reason="stopped",
            again=how_to_go_on(Run(Path("my runs/one"), RunConfig(regard="0", **sections))),
        ).say()

    assert (
        said(recipe="text")
        == "stopped at step 3 of 9 and saved; go on with regard train text --resume --out 'my runs/one'"
    )
    for sections in ({"kind": None}, {"recipe": "graphs", "given": "Data"}):  # what no command can give
        assert said(**sections).endswith("go on with the same call and out='my runs/one', resume=True")


def test_metrics_wait_a_second_and_keep_their_step(tmp_path):
    run = create_run(tmp_path, {})
    metrics = Metrics(run)
    metrics.start(4, 100.0)
    metrics.noted("here")
    metrics.stepped(5, 0.1 + 0.2, 8, 0.01)
    assert run.metrics() == []
    metrics.flush()
    note, step = run.metrics()
    assert (note["step"], note["event"], note["text"]) == (4, "note", "here")
    assert (step["step"], step["event"], step["loss"], step["tokens"]) == (5, "step", 0.1 + 0.2, 8)
    assert 100 <= note["seconds"] <= step["seconds"] < 160


def test_an_observer_may_care_about_nothing(tmp_path):
    class Deaf:
        pass

    _, watched = train(tmp_path / "run", steps=2, observers=[Observer(), Deaf()])
    _, alone = train(tmp_path / "alone", steps=2)
    assert (watched.reason, watched.step, watched.loss) == ("done", 2, alone.loss)


def test_tensorboard_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=says("TensorBoard", "pip install 'regard[tensorboard]'")):
        train(tmp_path / "run", tensorboard=True)


def test_tensorboard_reads_back_what_was_told(tmp_path):
    """Killed in step 4 with step 2 saved, and resumed: each step is there once, with the exact loss of metrics.jsonl."""

    class Killed(Exception):
        pass

    class KillAt4:
        def stepped(self, step, *facts):
            if step == 4:
                raise Killed

    how = {"tensorboard": True, "steps": 4, "evaluate_every": 4, "save_every": 2, "sample": lambda model: "[a sample]"}
    with pytest.raises(Killed):
        train(tmp_path / "run", observers=[KillAt4()], **how)
    run, _ = train(tmp_path / "run", resume=True, **how)
    board = EventAccumulator(str(run.path / "tensorboard")).Reload()
    assert set(board.Tags()["scalars"]) == {
        "loss/training",
        "tokens a second",
        "loss/validation",
        "accuracy/validation",
    }
    assert scalars(board, "loss/training") == [(step, float32(loss)) for step, loss in losses(run)]
    assert scalars(board, "loss/validation") == [(4, float32(losses(run, "validation")[0][1]))]
    assert [step for step, speed in scalars(board, "tokens a second") if speed > 0] == [1, 2, 3, 4]
    (sample,) = board.Tensors("sample/text_summary")
    assert (sample.step, sample.tensor_proto.string_val) == (4, [b"[a sample]"])
    Board().failed(RuntimeError())  # before it started: there is nothing to close


def scalars(board, name):
    return [(event.step, event.value) for event in board.Scalars(name)]


def float32(value):
    return torch.tensor(value).item()


@pytest.mark.parametrize("seconds, said", [(0.4, "0:00"), (61, "1:01"), (3661, "1:01:01")])
def test_times(seconds, said):
    assert say_time(seconds) == said


def test_speed_is_smoothed():
    speed = Speed()
    assert math.isnan(speed.loss) and speed.say() == ""
    speed.start(10, 2)
    speed.add(3, 5.0, 100, 0.1)
    assert speed.loss == 5.0 and speed.say().startswith("1,000 tokens/s  0:00 left")
    speed.add(4, 4.0, 100, 0.1)
    assert speed.loss == pytest.approx(4.9)


@pytest.mark.parametrize("steps, said", [(1, "only one step"), (42, "only 42 steps"), (4200, "4,200 steps")])
def test_few_steps_in_a_budget_are_said_on_a_terminal_too(tmp_path, steps, said):
    lines, console = io.StringIO(), io.StringIO()
    bar = Bar(Console(file=console, width=200))
    for observer in (Lines(lines), bar):
        observer.started(create_run(tmp_path / type(observer).__name__, {}), None, 0)
        observer.decided(steps)
    bar.progress.stop()
    assert said in lines.getvalue()
    assert (said in console.getvalue()) == (steps < 100)  # a bar shows how many there are
