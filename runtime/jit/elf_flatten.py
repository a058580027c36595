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
"""

from __future__ import annotations

import sys
from typing import Final

from .code_image import ALIGN_BYTES, FLAT, OBJECT, WORD_BYTES, CodeImage
from .elf_read import ElfObject, ElfSection, Relocation, read_object
from .elf_relocations import PROCESSORS, ElfProcessor, NotFlatError

_WRITE, _ALLOC, _EXECUTE, _THREAD = 1, 2, 4, 0x400
_UNWIND: Final = ".eh_frame"
_COMMON: Final = 0xFF00  # numbers from here on are not sections


def image_of(data: bytes) -> CodeImage:
    """The image of an object file: flat where it can be, else the object as it is."""
    found = read_object(data) if sys.platform.startswith("linux") else None
    processor = None if found is None else PROCESSORS.get(found.machine)
    if found is None or processor is None:
        return CodeImage(OBJECT, data)
    try:
        return _flatten(found, processor)
    except NotFlatError:
        return CodeImage(OBJECT, data)


def _flatten(elf: ElfObject, processor: ElfProcessor) -> CodeImage:
    code = bytearray()
    section_offsets: dict[int, int] = {}
    numbered = [(n, s) for n, s in enumerate(elf.sections) if _is_kept(s)]
    # Code first: what is executed and what is only read share no line of the cache.
    for number, section in sorted(numbered, key=lambda n: not n[1].flags & _EXECUTE):
        code.extend(bytes(-len(code) % (section.alignment or 1)))
        section_offsets[number] = len(code)
        code.extend(section.content)
    code.extend(bytes(-len(code) % WORD_BYTES))
    names = sorted(elf.needed_names())
    stubs = {name: len(code) + processor.stub_bytes * n for n, name in enumerate(names)}
    first_word = len(code) + processor.stub_bytes * len(names)
    words = {name: first_word + WORD_BYTES * n for n, name in enumerate(names)}
    for name, at in stubs.items():
        code.extend(processor.stub(words[name] - at))
    code.extend(bytes(WORD_BYTES * len(words)))
    for r in elf.relocations:
        if r.section in section_offsets:
            _resolve(code, r, section_offsets, stubs, processor)
    if any(s.section >= _COMMON and s.is_global for s in elf.symbols):
        raise NotFlatError
    exports = {
        s.name: section_offsets[s.section] + s.value
        for s in elf.symbols
        if s.is_global and s.section in section_offsets
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
    r: Relocation,
    section_offsets: dict[int, int],
    stubs: dict[str, int],
    processor: ElfProcessor,
) -> None:
    write = processor.relocations.get(r.kind)
    if write is None:
        raise NotFlatError
    if r.symbol.section in section_offsets:
        target = section_offsets[r.symbol.section] + r.symbol.value
    elif r.symbol.name in stubs and r.kind in processor.calls:
        target = stubs[r.symbol.name]
    else:
        raise NotFlatError
    write(code, section_offsets[r.section] + r.offset, target + r.addend)
