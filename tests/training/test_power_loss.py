"""The power goes at every moment of a run: what is on the disk then opens as an earlier state, or is no run yet."""

import os
from pathlib import Path

import pytest

from regard import files
from regard.runs.load import load_weights
from regard.runs.manifest import Entry, Manifest
from regard.runs.new_run import create_run
from regard.runs.run import Run
from regard.training.checkpoint import Checkpoints
from tests.power import Disk, lay_out, torn
from tests.training.cases import Tiny, losses, tiny, train

OPTIONS = {"steps": 9, "evaluate_every": 4, "save_every": 3, "average": 0.9, "decay": 0.5}
TOKENIZERS = (["one"], ["two"])
MANNERS = ("dropped", "named", "torn", "kept")


class Saved:
    """The last step of which the training said that it was saved."""

    def __init__(self):
        self.step = 0

    def saved(self, step):
        self.step = step


class Breaks:
    """Ends the training at a step that was not saved."""

    def __init__(self, at):
        self.at = at

    def stepped(self, step, *facts):
        if step == self.at:
            raise KeyboardInterrupt


def tell(folder, **options):
    """A run that is broken off in the middle and resumed: every moment of it, its losses, and what it published."""
    (folder / "runs").mkdir()
    saved, published, disk = Saved(), {}, Disk(folder / "runs")
    whole, watching = Run.publish, [saved, Breaks(at=5)]

    def publish(run, data):
        published[data] = None
        whole(run, data)

    with pytest.MonkeyPatch.context() as patch, disk.watching():
        disk.during = lambda: saved.step
        patch.setattr(Run, "publish", publish)
        with pytest.raises(KeyboardInterrupt):
            train(folder / "runs" / "a", observers=watching, sample=lambda model: "text", **options)
        for number in TOKENIZERS:
            Run.open(folder / "runs" / "a").write("tokenizer.json", number)
        run, _ = train(folder / "runs" / "a", resume=True, observers=[saved], **options)
    return disk.moments, losses(run), [*published]


def different(moments):
    """Each different state of the disk: (what came last, manner, the step that was told to be saved, files)."""
    seen, found = set(), []
    for words, by_manner, saved in moments:
        for manner in MANNERS:
            state = by_manner[manner]
            known = {path: b"" if path.endswith((".part", ".lock")) else data for path, data in state.items()}
            key = tuple(sorted(known.items(), key=lambda each: each[0]))
            if (key, saved) not in seen:
                seen.add((key, saved))
                found.append((words, manner, saved, state))
    return found


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    return tell(tmp_path_factory.mktemp("power"), **OPTIONS)


@pytest.fixture(scope="module")
def states(story):
    return different(story[0])


def test_the_story_is_long_and_loses_much(story, states):
    moments = story[0]
    kinds = {words.removeprefix("before ").split()[0] for words, *_ in moments}
    assert kinds == {"fsync", "replace", "mkdir", "unlink", "rmdir"} and len(moments) > 400
    assert len(states) > 180 and {manner for _, manner, *_ in states} == set(MANNERS)
    assert sum(by["dropped"] != by["kept"] for _, by, _ in moments) > len(moments) / 2


def test_every_moment_opens_as_an_earlier_state_or_is_no_run_yet(story, states, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    opened = sum(check(tmp_path / "disk", story[2], *each) for each in states)
    assert opened > 170


def check(folder, published, words, manner, saved, state):
    """Open what is left on the disk, and compare it with what was written; says whether there is a run."""
    where = f"{manner} after {words}"
    lay_out(state, folder)
    path = folder / "a"
    if not (path / "config.json").exists():
        assert not saved, where
        create_run(path, {})  # the name is free again
        return False
    run = Run.open(path)
    assert run.config.steps in (None, OPTIONS["steps"]), where
    assert run.read("tokenizer.json") in (None, *TOKENIZERS), where
    step = check_checkpoint(run, saved, where)
    if run.model_file.exists():
        assert files.read_bytes(run.verify("model.safetensors")) in published, where
        load_weights(run, Tiny())
    else:
        assert not saved, where
    run.cut(step)
    steps = [event["step"] for event in run.metrics() if event["event"] == "step"]
    assert steps == list(range(1, step + 1)), where
    return True


def check_checkpoint(run, saved, where):
    """The step to go on from: never one before the last that was told, and whole."""
    found, _ = Checkpoints(run.state).load()
    if found is None:
        assert saved == 0, where
        return 0
    assert found.step >= saved and found.facts["step"] == found.step, where
    found.verify()
    return found.step


def test_a_run_goes_on_from_moments_of_all_kinds_to_the_same_losses(story, states, tmp_path, monkeypatch):
    """A few moments of each manner, resumed to the end: the losses are those of a run that never lost its power."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    expected = story[1]
    by_manner = [[each for each in states if each[1] == manner] for manner in MANNERS]
    chosen = [each for some in by_manner for each in some[:: max(1, len(some) // 3)]]
    assert len(chosen) >= 10
    for words, manner, _, state in chosen:
        lay_out(state, tmp_path / "disk")
        run, _ = train(tmp_path / "disk" / "a", resume=True, model=tiny(), **OPTIONS)
        assert losses(run) == expected, f"{manner} after {words}"


# ── is it seen when something is wrong? ────────────────────────────────────────────────────────────────────────


def name_first(self, contents, *, new=False):
    """Files first, then their entries: as nobody should."""
    for name, data in contents.items():
        files.write_bytes(self.folder / name, data)
    fresh = {name: [Entry.of(data)] for name, data in contents.items()}
    self.keep(({} if new else self.read()) | fresh)


@pytest.mark.parametrize(
    "where, name, planted",
    [
        (files, "_sync", lambda path, mode: None),
        (files, "_sync_folder", lambda folder: None),
        (Manifest, "write", name_first),
    ],
)
def test_a_planted_mistake_is_seen(tmp_path, monkeypatch, where, name, planted):
    monkeypatch.setattr(where, name, planted)
    moments, _, published = tell(tmp_path, **OPTIONS)
    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    for each in different(moments):
        try:
            check(tmp_path / "disk", published, *each)
        except (AssertionError, ValueError, OSError):
            return
    pytest.fail("no moment was seen to be wrong")


def after(folder, work):
    """All states that the power may leave while something is done in a folder."""
    disk = Disk(folder)
    with disk.watching():
        work()
    return [(words, by) for words, by, _ in disk.moments]


def test_a_file_that_is_renamed_before_it_is_synced_is_seen_to_be_lost(tmp_path):
    (tmp_path / "a.json").write_text("old")

    def careless():
        (tmp_path / "part").write_text("new and long")
        os.replace(tmp_path / "part", tmp_path / "a.json")

    _, (_, last) = after(tmp_path, careless)
    assert last["kept"]["a.json"] == b"new and long"
    assert last["named"]["a.json"] == b""
    assert last["torn"]["a.json"] == b"new an" + bytes(6)


def test_a_name_that_is_not_synced_is_seen_to_be_lost(tmp_path):
    def careless():
        (tmp_path / "folder").mkdir()
        with open(tmp_path / "folder" / "x", "w") as file:
            file.write("x")
            file.flush()
            os.fsync(file.fileno())

    *_, (_, last) = after(tmp_path, careless)
    assert last["kept"] == {"folder": None, "folder/x": b"x"}
    assert last["dropped"] == {}


def test_what_is_written_as_it_should_be_survives(tmp_path):
    def careful():
        files.make_folder(tmp_path / "folder")
        files.write_text(tmp_path / "folder" / "x", "one")
        files.write_text(tmp_path / "folder" / "x", "two")

    moments = after(tmp_path, careful)
    seen = [by["dropped"].get("folder/x") for _, by in moments]
    assert seen[-1] == b"two" and set(seen) == {None, b"one", b"two"}
    assert [by["torn"].get("folder/x") for _, by in moments if by["torn"].get("folder/x")][-1] == b"two"


def test_torn_content():
    assert torn(b"abcd", b"abcd") == b"abcd"
    assert torn(b"abcdef", b"ab") == b"abcd\0\0"
    assert torn(b"abcd", None) == b"ab\0\0"


def test_only_one_place_writes():
    """Who else opened a file to write, in a run, would not be synced: the package's own writers are few, and known."""
    root = Path(files.__file__).parent
    known = {"files.py", "data/cache.py", "runs/lock.py", "look/reader.py"}
    known |= {"recipes/graphs/neighbours.py", "recipes/text/shards.py"}  # too large for one write: they sync themselves
    found = set()
    for path in root.rglob("*.py"):
        text = path.read_text("utf-8")
        signs = ('"wb")', '"w")', '"a")', '"ab")', "O_WRONLY", "O_RDWR", ".write_text(", ".write_bytes(", "np.save(")
        lines = [line for line in text.splitlines() if any(sign in line for sign in signs)]
        lines = [line for line in lines if "files.write_" not in line and "os.devnull" not in line]
        if lines:
            found.add(str(path.relative_to(root)))
    assert found <= known, sorted(found - known)
    assert "files.py" in found
