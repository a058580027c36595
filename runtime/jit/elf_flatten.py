"""An object file laid out in the layout that it shall have in memory, so that no linker is needed
to load it.

Generated kernels are position-independent functions over their own constants: every address is a
distance inside the object, known here, but for the few functions of libc that code generation
calls on its own, and those that kernels share. A call of one goes to a stub in the image, which
jumps to the address in a word of the image that the loader fills in. Unwinding tables are left out:
nothing throws through kernels.

What is laid out: ELF of x86-64 and aarch64 on Linux without data that is written to. Anything else
stays an object file, which LLVM's own linker loads. What differs between the two processors is in
one table: how a distance is written into an instruction, and the stub of a call.

Functions that several objects have alike are in one of them (equal_functions.py): the images of the
others get copies of its code, and of the constants that it reads.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from ...ir.lazy_dataclass import dataclass
from ...plan.target import Arch
from .code_image import ALIGN_BYTES, FLAT, OBJECT, WORD_BYTES, CodeImage
from .elf_read import ElfObject, ElfSection, ElfSymbol, Relocation, read_object
from .elf_relocations import PROCESSORS, ElfProcessor, NotFlatError

_WRITE, _ALLOC, _EXECUTE, _THREAD = 1, 2, 4, 0x400
_UNWIND: Final = ".eh_frame"
_COMMON: Final = 0xFF00  # numbers from here on are not sections


@dataclass(frozen=True)
class FunctionSource:
    """Where the code of a function is: the object, and the function's name there."""

    elf: ElfObject
    name: str


def read_flat_object(data: bytes) -> ElfObject | None:
    """An object of a system and a processor whose objects are laid out here."""
    found = read_object(data) if sys.platform.startswith("linux") else None
    return found if found is not None and found.machine in PROCESSORS else None


def copies_functions(arch: Arch) -> bool:
    """Whether code of one object can be copied into the image of another one: of this process's
    system and that architecture."""
    return sys.platform.startswith("linux") and arch in ("x86_64", "aarch64")


def image_of(data: bytes, copied: Mapping[str, FunctionSource] | None = None) -> CodeImage:
    """The image of an object file: flat where it can be, else the object as it is.

    copied: functions of other objects by the names that this one calls, each alone in its section.
    """
    found = read_flat_object(data)
    if found is not None:
        try:
            return _flatten(found, copied or {}, PROCESSORS[found.machine])
        except NotFlatError:
            pass
    return CodeImage(OBJECT, data)


# A section: the object, by its number in the image, and the number there.
_SectionKey = tuple[int, int]


class _ImageSections:
    """The sections that an image is made of: an object's, and those of others that the copied
    functions need."""

    def __init__(self, elf: ElfObject, copied: Mapping[str, FunctionSource]) -> None:
        self.objects = [elf]
        # By name: the number of the object, and the symbol there.
        self.functions: dict[str, tuple[int, ElfSymbol]] = {}
        sections = {(0, n): s for n, s in enumerate(elf.sections) if _is_kept(s)}
        for name in sorted(copied.keys() & elf.needed_names()):
            self.functions[name] = self._add_function(copied[name], sections)
        # Code first: what is executed and what is only read share no line of the cache.
        self.sections = sorted(sections.items(), key=lambda s: not s[1].flags & _EXECUTE)
        self.relocations = [
            (number, r)
            for number, elf in enumerate(self.objects)
            for r in elf.relocations
            if (number, r.section) in sections
        ]

    def _add_function(
        self, source: FunctionSource, sections: dict[_SectionKey, ElfSection]
    ) -> tuple[int, ElfSymbol]:
        """Add the sections that a function needs: its own and those that its relocations name."""
        elf = source.elf
        number = next((n for n, other in enumerate(self.objects) if other is elf), None)
        if number is None:
            number = len(self.objects)
            self.objects.append(elf)
        symbol = next(s for s in elf.symbols if s.name == source.name and s.section)
        waiting = [symbol.section]
        while waiting:
            section = waiting.pop()
            if (number, section) in sections or not _is_kept(elf.sections[section]):
                continue
            sections[number, section] = elf.sections[section]
            waiting += [
                r.symbol.section
                for r in elf.relocations
                if r.section == section and 0 < r.symbol.section < _COMMON
            ]
        return number, symbol

    def needed_names(self) -> list[str]:
        """Names that are defined in none of the objects."""
        own = self.objects[0].needed_names() - self.functions.keys()
        others = {
            r.symbol.name for number, r in self.relocations if number and not r.symbol.section
        }
        return sorted(own | others)


def _flatten(
    elf: ElfObject, copied: Mapping[str, FunctionSource], processor: ElfProcessor
) -> CodeImage:
    code = bytearray()
    found = _ImageSections(elf, copied)
    offsets: dict[_SectionKey, int] = {}
    for key, section in found.sections:
        code.extend(bytes(-len(code) % (section.alignment or 1)))
        offsets[key] = len(code)
        code.extend(section.content)
    code.extend(bytes(-len(code) % WORD_BYTES))
    names = found.needed_names()
    stubs = {name: len(code) + processor.stub_bytes * n for n, name in enumerate(names)}
    first_word = len(code) + processor.stub_bytes * len(names)
    words = {name: first_word + WORD_BYTES * n for n, name in enumerate(names)}
    for name, at in stubs.items():
        code.extend(processor.stub(words[name] - at))
    code.extend(bytes(WORD_BYTES * len(words)))
    functions = {name: offsets[n, s.section] + s.value for name, (n, s) in found.functions.items()}
    for number, r in found.relocations:
        _resolve(code, (number, r), offsets, stubs, {} if number else functions, processor)
    if any(s.section >= _COMMON and s.is_global for s in elf.symbols):
        raise NotFlatError
    exports = {
        s.name: offsets[0, s.section] + s.value
        for s in elf.symbols
        if s.is_global and (0, s.section) in offsets
    }
    return CodeImage(FLAT, bytes(code), exports, words)


def _is_kept(section: ElfSection) -> bool:
    if not section.flags & _ALLOC or section.name == _UNWIND or not section.size:
        return False
    written = section.flags & (_WRITE | _THREAD) or len(section.content) != section.size
    if written or section.alignment > ALIGN_BYTES:
        raise NotFlatError
    return True


def _resolve(
    code: bytearray,
    source: tuple[int, Relocation],
    offsets: Mapping[_SectionKey, int],
    stubs: Mapping[str, int],
    functions: Mapping[str, int],
    processor: ElfProcessor,
) -> None:
    """Write what a relocation of an object wants. stubs: offsets of what may be called by name.
    functions: offsets of copied functions."""
    number, r = source
    write = processor.relocations.get(r.kind)
    if write is None:
        raise NotFlatError
    if (number, r.symbol.section) in offsets:
        target = offsets[number, r.symbol.section] + r.symbol.value
    elif r.symbol.name in functions:
        target = functions[r.symbol.name]
    elif r.symbol.name in stubs and r.kind in processor.calls:
        target = stubs[r.symbol.name]
    else:
        raise NotFlatError
    write(code, offsets[number, r.section] + r.offset, target + r.addend)
