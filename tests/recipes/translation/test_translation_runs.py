"""A translator from the first step to its files: a tiny task that is learned exactly, killed, resumed, asked."""

import gzip
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.errors import RegardError
from regard.generation.source_reader import generate_targets
from regard.recipes.base import problem_of_run
from regard.recipes.job import DataContext
from regard.recipes.translation import evaluation
from regard.recipes.translation.pairs import pair_of
from regard.recipes.translation.problem import Translate
from regard.recipes.translation.search import longest_tokens
from regard.recipes.translation.source import take_evenly
from regard.runs.load import load_model
from regard.runs.run import Run
from regard.training.progress import Observer
from regard.verbs.main import main

OPTIONS = {
    "model.dim": 32,
    "model.depth": 1,
    "model.heads": 2,
    "model.dropout": 0.0,
    "data.tokens": "characters",
    "data.smoothing": 0.0,
    "data.context": 16,
    "data.batch_tokens": 512,
    "train.batch": 64,
    "train.precision": "float32",
    "train.threads": 1,
    "train.average": None,
    "data.test": 0.1,
    "train.warmup": 10,
}
STEPS = 120
TRAIN = ["train", "translation", "--out", "x", "--data.pairs", "200", "--train.steps", "1"]


class Killed(BaseException):
    """As a signal that nobody catches."""


class Killer(Observer):
    def stepped(self, step, loss, size, seconds):
        if step == 13:
            raise Killed


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Letters and the same letters as capitals."""
    random = np.random.default_rng(0)
    words = {"".join(random.choice(list("abcde"), random.integers(1, 6))) for _ in range(1500)}
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text("\n".join(["small\tlarge", *(f"{word}\t{word.upper()}" for word in sorted(words))]))
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    """A run that learned the task."""
    out = tmp_path_factory.mktemp("runs") / "copy"
    return regard.train(
        "translation", data=str(table), out=out, steps=STEPS, options=OPTIONS, observers=[], report=False
    )


def test_a_copy_is_learned_exactly(run):
    assert run.config.test["exact"] > 0.97
    found = regard.evaluate(run.path)
    assert found.measures["exact"] == run.config.test["exact"] and found.unit == "pairs"


def test_a_killed_and_resumed_run_ends_with_the_same_weights(table, tmp_path):
    how = {"data": str(table), "report": False}
    new = {"steps": 20, "options": OPTIONS | {"train.save_every": 5, "train.average": 0.9}}
    whole = regard.train("translation", out=tmp_path / "whole", observers=[], **new, **how)
    with pytest.raises(Killed):
        regard.train("translation", out=tmp_path / "killed", observers=[Killer()], **new, **how)
    resumed = regard.train("translation", out=tmp_path / "killed", resume=True, observers=[], **how)
    one, other = load_model(whole).state_dict(), load_model(resumed).state_dict()
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_weights_may_be_kept_by_the_bleu_of_greedy_translations(table, tmp_path):
    sacrebleu = pytest.importorskip("sacrebleu")
    spaced = tmp_path / "spaced.tsv"
    lines = table.read_text().splitlines()
    spaced.write_text("\n".join([lines[0], *(" ".join(line).replace(" \t ", "\t") for line in lines[1:])]))
    how = {"data": str(spaced), "report": False}
    options = OPTIONS | {"train.keep": "bleu", "train.evaluate_every": 10, "data.bleu_pairs": 30}
    options |= {"train.save_every": 5, "data.context": 24, "train.warmup": 2}
    new = {"steps": 40, "options": options}
    run = regard.train("translation", out=tmp_path / "whole", observers=[], **new, **how)
    looks = [event for event in run.metrics() if event["event"] == "validation"]
    assert run.config.keep == "BLEU" and len(looks) == 4 and looks[-1]["BLEU"] > looks[0]["BLEU"]
    assert any("30 of the" in event.get("text", "") for event in run.metrics())
    source = Translate().prepare_again(run, DataContext(cache=None, old=run)).source
    pairs = [pair_of(source.examples, row) for row in take_evenly(source.rows("validation"), 30).tolist()]
    found = regard.predict(run.path, [text for text, _ in pairs], options={"beams": 1})
    wanted = sacrebleu.corpus_bleu([each.answer for each in found], [[target for _, target in pairs]]).score
    assert max(look["BLEU"] for look in looks) == pytest.approx(wanted, abs=1e-9)
    with pytest.raises(Killed):
        regard.train("translation", out=tmp_path / "killed", observers=[Killer()], **new, **how)
    again = regard.train("translation", out=tmp_path / "killed", resume=True, observers=[], **how)
    same = [event for event in again.metrics() if event["event"] == "validation"]
    assert [look["BLEU"] for look in same] == [look["BLEU"] for look in looks]


def test_lines_of_a_file_become_lines_of_a_file(run, tmp_path, capsys):
    given, out = tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text("abc\n\n  \nd\neeba\n")
    assert main(["predict", str(run.path), str(given), "--out", str(out)]) == 0
    assert out.read_text() == "ABC\n\n\nD\nEEBA\n"
    assert "5 rows" in capsys.readouterr().out
    assert main(["predict", str(run.path), "abc"]) == 0
    assert capsys.readouterr().out == "ABC\n"


def test_packed_files_are_translated_as_plain_ones(run, tmp_path, capsys):
    out = tmp_path / "out.txt"
    contents = {"in.txt.gz": "abc\n\nd", "in.tsv.gz": "small\tmore\nabc\tx\n\t\nd\tx\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(gzip.compress(content.encode()))
        assert main(["predict", str(run.path), str(tmp_path / name), "--out", str(out)]) == 0
        assert out.read_text() == "ABC\n\nD\n"
    assert main(["predict", str(run.path), "gone.txt.gz"]) == 2
    assert "there is no file gone.txt.gz" in capsys.readouterr().err


def test_what_is_unknown_is_said_and_what_is_no_text_writes_nothing(run, tmp_path, capsys):
    assert main(["predict", str(run.path), "a💥b"]) == 0
    said = capsys.readouterr()
    assert said.out == "AB\n" and "left out" in said.err and "💥" in said.err
    (tmp_path / "in.txt").write_bytes(b"\0\1\2")
    assert main(["predict", str(run.path), str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.txt")]) == 2
    assert not (tmp_path / "out.txt").exists() and "in.txt is binary" in capsys.readouterr().err
    (tmp_path / "in.txt").write_text("ab\n")
    both = ["predict", str(run.path), str(tmp_path / "in.txt"), "--out", str(tmp_path / "in.txt")]
    assert main(both) == 2 and (tmp_path / "in.txt").read_text() == "ab\n"


def test_a_long_text_has_a_translation_of_bounded_length(run, monkeypatch, capsys):
    """A model that never ends writes four times as much as the longest side of training, which is 16, and no more."""
    model = load_model(run)
    assert longest_tokens([model]) == 64 and Translate().open(run).most_tokens(5) < 64
    asked = []

    def search(models, ids, real, *, max_new, **how):
        asked.extend(max_new)
        return generate_targets(models, ids, real, max_new=[3] * len(max_new), **how)

    monkeypatch.setattr("regard.recipes.translation.search.generate_targets", search)
    assert main(["predict", str(run.path), "ab" * 1000]) == 0
    assert asked == [64] and "of 2,000 tokens, far more than in training" in capsys.readouterr().err
    assert main(["predict", str(run.path), "ab"]) == 0
    assert capsys.readouterr().err == ""


def test_a_translation_does_not_depend_on_those_beside_it(run):
    texts = ["a", "edcba", "bb", "abcde", "c"]
    together = regard.predict(run.path, texts)
    for text, found in zip(texts, together, strict=True):
        (alone,) = regard.predict(run.path, text)
        assert alone.answer == found.answer == text.upper()
        assert alone.best[0].score == pytest.approx(found.best[0].score, abs=1e-5)


def test_json_has_the_n_best_with_scores(run, capsys):
    assert main(["predict", str(run.path), "abc", "--json", "--beams", "4", "--n_best", "3"]) == 0
    said = json.loads(capsys.readouterr().out)
    scores = [each["score"] for each in said["best"]]
    assert said["translation"] == said["best"][0]["text"] == "ABC"
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    penalised = regard.predict(run.path, "abc", options={"length_penalty": 0.0})[0].best[0]
    assert penalised.score == pytest.approx(penalised.logp)


def test_tables_are_answered_and_judged(run, table, tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    rows.write_text("small,large\nab,AB\ncd,XX\n,\n")
    assert main(["predict", str(run.path), str(rows), "--out", str(tmp_path / "answers.csv")]) == 0
    assert "50.0%" in capsys.readouterr().out
    lines = (tmp_path / "answers.csv").read_text().splitlines()
    assert lines[0] == "small,large,answer,right" and lines[1] == "ab,AB,AB,true"
    (tmp_path / "usual.csv").write_text("source,target\nab,AB\ncd,XX\n")
    assert regard.evaluate(run.path, tmp_path / "usual.csv").measures["exact"] == 0.5
    one = regard.predict(run.path, [{"small": "ab"}, {"small": "ba"}])
    assert [each.answer for each in one] == ["AB", "BA"]


def test_two_files_are_evaluated(run, tmp_path, capsys):
    (tmp_path / "t.a").write_text("ab\ncd\nde\n")
    (tmp_path / "t.b").write_text("AB\nCD\nXX\n")
    words = ["evaluate", str(run.path), "--data", str(tmp_path / "t.a"), "--data.beside", str(tmp_path / "t.b")]
    assert main([*words, "--json", "--beams", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measures"]["exact"] == pytest.approx(2 / 3) and found["beams"] == 1 and found["count"] == 3


def test_runs_can_be_compared_pair_by_pair(run, tmp_path, capsys):
    shutil.copytree(run.path, tmp_path / "other")
    assert main(["compare", str(run.path), str(tmp_path / "other"), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["pairs"]
    first = found["differences"][0]
    assert (first["measure"], first["difference"], found["split"]) == ("log loss", 0, "test")


def test_an_ensemble_with_itself_changes_nothing(run, table, tmp_path):
    alone, twice = (
        regard.predict(run.path, "abc", options=options)[0].best[0] for options in ({}, {"ensemble": [str(run.path)]})
    )
    assert alone.text == twice.text and alone.score == pytest.approx(twice.score, abs=1e-5)
    other = regard.train(
        "translation",
        data="reverse",
        out=tmp_path / "other",
        steps=1,
        options={"data.pairs": 200, "model.dim": 16, "model.depth": 1},
        observers=[],
        report=False,
    )
    with pytest.raises(RegardError, match="different tokens"):
        regard.predict(run.path, "abc", options={"ensemble": [str(other.path)]})


@pytest.mark.parametrize(
    "words, said",
    [
        (["predict", "RUN", "abc", "--beams", "0"], "--beams"),
        (["predict", "RUN", "abc", "--n-best", "9"], "5 beams cannot give the 9 best"),
        (["predict", "RUN", "nothing.txt"], "nothing.txt"),
        (["predict", "RUN", ""], "empty"),
        (["predict", "RUN", "abc", "--out", "no/such/folder.txt"], "no folder"),
        (["evaluate", "RUN", "--data", "nothing.tsv"], "no nothing.tsv, which --data names"),
        (["evaluate", "RUN", "--data", "TABLE", "--data.beside", "nothing.de"], "which --data.beside names"),
        (["train", "translation", "--model", "lstmm"], "did you mean 'lstm'"),
        (["train", "translation", "--data", "nothing.tsv", "--out", "x"], "nothing.tsv"),
        (["train", "translation", "--data", "reverse", "--data.beside", "x"], "--data.beside"),
        (["train", "translation", "--data", "reverse", "--data.batch-tokens", "8"], "batch_tokens"),
        ([*TRAIN, "--data", "TABLE", "--train.keep", "bleu"], "four words"),
        ([*TRAIN, "--data", "reverse", "--data.bleu-pairs", "0", "--train.keep", "bleu"], "--data.bleu-pairs 200"),
        ([*TRAIN, "--data", "reverse", "--train.keep", "blue"], "did you mean 'bleu'"),
        (["train", "translation", "--data.bleu-pairs", "-1"], "bleu"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, said, run, table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    paths = {"RUN": str(run.path), "TABLE": str(table)}
    assert main([paths.get(word, word) for word in words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not (tmp_path / "x").exists()


def test_looking_shows_source_and_target(run):
    model = problem_of_run(run).load(run)
    reader = Translate().reader(run, model)
    asked = reader.read("abc", "AB")
    assert [stream.labels for stream in asked.streams] == [("<begin>", "A", "B"), ("a", "b", "c", "<end>")]
    assert model(**asked.inputs).shape[:2] == (1, 3)
    written = reader.read("abc")
    assert written.streams[0].labels == ("<begin>", "A", "B", "C")
    with pytest.raises(RegardError, match="empty"):
        reader.read(b"")


def test_looking_says_what_is_left_out(run):
    reader = Translate().reader(run, problem_of_run(run).load(run))
    odd = reader.read("a💥c", "Aß")
    assert [stream.labels for stream in odd.streams] == [("<begin>", "A"), ("a", "c", "<end>")]
    source, target = odd.notes
    assert source.startswith("source: left out") and source.endswith("💥")
    assert target.startswith("target: left out") and target.endswith("ß")


def test_a_page_and_the_laws_of_a_run(run, tmp_path):
    page = regard.verbs.look.look(run.path, "abcde", out=tmp_path / "page.html")
    assert "cross" in Path(page).read_text()
    from regard.verbs.check import check

    report = check(run.path, trials=1, laws=["padding", "neighbours", "causality", "cache"])
    assert report.ok and len(list(report)) >= 4


@pytest.mark.parametrize("kind", ["lstm", "gru", "conv"])
def test_every_kind_trains_and_translates(kind, table, tmp_path):
    options = {name: value for name, value in OPTIONS.items() if name != "model.heads"}
    options |= {"data.vocabularies": "separate", "train.average": 0.9}
    how = {"data": str(table), "out": tmp_path / kind, "observers": [], "report": False}
    run = regard.train("translation", model=kind, steps=3, options=options, **how)
    regard.train("translation", model=kind, resume=True, **how)  # by the name that was given
    assert isinstance(regard.predict(run.path, "abc")[0].answer, str)
    assert run.config.model["source_vocab"] == 7 and not run.config.model["shared"]


# ── measures


def test_sacrebleu_is_what_computes(run, monkeypatch):
    sacrebleu = pytest.importorskip("sacrebleu")
    texts, references = ["the cat sat on the mat", "a dog"], ["the cat sat on a mat", "A dog"]
    found = evaluation.score_translations(texts, references, all=True)
    assert found["BLEU"].value == sacrebleu.corpus_bleu(texts, [references]).score
    assert found["chrF"].value == sacrebleu.corpus_chrf(texts, [references]).score
    assert found["BLEU lower-cased"].value > found["BLEU"].value
    assert "tok:13a" in found["BLEU"].signature and "case:lc" in found["BLEU lower-cased"].signature
    same = evaluation.score_translations(references, references)
    assert same["chrF"].value == pytest.approx(100) == same["BLEU"].value
    # one word has no four in a row, so that sacrebleu's BLEU of anything would be 0
    assert "BLEU" not in evaluation.score_translations(["a", "b"], ["a", "b"], all=True)
    told = regard.evaluate(run.path)
    assert {"chrF", "TER", "TER lower-cased"} <= told.measures.keys()
    assert len(told.shown) == 2 and "case:mixed" in told.format()
    planted = type("Planted", (), {"corpus_score": lambda *_: type("S", (), {"score": 12.5})})
    planted.get_signature = lambda self: "planted"
    monkeypatch.setattr(evaluation, "import_sacrebleu", lambda: type("M", (), {"BLEU": planted, "CHRF": planted}))
    assert evaluation.score_translations(texts, references)["BLEU"] == (12.5, "planted")


def test_without_sacrebleu_the_rest_is_measured_and_a_note_says_what_to_do(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    found = regard.evaluate(run.path)
    assert "BLEU" not in found.measures and found.measures["exact"] > 0.9
    assert any("regard[translate]" in note for note in found.notes)


def test_a_run_is_opened_by_its_config_alone(run):
    again = Run.open(run.path)
    assert again.config.recipe == "translation" and again.config.kind == "encoderdecoder"
