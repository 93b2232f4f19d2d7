"""The commands answer, and what goes wrong is one line on stderr and exit code 2."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard import __version__, registry
from regard.errors import RegardError
from regard.runs import environment
from regard.verbs import commands, main
from regard.verbs.finish import laws_in_a_line

ROOT = Path(__file__).parents[2]


def run(capsys, *words):
    code = main.main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"regard {__version__}\n", "")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"], []])
def test_help_offers_every_command_with_examples(capsys, words):
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "")
    for each in commands.COMMANDS.values():
        assert each.usage in out
        assert each.sentence in out
    assert "--version" in out
    assert "--debug" in out
    assert all(len(line) <= 100 for line in out.splitlines())


def test_every_command_has_examples_of_itself():
    for name, each in commands.COMMANDS.items():
        assert each.examples and all(example.startswith(f"regard {name}") for example in each.examples)


def test_the_examples_of_list_run(capsys):  # those of the others are run with small models in test_verbs.py
    for example in commands.COMMANDS["list"].examples:
        first, *words = example.split()
        assert first == "regard"
        assert run(capsys, *words)[::2] == (0, "")


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_help_about_one_command(capsys, name):
    for option in ("--help", "-h"):
        code, out, err = run(capsys, name, option)
        assert (code, err) == (0, "")
        assert out.startswith(f"usage: regard {commands.COMMANDS[name].usage}\n")


def test_list_names_everything(capsys):
    code, out, err = run(capsys, "list")
    assert (code, err) == (0, "")
    for category in registry.categories():
        assert f"\n  {category}" in f"\n{out}"
        assert ", ".join(registry.entries(category)) in out


@pytest.mark.parametrize("category", registry.categories())
def test_list_of_one_kind(capsys, category):
    code, out, err = run(capsys, "list", category)
    assert (code, err) == (0, "")
    rows = out.splitlines()[2:]
    assert len(rows) == len(registry.entries(category))
    for row, (name, entry) in zip(rows, registry.entries(category).items(), strict=True):
        assert row.split()[:2] == [name, entry.target.replace(":", ".")]
        assert row.endswith(entry.sentence)


def test_the_list_of_models_says_what_each_keeps(capsys):
    rows = run(capsys, "list", "models")[1].splitlines()[2:]
    for row, entry in zip(rows, registry.entries("models").values(), strict=True):
        assert entry.symmetry and f"  keeps {entry.symmetry}  " in row
    assert "keeps nothing" in next(row for row in rows if row.split()[0] == "mlp")


@pytest.mark.parametrize(
    "words, said",
    [
        (["lsit"], "'lsit'.*'list'.*regard --help"),
        (["qqq"], "'qqq'.*regard --help"),
        (["--verison"], "'--verison'.*'--version'.*regard --help"),
        (["list", "maks"], "category 'maks'.*'masks'.*" + ", ".join(registry.categories())),
        (["list", "masks", "biases"], "regard.*category.*2: masks biases"),
    ],
)
def test_an_error_is_one_line_and_code_2(capsys, words, said):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "") and err.startswith("regard: ") and err.count("\n") == 1
    assert re.search(said, err)


BUG, REPORT = "this is a bug in regard: ", "; please report it, with what --debug shows"


class Planted(commands.Command):
    """A command whose function is in the place of its module."""

    def find(self, name):
        return self.module


def planted(error):
    def fail(words):
        raise error

    return Planted("fail", "fails", (), fail)


@pytest.mark.parametrize(
    "error, said",
    [
        (RegardError("dim is 3;\n  give 4"), "dim is 3; give 4"),
        (FileNotFoundError("there is no file x"), "there is no file x"),
        (KeyError("a"), f"{BUG}KeyError: 'a'{REPORT}"),
        (ValueError("no"), f"{BUG}ValueError: no{REPORT}"),
        (RegardError(), f"{BUG}RegardError{REPORT}"),
        (RuntimeError("shapes"), f"{BUG}RuntimeError: shapes{REPORT}"),
    ],
)
def test_whatever_a_command_raises_is_one_line(capsys, monkeypatch, error, said):
    monkeypatch.setitem(commands.COMMANDS, "fail", planted(error))
    assert run(capsys, "fail") == (2, "", f"regard: {said}\n")


@pytest.mark.parametrize("words", [["--debug", "fail"], ["fail", "--debug"]])
def test_debug_shows_the_traceback(monkeypatch, words):
    monkeypatch.setitem(commands.COMMANDS, "fail", planted(ValueError("here")))
    with pytest.raises(ValueError, match="here"):
        main.main(words)


def test_a_suggested_command_can_be_typed_as_it_stands(monkeypatch, tmp_path):
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    called = tmp_path / "my tools" / "regard"
    called.parent.mkdir()
    called.touch()
    for first, said in ((str(called), f"'{called}'"), ("gone/regard", "regard"), ("some/pytest", "regard")):
        monkeypatch.setattr(sys, "argv", [first, "train"])
        assert environment.shell_command("regard generate runs/text") == f"{said} generate runs/text"
    monkeypatch.setattr(sys, "argv", [str(ROOT / "regard" / "__main__.py"), "train"])
    monkeypatch.setattr(sys, "orig_argv", [".venv/bin/python", "-m", "regard", "train"])
    assert environment.shell_command("regard list") == ".venv/bin/python -m regard list"
    monkeypatch.setattr(environment.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert environment.shell_command("regard list") == "regard list"


def test_help_of_generate_and_predict_explains_what_they_take(capsys):
    assert "--prompt TEXT" in run(capsys, "generate", "--help")[1]
    out = run(capsys, "predict", "--help")[1]
    assert "INPUT is" in out and "--json" in out and "the path of" in out


def test_the_package_shows_its_names_and_no_others():
    assert set(regard.__all__) <= set(dir(regard)) and not {"Any", "TYPE_CHECKING"} & set(dir(regard))


def test_an_interrupt_is_quiet(capsys, monkeypatch):
    monkeypatch.setitem(commands.COMMANDS, "fail", planted(KeyboardInterrupt()))
    assert run(capsys, "fail") == (130, "", "regard: stopped\n")


def test_a_command_chooses_its_exit_code(capsys, monkeypatch):
    monkeypatch.setitem(commands.COMMANDS, "no", Planted("no", "the answer is no", (), lambda words: len(words)))
    assert run(capsys, "no", "x")[0] == 1


def process(*words, **options):
    return subprocess.run([sys.executable, "-m", "regard", *words], cwd=ROOT, capture_output=True, text=True, **options)


def test_as_a_module():
    done = process("--version")
    assert (done.returncode, done.stdout) == (0, f"regard {__version__}\n")
    done = process("lsit", "--debug")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_a_terminal_without_greek_letters():
    done = process("list", "memories", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "composite" in done.stdout


def test_a_reader_that_goes_away():
    """As in `regard list | head -1`: the pipe is closed before anything is written."""
    command = [sys.executable, "-m", "regard", "list"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 0


def test_the_laws_of_a_run_in_a_line():
    laws = [
        ("permutation", "invariant", "holds"),
        ("padding", "holds", "holds"),
        ("causality", "broken", "broken"),
        ("shift", "invariant", "broken"),
        ("scaling", "holds", "unknown"),
        ("neighbours", "not promised", "broken"),
        ("reordering", "not promised", "holds"),  # of a few tokens
    ]
    line = laws_in_a_line(
        [dict(zip(("law", "declared", "measured"), law, strict=True), reason="no trial") for law in laws]
    )
    assert line == "laws that hold: permutation, padding; broken: shift; unknown: scaling, because no trial"
    assert laws_in_a_line([]) == "laws that hold: none"


def test_only_commands_print():
    """A function for Python prints nothing: `print` is in functions called run or print_..., and in the printer."""
    for path in (ROOT / "regard" / "verbs").glob("*.py"):
        for top in ast.parse(path.read_text("utf-8")).body:
            name = getattr(top, "name", "")
            prints = any(isinstance(each, ast.Name) and each.id == "print" for each in ast.walk(top))
            commands_print = name.startswith(("run", "print_", "_print")) or name in ("main", "_run", "AnswersPrinter")
            assert not prints or commands_print, f"{path.name}: {name}"
