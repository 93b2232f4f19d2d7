"""The command: one file, or a server for one user; and what it refuses."""

import base64
import hashlib
import re

import pytest

from regard.serving.guard import listen
from regard.story import page, server
from regard.verbs.main import main
from tests.look.asked import TOKEN, ask, check_answer


@pytest.fixture(scope="module")
def app(built):
    return server.app(page.html(built[0]), TOKEN)


def test_the_page_is_served_to_who_has_the_token(app):
    answer = ask(app)
    check_answer(answer, [200])
    assert b"From a sum to attention" in answer.body
    for refused in (ask(app, query=""), ask(app, query="token=other"), ask(app, host="evil.example")):
        check_answer(refused, [403])
    assert ask(app, path="/other").status == 404
    assert ask(app, method="POST").status == 405


def test_the_policy_allows_its_own_style_and_script_only(built):
    text = page.html(built[0])
    allowed = page.policy()
    for tag, kind in (("style", "style-src"), ("script", "script-src")):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(inside) == 1
        digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in allowed
    assert "connect-src 'none'" in allowed and "default-src 'none'" in allowed
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", text)
    assert " style=" not in text.partition("<script")[0]


def test_one_file_from_the_command(built, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("regard.story.build.build", lambda tell: built[0])
    assert main(["story", "--out", str(tmp_path / "story.html"), "--docs", "."]) == 0
    assert "story.html: 0." in capsys.readouterr().out
    text = (tmp_path / "story.html").read_text("utf-8")
    assert len(text) < 1_500_000
    assert 'href="./attention.html#1-five-memories"' in text


@pytest.mark.parametrize(
    "words, said",
    [
        (["--out", "story.pdf"], ["story.pdf", ".html"]),
        (["--out", "a.html", "--port", "80"], ["--port", "--out"]),
        (["--port", "70000"], ["70000", "65,535"]),
        (["--out", "nowhere/a.html"], ["nowhere/a.html", "folder"]),
        (["something"], ["something", "--help"]),
        (["--docs", "javascript:alert(1)"], ["javascript", "http"]),
        (["--ot", "a.html"], ["--ot"]),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_built(words, said, monkeypatch, capsys):
    monkeypatch.setattr("regard.story.build.build", lambda tell: pytest.fail("it was built"))
    assert main(["story", *words]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and all(word in message for word in said), message


def test_a_port_in_use_is_refused_before_anything_is_built(monkeypatch, capsys):
    monkeypatch.setattr("regard.story.build.build", lambda tell: pytest.fail("it was built"))
    with listen(None) as taken:
        port = taken.getsockname()[1]
        assert main(["story", "--port", str(port)]) == 2
    assert str(port) in capsys.readouterr().err


def test_help(capsys):
    assert main(["story", "--help"]) == 0
    text = capsys.readouterr().out
    assert "regard story --out story.html" in text and "--docs" in text
