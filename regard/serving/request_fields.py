"""What a request to OpenAI's API asks for: its fields, checked, and what is not supported, said."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.chat_template import ROLES
from regard.errors import RegardError, did_you_mean
from regard.generation.sampling import Sampling
from regard.generation.writer import Writer
from regard.serving.api_error import ApiError

MOST_TEXTS = 64  # of one request: prompts × n
MOST_STOPS, LONGEST_STOP = 16, 1000  # stop texts, and characters of one
MOST_TOKENS = 1 << 20  # of max_tokens; how many there can be, the context says
LARGEST_SEED = 1 << 32
PART = "text"  # the type of a part of a message
COMPLETION_TOKENS = 16  # that OpenAI writes if it is not told how many

# fields that may be there if they ask for nothing; None always may
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none",),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "web_search_options": (),
}
# that change nothing here
IGNORED = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "verbosity")
SHARED = (
    *(
        "model",
        "n",
        "max_tokens",
        "temperature",
        "top_p",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "logprobs",
    ),
    *("top_k", "min_p", "repetition_penalty"),
)
OF_COMPLETIONS = ("prompt",)
OF_CHAT = ("messages", "max_completion_tokens", "top_logprobs")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Texts that are asked for: `n` after each prompt."""

    prompts: list[list[int]]
    follows: list[bool]  # is there a text before? else what is written begins one
    n: int
    samplings: list[Sampling]  # for each prompt
    stream: bool
    usage: bool  # a stream ends with it
    logprobs: int | None  # likeliest tokens beside each; None: no log p
    chat: bool


def read_completion(body: Any, writer: Writer, context: int, name: str) -> Asked:
    """What a body for /v1/completions asks for."""
    fields = _fields(body, (*SHARED, *OF_COMPLETIONS), name)
    prompts, follows = _prompts(fields.get("prompt", ""), writer)
    logprobs = fields.get("logprobs")
    if logprobs is not None:
        logprobs = _whole(fields, "logprobs", 0, 20)
    length = _whole(fields, "max_tokens", 1, MOST_TOKENS, COMPLETION_TOKENS)
    return _asked(fields, prompts, follows, writer.ends, length, logprobs, context, "prompt", chat=False)


def read_chat(body: Any, writer: Writer, context: int, name: str) -> Asked:
    """What a body for /v1/chat/completions asks for."""
    fields = _fields(body, (*SHARED, *OF_CHAT), name)
    messages = _messages(fields.get("messages"))
    try:
        prompt, ends = writer.encode_chat(messages), writer.chat_ends
    except ValueError as error:
        raise ApiError(_said(error), param="messages") from error
    best = _whole(fields, "top_logprobs", 0, 20, 0)
    wanted = _truth(fields, "logprobs")
    if best and not wanted:
        raise ApiError("top_logprobs needs logprobs: true", param="top_logprobs")
    if fields.get("max_tokens") is not None and fields.get("max_completion_tokens") is not None:
        raise ApiError("max_tokens is the old name of max_completion_tokens; give one", param="max_tokens")
    which = "max_tokens" if fields.get("max_tokens") is not None else "max_completion_tokens"
    length = _whole(fields, which, 1, MOST_TOKENS, MOST_TOKENS)
    logprobs = best if wanted else None
    return _asked(fields, [prompt], [True], ends, length, logprobs, context, "messages", chat=True)


def _asked(
    fields: Mapping[str, Any],
    prompts: list[list[int]],
    follows: list[bool],
    ends: tuple[str, ...],
    length: int,
    logprobs: int | None,
    context: int,
    param: str,
    *,
    chat: bool,
) -> Asked:
    """What both have in common. At most so many tokens are written as have room in the context."""
    n = _whole(fields, "n", 1, MOST_TEXTS, 1)
    if len(prompts) * n > MOST_TEXTS:
        raise ApiError(f"{len(prompts)} prompts × n={n} are more than {MOST_TEXTS} texts", param="n")
    for prompt in prompts:
        if len(prompt) > context:
            raise ApiError(
                f"the prompt has {len(prompt):,} tokens, and {context:,} fit; shorten it, or start the server with a "
                "larger --context if the model can read more",
                param=param,
                code="context_length_exceeded",
            )
    choices = _choices(fields)
    stop = (*_stops(fields.get("stop")), *ends)
    rooms = [min(length, context + 1 - len(prompt)) for prompt in prompts]  # (the last token is not read)
    try:
        samplings = [Sampling(max_new=room, stop=stop, **choices) for room in rooms]
    except RegardError as error:
        raise ApiError(str(error)) from error
    streams = _truth(fields, "stream")
    return Asked(
        prompts=prompts,
        follows=follows,
        n=n,
        samplings=samplings,
        stream=streams,
        usage=_wants_usage(fields.get("stream_options"), streams),
        logprobs=logprobs,
        chat=chat,
    )


def _fields(body: Any, known: tuple[str, ...], name: str) -> dict[str, Any]:
    """The fields of a body that mean something. What is not supported is refused, unless it asks for nothing."""
    if not isinstance(body, dict):
        raise ApiError(f'send a JSON object such as {{"model": "{name}", ...}}')
    for field, value in body.items():
        if field in known or field in IGNORED or value is None:
            continue
        if field not in NEUTRAL:
            near = did_you_mean(field[:60], known)
            raise ApiError(f"unknown field {field[:60]!r}; {near}known: {', '.join(known)}", param=field[:60])
        if not any(value == each and type(value) is type(each) for each in NEUTRAL[field]) and not (
            _is_number(value) and value in NEUTRAL[field]
        ):
            raise ApiError(
                f"{field} is not supported; leave it out", param=field, code="unsupported_parameter"
            )
    model = body.get("model")
    if model is not None and model != name:
        raise ApiError(
            f"there is no model {str(model)[:60]!r} here; use {name!r}",
            status=404,
            param="model",
            code="model_not_found",
        )
    return {field: value for field, value in body.items() if value is not None}


def _prompts(given: Any, writer: Writer) -> tuple[list[list[int]], list[bool]]:
    """Prompts as ids: from a text, several texts, ids, or several lists of ids."""
    if isinstance(given, str) or (isinstance(given, list) and given and _is_whole(given[0])):
        given = [given]
    if not isinstance(given, list) or not given:
        raise ApiError("prompt must be a text, a list of texts, or ids", param="prompt")
    if len(given) > MOST_TEXTS:
        raise ApiError(f"a request may have {MOST_TEXTS} prompts, got {len(given):,}", param="prompt")
    try:
        found = [_ids(each, writer) for each in given]
    except ApiError:
        raise
    except ValueError as error:
        raise ApiError(f"the prompt cannot be read: {_said(error)}", param="prompt") from error
    return found, [each != "" for each in given]


def _ids(given: Any, writer: Writer) -> list[int]:
    if isinstance(given, str):
        return writer.encode(_text(given, "prompt"))
    most = writer.ids
    if not isinstance(given, list) or not given or not all(_is_whole(each) for each in given):
        raise ApiError("prompt must be a text, a list of texts, or ids", param="prompt")
    if min(given) < 0 or (most is not None and max(given) >= most):
        raise ApiError(f"ids of a prompt are 0 to {(most or 1) - 1}", param="prompt")
    return given


def _messages(given: Any) -> list[dict[str, str]]:
    """Messages with a role and a text."""
    if not isinstance(given, list) or not given:
        raise ApiError(
            'messages must be a list such as [{"role": "user", "content": "..."}], with at least one',
            param="messages",
        )
    return [_message(message, f"messages.{i}") for i, message in enumerate(given)]


def _message(message: Any, param: str) -> dict[str, str]:
    if not isinstance(message, dict):
        raise ApiError("a message has a role and a content", param=param)
    role, content = message.get("role"), message.get("content")
    if role == "developer":  # the newer name
        role = "system"
    if role not in ROLES:
        raise ApiError(
            f"unknown role {str(role)[:40]!r}; known: {', '.join(ROLES)}, developer", param=f"{param}.role"
        )
    if isinstance(content, list):
        content = "\n".join(_part(each, f"{param}.content") for each in content)
    if not isinstance(content, str) or message["content"] == []:
        raise ApiError("the content of a message must be a text", param=f"{param}.content")
    return {"role": str(role), "content": _text(content, f"{param}.content")}


def _part(part: Any, param: str) -> str:
    """The text of one part of a content."""
    words = part.get("text") if isinstance(part, dict) and part.get("type") == PART else None
    if not isinstance(words, str):
        raise ApiError("only parts of the type text are supported", param=param)
    return words


def _choices(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The options of Sampling."""
    found: dict[str, Any] = {
        "temperature": _number(fields, "temperature", 0, 2, 1.0),
        "seed": _seed(fields),
        "repetition": _number(fields, "repetition_penalty", 0.01, 100, 1.0),
    }
    top_p, min_p = _number(fields, "top_p", 0, 1, 1.0), _number(fields, "min_p", 0, 1, 0.0)
    if top_p == 0:  # the likeliest token alone
        found["temperature"] = 0.0
    elif top_p < 1:
        found["top_p"] = top_p
    if min_p > 0:
        found["min_p"] = min_p
    if "top_k" in fields:
        found["top_k"] = _whole(fields, "top_k", 1, MOST_TOKENS)
    return found


def _seed(fields: Mapping[str, Any]) -> int | None:
    """As OpenAI, 64 bits; of a large one 32 bits count, which are as good."""
    if "seed" not in fields:
        return None
    seed = _whole(fields, "seed", -(2**63), 2**63 - 1)
    return seed if abs(seed) < LARGEST_SEED else abs(seed) % LARGEST_SEED


def _stops(given: Any) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else given
    if texts is None:
        return ()
    if not isinstance(texts, list) or not all(isinstance(each, str) and each for each in texts):
        raise ApiError("stop must be a text or a list of texts that are not empty", param="stop")
    if len(texts) > MOST_STOPS or max(map(len, texts), default=0) > LONGEST_STOP:
        raise ApiError(f"stop may have {MOST_STOPS} texts of {LONGEST_STOP:,} characters each", param="stop")
    return tuple(_text(each, "stop") for each in texts)


def _wants_usage(given: Any, streams: bool) -> bool:
    if given is None:
        return False
    if not isinstance(given, dict) or not streams:
        raise ApiError('stream_options is an object, for "stream": true only', param="stream_options")
    for name in given:
        if name not in ("include_usage", "include_obfuscation"):
            raise ApiError(
                f"unknown stream option {name[:60]!r}; known: include_usage", param="stream_options"
            )
    return _truth(given, "include_usage")


# ── one field


def _text(given: str, param: str) -> str:
    try:
        given.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ApiError("the text has half of a character (a lone surrogate)", param=param) from error
    return given


def _truth(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise ApiError(f"{name} must be true or false", param=name)
    return value


def _whole(fields: Mapping[str, Any], name: str, least: int, most: int, default: int | None = None) -> int:
    value = fields.get(name, default)
    if not _is_whole(value) or not least <= value <= most:
        raise ApiError(f"{name} must be a whole number from {least:,} to {most:,}{_given(value)}", param=name)
    return int(value)


def _number(
    fields: Mapping[str, Any], name: str, least: float, most: float, default: float | None = None
) -> float:
    value = fields.get(name, default)
    if not _is_number(value) or not least <= value <= most:
        raise ApiError(f"{name} must be a number from {least:g} to {most:g}{_given(value)}", param=name)
    return float(value)


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _given(value: Any) -> str:
    """What came, if it is short; a huge number is not even written out."""
    if type(value) is int and abs(value) > 10**30:
        return ", got one that is far larger"
    said = repr(value)
    return f", got {said}" if len(said) < 60 else ""


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


Reader = Callable[[Any, Writer, int, str], Asked]
