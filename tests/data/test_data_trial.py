"""What is tried in a process of its own: errors come back in one line, and nothing is taken from the working folder."""

import pytest

from regard.data.trial import run_trial


def trial(program, given=None, seconds=10.0):
    run_trial(program, given, what="the thing", seconds=seconds, memory=2**30)


def test_what_is_given_arrives_and_errors_come_back():
    trial("assert given == {'a': [1, 'é']}", {"a": [1, "é"]})
    with pytest.raises(ValueError, match="^the thing cannot be used: AssertionError$"):
        trial("assert given", [])
    with pytest.raises(ValueError, match="^the thing cannot be used: too much$"):
        trial("sys.exit('too much')")
    with pytest.raises(ValueError, match="^only so many$"):
        trial("from regard.errors import RegardError\nraise RegardError('only so many')")


def test_time_memory_and_crashes_have_an_end():
    with pytest.raises(ValueError, match="the thing did not end within"):
        trial("while True: pass", seconds=1.0)
    with pytest.raises(ValueError, match="the thing cannot be used: .*MemoryError"):
        trial("a = bytearray(2**31)")
    with pytest.raises(ValueError, match="the thing cannot be used: it ended with -9"):
        trial("import os; os.kill(os.getpid(), 9)")


def test_no_module_is_taken_from_the_working_folder(tmp_path, monkeypatch):
    """Not even when the data lies there and looks like one."""
    for name in ("json.py", "tokenizers.py", "regard.py", "colorsys.py"):
        (tmp_path / name).write_text("raise SystemExit('data was run')")
    monkeypatch.chdir(tmp_path)
    trial("import colorsys, tokenizers, regard")
