"""Errors as OpenAI's API has them: a status, and what is wrong with which field."""

from __future__ import annotations

from typing import Any

from regard.errors import RegardError

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class ApiError(RegardError):
    """What cannot be answered, and with which status that is said."""

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def to_json(self) -> dict[str, Any]:
        return error_json(self.status, str(self), self.param, self.code)


def error_json(
    status: int, message: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """An error in the form that clients of OpenAI's API read."""
    kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    if status == 401 and code is None:
        code = "invalid_api_key"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
