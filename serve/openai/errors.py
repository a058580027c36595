"""Errors in OpenAI's form."""

from __future__ import annotations

from typing import Any, Final

from ...ir.errors import ExecutionError, MemoryLimitError, UsageError
from ...llm.batching.generation_task import (
    QueueFullError,
    RequestCancelledError,
    RequestExpiredError,
)
from ..errors import (
    DeadlineError,
    Failure,
    OverloadError,
    RequestError,
    ServeError,
    UnavailableError,
)

OPENAI_PATHS: Final = "/v1/"
_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
# Errors of the engine -> errors of the server; the first that fits.
_KINDS: Final[tuple[tuple[type[Exception], type[ServeError]], ...]] = (
    (QueueFullError, OverloadError),
    (RequestExpiredError, DeadlineError),
    (RequestCancelledError, UnavailableError),
    (UsageError, RequestError),
    (MemoryLimitError, OverloadError),
)


def describe_openai_error(failure: Failure) -> dict[str, Any]:
    """The `error` object of an answer."""
    status = failure.status
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    code = "model_not_found" if failure.message.startswith("unknown model") else failure.cause
    return {"message": failure.message, "type": kind, "param": None, "code": code}


def translate(error: Exception, *, submitted: bool) -> Exception:
    """An engine's error as the server's. submitted: the request was accepted; before that, an
    ExecutionError is the client's (a chat template that refuses the messages)."""
    for kind, as_kind in _KINDS:
        if isinstance(error, kind):
            return _copy(error, as_kind)
    if isinstance(error, ExecutionError) and not submitted:
        return _copy(error, RequestError)
    return error


def _copy(error: Any, kind: type[ServeError]) -> ServeError:
    made = kind(error.what, got=error.got, expected=error.expected, fix=error.fix)
    made.__cause__ = error
    return made
