"""Program: the machine code of a plan's kernels, loaded, and its constants, packed.

Code is shared: a process holds a kernel once per (spec, Target) as long as any Program uses it,
and a cache on disk (`code_cache`) keeps it between processes. Packed constants are shared by all
plans that read the same array in the same layout.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...ir.deferred_array import DeferredArray, StoredArray
from ...ir.errors import VerificationError
from ...ir.int4 import Int4Bytes
from ...ir.lazy_dataclass import dataclass
from ...ir.provenance import file_slice_of, owner
from ...plan.plan import Plan, PlanConstant
from ...plan.specs.base import Spec
from ...plan.target import Target
from ...plan.verify.plan import verify_plan
from ...plan.verify.values import PlanLayoutTables
from ..artifact.code import Images
from ..driver.loader import Driver, load_driver
from ..kernels.emit.contract import Kernel
from ..machine.cpus import usable_cores
from ..machine.memory_planner import aligned_empty, drop_file_pages, trim_heap
from .builtin_code import CodeCache
from .code_image import FORMAT, CodeImage, read_image
from .fork_guard import reset_in_child

Array = npt.NDArray[Any]
Generate = Callable[[Spec, Target, str], Kernel]

# Weights that take fewer bytes are packed by the calling thread.
_MIN_PARALLEL_PACK_BYTES: Final = 1 << 20
# Bytes of weights that are dropped between two times that freed memory goes back to the system.
_TRIMMED_BYTES: Final = 64 << 20
# Bytes before the machine code of a cache entry: the kernel's scratch, little-endian.
_HEADER_BYTES: Final = 8


@dataclass(frozen=True, eq=False)
class LoadedKernel:
    """A kernel in memory. `library` keeps the address valid."""

    symbol: str
    address: int
    scratch: int
    library: Any


@dataclass(frozen=True, eq=False)
class PreparedPlan:
    """What is made of a plan that passed verify_plan. keys: of its kernels in the code cache."""

    keys: Mapping[Spec, str]
    layout: PlanLayoutTables


class CompiledPlan:
    """A plan that can run: see runtime/execution/session.py. Immutable and shared by sessions.

    compiled: kernels that LLVM compiled for it (the others were shared or cached).
    kernels: per spec. constants: per entry of the plan's constants. tables: per region. bodies:
    per region, programs of the plans inside its terminal, which share kernels, constants and
    denormals.
    """

    def __init__(
        self,
        plan: Plan,
        target: Target,
        kernels: Mapping[Spec, LoadedKernel],
        constants: Sequence[Array],
        compiled: int,
        driver: Driver,
        layout: PlanLayoutTables,
        around: Plan | None = None,
    ) -> None:
        self.plan, self.target = plan, target
        self.kernels, self.constants = kernels, tuple(constants)
        self.compiled, self.driver = compiled, driver
        outermost = plan if around is None else around
        self.denormals = outermost.denormals
        self.layout, self.tables = layout, layout.regions
        self.bodies = [
            [
                CompiledPlan(body, target, kernels, constants, compiled, driver, tables, outermost)
                for body, tables in zip(
                    () if r.terminal is None else r.terminal.bodies, inside, strict=True
                )
            ]
            for r, inside in zip(plan.regions, layout.bodies, strict=True)
        ]

    def copy_constants(self) -> CompiledPlan:
        """The program with constants of its own: memory that the calling thread writes first."""
        copies = list[Array]()
        for array in self.constants:
            if array.dtype.hasobject:  # strings, which no kernel reads
                copies.append(array)
                continue
            copies.append(aligned_empty(array.shape, array.dtype))
            copies[-1][...] = array
        shared = self.compiled, self.driver, self.layout
        return CompiledPlan(self.plan, self.target, self.kernels, copies, *shared)

    @property
    def scratch(self) -> int:
        """Scratch bytes one worker needs, for any step."""
        return max((k.scratch for k in self.kernels.values()), default=64)

    @property
    def count_linked(self) -> int:
        """Kernels that irc's own loader could not take, so that LLVM's linker did."""
        return sum(k.library.linked > 0 for k in self.kernels.values())

    @property
    def constant_bytes(self) -> int:
        """Bytes of the constants as the kernels read them."""
        return sum(c.nbytes for c in self.constants)


_loaded: weakref.WeakValueDictionary[str, LoadedKernel] = weakref.WeakValueDictionary()
_packed: dict[tuple[object, ...], tuple[weakref.ref[Any], weakref.ref[Any]]] = {}
_lock = threading.Lock()
_compilations = 0


def compilations() -> int:
    """Kernels that LLVM has compiled in this process: a new shape must not change it."""
    return _compilations


def reset_lock() -> None:
    """In a forked child: the lock may be held by a thread that is not there."""
    global _lock
    _lock = threading.Lock()


reset_in_child(reset_lock)


def build_program(
    plan: Plan,
    weights: dict[int, StoredArray],
    target: Target,
    *,
    code_cache: CodeCache | None = None,
    generate: Generate | None = None,
    threads: int | None = None,
    constants: Sequence[Array] | None = None,
    trusted: Images | None = None,
    consume: bool = False,
    prepared: PreparedPlan | None = None,
) -> CompiledPlan:
    """Compile what is not compiled yet, load it, and pack the constants.

    weights: the arrays behind `Constant.source`; read only, and kept only where a constant can
    use the array itself. threads: for compiling (None: all usable). generate: another source of
    kernels, for tests; its code is not shared. constants: the plan's, as make_constant
    makes them, where the caller has made them. trusted: code of a file that the user trusts; it
    stays with this program. consume: take an array out of `weights` when all is made of it, so
    that it need not be there twice. prepared: what was made of this plan before, so that it is not
    verified again. VerificationError for a bad plan.
    """
    if plan.target_key != target.key():
        raise VerificationError(
            "the plan was made for another machine",
            got=plan.target_key,
            expected=target.key(),
            fix="lower the graph again for this Target",
        )
    if prepared is None:
        prepared = _prepare(plan, target)
    driver = load_driver(code_cache)
    kernels, compiled = _load_kernels(
        prepared.keys, target, code_cache, generate, threads, trusted or {}
    )
    if constants is None:
        if compiled and sum(w.nbytes for w in weights.values()) >= _TRIMMED_BYTES:
            drop_file_pages("llvmlite")  # else they would be there next to the constants
        constants = _constants(plan.constants, weights, consume)
    return CompiledPlan(plan, target, kernels, constants, compiled, driver, prepared.layout)


def _prepare(plan: Plan, target: Target) -> PreparedPlan:
    verify_plan(plan)
    return PreparedPlan(kernel_keys(plan, target), PlanLayoutTables.of(plan, plan.constants))


def kernel_keys(plan: Plan, target: Target) -> dict[Spec, str]:
    """The keys of a plan's kernels in the code cache."""
    return {spec: _kernel_key(spec, target) for spec in plan.specs()}


def _load_kernels(
    keys: Mapping[Spec, str],
    target: Target,
    cache: CodeCache | None,
    generate: Generate | None,
    threads: int | None,
    trusted: Images,
) -> tuple[dict[Spec, LoadedKernel], int]:
    """Every spec's kernel, and how many LLVM compiled."""
    from .image_loader import load_objects
    from .shared_functions import shared_functions

    if not keys:
        return {}, 0
    specs, private = list(keys), generate is not None
    # One build at a time: two models with equal layers compile them once.
    with _lock:
        loaded = {} if private else {s: k for s in specs if (k := _loaded.get(keys[s])) is not None}
        images: dict[Spec, tuple[int, CodeImage]] = {}
        if cache is not None and not private:
            for spec in specs:
                if spec not in loaded and (found := _load_cached(cache, keys[spec])) is not None:
                    images[spec] = found
        given = {s for s in specs if keys[s] in trusted and s not in loaded and s not in images}
        images.update({s: _decode_entry(trusted[keys[s]]) for s in given})
        missing = [s for s in specs if s not in loaded and s not in images]
        images.update(_compile(missing, keys, target, generate, threads))
        if cache is not None and not private:
            for spec in missing:
                cache.put(keys[spec], _payload(*images[spec]))
        if images:
            fresh = [s for s in specs if s in images]
            symbols = [_symbol(keys[s]) for s in fresh]
            code = [images[s][1] for s in fresh]
            library = load_objects(code, symbols, target, shared_functions(code, cache))
            for spec, symbol in zip(fresh, symbols, strict=True):
                address = library.address(symbol)
                loaded[spec] = LoadedKernel(symbol, address, images[spec][0], library)
                if not private and spec not in given:
                    _loaded[keys[spec]] = loaded[spec]
    return loaded, len(missing)


def _payload(scratch: int, image: CodeImage) -> bytes:
    """A cache entry."""
    return scratch.to_bytes(_HEADER_BYTES, "little") + image.to_bytes()


def _decode_entry(payload: bytes) -> tuple[int, CodeImage]:
    """(scratch, machine code) of a cache entry. VerificationError for anything else."""
    return int.from_bytes(payload[:_HEADER_BYTES], "little"), read_image(payload[_HEADER_BYTES:])


def _load_cached(cache: CodeCache, key: str) -> tuple[int, CodeImage] | None:
    """What the cache holds; an entry that is not code is a miss."""
    data = cache.get(key)
    try:
        return None if data is None else _decode_entry(data)
    except VerificationError:
        return None


def code_of(plan: Plan, target: Target, cache: CodeCache | None) -> dict[str, bytes]:
    """The machine code of a plan's kernels as cache entries by key: this user's own, from the
    cache, or made now."""
    keys = kernel_keys(plan, target)
    found = {k: data for k in keys.values() if cache and (data := cache.get(k)) is not None}
    missing = [spec for spec, key in keys.items() if key not in found]
    with _lock:
        made = _compile(missing, keys, target, None, None)
    return found | {keys[spec]: _payload(*image) for spec, image in made.items()}


def _compile(
    specs: Sequence[Spec],
    keys: Mapping[Spec, str],
    target: Target,
    generate: Generate | None,
    threads: int | None,
) -> dict[Spec, tuple[int, CodeImage]]:
    """(scratch, machine code) of each spec."""
    global _compilations
    if not specs:
        return {}
    from .llvm import emit_objects

    make = generate or _generator()
    scratch: list[int] = []

    def texts() -> Iterator[str]:
        for spec in specs:
            kernel = make(spec, target, _symbol(keys[spec]))
            scratch.append(kernel.scratch)
            yield kernel.text

    images = emit_objects(texts(), target, threads=threads)
    _compilations += len(specs)
    return dict(zip(specs, zip(scratch, images, strict=True), strict=True))


def _symbol(key: str) -> str:
    return f"k{key[:24]}"


def _kernel_key(spec: Spec, target: Target) -> str:
    """64 hex digits that name the machine code: what it computes, for what, and by which irc."""
    return hashlib.sha256(f"{_generators()}|{target.key()}|{spec!r}".encode()).hexdigest()


@functools.cache
def _generators() -> str:
    """A digest of the kernel generators' own text and of what they import, of LLVM's version and
    of the images' format."""
    import importlib.metadata

    digest = hashlib.sha256(f"{FORMAT} {importlib.metadata.version('llvmlite')}".encode())
    for path in generator_files():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def generator_files() -> list[Path]:
    """The files whose text decides what a kernel's code is: the generators, and in `plan/` and
    `ir/` what specs mean to them (tile sizes, scalar programs)."""
    root = Path(__file__).parents[2]
    folders = (
        "runtime/jit",
        "runtime/kernels",
        "runtime/llvmir",
        "runtime/vecmath",
        "ir/dims",
        "ir/scalar",
        "plan",
    )
    found = [p for folder in folders for p in (root / folder).rglob("*.py")]
    return sorted([*found, *(root / "ir").glob("*.py")])


def _generator() -> Generate:
    from ..kernels.kernel_table import generate

    return generate


def _constants(
    constants: Sequence[PlanConstant], weights: dict[int, StoredArray], consume: bool
) -> list[Array]:
    """The constants as their readers want them: large ones on all usable CPUs, while this thread
    makes the others, which would only take turns for the interpreter's lock."""
    readers = Counter(c.source for c in constants)
    if missing := readers.keys() - weights.keys():
        raise VerificationError("a plan's weight is missing", got=min(missing))
    lock, dropped = threading.Lock(), 0

    def build_constant(n: int) -> Array:
        nonlocal dropped
        c = constants[n]
        made = make_constant(c, weights[c.source])
        with lock:
            readers[c.source] -= 1
            if consume and not readers[c.source]:
                dropped += weights.pop(c.source).nbytes
            trims, dropped = dropped >= _TRIMMED_BYTES, dropped % _TRIMMED_BYTES
        if trims:  # the C library would keep it, next to what is packed
            trim_heap()
        return made

    sizes = [weights[c.source].nbytes for c in constants]
    deferred = [isinstance(weights[c.source], DeferredArray) for c in constants]
    # What is in memory comes first: it is dropped before other arrays are made.
    order = sorted(range(len(constants)), key=lambda n: (deferred[n], -sizes[n]))
    large = [n for n in order if sizes[n] >= _MIN_PARALLEL_PACK_BYTES]
    if not large or len(constants) == 1:
        return [build_constant(n) for n in range(len(constants))]
    with ThreadPoolExecutor(usable_cores(), "irc-pack") as pool:
        tasks = {n: pool.submit(build_constant, n) for n in large}
        made = {n: build_constant(n) for n in order if n not in tasks}
        made |= {n: task.result() for n, task in tasks.items()}
    return [made[n] for n in range(len(constants))]


def make_constant(
    c: PlanConstant, source: StoredArray | Int4Bytes, *, threads: int | None = None
) -> Array:
    """The constant in its reader's layout: aligned, contiguous, native byte order, shared.

    It is the source itself where that is so already and `c` has no layout; a packed one keeps
    nothing of the source. threads: for packing (None: all usable).
    """
    wanted = c.source_dtype.numpy
    source = source.load() if isinstance(source, DeferredArray) else source
    if isinstance(source, Int4Bytes):
        found = source.dtype.numpy
    else:
        found = source.dtype.newbyteorder("=")
    if found != wanted or source.shape != c.shape:
        raise VerificationError(
            "a plan's weight is another array than the plan says",
            where=f"weight {c.source}",
            got=f"{source.dtype}{list(source.shape)}",
            expected=f"{c.source_dtype}{list(c.shape)}",
        )
    if c.layout is not None:
        return _share(c, source, lambda: _pack(c, source, threads))
    if isinstance(source, Int4Bytes):
        source = source.unpack()
    ready = source.flags.c_contiguous and source.flags.aligned and source.dtype.isnative
    # A small view would keep all of a large file's memory alive.
    if ready and 2 * source.nbytes >= owner(source).nbytes:
        return source if file_slice_of(source) is None else _share(c, source, lambda: source)
    return _share(c, source, lambda: np.array(source, wanted, order="C"))


def _pack(c: PlanConstant, source: Array | Int4Bytes, threads: int | None) -> Array:
    from ..kernels.gemm.packing.weight_packing import pack

    return pack(source, c, threads=threads)


def _share(c: PlanConstant, source: Array | Int4Bytes, make: Callable[[], Array]) -> Array:
    """What `make` gives, made once per slice of a file, or per source array, and constant."""
    file_slice = None if isinstance(source, Int4Bytes) else file_slice_of(source)
    who = id(source) if file_slice is None else file_slice
    key = (who, c.dtype, c.shape, c.layout, c.transposed, c.rounds)
    found = _packed.get(key)
    # An id may be used again by another array, a slice of a file identifies its numbers.
    if found is not None and (file_slice is not None or found[0]() is source):
        if (made := found[1]()) is not None:
            return made
    made = make()
    made.flags.writeable = False
    # The entry goes with the packed array.
    gone = weakref.ref(made, lambda _: _packed.pop(key, None))
    _packed[key] = (weakref.ref(source), gone)
    return made
