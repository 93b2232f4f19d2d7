"""`regard look`: a page, a still, a served page, and one line for everything that cannot be looked at."""

import http.client
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save

from regard.data.fast_tokenizers import Characters
from regard.look.plot import SUFFIXES
from regard.models.decoder import Decoder, DecoderConfig
from regard.runs.new_run import create_run
from regard.runs.run import Run
from regard.targets.open import open_target
from regard.verbs import main
from regard.verbs.look import write_report
from tests.look.scenes import Reads

MODELS = """
import torch
from torch import nn

class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]

def reads():
    return Reads(), torch.randn(2, 5, 8)

def blind():
    return nn.Linear(8, 2), torch.randn(2, 8)
"""


def made_run(path):
    """A run as training leaves it, without training."""
    torch.manual_seed(0)
    characters = Characters(" abcdefghij")
    model = Decoder(DecoderConfig(vocab=characters.size, context=32, dim=32, depth=2, heads=4))
    run = create_run(path, {"recipe": "text", "problem": "next", "kind": "decoder", "model": model.config, "data": {}})
    run.publish(save(model.state_dict()))
    run.write("tokenizer.json", characters.to_json())
    run.append(
        [{"event": "step", "step": 1, "loss": 2.0}, {"event": "validation", "step": 1, "loss": 1.9, "accuracy": 0.3}]
    )
    run.write_sample(1, "a bad cab")
    run.write("laws.json", {"ok": True, "laws": [{"law": "causality", "measured": "holds"}]})
    return run


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "look_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    made_run(tmp_path / "run")
    return tmp_path


def look(capsys, *words):
    code = main.main(["look", *words])
    out, err = capsys.readouterr()
    return code, out, err


def data_of(path):
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', path.read_text("utf-8"), re.S)
    return json.loads(found[1])


def test_a_page_of_a_run(here, capsys):
    code, out, err = look(capsys, "run", "--input", "a cab bead", "--out", "page.html")
    assert (code, err) == (0, "") and out.startswith("page.html: 0.") and "open it in a browser" in out
    data = data_of(here / "page.html")
    assert data["streams"][0]["labels"] == list("a cab bead") and data["live"] is None and data["title"] == "run"
    views = {view["view"]: view for view in data["views"]}
    assert data["opens"] == "attention"  # not the outcome: an input was given
    assert {
        "outcome",
        "attention",
        "next",
        "contribution",
        "laws",
        "curves",
        "samples",
        "embeddings",
        "positions",
        "about",
    } == set(views)
    assert views["laws"]["rows"] == [{"law": "causality", "measured": "holds", "place": ""}]
    assert views["laws"]["ok"] is True and views["laws"]["verdict"] == "As declared: 1 law holds"
    assert views["curves"]["validation"] == [[1, 1.9]] and views["curves"]["measures"] == {"accuracy": [[1, 0.3]]}
    assert views["samples"]["items"] == [{"step": 1, "text": "a bad cab"}]


def test_nothing_is_loaded_from_elsewhere(here, capsys):
    look(capsys, "run", "--out", "page.html")
    text = (here / "page.html").read_text("utf-8")
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text) and "@import" not in text
    assert data_of(here / "page.html")["input"]["text"] == "a bad cab"  # what it wrote last


def test_a_page_of_a_function(here, capsys):
    assert look(capsys, "look_models:reads", "--out", "page.html")[0] == 0
    data = data_of(here / "page.html")
    (layer,) = data["views"][0]["layers"]
    assert (layer["n"], layer["m"], layer["heads"], layer["proved"]) == (5, 5, [0, 1], True)
    assert data["streams"][layer["rows"]]["labels"] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_still(here, capsys, suffix):
    assert look(capsys, "look_models:reads", "--out", f"heads{suffix}") == (0, f"heads{suffix}\n", "")
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert (here / f"heads{suffix}").read_bytes().startswith(start)


def test_laws_are_measured_when_asked_for(here, capsys):
    assert look(capsys, "look_models:reads", "--laws", "--out", "page.html")[0] == 0
    (laws,) = (view for view in data_of(here / "page.html")["views"] if view["view"] == "laws")
    assert {row["law"] for row in laws["rows"]} >= {"permutation", "neighbours", "determinism"}


@pytest.mark.parametrize(
    "words, message",
    [
        ((), "regard look.*target.*none"),
        (("a", "b"), "regard look.*target.*b"),
        (("nothing-here",), "'nothing-here'.*run"),
        (("look_models:blind",), "attention.*look_models:blind.*Linear"),
        (("look_models:reads", "--input", "words"), "model.*inputs"),
        (("run", "--input", "a" * 33), "33 tokens.*model.*32"),
        (("run", "--input", "xyz"), r"unknown character 'x' \(U\+0078\) at place 0"),
        (("run", "--input", ""), "look.*empty"),
        (("run", "--target", "a"), "run.*--target"),
        (("run", "--out", "page.docx"), r"--out.*'page\.docx'"),
        (("run", "--out", "no/such/page.html"), "no/such"),
        (("run", "--port", "80a"), "--port.*None.*'80a'"),
        (("run", "--port", "99999"), "--port.*whole number.*0.*65,535.*99999"),
        (("run", "--port", "8000", "--out", "page.html"), "--port.*page.*served"),
    ],
)
def test_what_cannot_be_looked_at(here, capsys, words, message):
    if "--out" not in words and "--port" not in words:
        words = (*words, "--out", "page.html")
    code, out, err = look(capsys, *words)
    assert code == 2 and out == "" and err.startswith("regard: ") and err.count("\n") == 1
    assert re.search(message, err)
    assert not (here / "page.html").exists()


def test_help(capsys):
    code, out, _ = look(capsys, "--help")
    assert code == 0
    for word in ("--input", "--target", "--out", "--port", "--laws", "127.0.0.1"):
        assert word in out


def test_a_served_page_says_where_and_ends_with_ctrl_c(here):
    command = [sys.executable, "-m", "regard", "look", "run", "--input", "abc"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\?token=[\w-]{43})   \(Ctrl-C ends it\)\n", line)
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.status == 403 and b"token" in answer.read()
        connection.close()
        connection.request("GET", found[2])
        answer = connection.getresponse()
        assert answer.status == 200 and b"<title>run" in answer.read()
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()


def test_a_run_ends_with_a_report(here):
    run = Run.open(here / "run")
    write_report(run, open_target(run.path))
    data = data_of(here / "run" / "report.html")
    shown = [view["view"] for view in data["views"]]
    assert data["title"] == "run" and shown[:3] == ["outcome", "attention", "next"]

    def broken_reader(*what):
        raise ValueError("nothing to see")

    broken = replace(open_target(run.path), make_reader=lambda: Reads(broken_reader))
    write_report(run, broken)  # a run is not lost over it
    data = data_of(here / "run" / "report.html")
    assert "could not be looked at" in data["notes"][0] and [view["view"] for view in data["views"]] == [
        "outcome",
        "curves",
        "samples",
    ]
