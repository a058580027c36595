"""Functions that several modules of LLVM text define alike: compiled once, in the first module.

There, such a function has a section of its own, so that its machine code can be copied. Later
modules declare it, and elf_flatten.py copies the code into their images. Functions are equal if
their texts are, and the texts of the constants and functions that they use; their own names and the
numbers of metadata may differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ...ir.lazy_dataclass import dataclass
from ..llvmir.kernel_entry import UNOPTIMIZED

_NAME: Final = re.compile(r"@([\w.]+)")
_METADATA: Final = re.compile(r"!(\d+)")
_INTERNAL: Final = "define internal "
# The beginning of the name of a function in assembly, which is in one module only.
_ASSEMBLED: Final = '@"\\01'
# LLVM compiles such a function as it is, also with constant arguments.
_SEPARATE: Final = (" noinline {", f" {UNOPTIMIZED} {{")


@dataclass(frozen=True)
class ReducedModule:
    """A module's text without functions of earlier modules. sources: of each function that it only
    declares, the number of the module that defines it, and its name there."""

    text: str
    sources: Mapping[str, tuple[int, str]]


@dataclass(frozen=True)
class _InternalFunction:
    """A function of a module's text: [start, end), the first line, the others."""

    start: int
    end: int
    head: str
    body: str


class FunctionPool:
    """The functions of the modules of one compilation."""

    def __init__(self) -> None:
        self._sources: dict[object, tuple[int, str]] = {}

    def reduce(self, number: int, text: str) -> ReducedModule:
        """Module `number`, without the functions that earlier ones define."""
        functions = _find_functions(text)
        keys = _FunctionKeys(text, functions)
        sources = {n: s for n in functions if (s := self._sources.get(keys.key(n))) is not None}
        pieces: list[str] = []
        end = 0
        for name, f in functions.items():
            pieces.append(text[end : f.start])
            end = f.end
            if name in sources:
                # Local, so that its address is a distance, as that of an internal function.
                pieces.append(f"declare dso_local {f.head[len(_INTERNAL) : -2]}\n")
            elif sources.keys().isdisjoint(keys.callees(name)):
                self._sources.setdefault(keys.key(name), (number, name))
                pieces.append(f'{f.head[:-1]}section ".text.{name}" {{\n{f.body}')
            else:  # its code would need code of a third module
                pieces.append(text[f.start : f.end])
        return ReducedModule("".join([*pieces, text[end:]]), sources)


def _find_functions(text: str) -> dict[str, _InternalFunction]:
    """The internal functions that are not inlined, by name, but for those that call assembly, or
    functions that do."""
    found: dict[str, _InternalFunction] = {}
    end = 0
    while (start := text.find("\n" + _INTERNAL, end) + 1) > 0:
        line = text.index("\n", start)
        end = text.index("\n}\n", line) + 2
        head = text[start:line]
        name = _NAME.search(head)
        if name is None or not head.endswith(_SEPARATE):
            continue
        found[name[1]] = _InternalFunction(start, end + 1, head, text[line + 1 : end + 1])
    waiting = [n for n, f in found.items() if _ASSEMBLED in f.body]
    while waiting:
        name = waiting.pop()
        if found.pop(name, None) is not None:
            waiting += [n for n, f in found.items() if name in _NAME.findall(f.body)]
    return found


class _FunctionKeys:
    """Values that are equal for equal functions of different modules."""

    def __init__(self, text: str, functions: Mapping[str, _InternalFunction]) -> None:
        self._functions = functions
        lines = [line.split(" = ", 1) for line in text.split("\n") if line[:1] in ("@", "!")]
        self._definitions = {line[0]: line[1] for line in lines}
        self._made: dict[str, object] = {}

    def key(self, name: str) -> object:
        """The function's text, and what its names mean."""
        if name not in self._made:
            self._made[name] = name  # for a function that calls itself
            f = self._functions[name]
            used = dict.fromkeys(_NAME.findall(f.body))
            meanings = tuple((other, self._meaning(other)) for other in used)
            head = f.head.replace(f"@{name}(", "(", 1)
            self._made[name] = (head, _METADATA.sub(self._wish, f.body), meanings)
        return self._made[name]

    def callees(self, name: str) -> set[str]:
        """The functions that it calls, and those that these call."""
        found, waiting = set[str](), [name]
        while waiting:
            used = set(_NAME.findall(self._functions[waiting.pop()].body)) & self._functions.keys()
            waiting += used - found
            found |= used
        return found

    def _meaning(self, name: str) -> object:
        if name in self._functions:
            return self.key(name)
        return self._definitions.get(f"@{name}")

    def _wish(self, number: re.Match[str]) -> str:
        """The text of metadata: of a loop's, which has a number of its own, what follows that."""
        text = self._definitions.get(number[0], number[0])
        if text.startswith("distinct !{"):
            others = text[len("distinct !{") : -1].split(", ")[1:]
            return " ".join(self._definitions.get(other, other) for other in others)
        return text
