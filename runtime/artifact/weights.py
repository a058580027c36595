"""The arrays behind a stored plan's constants: read, checked and packed, each byte once.

A large weight that only packed constants are made of has chunks of its own in the file. It is
read into memory that a thread uses for one weight after the other, checked, and packed from there
while it is still in the cache: fresh pages cost more time than reading does. All other arrays get
memory of their own in one pass.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dtype import DType
from ...ir.int4 import Int4Bytes, is_four_bit
from ...ir.lazy_dataclass import dataclass
from ...ir.serialization.dataclass_json import invalid_data_error
from ...plan.plan import Plan, PlanConstant
from ..machine.cpus import usable_cores
from ..machine.memory_planner import page_memory
from .container_format import MIN_OWN_CHUNK_BYTES
from .container_reader import Container, ReadRequest

Array = npt.NDArray[Any]
Source = Array | Int4Bytes
MakeConstant = Callable[[PlanConstant, Source], Array]

# Constants of artefacts in this process: nets that load the same file share them.
_shared: weakref.WeakValueDictionary[tuple[bytes, SectionSlice, PlanConstant], Array]
_shared = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class SectionSlice:
    """The slice of an array: `offset` bytes into a section."""

    section: int
    offset: int
    dtype: DType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        count = math.prod(self.shape)
        return (count + 1) // 2 if is_four_bit(self.dtype) else count * self.dtype.numpy.itemsize


class PlanReader:
    """A stored plan and, on demand, its arrays."""

    plan: Plan

    def __init__(self, slices: Sequence[SectionSlice], file: Container) -> None:
        self._slices, self._file = slices, file

    def check(self, source: int, dtype: DType, shape: tuple[int, ...]) -> None:
        """VerificationError where there is no such array."""
        if not 0 <= source < len(self._slices):
            raise invalid_data_error(source, f"a weight's number, below {len(self._slices)}")
        stored = self._slices[source]
        if stored.dtype is not dtype or stored.shape != shape:
            raise invalid_data_error(stored, f"{dtype}{list(shape)}")

    def inner_array(self, source: int, dtype: DType, shape: tuple[int, ...]) -> Array:
        """An array of a constant inside control flow, read at once: types may depend on it."""
        self.check(source, dtype, shape)
        return _unpack(self._read([source], self._chunks(source))[source])

    def arrays(self) -> dict[int, Array]:
        """The array of each source of the plan's constants, read-only, after a check of the whole
        file."""
        found = self._read({c.source for c in self.plan.constants}, range(self._file.chunks))
        return {s: _unpack(array) for s, array in found.items()}

    def constants(self, make: MakeConstant) -> list[Array]:
        """The plan's constants as `make` makes them of their arrays, all of the file checked.

        `make` is called in several threads; it must not keep the array of a constant that has a
        layout. 4-bit integers that are to be packed are given as they are stored. ArtifactError for
        damage.
        """
        constants = self.plan.constants
        lent = self._borrowable_sources()
        later = {c for s in lent for c in self._chunks(s)}
        now = [c for c in range(self._file.chunks) if c not in later]
        kept = [c.source for c in constants if c.source not in lent]
        now += sorted({c for s in kept for c in self._chunks(s)} & later)
        arrays = self._read(kept, now)
        largest = max((self._slices[s].nbytes for s in lent), default=0)
        scratch = _Scratch(largest)

        def build_constant(c: PlanConstant) -> Array:
            key = (self._file.digest, self._slices[c.source], c)
            found = _shared.get(key)
            if c.source in lent:
                array = self._borrow(c.source, scratch.get())
            else:
                array = arrays[c.source]
            array = array if c.layout is not None else _unpack(array)
            if found is None:
                found = _shared[key] = make(c, array)
            return found

        with ThreadPoolExecutor(usable_cores(), "irc-load") as pool:
            return list(pool.map(build_constant, constants))

    def _borrowable_sources(self) -> set[int]:
        """Sources of which only one constant is made, a packed one."""
        uses: dict[int, list[PlanConstant]] = {}
        for c in self.plan.constants:
            uses.setdefault(c.source, []).append(c)
        use_counts = Counter((p.section, p.offset) for p in self._slices)
        return {
            s
            for s, made in uses.items()
            if len(made) == 1
            and made[0].layout is not None
            and self._slices[s].nbytes >= MIN_OWN_CHUNK_BYTES
            and use_counts[self._slices[s].section, self._slices[s].offset] == 1
        }

    def _offset(self, p: SectionSlice) -> int:
        return self._file.sections[p.section].offset + p.offset

    def _chunks(self, source: int) -> range:
        p = self._slices[source]
        return self._file.chunks_of(self._offset(p), p.nbytes)

    def _borrow(self, source: int, memory: Array) -> Source:
        p = self._slices[source]
        part = memory[: p.nbytes]
        self._file.read_at(ReadRequest(self._offset(p), part.data))
        return _as_source(p, part)

    def _read(self, sources: Iterable[int], chunks: Sequence[int]) -> dict[int, Source]:
        """Arrays in memory of their own; equal bytes are one array's."""
        slices = {s: self._slices[s] for s in sources}
        sizes = {(p.section, p.offset): p.nbytes for p in slices.values() if p.nbytes}
        memory_of = {key: page_memory(size) for key, size in sizes.items()}
        starts = self._file.sections
        pieces = [ReadRequest(starts[s].offset + at, m.data) for (s, at), m in memory_of.items()]
        self._file.fill(pieces, chunks)
        nothing = np.empty(0, np.uint8)
        return {
            s: _as_source(p, memory_of[p.section, p.offset] if p.nbytes else nothing)
            for s, p in slices.items()
        }


class _Scratch(threading.local):
    """Memory of each thread, made when it is first used."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._memory: Array | None = None

    def get(self) -> Array:
        if self._memory is None:
            self._memory = page_memory(self._size)
        return self._memory


def _as_source(p: SectionSlice, raw: Array) -> Source:
    if p.dtype is DType.boolean:
        raw = (raw != 0).view(np.uint8)  # any byte but 0 is true; NumPy knows 0 and 1 only
    if is_four_bit(p.dtype):
        return Int4Bytes(p.dtype, p.shape, raw)
    array = raw.view(p.dtype.numpy).reshape(p.shape)
    array.flags.writeable = False
    return array


def _unpack(source: Source) -> Array:
    if not isinstance(source, Int4Bytes):
        return source
    array = source.unpack(page_memory(math.prod(source.shape)))
    array.flags.writeable = False
    return array
