"""The server's log: one line of text or one JSON object per event, with the request's id."""

from __future__ import annotations

import contextvars
import logging
import os
import re
import sys
import time
from typing import Any, Literal

import orjson

from ..ir.escape import escape_text

log = logging.getLogger("irc.serve")
request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")
_ID = re.compile(r"[A-Za-z0-9_.:/+=-]{1,128}")
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def choose_request_id(given: str | None) -> str:
    """The client's id of a request where it is harmless in a log and a header; else a new one."""
    return given if given and _ID.fullmatch(given) else os.urandom(8).hex()


def log_request(protocol: str, what: str, outcome: str, seconds: float, id_: str) -> None:
    """One answered request, with -v."""
    if log.isEnabledFor(logging.DEBUG):
        extra = {"protocol": protocol, "outcome": outcome, "ms": round(seconds * 1000, 3)}
        log.debug("%s %s", what, outcome, extra={"fields": {**extra, "request_id": id_}})


class _Formatter(logging.Formatter):
    def __init__(self, style: Literal["text", "json"]) -> None:
        super().__init__()
        self._json = style == "json"

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = dict(getattr(record, "fields", {}))
        if id_ := request_id.get():
            fields.setdefault("request_id", id_)
        message = record.getMessage()
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        stamp += f".{int(record.msecs):03d}Z"
        if self._json:
            event = {"time": stamp, "level": record.levelname, "message": message, **fields}
            return orjson.dumps({**event, "trace": trace} if trace else event, default=str).decode()
        rest = "".join(f" {k}={escape_text(str(v))}" for k, v in fields.items())
        lines = [f"{stamp} {record.levelname} {escape_text(message)}{rest}"]
        return "\n".join(lines + trace.splitlines())


def configure_logs(style: Literal["text", "json"], verbosity: int = 0) -> None:
    """Write the server's and uvicorn's events to stderr. verbosity: -1 warnings only, 0 loads and
    failures, 1 each request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(style))
    log.handlers, log.propagate = [handler], False
    log.setLevel(_LEVELS[min(1, verbosity) + 1])
    uvicorn = logging.getLogger("uvicorn")
    uvicorn.handlers, uvicorn.propagate = [handler], False
    uvicorn.setLevel(logging.ERROR)
