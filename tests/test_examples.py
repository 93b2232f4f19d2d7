"""Every script of examples/ runs from an empty folder and names the run that it made; each kind of data has one."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from regard.registry import entries

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
OWN = {"attention_at_work.py", "dream_of_a_pendulum.py"}  # tests/test_docs.py runs these


def test_each_kind_of_data_has_an_example():
    written = " ".join(path.read_text("utf-8") for path in SCRIPTS)
    trained = set(re.findall(r'regard\.train\(\s*"(\w+)"', written))
    assert set(entries("recipes")) == trained


@pytest.mark.parametrize("script", [path for path in SCRIPTS if path.name not in OWN], ids=lambda path: path.stem)
def test_an_example_runs(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script.name, "--steps", "2"])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    (command,) = re.findall(r"^see it: (regard .*)$", printed, re.MULTILINE)
    run = tmp_path / command.split()[2]
    assert (run / "model.safetensors").exists() and (run / "report.html").exists()
