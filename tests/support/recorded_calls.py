"""A library whose functions record their calls, in place of one of another operating system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class RecordedFunction:
    """One function: `answer` computes its result from the arguments."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]], answer: Callable[..., Any]) -> None:
        self.name, self.calls, self.answer = name, calls, answer
        self.argtypes: list[Any] = []
        self.restype: Any = None

    def __call__(self, *args: Any) -> Any:
        self.calls.append((self.name, *args))
        return self.answer(*args)


class RecordedLibrary:
    """Functions by name, each a constant result or a function of the arguments."""

    def __init__(self, **results: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        for name, result in results.items():
            answer = result if callable(result) else lambda *_, r=result: r
            setattr(self, name, RecordedFunction(name, self.calls, answer))

    def names(self) -> list[str]:
        """The functions that were called, in order."""
        return [call[0] for call in self.calls]
