"""Two starts in one folder: one of them trains, the others get an error and touch nothing, however locks are made."""

import errno
import os
import socket
import threading
import time

import pytest
import torch

from regard.runs.lock import FILE, OWNER, exclusive_lock
from regard.runs.new_run import new_run
from regard.runs.run import Run
from regard.training.checkpoint import Checkpoints, write_files

ROUNDS, STARTS = {"locks": 8}, 4  # of other ways of locking: 2 rounds


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def write_weights(folder):
    write_files(folder, {"model": {"w": torch.zeros(2)}})


def start(path, ready, go, fails=False):
    """What a training does, as far as files go. Exit code 0: it trained; 3: it was refused; 4: it failed as asked."""
    code = 1
    try:
        os.write(ready, b".")
        os.read(go, 1)  # all begin at once
        with new_run(path) as create:
            run = create({"module": str(os.getpid())})
            run.append([{"step": 0, "event": "note"}])
            time.sleep(0.01)
            if fails:
                raise KeyboardInterrupt
            run.append([{"step": 1, "event": "step"}])
            made = Checkpoints(run.state).save(1, write_weights, {"step": 1})
            run.publish(made.weights())
        code = 0
    except (FileExistsError, ValueError) as error:
        # the last: another start is just being taken away
        words = ("holds a run already", "is training in", "is not empty")
        code = 3 if any(each in str(error) for each in words) else 5
    except KeyboardInterrupt:
        code = 4
    finally:
        os._exit(code)


def start_together(path, fails=()):
    """Starts that begin at the same moment; {process: exit code}."""
    (told, ready), (go, gate) = os.pipe(), os.pipe()
    processes = []
    for number in range(STARTS):
        process = os.fork()
        if process == 0:
            start(path, ready, go, fails=number in fails)
        processes.append(process)
    for _ in processes:
        os.read(told, 1)
    os.write(gate, b"." * STARTS)
    codes = {each: os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in processes}
    for handle in (told, ready, go, gate):
        os.close(handle)
    return codes


def no_locks(number):
    """A file system that has no locks, as some that are mounted over a network."""

    def patch(monkeypatch):
        import fcntl

        def refuse(*what):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", refuse)

    return patch


HOW = {"locks": lambda monkeypatch: None, "refused": no_locks(errno.ENOLCK), "missing": no_locks(errno.ENOSYS)}


@pytest.mark.parametrize("how", HOW)
def test_of_several_starts_at_once_one_trains_and_keeps_its_run(tmp_path, monkeypatch, how):
    HOW[how](monkeypatch)
    for number in range(ROUNDS.get(how, 2)):
        path = tmp_path / "runs" / str(number)
        codes = start_together(path)
        assert sorted(codes.values()) == [0] + [3] * (STARTS - 1)
        (winner,) = [process for process, code in codes.items() if code == 0]
        run = Run.open(path)
        assert run.config.module == str(winner) and len(run.metrics()) == 2
        assert run.verify("model.safetensors").exists() and Checkpoints(run.state).load()[0].step == 1
        assert not (run.state / OWNER).exists()


@pytest.mark.parametrize("how", HOW)
def test_a_start_that_fails_takes_away_only_its_own(tmp_path, monkeypatch, how):
    """Two of four fail after they began: whoever trained has the run, and if nobody did, nothing is left."""
    HOW[how](monkeypatch)
    for number in range(ROUNDS.get(how, 2)):
        path = tmp_path / str(number)
        codes = start_together(path, fails=(0, 1))
        done = [process for process, code in codes.items() if code == 0]
        assert len(done) <= 1 and set(codes.values()) <= {0, 3, 4}
        if done:
            run = Run.open(path)
            assert run.config.module == str(done[0]) and run.verify("model.safetensors").exists()
        else:
            assert not Run.exists(path)
            assert start_and_wait(path) == 0  # its name is free


def start_and_wait(path):
    process = os.fork()
    if process == 0:
        reading, writing = os.pipe()
        os.write(writing, b".")
        start(path, os.open(os.devnull, os.O_WRONLY), reading)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_a_start_that_fails_leaves_the_folders_that_were_there(tmp_path):
    (tmp_path / "there").mkdir()
    for path, kept in ((tmp_path / "there", True), (tmp_path / "new" / "deep", False)):
        for made in (True, False):
            with pytest.raises(ZeroDivisionError):
                start_then_fail(path, made)
            assert path.exists() == kept and (not kept or not list(path.iterdir()))
    assert not (tmp_path / "new").exists()


def start_then_fail(path, made):
    """Before or after the run is made."""
    with new_run(path) as create:
        if made:
            create({})
        raise ZeroDivisionError


def test_a_start_in_a_folder_of_others_touches_nothing(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"mine\.txt"), new_run(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def train_then_fail(path, gone):
    with new_run(path) as create:
        run = create({})
        run.append([{"step": 1, "event": "step", "loss": 1.0}])
        if gone is not None:
            (path / gone).unlink()
        raise ZeroDivisionError


def test_a_trained_run_is_never_discarded(tmp_path):
    """Not even one whose config.json is gone by then."""
    for gone in (None, "config.json", "manifest.json"):
        path = tmp_path / str(gone)
        with pytest.raises(ZeroDivisionError):
            train_then_fail(path, gone)
        assert (path / "metrics.jsonl").exists() and (path / "state").is_dir()


def test_who_holds_the_lock_may_ask_again_and_another_thread_may_not(tmp_path):
    said = []

    def other():
        try:
            with exclusive_lock(tmp_path / "state"):
                said.append("mine, too")
        except ValueError as error:
            said.append(str(error))

    with exclusive_lock(tmp_path / "state") as lock, exclusive_lock(tmp_path / "state") as again:
        assert lock is again and lock.is_ours()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(said) == 1 and f"process {os.getpid()} on {socket.gethostname()} is training in {tmp_path}" in said[0]
    other()
    assert said[1] == "mine, too"


def test_a_lock_of_a_folder_that_was_made_anew_is_no_longer_ours(tmp_path):
    with exclusive_lock(tmp_path / "state") as lock:
        (tmp_path / "state" / FILE).unlink()
        assert not lock.is_ours()
        (tmp_path / "state" / FILE).write_text("")
        assert not lock.is_ours()


def lock_and_die(folder):
    process = os.fork()
    if process == 0:
        with exclusive_lock(folder):
            os._exit(0)  # as if it was killed
    os.waitpid(process, 0)


@pytest.mark.filterwarnings("ignore:flock not supported")
@pytest.mark.parametrize("how", HOW)
def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path, monkeypatch, how):
    HOW[how](monkeypatch)
    lock_and_die(tmp_path / "state")
    with exclusive_lock(tmp_path / "state") as lock:
        assert lock.is_ours()
    assert not (tmp_path / "state" / OWNER).exists()


def test_a_child_that_outlives_its_parent_holds_no_lock(tmp_path):
    """As a worker of a training that was killed."""
    (told, ready), (gate, go) = os.pipe(), os.pipe()
    process = os.fork()
    if process == 0:
        with exclusive_lock(tmp_path / "state"):
            if os.fork() == 0:
                os.write(ready, b".")
                os.read(gate, 1)
            os._exit(0)
    os.waitpid(process, 0)
    os.read(told, 1)
    with exclusive_lock(tmp_path / "state"):
        pass
    os.write(go, b".")


def test_where_nothing_can_be_locked_who_left_it_on_another_machine_is_named(tmp_path, monkeypatch):
    no_locks(errno.ENOLCK)(monkeypatch)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / OWNER).write_text("17\nelsewhere\n")
    with (
        pytest.raises(ValueError, match=f"process 17 on elsewhere is training .*delete .*{OWNER}"),
        exclusive_lock(tmp_path / "state"),
    ):
        pass
    (tmp_path / "state" / OWNER).unlink()
    with exclusive_lock(tmp_path / "state"):
        pass
    assert not (tmp_path / "state" / OWNER).exists()
