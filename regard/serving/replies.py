"""What is answered to OpenAI's clients: the JSON of texts and answers, whole or piece by piece."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import Any

from regard.generation.request import Piece, Request, Token
from regard.generation.writer import Writer
from regard.serving.request_fields import Asked

DONE = b"data: [DONE]\n\n"


class Replies:
    """The answers to one request. `asked` says which form they have."""

    def __init__(self, asked: Asked, writer: Writer, name: str) -> None:
        self.asked, self.writer = asked, writer
        self.offsets: dict[int, int] = {}  # characters of each choice that were sent
        self.head: dict[str, Any] = {
            "id": f"{'chatcmpl' if asked.chat else 'cmpl'}-{secrets.token_hex(12)}",
            "object": self._object(),
            "created": int(time.time()),
            "model": name,
        }

    def _object(self) -> str:
        if not self.asked.chat:
            return "text_completion"
        return "chat.completion.chunk" if self.asked.stream else "chat.completion"

    def whole(self, pieces: Sequence[Sequence[Piece]], requests: Sequence[Request]) -> dict[str, Any]:
        """All texts: for each choice its pieces."""
        choices = []
        for index, parts in enumerate(pieces):
            text = "".join(part.text for part in parts)
            tokens = [token for part in parts for token in part.tokens]
            said: dict[str, Any] = {"text": text}
            if self.asked.chat:
                said = {"message": {"role": "assistant", "content": text, "refusal": None}}
            choices.append(
                {
                    "index": index,
                    **said,
                    "logprobs": self._logprobs(index, tokens),
                    "finish_reason": parts[-1].finish,
                }
            )
        return {**self.head, "choices": choices, "usage": self.usage(requests)}

    def first(self, index: int) -> bytes:
        """The event that begins an answer; a completion needs none."""
        if not self.asked.chat:
            return b""
        delta = {"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return self._event([{"index": index, **delta}])

    def piece(self, index: int, piece: Piece) -> bytes:
        """The events of a piece."""
        logprobs = self._logprobs(index, piece.tokens)
        if not self.asked.chat:
            said = {"text": piece.text, "logprobs": logprobs, "finish_reason": piece.finish}
            return self._event([{"index": index, **said}])
        found = b""
        if piece.text or piece.tokens:
            delta = {"delta": {"content": piece.text}, "logprobs": logprobs, "finish_reason": None}
            found = self._event([{"index": index, **delta}])
        if piece.finish is not None:
            end: dict[str, Any] = {"delta": {}, "logprobs": None, "finish_reason": piece.finish}
            found += self._event([{"index": index, **end}])
        return found

    def last(self, requests: Sequence[Request]) -> bytes:
        """The end of a stream."""
        if not self.asked.usage:
            return DONE
        return event({**self.head, "choices": [], "usage": self.usage(requests)}) + DONE

    def usage(self, requests: Sequence[Request]) -> dict[str, Any]:
        """Tokens read and written. A prompt counts once, however many texts follow it."""
        read = sum(map(len, self.asked.prompts))
        written = sum(request.written for request in requests)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {
                "cached_tokens": sum(request.reused for request in requests[:: self.asked.n])
            },
        }

    def _event(self, choices: list[dict[str, Any]]) -> bytes:
        data = {**self.head, "choices": choices}
        return event(data | {"usage": None} if self.asked.usage else data)

    def _logprobs(self, index: int, tokens: Sequence[Token]) -> dict[str, Any] | None:
        if self.asked.logprobs is None:
            return None
        if self.asked.chat:
            return {"content": [self._of_chat(token) for token in tokens], "refusal": None}
        offsets = []
        at = self.offsets.get(index, 0)
        for token in tokens:
            offsets.append(at)
            at += len(token.text)
        self.offsets[index] = at
        return {
            "tokens": [self._text(token.id) for token in tokens],
            "token_logprobs": [_finite(token.logp) for token in tokens],
            "top_logprobs": [{self._text(id): _finite(p) for id, p in token.best} for token in tokens],
            "text_offset": offsets,
        }

    def _of_chat(self, token: Token) -> dict[str, Any]:
        best = [self._one(id, logp) for id, logp in token.best]
        return {**self._one(token.id, token.logp), "top_logprobs": best}

    def _one(self, id: int, logp: float | None) -> dict[str, Any]:
        text = self._text(id)
        return {"token": text, "logprob": _finite(logp), "bytes": list(text.encode("utf-8"))}

    def _text(self, id: int) -> str:
        return str(self.writer.tokenizer.decode([id]))


def _finite(logp: float | None) -> float:
    """JSON has no infinity; this is what stands for a token that cannot come."""
    return max(logp or 0.0, -9999.0)


def event(data: Any) -> bytes:
    """One server-sent event: ASCII, so no character can be cut."""
    return b"data: " + to_bytes(data) + b"\n\n"


def to_bytes(data: Any) -> bytes:
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii")
