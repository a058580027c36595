"""Coroutines that may end without waiting: what guards a wait is set up only where there is one."""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


@types.coroutine
def resume(work: Coroutine[Any, Any, Result], first: Any) -> Generator[Any, Any, Result]:
    """Await a coroutine that has run until its first wait, whose future it gave."""
    waited = first
    while True:
        try:
            try:
                value = yield waited
            except BaseException as error:
                waited = work.throw(error)
            else:
                waited = work.send(value)
        except StopIteration as done:
            return done.value
