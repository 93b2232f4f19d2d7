"""regard sends nothing anywhere: a whole session with the network off, in which every attempt to reach it is an error."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTEN = """
import sys

def refuse(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"):
        outside = arguments[0] not in ("localhost", "127.0.0.1", "::1", None)
    elif event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        outside = isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1")
    else:
        return
    if outside:
        sys.stderr.write(f"reached out: {event} {arguments}\\n")
        sys.stderr.flush()
        import os
        os._exit(99)

sys.addaudithook(refuse)
"""
SESSION = """
from regard.verbs.main import main

small = ["--model.dim", "16", "--model.heads", "2", "--model.depth", "1", "--data.context", "16"]
assert main(["train", "text", "--data", "text.txt", "--out", "run", "--train.steps", "2", "--train.batch", "2", *small]) == 0
assert main(["check", "run", "--laws", "causality"]) == 0
assert main(["generate", "run", "--prompt", "one", "--max-new", "3", "--seed", "0"]) == 0
assert main(["evaluate", "run"]) == 0
assert main(["look", "run", "--input", "two three", "--out", "page.html"]) == 0
"""


def run(code, folder):
    """In a network without interfaces where the system allows that, and with the listener in any case."""
    words = [sys.executable, "-c", LISTEN + code]
    if shutil.which("unshare") and subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0:
        words = ["unshare", "-rn", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


def test_a_session_never_reaches_out(tmp_path):
    (tmp_path / "text.txt").write_text("one two three four five six seven eight nine ten\n" * 60)
    done = run(SESSION, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "page.html").exists() and (tmp_path / "run" / "report.html").exists()


def test_an_attempt_would_be_seen(tmp_path):
    done = run("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=0.2)", tmp_path)
    assert done.returncode == 99
    assert "192.0.2.1" in done.stderr
