"""The page, served to this machine only: 127.0.0.1, its own host name and origin, its own files, small
requests."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

from regard.errors import RegardError
from regard.look import page
from regard.look.session import Session

LARGEST = 30 * 2**20  # bytes of a request: an image in base64
HOSTS = ("127.0.0.1", "localhost")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def app(session: Session) -> Any:
    """The application: the page, new data for it, and full weights."""
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request
        from starlette.responses import HTMLResponse, JSONResponse, Response
        from starlette.routing import Route
    except ImportError as error:
        raise RegardError(
            "a live page needs starlette and uvicorn; install them with: pip install 'regard[look]'"
        ) from error

    def refused(message: str, status: int) -> Response:
        return JSONResponse({"error": message}, status, headers=HEADERS)

    async def body(request: Request) -> bytes:
        """At most so many bytes, whatever the header says."""
        found = bytearray()
        async for chunk in request.stream():
            found += chunk
            if len(found) > LARGEST:
                raise RegardError(f"a request may have {LARGEST:,} bytes")
        return bytes(found)

    async def start(request: Request) -> Response:
        text = await run_in_threadpool(lambda: page.html(session.show({}), session.files))
        return HTMLResponse(text, headers=HEADERS)

    async def look(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return refused("send application/json", 415)
        try:
            asked = json.loads(await body(request))
            if not isinstance(asked, dict):
                raise RegardError("send an object with what is to change, such as text, file or silence")
            data = await run_in_threadpool(session.show, asked)
        except (ValueError, RecursionError) as error:
            return refused(" ".join(str(error).split()), 400)
        return JSONResponse(data, headers=HEADERS)

    async def weights(request: Request) -> Response:
        asked = [request.path_params[name] for name in ("record", "layer", "call", "head", "window")]
        try:
            found = await run_in_threadpool(session.weights, *asked)
        except ValueError as error:
            return refused(str(error), 404)
        return Response(found, media_type="application/octet-stream", headers=HEADERS)

    routes = [
        Route("/", start),
        Route("/api/look", look, methods=["POST"]),
        Route("/api/weights/{record:int}/{layer:int}/{call:int}/{head:int}/{window:int}", weights),
    ]
    return _guarded(Starlette(routes=routes))


def _guarded(inner: Callable[..., Any]) -> Callable[..., Any]:
    """Only requests that name this machine as their host, and come from nowhere else: another site in the
    same browser must not reach it, not even through a name that it made to point here."""

    async def guard(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
            }
            host, origin = headers.get("host", ""), headers.get("origin")
            known = host.rpartition(":")[0] in HOSTS or host in HOSTS
            ours = origin is None or origin in (f"http://{host}",)
            if not known or not ours or headers.get("sec-fetch-site") == "cross-site":
                await send(
                    {
                        "type": "http.response.start",
                        "status": 403,
                        "headers": [(b"content-type", b"text/plain")],
                    }
                )
                await send({"type": "http.response.body", "body": b"only this machine may ask\n"})
                return
        await inner(scope, receive, send)

    return guard


def serve(session: Session, *, port: int | None = None, ready: Callable[[str], None] | None = None) -> None:
    """Serve until Ctrl-C. `ready` is told the address once it answers; without a port, any free one is
    taken."""
    application = app(session)
    import uvicorn

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", 0 if port is None else port))
        except OSError as error:
            raise RegardError(
                f"port {port} cannot be used: {error.strerror}; choose another with --port"
            ) from error
        listening.listen(128)  # who comes before the server is up waits
        if ready is not None:
            ready(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        config = uvicorn.Config(application, log_level="error", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[listening])
