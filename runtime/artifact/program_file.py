"""A program as a file of the code cache: its plan, its packed constants, the keys of its kernels.

    0     header of 64 bytes: magic, where the head begins, how long it is, and its CRC-32
    64    the constants as the kernels read them, each at a multiple of 64 bytes, zeros between them
    ...   the head, to the end of the file: a pickle

A file is used as it is, without the checks that an artefact gets (reader.py): it is in a folder
that only this user can write to (jit/private_folder.py), whose machine code is run as it is too,
and its plan was verified before it was written. The checksum and the sum of the constants' 64-bit
words find what a disk or a full file system damaged.
"""

from __future__ import annotations

import os
import pickle
import struct
import threading
import weakref
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from ...ir.errors import ArtifactError
from ...ir.lazy_dataclass import dataclass
from ...plan.plan import Plan
from ..jit.fork_guard import reset_in_child
from ..jit.program import CompiledPlan, PreparedPlan, kernel_keys
from ..machine.cpus import usable_cores
from ..machine.memory_planner import ALIGN_BYTES, page_memory

Array = npt.NDArray[Any]

_MAGIC: Final = b"\x89IRCP\r\n\x02"
_FIELDS: Final = struct.Struct("<8sQQI")
_HEADER_BYTES: Final = 64
# What a thread reads begins at a multiple of this, several large pages: threads that touch one page
# first wait for each other.
_PIECE_ALIGN_BYTES: Final = 4 << 20
_WORDS_MODULUS: Final = 1 << 64
# The constants of each file that a model of this process uses.
_shared: weakref.WeakValueDictionary[tuple[int, int, int], Array] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def reset_lock() -> None:
    """In a forked child: the lock may be held by a thread that is not there."""
    global _lock
    _lock = threading.Lock()


reset_in_child(reset_lock)


@dataclass(frozen=True)
class _ConstantSlice:
    """The bytes of a constant: `offset` from the first one's."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Head:
    """What the pickle holds. constants: per constant of the plan, a slice, or an array of strings.
    size, total: bytes of all slices, and the sum of their 64-bit words."""

    plan: Plan
    prepared: PreparedPlan
    constants: tuple[_ConstantSlice | Array, ...]
    size: int
    total: int
    attached: Mapping[str, Any]


class ProgramFile:
    """An open file. plan, prepared: of the program. nbytes: of its constants. attached: what was
    stored with it, by name.

    file: one that only this user can write to; it is closed with this. ArtifactError for damage,
    OSError where it cannot be read.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._seeking = file, threading.Lock()
        try:
            head = self._read_head()
        except BaseException:
            self.close()
            raise
        self.plan, self.prepared, self.attached = head.plan, head.prepared, head.attached
        self.nbytes, self._total, self._constants = head.size, head.total, head.constants

    def close(self) -> None:
        """Close the file; constants that were read stay."""
        self._file.close()

    def __enter__(self) -> ProgramFile:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _read_head(self) -> _Head:
        fields = self._file.read(_HEADER_BYTES)
        if len(fields) < _HEADER_BYTES:
            raise self._report_damage("no whole header")
        magic, offset, length, checksum = _FIELDS.unpack_from(fields)
        if magic != _MAGIC or offset + length != os.fstat(self._file.fileno()).st_size:
            raise self._report_damage(f"a header of {offset} + {length} bytes")
        self._file.seek(offset)
        content = self._file.read(length)
        if zlib.crc32(content) != checksum:
            raise self._report_damage("a head of another checksum")
        try:
            found = pickle.loads(content)
        except Exception as error:  # whatever a class raises that is not what it was
            raise self._report_damage(f"{type(error).__name__}: {error}"[:200]) from error
        if not isinstance(found, _Head):
            raise self._report_damage(f"a {type(found).__name__}")
        return found

    def _report_damage(self, got: str) -> ArtifactError:
        return ArtifactError(
            "a stored program is damaged",
            where="the code cache",
            got=got,
            expected="what irc wrote, unchanged",
            fix="empty the cache: irc cache clear",
        )

    def read_constants(self) -> list[Array]:
        """The program's constants, read-only views of one block, which models of the same file
        share."""
        found = os.fstat(self._file.fileno())
        key = found.st_dev, found.st_ino, found.st_mtime_ns
        with _lock:
            block = _shared.get(key)
            if block is None:
                block = _shared[key] = self._read_block()
        return [c if isinstance(c, np.ndarray) else _view(block, c) for c in self._constants]

    def _read_block(self) -> Array:
        block = page_memory(self.nbytes)
        threads = usable_cores()
        # One piece for each thread: between two it needs the interpreter's lock, which another
        # thread may hold for as long as all the reading takes (the tokenizer of a language model).
        length = -(-self.nbytes // (threads * _PIECE_ALIGN_BYTES)) * _PIECE_ALIGN_BYTES
        pieces = range(0, self.nbytes, max(length, 1))
        with ThreadPoolExecutor(threads, "irc-load") as pool:
            sums = pool.map(lambda at: self._read_piece(at, block[at : at + length]), pieces)
            total = sum(sums) % _WORDS_MODULUS
        if total != self._total:
            raise self._report_damage(f"constants that add up to {total}, not {self._total}")
        block.flags.writeable = False
        return block

    def _read_piece(self, at: int, memory: Array) -> int:
        """The sum of the words of a piece that was read."""
        done = 0
        while done < memory.nbytes:
            count = self._read_into(_HEADER_BYTES + at + done, memory[done:].data)
            if not count:
                raise self._report_damage(f"{at + done} bytes of constants")
            done += count
        return _add_words(memory)

    def _read_into(self, offset: int, memory: memoryview) -> int:
        """Read from there; how many bytes."""
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [memory], offset)
        with self._seeking:  # Windows: the threads take turns
            self._file.seek(offset)
            content = self._file.read(len(memory))
            memory[: len(content)] = content
            return len(content)


def write_program(stream: BinaryIO, program: CompiledPlan, attached: Mapping[str, Any]) -> None:
    """Write a program to a seekable stream, and what is to be found with it by name. OSError where
    it cannot be written, or holds what cannot be pickled."""
    stream.write(bytes(_HEADER_BYTES))
    placed: dict[int, _ConstantSlice] = {}
    constants: list[_ConstantSlice | Array] = []
    size = total = 0
    for array in program.constants:
        if array.dtype.hasobject:
            constants.append(array)
            continue
        if id(array) not in placed:
            placed[id(array)] = _ConstantSlice(size, array.dtype, array.shape)
            for data in _split_into_words(array):
                total += _add_words(data)
                stream.write(data.data)
                size += data.nbytes
            size += stream.write(bytes(-size % ALIGN_BYTES))
        constants.append(placed[id(array)])
    prepared = PreparedPlan(kernel_keys(program.plan, program.target), program.layout)
    head = _Head(program.plan, prepared, tuple(constants), size, total % _WORDS_MODULUS, attached)
    try:
        content = pickle.dumps(head, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        raise OSError(str(error)) from error
    stream.write(content)
    stream.seek(0)
    fields = (_HEADER_BYTES + size, len(content), zlib.crc32(content))
    stream.write(_FIELDS.pack(_MAGIC, *fields))


def _split_into_words(array: Array) -> Iterator[Array]:
    """The bytes of an array, the last of them filled up with zeros to whole words."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    whole = data.nbytes // 8 * 8
    yield data[:whole]
    if whole < data.nbytes:
        rest = np.zeros(8, np.uint8)
        rest[: data.nbytes - whole] = data[whole:]
        yield rest


def _add_words(data: Array) -> int:
    """The sum of 64-bit words, modulo 2^64."""
    return int(np.add.reduce(data.view(np.uint64)))


def _view(block: Array, c: _ConstantSlice) -> Array:
    count = int(np.prod(c.shape, dtype=np.int64)) * c.dtype.itemsize
    return block[c.offset : c.offset + count].view(c.dtype).reshape(c.shape)
