"""Chat templates: what they write, and that those of others reach nothing but the messages."""

from __future__ import annotations

import json

import pytest

from regard.data import chat_template
from regard.data.chat_template import (
    PLAIN,
    ChatTemplate,
    check_messages,
    read_chat_template,
    try_template,
    without_prefix,
)

QUESTION = [{"role": "user", "content": "2+2?"}]
ANSWERED = [*QUESTION, {"role": "assistant", "content": "4"}]


def test_the_plain_template():
    assert PLAIN.render(QUESTION) == "<|user|>\n2+2?<|end|>\n<|assistant|>\n"
    assert PLAIN.render(ANSWERED, reply=False) == "<|user|>\n2+2?<|end|>\n<|assistant|>\n4<|end|>\n"
    assert PLAIN.end == "<|end|>"
    assert ChatTemplate.from_json(json.loads(json.dumps(PLAIN.to_json()))) == PLAIN


def test_what_templates_of_others_use_is_there():
    source = (
        "{%- set first = messages[0] %}{{ bos_token }}{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}"
        "{% generation %}{{ m.content | trim }}{% endgeneration %}{% endfor %}{{ first | tojson }}{{ 2 * 3 }}"
    )
    made = ChatTemplate(source, {"bos_token": "<s>"})
    assert made.render(ANSWERED) == '<s>4{"role": "user", "content": "2+2?"}6'


HOSTILE = {
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals": "{{ raise_exception.__globals__.sys }}",
    "format": "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "import": "{% import 'os' as os %}",
    "include": "{% include '/etc/passwd' %}",
    "change": "{{ messages.append(1) }}",
    "repeat": "{{ 'a' * 10**12 }}",
    "power": "{{ 9 ** 999999999 }}",
    "much": "{% for i in range(99999) %}{% for j in range(99999) %}aaaaaaaaaaaaaaaa{% endfor %}{% endfor %}",
    "many": "{% for i in range(999999999) %}{% endfor %}",
    "no template": "{% for %}",
    "refuses": "{{ raise_exception('only system') }}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_hostile_templates_are_refused_in_one_line(source):
    with pytest.raises(ValueError, match=r"chat template of the model|not a Jinja template") as caught:
        ChatTemplate(source).render(QUESTION)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_a_template_that_never_ends_is_stopped(monkeypatch):
    monkeypatch.setattr(chat_template, "SECONDS", 0.5)
    loops = "{% for i in range(9999) %}" * 4 + "{% endfor %}" * 4
    with pytest.raises(ValueError, match="did not end"):
        try_template(ChatTemplate(loops))
    with pytest.raises(ValueError, match="characters"):
        try_template(ChatTemplate("a" * (chat_template.MOST_SOURCE + 1)))


def test_a_template_is_tried_in_another_process():
    try_template(PLAIN)
    with pytest.raises(ValueError, match="only system"):
        try_template(ChatTemplate(HOSTILE["refuses"]))


@pytest.mark.parametrize("data", [None, [], {"template": 1}, {"template": "a"}, {"template": "a", "special": {"b": 1}}])
def test_a_file_that_holds_no_template(data):
    with pytest.raises(ValueError, match=r"chat_template\.json must be"):
        ChatTemplate.from_json(data)


def test_messages_are_checked():
    check_messages(ANSWERED)
    for wrong in ("hello", [], [1], [{"role": "user"}], [{"role": "tool", "content": "a"}], [{"content": "a"}]):
        with pytest.raises(ValueError, match="message"):
            check_messages(wrong)


def test_signs_that_the_tokenizer_writes_are_not_written_twice():
    class Framed:
        prefix = (1,)

        def decode(self, ids):
            return "<s>"

    assert without_prefix("<s>a<s>", Framed()) == "a<s>"
    assert without_prefix("<s>a", object()) == "<s>a"


def test_files_of_templates(tmp_path):
    source = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    with pytest.raises(ValueError, match="has no chat_template"):
        read_chat_template(str(tmp_path))
    (tmp_path / "chat_template.jinja").write_text(source)
    assert read_chat_template(str(tmp_path)) == ChatTemplate(source, {"eos_token": "</s>"})
    assert read_chat_template(str(tmp_path / "chat_template.jinja")).end == "</s>"
    named = {"chat_template": [{"name": "tools", "template": "b"}, {"name": "default", "template": source}]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named))
    assert read_chat_template(str(tmp_path / "tokenizer_config.json")) == ChatTemplate(source)
    (tmp_path / "chat_template.jinja").write_text("{{ ''.__class__ }}{{ ''.__class__.__mro__ }}")
    with pytest.raises(ValueError, match=r"chat_template\.jinja"):
        read_chat_template(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="there is no"):
        read_chat_template(str(tmp_path / "none.json"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no chat template"):
        read_chat_template(str(tmp_path / "empty"))
