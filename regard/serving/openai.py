"""A server of texts with the addresses of OpenAI's API, for one user of this machine.

    POST /v1/completions        POST /v1/chat/completions        GET /v1/models        GET /health

Every request needs the key, as a Bearer token.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import Any

from regard.errors import RegardError
from regard.generation.scheduler import Busy, Scheduler
from regard.generation.writer import Writer
from regard.serving.exchange import Exchange, error_json, to_bytes
from regard.serving.guard import (
    ASGIApp,
    HTTPException,
    Request,
    Response,
    Route,
    Scope,
    make_app,
    make_server,
    only_header,
    read_json,
    run_in_threadpool,
)
from regard.serving.request_fields import ApiError, Reader, read_chat, read_completion

LARGEST = 4 * 2**20  # bytes of a request
POLICY = "default-src 'none'"  # nothing here is a page
ASK_FOR_KEY = "send the key that `regard serve` printed: -H 'Authorization: Bearer KEY'"
WORDS = {
    404: "there is nothing at this address; there are /v1/completions, /v1/chat/completions and /v1/models",
    405: "this address is asked with another method: texts with POST, models with GET",
}
RETRY_SECONDS = 2
LAST_SECONDS = 2.0  # for texts that are being written when the server ends; uvicorn waits for three


def make_text_app(writer: Writer, scheduler: Scheduler, name: str, key: str) -> ASGIApp:
    """The application. name: of the model, as clients call it; key: without it nobody may ask"""
    began = int(time.time())
    context = scheduler.slots.capacity

    def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        return Response(to_bytes(data), status, headers, media_type="application/json")

    async def write(request: Request, reader: Reader) -> Any:
        """The texts that a body asks for, or what is wrong with it."""
        try:
            sent = await read_json(request, LARGEST)
            asked = await run_in_threadpool(reader, sent, writer, context, name)
            return Exchange(asked, writer, scheduler, name)
        except Busy as error:
            busy = error_json(429, str(error), code="rate_limit_exceeded")
            return answer(busy, 429, {"Retry-After": str(RETRY_SECONDS)})
        except ApiError as error:
            return answer(error_json(error.status, str(error), error.option, error.code), error.status)
        except RegardError as error:
            return answer(error_json(400, str(error), error.option), 400)
        except (ValueError, RecursionError) as error:
            words = " ".join(str(error).split())[:200]
            raise HTTPException(400, f"the body is no JSON that can be read: {words}") from error

    async def completions(request: Request) -> Any:
        return await write(request, read_completion)

    async def chat(request: Request) -> Any:
        return await write(request, read_chat)

    model = {"id": name, "object": "model", "created": began, "owned_by": "regard", "context": context}

    async def models(request: Request) -> Response:
        return answer({"object": "list", "data": [model]})

    async def one_model(request: Request) -> Response:
        asked = request.path_params["name"]
        if asked == name:
            return answer(model)
        words = f"there is no model {asked[:60]!r} here; use {name!r}"
        return answer(error_json(404, words, "model", "model_not_found"), 404)

    async def health(request: Request) -> Response:
        counts = scheduler.snapshot()
        return answer({"status": "ok", "running": counts.running, "waiting": counts.waiting})

    routes = [
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/models", models, methods=["GET"]),
        Route("/v1/models/{name:path}", one_model, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
    ]

    def find_refusal(scope: Scope) -> tuple[int, str] | None:
        return None if _has_key(scope, key) else (401, ASK_FOR_KEY)

    def say(status: int, why: str) -> Any:
        return error_json(status, WORDS.get(status, why))

    return make_app(routes, POLICY, find_refusal, say)


def make_text_server(writer: Writer, scheduler: Scheduler, name: str, key: str) -> Any:
    """A uvicorn server of texts; `run(sockets=[...])` serves. When it is told to end, texts have some seconds; who
    waits longer is told that the server is ending."""
    server = make_server(make_text_app(writer, scheduler, name, key), POLICY)
    shut_down = server.shutdown

    async def end(sockets: Any = None) -> None:
        asyncio.get_running_loop().call_later(LAST_SECONDS, scheduler.stop)
        await shut_down(sockets)

    server.shutdown = end
    return server


def _has_key(scope: Scope, key: str) -> bool:
    """Does the request have the key, once? Compared in the same time whatever is wrong with it."""
    given = only_header(scope, "authorization", "") or ""
    scheme, _, token = given.partition(" ")
    same = hmac.compare_digest(token.strip().encode("utf-8"), key.encode("utf-8"))
    return scheme.lower() == "bearer" and same
