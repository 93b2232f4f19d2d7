"""The README is true: its `regard` commands and its Python run, in its order, in an empty folder with a small budget.

A block after the comment `<!-- not run: reason -->` is left out.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
LEFT_OUT = re.compile(r"<!--\s*not run:\s*\S.*-->\s*$")
SET_UP = re.compile(r"(make|git|cd|source|\.|(\S*/)?pip|(\S*/)?python3? -m (pip|venv))(\s|$)")


class Block(NamedTuple):
    """The text between two fences; `line` is where it begins."""

    line: int
    language: str
    text: str
    run: bool


def blocks(text):
    found, lines, before = [], text.splitlines(), ""
    numbered = iter(enumerate(lines, 1))
    for number, line in numbered:
        if line.strip().startswith("```"):
            language, inside = line.strip().strip("`").strip(), []
            for _, other in numbered:
                if other.strip().startswith("```"):
                    break
                inside.append(other)
            found.append(Block(number + 1, language, "\n".join(inside), not LEFT_OUT.search(before)))
        before = line if line.strip() else before
    return found


def commands(block):
    """The lines of a shell block that count, each with its number; a backslash at the end joins two."""
    text = re.sub(r"\\\n\s*", lambda joined: " ", block.text)
    lines = [(block.line + i, line.strip().removeprefix("$ ")) for i, line in enumerate(text.splitlines())]
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def shell(folder):
    """How to run one thing: in the folder, with `regard` on the path whether or not it is installed."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / "regard").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regard "$@"\n')
    (tools / "regard").chmod(0o755)
    work = folder / "work"
    work.mkdir()
    path = os.pathsep.join([str(tools), os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}

    def run(words, what):
        done = subprocess.run(words, cwd=work, env=environment, capture_output=True, text=True)
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert done.returncode == 0, f"{what} fails with code {done.returncode}:\n{said}"

    return run


def run_all(text, folder):
    """Run what a page shows; the number of things that were run."""
    run, count = shell(folder), 0
    for block in blocks(text):
        if block.run and block.language == "bash":
            for number, line in commands(block):
                if line.split()[0] == "regard":
                    run(["bash", "-euo", "pipefail", "-c", line], f"line {number}: {line}")
                    count += 1
                else:
                    assert SET_UP.match(line), f"line {number} is neither run nor set-up: {line}"
        elif block.run and block.language == "python":
            run([sys.executable, "-c", block.text], f"the Python at line {block.line}")
            count += 1
    return count


def test_what_the_readme_shows_works(tmp_path):
    assert run_all(README.read_text("utf-8"), tmp_path) >= 1


def test_the_make_targets_in_the_readme_exist():
    shown = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(block.text for block in blocks(README.read_text("utf-8")))))
    there = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= shown <= there


def test_the_readme_links_to_files_that_exist():
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README.read_text("utf-8")):
        assert (ROOT / target).exists(), f"the README links to {target}, which does not exist"


# ── does the reader above see what is wrong? ────────────────────────────────────────────────────────────────

PAGE = """
# A page
```bash
make demo                 # set-up is not run
regard list \\
    masks
$ regard --version | cat
```
<!-- not run: needs a file of yours -->

```bash
regard nonsense
```
```python
import os
assert os.environ["PYTHONPATH"]
import regard
```
```
regard nonsense, only shown
```
"""


def test_blocks_are_found_with_their_lines():
    assert [(block.line, block.language, block.run) for block in blocks(PAGE)] == [
        (4, "bash", True),
        (12, "bash", False),
        (15, "python", True),
        (20, "", True),
    ]
    assert [line for _, line in commands(blocks(PAGE)[0])] == [
        "make demo                 # set-up is not run",
        "regard list  masks",
        "regard --version | cat",
    ]


def test_a_page_is_run(tmp_path):
    assert run_all(PAGE, tmp_path) == 3


@pytest.mark.parametrize(
    "block, words",
    [
        ("```bash\nregard nonsense\n```", "line 2: regard nonsense fails with code 2"),
        ("```bash\nregard nonsense | cat\n```", "fails with code 2"),
        ("```bash\nmake test\n\nregrad list\n```", "line 4 is neither run nor set-up: regrad list"),
        ("```python\nimport regard\nregard.nonsense\n```", "the Python at line 2 fails with code 1"),
        ("<!-- not run: -->\n```bash\nregard nonsense\n```", "fails with code 2"),
    ],
)
def test_a_page_that_is_not_true_is_caught(tmp_path, block, words):
    with pytest.raises(AssertionError, match=re.escape(words)):
        run_all(block, tmp_path)
