"""OpenAI's own client, many clients at once, and the command, over real connections."""

import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

import openai
import pytest
import torch

from regard.data.chat_template import PLAIN
from regard.data.fast_tokenizers import Bytes
from regard.generation.generate import generate_texts
from regard.generation.model_slots import make_slots
from regard.generation.sampling import Sampling
from regard.generation.scheduler import Scheduler
from regard.generation.writer import Writer
from regard.models.decoder import Decoder, DecoderConfig
from regard.serving.guard import listen
from regard.serving.openai import make_text_server
from regard.verbs.main import main
from tests.serving.asking import Echo

KEY = "a-key-for-clients"


@pytest.fixture(scope="module")
def serving():
    """Where servers answer: of a small model, and of one that repeats what it is told."""
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(vocab=256, context=96, dim=32, depth=2, heads=4)).eval()
    with torch.no_grad():
        model.head.weight.mul_(20)  # far from ties, which rounding would decide
    writer = Writer(model, Bytes(), PLAIN)
    slots = {"tiny": make_slots(model, 3, 96), "echo": Echo(count=6)}
    found, ends = {"writer": writer}, []
    for name, each in slots.items():
        scheduler = Scheduler(each, ids=256, queue=8 if name == "tiny" else 256)
        scheduler.start()
        server, listening = make_text_server(writer, scheduler, name, KEY), listen(None)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        found[name] = (f"http://127.0.0.1:{listening.getsockname()[1]}/v1", scheduler)
        ends.append((server, scheduler, thread, listening))
    yield found
    for server, scheduler, thread, listening in ends:
        server.should_exit = True
        thread.join(10)
        scheduler.close()
        listening.close()


@pytest.fixture(scope="module")
def client(serving):
    with openai.OpenAI(base_url=serving["tiny"][0], api_key=KEY, max_retries=0, timeout=30) as made:
        yield made


def wanted(serving, prompt, **how):
    writer = serving["writer"]
    return generate_texts(writer.model, prompt, tokenizer=writer.tokenizer, sampling=Sampling(**how))


def test_a_completion_is_what_generate_writes(serving, client):
    found = client.completions.create(
        model="tiny", prompt="Once upon", max_tokens=12, seed=5, temperature=0.9, top_p=0.95, n=3
    )
    texts = wanted(serving, "Once upon", max_new=12, seed=5, temperature=0.9, top_p=0.95, samples=3)
    assert [choice.text for choice in found.choices] == texts and len(set(texts)) == 3
    assert found.usage.prompt_tokens == 9 and found.usage.completion_tokens == 36
    assert {choice.finish_reason for choice in found.choices} == {"length"}


def test_a_stream_is_the_same_text(serving, client):
    parts = list(client.completions.create(model="tiny", prompt="Once", max_tokens=40, temperature=0, stream=True))
    (text,) = wanted(serving, "Once", max_new=40, temperature=0)
    assert "".join(part.choices[0].text for part in parts) == text and len(parts) > 5
    assert parts[-1].choices[0].finish_reason == "length"


def test_a_chat_whole_and_in_parts(serving, client):
    messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello 🙂"}]
    found = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=16, seed=1, logprobs=True, top_logprobs=2
    )
    (text,) = wanted(serving, PLAIN.render(messages), max_new=16, seed=1, temperature=1.0, stop=(PLAIN.end,))
    assert found.choices[0].message.content == text and found.choices[0].message.role == "assistant"
    assert len(found.choices[0].logprobs.content) == 16
    assert len(found.choices[0].logprobs.content[0].top_logprobs) == 2
    stream = client.chat.completions.create(
        model="tiny",
        messages=messages,
        max_completion_tokens=16,
        seed=1,
        stream=True,
        stream_options={"include_usage": True},
    )
    parts = list(stream)
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == text
    assert parts[-1].usage.completion_tokens == 16


def test_a_stop_text(serving, client):
    (whole,) = wanted(serving, "x", max_new=40, temperature=0)
    stop = whole[5:7]
    found = client.completions.create(model="tiny", prompt="x", max_tokens=40, temperature=0, stop=[stop, "zzz"])
    assert found.choices[0].text == whole[: whole.index(stop)]
    assert found.choices[0].finish_reason == "stop"


def test_models(client):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "regard"


def test_errors_have_their_classes(serving, client):
    ask = client.completions.create
    with pytest.raises(openai.NotFoundError) as found:
        ask(model="gpt-4", prompt="x")
    assert found.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as found:
        ask(model="tiny", prompt="x" * 97)
    assert found.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as found:
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "x"}], tools=[{"a": 1}])
    assert found.value.param == "tools"
    with pytest.raises(openai.RateLimitError):
        ask(model="tiny", prompt="x", n=12)
    with pytest.raises(openai.APIStatusError) as found:
        ask(model="tiny", prompt="x" * 2**23)
    assert found.value.status_code == 413
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=serving["tiny"][0], api_key="wrong", max_retries=0).models.list()


def post(address, body):
    """A connection that has asked."""
    connection = http.client.HTTPConnection(address.split("/")[2], timeout=30)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/completions", json.dumps(body), headers)
    return connection


def test_answers_on_one_connection_do_not_wait_for_each_other(serving):
    """Where the kernel holds the second part of an answer back until the first is acknowledged, each takes 40 ms."""
    talk = http.client.HTTPConnection(*serving["echo"][0].split("/")[2].split(":"), timeout=20)
    seconds = []
    for _ in range(41):
        began = time.monotonic()
        talk.request("GET", "/health", headers={"Authorization": f"Bearer {KEY}"})
        assert talk.getresponse().read()
        seconds.append(time.monotonic() - began)
    talk.close()
    assert sorted(seconds)[10] < 0.03, seconds


def test_many_clients_at_once_each_hear_their_own(serving):
    """Twenty-four clients over six slots: whole and in events, some of which leave in the middle."""
    address, scheduler = serving["echo"]
    wrong = []

    def run(number):
        text = f"client {number} 🙂é" * (1 + number % 3)
        body = {"prompt": text + "\x02", "max_tokens": len(text.encode()), "stream": number % 2 == 0}
        connection = post(address, body)
        answer = connection.getresponse()
        if number % 5 == 4:
            answer.read(20)
            connection.close()
            return
        said = answer.read()
        if number % 2 == 0:
            events = [json.loads(part[6:]) for part in said.split(b"\n\n") if part.startswith(b"data: {")]
            found = "".join(event["choices"][0]["text"] for event in events)
        else:
            found = json.loads(said)["choices"][0]["text"]
        if found != text:
            wrong.append((number, found))
        connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not wrong
    wait_until(lambda: scheduler.snapshot().running == 0)


def test_a_connection_that_breaks_frees_its_slot(serving):
    address, scheduler = serving["echo"]
    for stream in (True, False):
        connection = post(address, {"prompt": "ab\x02", "max_tokens": 4090, "stream": stream})
        wait_until(lambda: scheduler.snapshot().running == 1)
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
        wait_until(lambda: scheduler.snapshot().running == 0)


def wait_until(holds):
    for _ in range(1000):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it does not come")


# ── the command


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A run of text, as `regard train` leaves it."""
    folder = tmp_path_factory.mktemp("serve")
    (folder / "a.txt").write_text("The cat sat. What is 3 + 4? Once upon a time.\n" * 60)
    out = str(folder / "run")
    sizes = ["--model.dim", "16", "--model.depth", "1", "--model.heads", "2", "--data.context", "32"]
    words = ["train", "text", "--data", str(folder / "a.txt"), "--out", out, "--no-report", "--train.steps", "2"]
    assert main([*words, *sizes]) == 0
    return folder, out


def test_the_line_that_is_printed_works_and_the_end_is_clean(run_folder):
    _, out = run_folder
    command = [sys.executable, "-m", "regard", "serve", out, "--slots", "2"]
    environment = {name: value for name, value in os.environ.items() if name != "REGARD_KEY"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            first, key, curl = (process.stdout.readline() for _ in range(3))
            address = re.match(r"(http://127\.0\.0\.1:(\d+)/v1)   model run, 2 texts at once, 32 tokens", first)
            secret = key.removeprefix("key: ").strip()
            assert len(secret) >= 43
            words = shlex.split(curl)
            assert words[0] == "curl" and words[1] == f"{address[1]}/completions"
            headers = dict(words[i + 1].split(": ") for i, word in enumerate(words) if word == "-H")
            assert headers["Authorization"] == f"Bearer {secret}"
            connection = http.client.HTTPConnection("127.0.0.1", int(address[2]), timeout=30)
            connection.request("POST", "/v1/completions", words[words.index("-d") + 1], headers)
            answer = connection.getresponse()
            assert answer.status == 200 and json.loads(answer.read())["usage"]["completion_tokens"] > 0
            connection.close()
            assert main(["serve", out, "--port", address[2]]) == 2  # it is taken
        finally:
            process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=20)
    assert process.returncode == 0 and said == "ended: 1 text, 19 tokens\n" and errors == ""


@pytest.mark.parametrize(
    "words, said",
    [
        (["--port", "70000"], "port must be"),
        (["--slots", "0"], "slots must be"),
        (["--context", "33"], "more than the 32 tokens"),
        (["--key", "secret"], "set REGARD_KEY"),
        (["and", "another"], "takes one target"),
    ],
)
def test_what_cannot_be_served_is_one_line(run_folder, capsys, words, said):
    assert main(["serve", run_folder[1], *words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_a_weak_key_is_refused(run_folder, capsys, monkeypatch):
    monkeypatch.setenv("REGARD_KEY", "abc")
    assert main(["serve", run_folder[1]]) == 2
    assert "8 or more" in capsys.readouterr().err


def test_serving_that_ends_before_it_begins_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("regard.verbs.serve.serve", lambda target, **how: None)
    assert main(["serve", "tiny"]) == 2
    assert capsys.readouterr().err == "regard: serving tiny ended before it began\n"


def test_prompts_of_a_file(run_folder, capsys):
    folder, out = run_folder
    (folder / "prompts.txt").write_text("The\n\ncat \r\nÄ\nThe", "utf-8")
    lines = folder / "out.jsonl"
    how = ["--max-new", "6", "--seed", "2"]
    assert main(["generate", out, "--prompts", str(folder / "prompts.txt"), "--out", str(lines), *how]) == 2
    heard = capsys.readouterr()
    assert heard.out == f"{lines}: 3 texts\n"
    assert "line 4 of" in heard.err and "unknown character 'Ä'" in heard.err and "1 of 4 prompts" in heard.err
    found = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    assert [each["prompt"] for each in found] == ["The", "cat ", "Ä", "The"]
    assert found[2]["finish"] == "error" and found[0]["text"] == found[3]["text"]
    assert main(["generate", out, "--prompt", "The", *how]) == 0
    assert capsys.readouterr().out == f"The{found[0]['text']}\n"
    assert main(["generate", out, "--prompts", str(folder / "prompts.txt"), "--samples", "2", *how]) == 2
    told = capsys.readouterr().out
    assert f"── 1 ──\nThe{found[0]['text']}\n" in told and told.count("──\nThe") == 4
    (folder / "prompts.txt").write_text("The\n", "utf-8")
    assert main(["generate", out, "--prompts", str(folder / "prompts.txt"), "--max-new", "2"]) == 0  # any seed
