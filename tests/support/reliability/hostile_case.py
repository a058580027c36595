"""One hostile or broken file: how it is made, what irc says of it, with what exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DIGITS = Path(__file__).resolve().parents[3] / "samples" / "digits" / "digits.onnx"
Make = Callable[[Path], Sequence[str]]


@dataclass(frozen=True)
class Hostile:
    """code: the command's exit code. words: parts of its message, besides where, got and so on."""

    kind: str
    name: str
    make: Make
    code: int = 3
    words: tuple[str, ...] = ()


def inspect(name: str) -> Sequence[str]:
    return ["inspect", name]


def sparse(name: str, folder: Path) -> Sequence[str]:
    """16 GiB that take no room on the disk."""
    with open(folder / name, "wb") as file:
        file.truncate(16 << 30)
    return inspect(name)
