"""A page behind a token in its address: whoever has the address may ask."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable
from urllib.parse import parse_qsl

from regard.serving.guard import Scope

FIELDS = 8  # of a query, at most
ASK_FOR_TOKEN = "open the address that regard printed, with its token; without it nobody may ask"


def address_of(listening: socket.socket, token: str) -> str:
    """What to open: whoever has it may ask."""
    return f"http://127.0.0.1:{listening.getsockname()[1]}/?token={token}"


def ask_for_token(token: str) -> Callable[[Scope], tuple[int, str] | None]:
    """The refusal of requests without the token, as a guard takes it."""

    def find_refusal(scope: Scope) -> tuple[int, str] | None:
        if _has_token(scope, token):
            return None
        return 403, ASK_FOR_TOKEN

    return find_refusal


def _has_token(scope: Scope, token: str) -> bool:
    """Does the address have the token, once? Compared in the same time whatever is wrong with it."""
    try:
        fields = parse_qsl(scope.get("query_string", b""), keep_blank_values=True, max_num_fields=FIELDS)
    except ValueError:
        return False
    given = [value for name, value in fields if name == b"token"]
    return len(given) == 1 and hmac.compare_digest(given[0], token.encode("ascii"))
