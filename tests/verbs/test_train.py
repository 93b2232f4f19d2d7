"""Text in one command: train, stop, resume, generate, predict; from Python and from the command line."""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import regard
from regard.data.row_source import TensorSource
from regard.errors import RegardError
from regard.recipes.base import get_recipe
from regard.recipes.settings import apply_settings
from regard.recipes.start_from import copy_weights
from regard.recipes.text import language_model as jobs
from regard.runs.run import Run
from regard.runs.run_group import Repeats
from regard.training import ranks
from regard.training.progress import Observer
from regard.training.ranks import RankError
from regard.training.tasks import as_task, check_labels
from regard.verbs import generate, main, train, train_run
from regard.verbs.predict import predict

SENTENCES = "the cat sat on the mat. the dog ran to the cat. a bird sang to the dog. "
TINY = {
    "model.dim": 32,
    "model.depth": 1,
    "model.heads": 2,
    "data.context": 16,
    "train.batch": 4,
    "train.evaluate_every": 1000,  # at the end only
}
TINY_WORDS = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch, request):
    if "everything" not in request.fixturenames:
        request.getfixturevalue("no_report")
        monkeypatch.setattr(jobs, "SAMPLE", 4)
        monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(SENTENCES * 20)
    rows = [
        {"text": f"a {kind} film number {i}", "label": label}
        for i in range(30)
        for kind, label in (("great", "good"), ("dull", "bad"))
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))


class Losses(Observer):
    def __init__(self):
        self.seen = []

    def stepped(self, step, loss, tokens, seconds):
        self.seen.append((step, loss))


def trained(out="run", steps=6, **how):
    losses = Losses()
    run = train.train("text", data="text.txt", out=out, steps=steps, options=TINY, observers=[losses], **how)
    return run, losses.seen


def test_a_run_has_everything_and_the_model_can_be_used(everything):
    run, losses = trained(steps=8)
    assert [step for step, _ in losses] == list(range(1, 9))
    names = {path.name for path in run.path.iterdir()}
    files = {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "metrics.jsonl",
        "curves.png",
        "laws.json",
        "report.html",
    }
    assert files | {"state", "samples"} <= names and json.loads((run.path / "laws.json").read_text())["ok"] is True
    assert len((run.path / "samples" / "8.txt").read_text()) >= jobs.SAMPLE
    assert (run.path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert run.config.model["vocab"] == len(set(SENTENCES)) and run.config.model["context"] == 16
    model = regard.load(run.path)
    assert not model.training
    one, again = ("".join(regard.generate(model, "the ", max_new=20, seed=3)) for _ in range(2))
    assert one == again and 0 < len(one) <= 20
    assert set(one) <= set(SENTENCES)
    assert one != "".join(regard.generate(model, "the ", max_new=20, seed=4))


def test_the_same_seed_gives_the_same_losses_bit_for_bit():
    assert trained("one")[1] == trained("two")[1]
    assert trained("three", 6)[1] != [(s, x) for s, x in verbs_losses({"train.seed": 1})]


def verbs_losses(more):
    losses = Losses()
    train.train("text", data="text.txt", out="other", steps=6, options=TINY | more, observers=[losses])
    return losses.seen


def test_it_learns():
    _, losses = trained(steps=60)
    assert losses[-1][1] < 0.6 * losses[0][1]


def test_stopped_and_resumed_equals_never_stopped():
    _, whole = trained("whole", 8)

    class StopAt(Losses):
        def stepped(self, step, loss, tokens, seconds):
            super().stepped(step, loss, tokens, seconds)
            if step == 5:
                import signal

                os.kill(os.getpid(), signal.SIGINT)

    first = StopAt()
    train.train("text", data="text.txt", out="cut", steps=8, options=TINY, observers=[first])
    second = Losses()
    train.train("text", out="cut", resume=True, observers=[second])
    assert first.seen + second.seen == whole
    assert second.seen[0][0] == 6
    steps = [event["loss"] for event in Run.open("cut").metrics() if event["event"] == "step"]
    assert steps == [loss for _, loss in whole]


def test_an_occupied_folder_is_refused_before_any_work_on_data(tmp_path):
    trained("run", 2)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "a.txt").write_text("mine")
    (tmp_path / "other.txt").write_text(SENTENCES * 21)
    notes, before = [], cached(tmp_path)
    for out, words in (
        ("run", "run holds a run already; go on with it with resume=True, or choose another folder with out="),
        ("papers", "papers is not a run and is not empty (it holds a.txt); choose another folder with out="),
        ("text.txt", "text.txt is a file; choose a folder that is not there yet with out="),
    ):
        with pytest.raises(FileExistsError, match=f"^{re.escape(words)}$"):
            train.train(
                "text", data="other.txt", out=out, steps=1, observers=[], note=lambda *facts: notes.append(facts)
            )
    assert not notes and cached(tmp_path) == before != set()


def cached(folder):
    return {path for path in (folder / "cache").rglob("*") if path.is_file()}


def test_resuming_with_other_options_says_which(monkeypatch):
    trained("run", 4)
    monkeypatch.setattr(train_run, "prepare_job", None)  # it is said before the data is read
    with pytest.raises(ValueError, match=r"train\.lr.*None.*now 0\.5"):
        train.train("text", out="run", resume=True, options={"train.lr": 0.5}, observers=[])
    with pytest.raises(ValueError, match=r"data\.path.*'text.txt'.*now 'other.txt'"):
        train.train("text", data="other.txt", out="run", resume=True, observers=[])


def test_fine_tuning_starts_from_an_earlier_run():
    _, losses = trained("first", 40)
    tuned = Losses()
    second = train.train(
        "text",
        data="text.txt",
        out="second",
        start="first",
        steps=3,
        options={"train.batch": 4, "data.context": 16},
        observers=[tuned],
    )
    assert tuned.seen[0][1] < 0.7 * losses[0][1]
    assert second.config.origin == "first" and second.config.model["dim"] == 32


def test_labelled_text_from_nothing_and_from_a_run_without_labels():
    small = {"model.dim": 32, "model.depth": 1, "model.heads": 2, "train.batch": 8}
    train.train("text", data="rows.jsonl", out="classifier", steps=30, options=small, observers=[])
    texts = ["a great film number 3", "a dull film number 99"]
    good, bad = (answer.labels for answer in predict("classifier", texts))
    assert next(iter(good)) == "good" and next(iter(bad)) == "bad"
    assert sum(good.values()) == pytest.approx(1, abs=1e-5)
    train.train(
        "text",
        data="text.txt",
        model="encoder",
        out="masked",
        steps=4,
        options=TINY | {"data.tokens": "words"},
        observers=[],
    )
    run = train.train(
        "text", data="rows.jsonl", out="tuned", start="masked", steps=3, options={"train.batch": 8}, observers=[]
    )
    assert run.config.model["dim"] == 32 and run.config.model["classes"] == 2
    start = r"masked is not a classifier; train a classifier on labelled text .*, with start='masked'"
    with pytest.raises(ValueError, match=start):
        predict("masked", ["x"])
    for run, does in (("masked", r"predicts masked tokens"), ("classifier", r"classifies \(use regard predict\)")):
        for write in (generate.generate, generate.samples):
            with pytest.raises(ValueError, match=f"encoder.*{does}.*generate"):
                write(generate.load(run), "a")


def test_any_module_and_any_tensors(everything):
    torch.manual_seed(0)
    x = torch.randn(200, 4)
    y = (x[:, 0] > 0).long()
    model = torch.nn.Linear(4, 2)
    run = regard.train(
        model=model,
        task="classify",
        data=(x, y),
        out="mine",
        steps=60,
        options={"optimiser": "adamw", "lr": 0.05},
        observers=[],
    )
    looks = [event for event in run.metrics() if event["event"] == "validation"]
    assert looks[-1]["accuracy"] > 0.9 and (run.path / "curves.png").exists()


# ── the command line ────────────────────────────────────────────────────────────────────────────────────────


def regard_command(capsys, *words):
    code = main.main(list(words))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_train_generate_and_predict_as_commands(capsys, everything):
    code, out, _ = regard_command(
        capsys, "train", "text", "--data", "text.txt", "--out", "mine", "--train.steps", "4", *TINY_WORDS
    )
    assert code == 0 and "validation" in out
    assert re.match(
        r"text\.txt: 1 file, 1,440 characters, 1,296 train / 144 validation, tokens: \d+ characters; decoder with "
        r"[\d,]+ parameters\n",
        out,
    )
    assert "── sample after step 4 ──\n" in out
    assert out.splitlines()[-1] == 'next: regard generate mine --prompt "..."'
    code, out, _ = regard_command(
        capsys, "generate", "mine", "--prompt", "the ", "--max-new", "12", "--seed", "1", "--top-k", "5"
    )
    assert code == 0 and out.startswith("the ") and len(out.strip()) > 4
    code, several, _ = regard_command(
        capsys, "generate", "mine", "--prompt=the ", "--max-new", "5", "--samples", "3", "--seed", "1"
    )
    assert code == 0 and several.count("──") == 6
    words = ["--model.dim", "32", "--model.depth", "1", "--model.heads", "2", "--train.steps", "5"]
    code, out, _ = regard_command(capsys, "train", "text", "--data=rows.jsonl", "--out", "labels", *words)
    assert code == 0 and out.splitlines()[-1] == 'next: regard predict labels "..."'
    confused = json.loads(Path("labels/confusion.json").read_text())
    assert confused["split"] == "validation" and confused["labels"] == ["bad", "good"]
    assert [sum(row) for row in confused["counts"]] == [3, 3] and os.path.getsize("labels/confusion.png") > 1000
    code, out, _ = regard_command(capsys, "predict", "labels", "a great film", "--json")
    assert code == 0 and set(json.loads(out)["labels"]) == {"good", "bad"}


def test_runs_are_numbered_and_the_last_one_is_resumed(capsys):
    for _ in range(2):
        assert regard_command(capsys, "train", "text", "--data", "text.txt", "--train.steps", "2", *TINY_WORDS)[0] == 0
    assert Run.exists("runs/text") and Run.exists("runs/text-2")
    trained("runs/named", 2)
    code, out, _ = regard_command(capsys, "train", "text", "--resume")
    assert code == 0 and "all 2 steps of runs/named are done" in out
    train.train(
        model=torch.nn.Linear(2, 1), task="regress", data=(torch.ones(9, 2), torch.ones(9)), steps=1, observers=[]
    )
    # the last one
    train.train("text", out="runs/text-2", resume=True, observers=[], options={"train.save_minutes": 4})
    code, out, _ = regard_command(capsys, "train", "text", "--resume")
    assert (
        code == 0
        and "all 2 steps of runs/text-2 are done; to train more, start a new run with --from runs/text-2" in out
    )


def test_help_explains_every_option(capsys):
    code, out, _ = regard_command(capsys, "train", "text", "--data", "text.txt", "--help")
    assert code == 0
    for words in (
        "--model.dim",
        "--train.minutes",
        "--data.context",
        "--data PATH",
        "the budget in minutes",
        "(default: 2.0)",
    ):
        assert words in out
    for words in (
        "--model.vocab",
        "--model.context",
        "--data.path",
        " \n",
    ):  # the data decides them, or it was said before
        assert words not in out
    assert "--data.text" in out and "--data.label" in out  # of tables
    assert "without --out: with the last that this recipe" in out
    code, out, _ = regard_command(capsys, "generate", "--help")
    assert code == 0 and "--temperature" in out and "--help-all" in out and "--top-p" not in out
    code, out, _ = regard_command(capsys, "generate", "--help-all")
    assert code == 0 and "--top-p" in out and "--stop" in out


WRONG = [
    (["train"], "regard train.*recipe"),
    (["train", "texts"], "recipe.*'texts'.*'text'"),
    (["train", "text", "--data", "nowhere.txt"], r"nowhere\.txt"),
    (["train", "text", "--data", ""], "data.*''.*--data"),
    (["train", "images", "--data", " "], "data.*' '.*--data"),
    (["train", "text", "--data"], "--data needs.*value after"),
    (["train", "text", "--data", "*.none"], r"file matches \*\.none; try"),
    (["train", "text", "--data", "empty"], r"empty.*\(hidden.*count\)"),
    (["train", "text", "--data", "empty.txt"], r"empty\.txt.*empty"),
    (["train", "text", "--data", "short.txt"], r"context=64.*token.*--data\.context 4"),
    (["train", "text", "--data", "latin.txt"], r"latin\.txt.*UTF-8.*3.*0xE9.*Latin-1"),
    (["train", "text", "--data", "binary"], "binary.*binary, not text.*NUL.*byte 1; give text"),
    (["train", "text", "text.txt"], r"'text\.txt'.*--data text\.txt"),
    (["train", "text", "--data", "text.txt", "--model.dimm=3"], r"--model\.dimm.*--model\.dim"),
    (["train", "text", "--data", "text.txt", "--train.minutes", "-1"], r"--train\.minutes.*-1\.0"),
    (["train", "text", "--data", "text.txt", "--train.device", "gpu", "--out", "new"], "device 'gpu'.*'cuda'"),
    (["train", "text", "--data", "text.txt", "--data.tokenizer", "no.json", "--out", "new"], r"give a tokenizer\.json"),
    (["train", "text", "--data", "text.txt", "--model.vocab", "9"], r"--model\.vocab follows.*data"),
    (["train", "text", "--data", "text.txt", "--model.context", "9"], r"give --data\.context"),
    (["train", "text", "--data", "text.txt", "--model", "swin"], "model.*'swin'"),
    (["train", "text", "--data", "text.txt", "--model.heads", "3"], "dim.*multiple.*heads"),
    (["train", "text", "--data", "text.txt", "--data.context", "100000"], "too few.*context=100000"),
    (["train", "text", "--data", "text.txt", "--out", "."], "choose another folder.*--out"),
    (["train", "text", "--resume", "--out", "nowhere"], "nowhere.*run"),
    (["generate"], "regard.*run.*none"),
    (["generate", "nowhere"], "nowhere.*not exist"),
    (["generate", "--temperature", "hot"], "run.*--temperature"),
    (["predict", "x"], "regard predict.*run.*input"),
    (["predict", "x", "a text", "--bogus"], "x does not exist.*run"),
    (["evaluate", "x", "--memory", "9"], "x does not exist.*run"),
    (["train", "text", "--data", "text.txt", "latin.txt"], r"--data.*latin\.txt"),
    (["train", "text", "--data=text.txt", "latin.txt"], r"give their folder.*glob.*quotes: --data '\*\.txt'"),
    (["train", "text", "--resume"], "run.*recipe"),
    (
        ["train", "text", "--data", "text.txt", "--train.optimiser", "sgd", "--train.adam-lr", "0.1"],
        "adam-lr goes.*muon",
    ),
]


@pytest.mark.parametrize("words, said", WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_what_is_wrong_is_one_line(capsys, tmp_path, words, said):
    (tmp_path / "empty").mkdir()
    for name, content in (
        ("empty.txt", b""),
        ("short.txt", b"short\n"),
        ("latin.txt", b"caf\xe9 "),
        ("binary", b"\1\0\2"),
    ):
        (tmp_path / name).write_bytes(content)
    code, out, error = regard_command(capsys, *words)
    assert (code, out) == (2, "") and re.search(said, error)
    assert error.count("\n") == 1 and error.startswith("regard: ")
    assert not (tmp_path / "new").exists()


def test_resuming_as_something_else_is_one_line(capsys):
    trained("mine", 2)
    for words, said in (
        (["--model.dim", "128"], "model.dim was 32 and is now 128"),  # which is the recipe's default
        (["--model", "encoder"], "mine was started with another --model: decoder, not encoder; leave it out"),
        (["--from", "other"], "mine was started with another --from: none, not other; leave it out"),
    ):
        code, out, error = regard_command(capsys, "train", "text", "--resume", "--out", "mine", *words)
        assert (code, out) == (2, "") and said in error and error.count("\n") == 1
    words = ["--model", "decoder", "--data", "text.txt", "--train.steps", "2", *TINY_WORDS]
    code, out, _ = regard_command(capsys, "train", "text", "--resume", "--out", "mine", *words)
    assert code == 0 and "all 2 steps of mine are done" in out  # the same command again is fine


def test_resuming_on_other_data_says_what_differs(capsys):
    trained("mine", 2)
    text = Path("text.txt")
    text.write_text(text.read_text() + SENTENCES)
    code, out, error = regard_command(capsys, "train", "text", "--resume", "--out", "mine")
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert re.search("mine.*bytes.*1,440.*1,512.*characters.*1,440", error)
    assert error.endswith(
        "Give the original data to go on, or start a new run, with --from mine if you want its weights\n"
    )
    classifier("labels", 2)
    rows = Path("rows.jsonl")
    rows.write_text("\n".join(rows.read_text().splitlines()[2:]))
    with pytest.raises(ValueError, match="^labels.*data.*60.*now 58; train.*54"):
        train.train("text", out="labels", resume=True, observers=[])


def test_a_start_keeps_its_body_and_says_so_when_another_is_asked_for(capsys):
    trained("old", 2)
    start = ["train", "text", "--data", "text.txt", "--from", "old", "--out", "new"]
    start += ["--train.steps", "2", "--data.context", "16"]
    for asked in ("64", "128"):  # 128 is the recipe's default, and still another one than 32
        code, out, error = regard_command(capsys, *start, "--model.dim", asked)
        assert (code, out) == (2, "") and not Path("new").exists()
        assert error.startswith(f"regard: cannot start from old: model.dim is 32 there, but {asked} here")
    assert regard_command(capsys, *start, "--model.dim", "32", "--model.dropout", "0.1")[0] == 0
    assert Run.open("new").config.model["dim"] == 32 and Run.open("new").config.model["dropout"] == 0.1


def test_a_decoder_is_no_start_for_a_classifier(capsys):
    trained("old", 2)
    code, out, error = regard_command(capsys, "train", "text", "--data", "rows.jsonl", "--from", "old", "--out", "new")
    assert (code, out) == (2, "") and error.startswith("regard: cannot start from old: ")
    assert "kind decoder" in error and error.endswith("regard train text --model encoder\n")
    assert not Path("new").exists()


def test_what_does_not_fit_a_start_is_named_with_both_shapes():
    trained("old", 2)
    model = generate.load("old")
    model.embed.weight = torch.nn.Parameter(model.embed.weight[:-1])
    with pytest.raises(ValueError, match=r"embed.weight.*\(\d+, 32\).*\(\d+, 32\) here(.*\d+ more)?$") as error:
        copy_weights(model, Run.open("old"))
    assert "and 0 more" not in str(error.value)


@pytest.mark.parametrize("optimiser, rate", [("adamw", 1e-3), ("sgd", 0.1)])
def test_another_optimiser_drops_the_rates_of_the_recipes_own(capsys, optimiser, rate):
    words = ["--train.steps", "2", "--train.optimiser", optimiser, *TINY_WORDS]
    assert regard_command(capsys, "train", "text", "--data", "text.txt", "--out", "mine", *words)[0] == 0
    config = Run.open("mine").config.train
    assert config["optimiser"] == optimiser and config["adam_lr"] is None and config["lr"] is None
    assert get_recipe("text").defaults("text.txt").train.adam_lr is not None  # there was something to drop
    settled = apply_settings(get_recipe("text").defaults("rows.jsonl"), {"train.optimiser": optimiser})
    assert settled.train.peak_lr == rate
    own = apply_settings(get_recipe("text").defaults("rows.jsonl"), {"train.optimiser": optimiser, "train.lr": 0.5})
    assert own.train.lr == 0.5


def test_a_start_that_fails_leaves_nothing(monkeypatch):
    def fail(self, step, done):
        raise RuntimeError("planted")

    Path("there").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("regard.training.step.Stepper.gradients", fail)
        with pytest.raises(RuntimeError, match="planted"):
            trained("new/deeply/run", 2)
        pair = torch.ones(9, 2), torch.ones(9, 2)
        with pytest.raises(RuntimeError, match="planted"):
            train.train(model=torch.nn.Linear(2, 2), task="regress", data=pair, out="there", steps=2, observers=[])
    assert not Path("new").exists()
    assert Path("there").is_dir() and not list(Path("there").iterdir())
    starts_again, _ = trained("new/deeply/run", 2)
    assert starts_again.model_file.exists()


def test_a_run_that_fails_after_a_step_is_kept(monkeypatch):
    def fail(self, step, steps):
        if step == 2:
            raise RuntimeError("planted")

    monkeypatch.setattr("regard.training.step.Stepper.move", fail)
    with pytest.raises(RuntimeError, match="planted"):
        trained("new", 4)
    assert [event["step"] for event in Run.open("new").metrics()] == [1, 2]


def classifier(out, steps, data="rows.jsonl", **more):
    small = {"model.dim": 32, "model.depth": 1, "model.heads": 2, "train.batch": 8, "train.evaluate_every": 1000}
    return train.train("text", data=data, out=out, steps=steps, options=small | more, observers=[])


def test_predict_reads_files_and_takes_no_typing_error_for_a_text(capsys, tmp_path):
    classifier("labels", 2)
    (tmp_path / "review.txt").write_text("a great film number 3")
    said = {}
    for given, kind in (("a great film number 3", "text"), ("review.txt", "file"), ("either/or, a film", "text")):
        code, out, error = regard_command(capsys, "predict", "labels", given, "--json")
        answer = said[given] = json.loads(out)
        assert code == 0 and (answer["input"], answer["kind"]) == (given, kind)
    assert said["review.txt"]["labels"] == said["a great film number 3"]["labels"]
    (tmp_path / "empty.txt").write_bytes(b" \n")
    (tmp_path / "binary").write_bytes(b"a\0b")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    for given, words in (
        ("nowhere.txt", "there is no file nowhere.txt; if this is a text, write it into a file and give that file"),
        ("reviews/nowhere", "there is no file reviews/nowhere; "),
        ("cache", "cache is a folder; give a text, or files of text: cache/*.txt"),
        ("empty.txt", "empty.txt is empty; give a file with text in it"),
        ("binary", "binary is binary, not text: there is a NUL at byte 1"),
        ("latin", "latin is not text in UTF-8: byte 3 is 0xE9"),
        ("", "the text is empty"),
    ):
        code, out, error = regard_command(capsys, "predict", "labels", given)
        assert (code, out, error.count("\n")) == (2, "", 1) and words in error
    assert regard_command(capsys, "predict", "labels", "x" * 5000)[0] == 0  # too long for the name of a file
    code, out, error = regard_command(capsys, "predict", "labels", "nowhere.txt", "a great film", "empty.txt")
    assert (code, out.count("\n"), error.count("\n")) == (1, 1, 2) and "a great film" in out


def test_unknown_words_are_counted(capsys):
    classifier("labels", 2, **{"data.tokens": "words"})
    code, out, error = regard_command(capsys, "predict", "labels", "a zebra, a yak and a great xylophone film")
    assert code == 0 and "good" in out
    assert error.startswith("regard: a zebra") and re.search("unknown.*zebra, ", error)
    assert regard_command(capsys, "predict", "labels", "a great film")[2] == ""
    trained_words()
    code, out, error = regard_command(
        capsys, "generate", "words", "--prompt", "the zebra", "--max-new", "3", "--seed", "1"
    )
    assert code == 0 and error == "regard: 1 word is unknown to the model: zebra\n"


def trained_words():
    train.train("text", data="text.txt", out="words", steps=2, options=TINY | {"data.tokens": "words"}, observers=[])


def test_generate_takes_the_path_of_a_run():
    run, _ = trained("mine", 2)
    loaded = "".join(regard.generate(regard.load("mine"), "the ", max_new=5, seed=1))
    assert "".join(regard.generate("mine", "the ", max_new=5, seed=1)) == loaded
    assert "".join(regard.generate(run.path, "the ", max_new=5, seed=1)) == loaded
    assert generate.samples("mine", "the ", max_new=5, seed=1) == [loaded]
    with pytest.raises(ValueError, match=r"samples=2.*regard\.verbs\.generate\.samples"):
        regard.generate("mine", samples=2)
    assert repr(run) == "<Run mine: text, decoder>"


@pytest.mark.parametrize(
    "labels, said",
    [
        (torch.tensor([0, 1, 2] * 10), "labels.*0.*1.*2 scores.*got 2"),
        (torch.tensor([0, 1, -1] * 10), "labels.*0.*1.*2 scores.*got -1"),
        (torch.zeros(30), r"task='classify'.*float32.*labels\.long\(\).*task='regress'"),
    ],
)
def test_labels_that_cannot_be_are_refused_before_the_first_step(labels, said):
    with pytest.raises(ValueError, match=said):
        train.train(
            model=torch.nn.Linear(4, 2), task="classify", data=(torch.randn(30, 4), labels), out="mine", steps=2
        )
    assert not Path("mine").exists()


def test_labels_that_do_not_count_may_be_anything():
    labels = torch.tensor([0, 1, -100] * 10)
    run = train.train(
        model=torch.nn.Linear(4, 2),
        task="classify",
        data=(torch.randn(30, 4), labels),
        out="mine",
        steps=2,
        options={"optimiser": "adamw"},
        observers=[],
    )
    assert run.model_file.exists()


def test_a_look_at_labels_changes_nothing_that_follows():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)
    )
    model[2].eval()
    before, random = {name: x.clone() for name, x in model.state_dict().items()}, torch.get_rng_state()
    x, y = torch.randn(30, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 1] * 10)
    check_labels(model, as_task("classify"), TensorSource((x, y)), (x, y))
    assert torch.equal(random, torch.get_rng_state()) and not model[2].training and model.training
    assert all(torch.equal(before[name], x) for name, x in model.state_dict().items())


def test_a_prompt_with_unknown_characters_is_one_line(capsys):
    trained("mine", 2)
    code, out, error = regard_command(capsys, "generate", "mine", "--prompt", "the ß")
    assert (code, out) == (2, "")
    assert error.startswith("regard: unknown character 'ß' (U+00DF) at place 4 of the text: it is not among the ")
    assert error.endswith("; leave it out, or train with --data.tokens bytes, which knows all characters\n")


def test_a_start_brings_its_tokenizer_and_another_one_is_refused():
    trained("old", 2)
    for option, value in (("data.tokens", "bytes"), ("data.tokenizer", "mine.json")):
        with pytest.raises(ValueError, match=f"old.*{option} {value}"):
            train.train(
                "text", data="text.txt", start="old", out="new", steps=2, options=TINY | {option: value}, observers=[]
            )
    assert not Path("new").exists()


@pytest.mark.parametrize("several", [False, True])
def test_an_error_of_a_resume_is_told_by_one_of_several_processes(several, monkeypatch, tmp_path):
    """In Python as in the command, for one run and for several."""
    told = []
    shared = SimpleNamespace(set=lambda key, value: None)
    mine = SimpleNamespace(world=2, shared=shared, say_error=lambda message: told.append(message))
    monkeypatch.setattr(ranks, "_joined", mine)
    monkeypatch.setattr(Repeats, "exists", lambda path: several)
    with pytest.raises(RankError):
        train.train("text", out=tmp_path / "missing", resume=True)
    assert len(told) == 1 and "missing" in told[0]


@pytest.mark.parametrize("option, value", [("train.lr", -1), ("model.dim", 30), ("model.attention.width", 3)])
def test_an_option_that_cannot_be_is_called_as_python_gives_it(option, value):
    with pytest.raises(RegardError, match=rf'^options=\{{"{re.escape(option)}": \.\.\.\}} .*{value}|leave one out$'):
        regard.train("text", options={option: value})
