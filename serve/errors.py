"""Errors of the server, each with its HTTP status, its gRPC code and its cause in the metrics."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.errors import Error, InputError, MemoryLimitError


class ServeError(Error):
    """Base of a client's errors. `status` is HTTP's, `code` the name of gRPC's status."""

    status, code, cause = 500, "INTERNAL", "internal"


class RequestError(ServeError):
    """The request is malformed or does not fit the model."""

    status, code, cause = 400, "INVALID_ARGUMENT", "invalid"


class UnsupportedError(ServeError):
    """The request uses a part of the protocol that this server does not offer."""

    status, code, cause = 400, "UNIMPLEMENTED", "invalid"


class TokenError(ServeError):
    """The bearer token is missing or wrong."""

    status, code, cause = 401, "UNAUTHENTICATED", "unauthenticated"


class ForbiddenError(ServeError):
    """The operator has not allowed this."""

    status, code, cause = 403, "PERMISSION_DENIED", "forbidden"


class NotFoundError(ServeError):
    """No such model, version or path."""

    status, code, cause = 404, "NOT_FOUND", "not_found"


class MethodError(ServeError):
    """The path exists, with another method."""

    status, code, cause = 405, "UNIMPLEMENTED", "invalid"


class SlowClientError(ServeError):
    """The body of a request did not arrive in time."""

    status, code, cause = 408, "DEADLINE_EXCEEDED", "slow_client"


class TooLargeError(ServeError):
    """The request exceeds a limit of size."""

    status, code, cause = 413, "RESOURCE_EXHAUSTED", "too_large"


class OverloadError(ServeError):
    """A queue or a budget is full; the client may try again later."""

    status, code, cause = 429, "RESOURCE_EXHAUSTED", "overload"


class UnavailableError(ServeError):
    """The model is not ready, or the server is shutting down."""

    status, code, cause = 503, "UNAVAILABLE", "unavailable"


class DeadlineError(ServeError):
    """The request's own timeout passed before its turn."""

    status, code, cause = 504, "DEADLINE_EXCEEDED", "deadline"


class ModelLoadError(ServeError):
    """A model could not be loaded."""

    status, code, cause = 400, "FAILED_PRECONDITION", "load"


@dataclass(frozen=True)
class Failure:
    """What a client receives for an error: HTTP's status, the name of gRPC's code, the cause in the
    metrics, one message."""

    status: int
    code: str
    cause: str
    message: str


def describe_failure(error: BaseException) -> Failure:
    """The answer to a client. Errors that irc does not raise on purpose give no details away."""
    if isinstance(error, ServeError):
        return Failure(error.status, error.code, error.cause, to_line(error))
    for kind, as_kind in ((InputError, RequestError), (MemoryLimitError, TooLargeError)):
        if isinstance(error, kind):
            return Failure(as_kind.status, as_kind.code, as_kind.cause, to_line(error))
    if isinstance(error, Error):
        return Failure(500, "INTERNAL", "execution", to_line(error))
    text = f"internal error ({type(error).__name__}); the server's log has its traceback"
    return Failure(500, "INTERNAL", "internal", text)


def to_line(error: Error) -> str:
    """An error as one line."""
    return "; ".join(line.strip() for line in str(error).splitlines())
