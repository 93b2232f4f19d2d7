"""What servers on this machine have in common: a socket, a secret, limits of connections, times and sizes."""

from __future__ import annotations

import json
import re
import secrets
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError
from regard.serving.guard import HEADER_BYTES, Application

if TYPE_CHECKING:
    from starlette.requests import Request

NUMBER = re.compile(r"[0-9]{1,9}")  # in an address or a header
NEEDED = "a server needs starlette and uvicorn; install them with: pip install 'regard[look]'"


class TooLarge(RegardError):
    """A request with more bytes than are read."""


def new_token() -> str:
    """A secret word for one server: 256 random bits."""
    return secrets.token_urlsafe(32)


async def read_body(request: Request, largest: int) -> bytes:
    """At most so many bytes, whatever the header says."""
    found = bytearray()
    declared = request.headers.get("content-length", "0")
    if NUMBER.fullmatch(declared) is None or int(declared) > largest:
        raise TooLarge(f"a request may have {largest:,} bytes")
    async for chunk in request.stream():
        found += chunk
        if len(found) > largest:
            raise TooLarge(f"a request may have {largest:,} bytes")
    return bytes(found)


def parse(sent: bytes) -> Any:
    """The JSON that was sent. Raise ValueError or RecursionError for what is none."""
    return json.loads(sent, parse_constant=_no_constant)


def _no_constant(text: str) -> Any:
    raise RegardError(f"{text} is no JSON number")


def listen(port: int | None) -> socket.socket:
    """A socket on 127.0.0.1; without a port, any free one is taken."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", 0 if port is None else port))
    except (OSError, OverflowError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or "ports are numbered 0 to 65535"
        raise RegardError(f"port {port} cannot be used: {why}; choose another with --port") from error
    listening.listen(128)  # who comes before the server is up waits
    return listening


def make_server(application: Application, headers: Mapping[str, str]) -> Any:
    """A uvicorn server with the limits; `run(sockets=[...])` serves. headers: of every answer"""
    try:
        import uvicorn

        from regard.serving.connection import connection_class
    except ImportError as error:
        raise RegardError(NEEDED) from error

    config = uvicorn.Config(
        application,
        http=connection_class(headers),
        ws="none",
        lifespan="off",
        log_level="critical",  # what goes wrong is said by the guard, in one line
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)
