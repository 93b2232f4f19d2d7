"""Chat templates: messages of roles become one text, as a model was taught to read them.

A template of others is a Jinja program found in a file. It runs in Jinja's sandbox, which changes nothing and reaches
nothing but the messages, and its text is bounded; it is tried in a process of its own before it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from regard import files
from regard.data.trial import run_trial
from regard.errors import RegardError, did_you_mean

FILE = "chat_template.json"  # of a run
CONFIG, SOURCE = "tokenizer_config.json", "chat_template.jinja"  # of a model of others
SIGNS = ("bos_token", "eos_token", "unk_token", "pad_token")  # that templates name
ROLES = ("system", "user", "assistant")
MOST_SOURCE = 1 << 17  # characters of a template
MOST_ADDED = 1 << 20  # characters of a text beyond four times those of its messages
SECONDS, MEMORY = 10.0, 1 << 30  # for what is tried
WORD = "an answer"

# of models that have no template; the marks are plain text, which every tokenizer can write
PLAIN_SOURCE = (
    "{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


@dataclass(frozen=True)
class ChatTemplate:
    """How messages become a text.

    source   the template, in Jinja
    special  the signs that it may name: {"bos_token": "<s>", ...}
    """

    source: str = PLAIN_SOURCE
    special: Mapping[str, str] = field(default_factory=dict)

    def render(self, messages: Sequence[Mapping[str, str]], *, reply: bool = True) -> str:
        """The text of messages [{"role": "user", "content": "..."}, ...]. reply: up to where the next answer
        of the assistant begins"""
        check_messages(messages)
        most = MOST_ADDED + 4 * sum(len(message["content"]) for message in messages)
        parts: list[str] = []
        length = 0
        try:
            for part in self._compiled.generate(
                messages=[dict(message) for message in messages],
                add_generation_prompt=reply,
                tools=None,
                documents=None,
                **self.special,
            ):
                parts.append(part)
                length += len(part)
                if length > most:
                    raise RegardError(f"it writes more than {most:,} characters")
        except RegardError as error:
            raise RegardError(f"the chat template of the model refuses these messages: {error}") from error
        except Exception as error:  # whatever a template of others does
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise RegardError(f"the chat template of the model cannot be used: {said}") from error
        return "".join(parts)

    @cached_property
    def end(self) -> str:
        """What it writes after an answer, without spaces around it: there generation ends. It may be empty."""
        messages = [{"role": "user", "content": "a question"}, {"role": "assistant", "content": WORD}]
        return self.render(messages, reply=False).rpartition(WORD)[2].strip()

    def prompt(self, messages: Sequence[Mapping[str, str]], tokenizer: Any) -> str:
        """The text after which the assistant answers, as `generate` takes it: without the signs that the
        tokenizer puts before every text."""
        return without_prefix(self.render(messages), tokenizer)

    def to_json(self) -> dict[str, Any]:
        return {"template": self.source, "special": dict(self.special)}

    @classmethod
    def from_json(cls, data: Any) -> ChatTemplate:
        """The template of a chat_template.json of ours."""
        source = data.get("template") if isinstance(data, dict) else None
        special = data.get("special") if isinstance(data, dict) else None
        known: dict[str, Any] = special if isinstance(special, dict) else {"": None}
        if not isinstance(source, str) or not all(isinstance(each, str) for each in known.values()):
            raise RegardError(f'{FILE} must be {{"template": text, "special": signs}}, got {str(data)[:60]}')
        return cls(source, known)

    @property
    def _compiled(self) -> Any:
        return _compile(self.source)


PLAIN = ChatTemplate()


def check_messages(messages: Any) -> None:
    """Raise unless these are messages: a list of roles and texts."""
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise RegardError(
            'messages must be a list such as [{"role": "user", "content": "..."}], with at least one, got '
            f"{str(messages)[:60]!r}"
        )
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping):
            raise RegardError(f"message {number} must have a role and a content, got {str(message)[:60]!r}")
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            near = did_you_mean(role, ROLES) if isinstance(role, str) else ""
            raise RegardError(
                f"message {number} has the unknown role {str(role)[:40]!r}; {near}known: {', '.join(ROLES)}"
            )
        if not isinstance(content, str):
            raise RegardError(f"message {number} ({role}) must have a text as content, got {str(content)[:40]!r}")


def without_prefix(text: str, tokenizer: Any) -> str:
    """A text without the signs that the tokenizer puts before every text; else a template that writes them, too,
    would write them twice."""
    prefix = list(getattr(tokenizer, "prefix", ()))
    if not prefix:
        return text
    return text.removeprefix(tokenizer.decode(prefix))


def try_template(template: ChatTemplate) -> None:
    """Raise unless a template of others writes a question in time, in a process of its own: nothing here could
    stop one that loops."""
    if len(template.source) > MOST_SOURCE:
        raise RegardError(f"the chat template has {len(template.source):,} characters, more than {MOST_SOURCE:,}")
    run_trial(PROBE, template.to_json(), what="the chat template", seconds=SECONDS, memory=MEMORY)


PROBE = """
from regard.data.chat_template import ChatTemplate
template = ChatTemplate.from_json(given)
question = [{"role": "user", "content": "What is 2 + 2?"}]
template.render(question)
template.render([*question, {"role": "assistant", "content": "4"}, *question])
"""


# ── of a model of others


def has_chat_template(folder: Path) -> bool:
    """Does the folder of a model hold a chat template?"""
    if (folder / SOURCE).exists():
        return True
    about = files.read_json(folder / CONFIG) if (folder / CONFIG).exists() else None
    return isinstance(about, Mapping) and "chat_template" in about


def read_chat_template(given: str) -> ChatTemplate:
    """The template of a file, or of the folder of a model. It is tried before it is returned."""
    path = Path(given).expanduser()
    if path.is_dir():
        there = [path / name for name in (SOURCE, CONFIG) if (path / name).exists()]
        if not there:
            raise RegardError(f"{given} has no chat template: neither {SOURCE} nor {CONFIG} is in it")
        path = there[0]
    if not path.exists():
        raise FileNotFoundError(f"there is no {given}; give a {SOURCE}, a {CONFIG}, or their folder")
    config = path if path.suffix == ".json" else path.with_name(CONFIG)
    about: Any = files.read_json(config) if config.exists() else {}
    if not isinstance(about, Mapping):
        raise RegardError(f"{config} is not a {CONFIG}: it holds no object")
    if path.suffix == ".json":
        source = _source_of(about, given)
    else:
        with files.open_regular(path) as opened:
            source = files.read_bounded(opened, 4 * MOST_SOURCE, given).decode("utf-8", "replace")
    template = ChatTemplate(source, _signs_of(about))
    try:
        try_template(template)
    except RegardError as error:
        raise RegardError(f"{path}: {error}") from error
    return template


def _source_of(about: Mapping[str, Any], given: str) -> str:
    """The template in a tokenizer_config.json: a text, or several with names, of which one is the default."""
    found = about.get("chat_template")
    if isinstance(found, list):
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, Mapping)}
        found = named.get("default")
    if not isinstance(found, str):
        raise RegardError(f"{given} has no chat_template; the model was not trained on conversations")
    return found


def _signs_of(about: Mapping[str, Any]) -> dict[str, str]:
    """<s> and others: a text, or an object that holds it."""
    signs: dict[str, str] = {}
    for name in SIGNS:
        sign = about.get(name)
        if isinstance(sign, Mapping):
            sign = sign.get("content")
        if isinstance(sign, str):
            signs[name] = sign
    return signs


# ── the sandbox


@lru_cache(maxsize=16)
def _compile(source: str) -> Any:
    from jinja2 import TemplateError

    try:
        return _environment().from_string(source)
    except (TemplateError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise RegardError(f"it is not a Jinja template: {said}") from error


@lru_cache(maxsize=1)
def _environment() -> Any:
    """Jinja as templates of chats expect it, without access to anything of Python."""
    from jinja2 import nodes
    from jinja2.exceptions import SecurityError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %} ... {% endgeneration %} marks an answer; what is in it is written."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> list[nodes.Node]:
            next(parser.stream)
            body: list[nodes.Node] = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return body

    class Bounded(ImmutableSandboxedEnvironment):
        """A text is not repeated, and numbers are not raised to powers: memory would have no bound."""

        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            numbers = isinstance(left, int | float) and isinstance(right, int | float)
            if operator == "**" or not numbers:
                raise SecurityError(f"{operator} is not allowed here")
            return left * right

    made = Bounded(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = _to_json
    made.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    return made


def _to_json(value: Any, indent: int | None = None, **ignored: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)


def _refuse(message: Any) -> str:
    """What a template calls for messages that it cannot write."""
    raise RegardError(str(message)[:200])


def _now(form: str) -> str:
    return datetime.now().strftime(form[:40])
