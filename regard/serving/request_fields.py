"""What a request to OpenAI's API asks for: its fields with their bounds, and what is not supported, said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from regard.config import Fraction, Size, config, from_json, hints_of
from regard.errors import RegardError, did_you_mean
from regard.generation.sampling import Sampling
from regard.generation.writer import Writer

R = TypeVar("R", bound="TextRequest")

MOST_TEXTS = 64  # of one request: prompts × n
MOST_STOPS, LONGEST_STOP = 16, 1000  # stop texts, and characters of one
MOST_TOKENS = 1 << 20  # of an answer; how many there can be, the context says
COMPLETION_TOKENS = 16  # that OpenAI writes if it is not told how many
LONGEST_NAME = 60  # characters of what came, in an error
HALF_CHARACTER = re.compile("[\ud800-\udfff]")

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

# A list ends at its first error: a body may have a million.
Ids = Annotated[tuple[int, ...], Field(min_length=1, fail_fast=True)]
Prompts = Annotated[tuple[str | Ids, ...], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]
Stop = Annotated[str, Field(min_length=1, max_length=LONGEST_STOP)]
Stops = Annotated[tuple[Stop, ...], Field(max_length=MOST_STOPS, fail_fast=True)]
BestTokens = Annotated[int, Field(ge=0, le=20)]
open_object = checked_dataclass(frozen=True, kw_only=True, config=ConfigDict(strict=True, extra="ignore"))


class ApiError(RegardError):
    """An error for which clients know another status, or a code."""

    def __init__(self, message: str, *, option: str, code: str, status: int = 400) -> None:
        super().__init__(message, option=option)
        self.code, self.status = code, status


@open_object
class TextPart:
    type: Literal["text"]
    text: str


@open_object
class Message:
    role: Literal["system", "user", "assistant", "developer"]
    content: str | Annotated[tuple[TextPart, ...], Field(min_length=1, fail_fast=True)]

    def to_dict(self) -> dict[str, str]:
        """As templates read it: developer is the newer name of system."""
        parts = self.content
        text = parts if isinstance(parts, str) else "\n".join(part.text for part in parts)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


@config
class StreamOptions:
    include_usage: bool = False
    include_obfuscation: bool | None = None


@config
class TextRequest:
    """The fields that every request for texts may have."""

    n: Annotated[int, Field(ge=1, le=MOST_TEXTS)] = 1
    max_tokens: Size | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Fraction = 1.0  # 0: the most probable token alone
    top_k: Size | None = None
    min_p: Fraction = 0.0
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: Stop | Stops = ()
    stream: bool = False
    stream_options: StreamOptions | None = None

    def __post_init__(self) -> None:
        if self.stream_options and not self.stream:
            raise RegardError('is for "stream": true only', option="stream_options")

    def sampling(self, max_new: int, ends: tuple[str, ...]) -> Sampling:
        # of a large seed 32 bits count, which are as good
        seed = self.seed if self.seed is None or abs(self.seed) < 2**32 else abs(self.seed) % 2**32
        stops = (self.stop,) if isinstance(self.stop, str) else self.stop
        return Sampling(
            max_new=max_new,
            temperature=self.temperature if self.top_p else 0.0,
            top_k=self.top_k,
            top_p=self.top_p if 0 < self.top_p < 1 else None,
            min_p=self.min_p or None,
            repetition=self.repetition_penalty,
            seed=seed,
            stop=(*stops, *ends),
        )


@config
class CompletionRequest(TextRequest):
    prompt: str | Ids | Prompts = ""
    logprobs: BestTokens | None = None


@config
class ChatRequest(TextRequest):
    messages: Annotated[tuple[Message, ...], Field(min_length=1, fail_fast=True)]
    max_completion_tokens: Size | None = None
    logprobs: bool = False
    top_logprobs: BestTokens = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_logprobs and not self.logprobs:
            raise RegardError("needs logprobs: true", option="top_logprobs")
        if self.max_tokens and self.max_completion_tokens:
            raise RegardError("is the old name of max_completion_tokens; give one", option="max_tokens")


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


Reader = Callable[[Any, Writer, int, str], Asked]


def read_completion(body: Any, writer: Writer, context: int, name: str) -> Asked:
    """What a body for /v1/completions asks for."""
    request = _read_fields(CompletionRequest, body, name)
    given = request.prompt
    texts = [given] if isinstance(given, str) or isinstance(given[0], int) else list(given)
    if len(texts) * request.n > MOST_TEXTS:
        raise RegardError(f"{request.n} × {len(texts)} prompts are more than {MOST_TEXTS} texts", option="n")
    try:
        prompts = [writer.encode(text) if isinstance(text, str) else list(text) for text in texts]
    except ValueError as error:
        raise RegardError(f"cannot be read: {error}", option="prompt") from error
    for text, ids in zip(texts, prompts, strict=True):
        if not isinstance(text, str) and (min(ids) < 0 or (writer.ids and max(ids) >= writer.ids)):
            raise RegardError(f"ids must be 0 to {(writer.ids or 1) - 1}", option="prompt")
    follows, most = [text != "" for text in texts], request.max_tokens or COMPLETION_TOKENS
    return _ask(request, "prompt", prompts, follows, writer.ends, most, context, request.logprobs)


def read_chat(body: Any, writer: Writer, context: int, name: str) -> Asked:
    """What a body for /v1/chat/completions asks for."""
    request = _read_fields(ChatRequest, body, name)
    try:
        prompt, ends = writer.encode_chat([each.to_dict() for each in request.messages]), writer.chat_ends
    except ValueError as error:
        raise RegardError(f"cannot be read: {error}", option="messages") from error
    most = request.max_tokens or request.max_completion_tokens or MOST_TOKENS
    logprobs = request.top_logprobs if request.logprobs else None
    return _ask(request, "messages", [prompt], [True], ends, most, context, logprobs)


def _ask(
    request: TextRequest,
    option: str,
    prompts: list[list[int]],
    follows: list[bool],
    ends: tuple[str, ...],
    most: int,
    context: int,
    logprobs: int | None,
) -> Asked:
    """At most so many tokens are written as have room in the context."""
    longest = max(map(len, prompts))
    if longest > context:
        said = f"has {longest:,} tokens, and {context:,} fit; shorten it, or start the server with a "
        said += "larger --context if the model can read more"
        raise ApiError(said, option=option, code="context_length_exceeded")
    rooms = [min(most, context + 1 - len(prompt)) for prompt in prompts]  # (the last token is not read)
    return Asked(
        prompts=prompts,
        follows=follows,
        n=request.n,
        samplings=[request.sampling(room, ends) for room in rooms],
        stream=request.stream,
        usage=request.stream_options is not None and request.stream_options.include_usage,
        logprobs=logprobs,
        chat=isinstance(request, ChatRequest),
    )


def _read_fields(cls: type[R], body: Any, name: str) -> R:
    """The fields of a body that mean something. What is not supported is refused, unless it asks for nothing."""
    if not isinstance(body, dict):
        raise RegardError(f'send a JSON object such as {{"model": "{name}", ...}}')
    known, fields = hints_of(cls), {}
    for field, value in body.items():
        if value is None or field in (*IGNORED, "model"):
            continue
        if field in known:
            fields[field] = value
        elif field not in NEUTRAL:
            near = did_you_mean(field[:LONGEST_NAME], known)
            raise RegardError(f"is unknown; {near}known: {', '.join(known)}", option=field[:LONGEST_NAME])
        elif not any(value == each and (value is each or not isinstance(value, bool)) for each in NEUTRAL[field]):
            raise ApiError("is not supported; leave it out", option=field, code="unsupported_parameter")
    model = body.get("model")
    if model not in (None, name):
        said = f"{str(model)[:LONGEST_NAME]!r} is not here; use {name!r}"
        raise ApiError(said, option="model", code="model_not_found", status=404)
    for field, value in fields.items():
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except ValueError as error:
            raise RegardError("has a number that is not finite", option=field) from error
        if HALF_CHARACTER.search(text):
            raise RegardError("has half of a character (a lone surrogate)", option=field)
    return from_json(cls, json.dumps(fields, allow_nan=False))
