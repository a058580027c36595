"""The kernel entry every step has, opened with its arguments fetched.

    i32 kernel(ptr buffers, ptr dims, i32 worker, i32 workers, ptr scratch)

buffers: array of pointers, the step's arguments; dims: array of i64; the result is 0 or a status.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...ir.lazy_dataclass import dataclass
from .builder import Function, Module
from .values import I32, I64, PTR, Value, integer


@dataclass(frozen=True)
class BufferAssumptions:
    """What a kernel may assume of one argument. Promise noalias only where the plan keeps it.

    align: bytes; writes: the kernel stores to it; noalias: no other argument overlaps what is
    stored through this one (and none stores what is read through it).
    """

    align: int = 1
    writes: bool = False
    noalias: bool = True


READ = BufferAssumptions()
WRITE = BufferAssumptions(writes=True)
# Where an output may be one of the inputs, every buffer that may overlap says so.
READ_SHARED = BufferAssumptions(noalias=False)
INPLACE = BufferAssumptions(writes=True, noalias=False)

_ENTRY_PARAMETERS: Final = (
    (PTR, "buffers"),
    (PTR, "dims"),
    (I32, "worker"),
    (I32, "workers"),
    (PTR, "scratch"),
)
_ENTRY_ATTRIBUTES: Final = "nounwind uwtable(sync)"
# Attributes of a function that LLVM compiles as it is written.
UNOPTIMIZED: Final = "noinline optnone"


@dataclass(frozen=True)
class OpenKernel:
    """An open kernel: write into `function`; worker and workers are i64."""

    function: Function
    buffers: tuple[Value, ...]
    dims: tuple[Value, ...]
    worker: Value
    workers: Value
    scratch: Value


def open_kernel(
    module: Module,
    name: str,
    buffers: Sequence[BufferAssumptions],
    dims: Sequence[int | None] | int = 0,
    *,
    numbers: Sequence[int] = (),
    attributes: str = "",
    only_calls: bool = False,
    optimized: bool = True,
) -> OpenKernel:
    """Make the entry @name and the inner function that holds the body.

    dims: how many, or one entry per dim, an int where the size is fixed (the run-time value is
    then not read). The inner function gets pointers as parameters, because only there LLVM
    accepts noalias and align; it is a call of its own, once per worker and step. numbers: what the
    entry passes to the inner function as further dims, so that kernels which differ in them have
    equal inner functions. only_calls: the body calls functions that have such parameters, and
    reads no buffer itself; then the entry holds it, and LLVM compiles one function less. optimized:
    False for an entry whose loops take little of the time of what they call, so that LLVM compiles
    it as it is written, which it always does where the entry only passes arguments.
    """
    wishes: list[int | None] = [None] * dims if isinstance(dims, int) else list(dims)
    how = f"{_ENTRY_ATTRIBUTES} {attributes if only_calls else ''}".strip()
    if not (optimized and only_calls):
        how += f" {UNOPTIMIZED}"
    entry = module.function(name, _ENTRY_PARAMETERS, I32, attributes=how)
    if only_calls:
        return _open_caller(entry, len(buffers), wishes)
    params: list[tuple[str, str]] = []
    args: list[Value] = []
    for i, buffer in enumerate(buffers):
        flags = [PTR, "noundef"]
        flags += ["noalias"] if buffer.noalias else []
        flags += [] if buffer.writes else ["readonly"]
        flags += [f"align {buffer.align}"] if buffer.align > 1 else []
        params.append((" ".join(flags), f"b{i}"))
        args.append(entry.load(PTR, entry.at(entry.params["buffers"], i, PTR)))
    for i, wish in enumerate(wishes):
        if wish is None:
            params.append((I64, f"d{i}"))
            args.append(entry.load(I64, entry.at(entry.params["dims"], i, I64)))
    for i, number in enumerate(numbers):
        params.append((I64, f"n{i}"))
        args.append(integer(number))
        wishes.append(None)
    for who in ("worker", "workers"):
        params.append((I64, who))
        args.append(entry.cast(entry.params[who], I64))
    params.append(("ptr noundef", "scratch"))
    args.append(entry.params["scratch"])
    inner = module.function(
        module.unique(f"{name}.body"),
        params,
        I32,
        attributes=f"nounwind noinline {attributes}".strip(),
        linkage="internal",
    )
    entry.ret(entry.call_function(inner, *args))
    return _make_open_kernel(inner, list(inner.params.values()), wishes)


def open_shared_body(module: Module, buffers: int, dims: int) -> OpenKernel:
    """The body of a kernel as a function that kernels of other numbers can share: it calls
    functions that read the buffers, and has a parameter more, `record` (emit/code_record.py)."""
    body = module.function(
        module.unique("body"),
        [*_ENTRY_PARAMETERS, (PTR, "record")],
        I32,
        attributes="nounwind noinline",
        linkage="internal",
    )
    return _open_caller(body, buffers, [None] * dims)


def write_entry(
    module: Module, name: str, body: Function, store_record: Callable[[Function], Value]
) -> None:
    """The entry of a kernel with such a body, which is complete."""
    entry = module.function(name, _ENTRY_PARAMETERS, I32, attributes=_ENTRY_ATTRIBUTES)
    entry.ret(entry.call_function(body, *entry.params.values(), store_record(entry)))


def _open_caller(f: Function, buffers: int, wishes: Sequence[int | None]) -> OpenKernel:
    """Open a function with the entry's parameters that reads no buffer itself."""
    values = [f.load(PTR, f.at(f.params["buffers"], i, PTR)) for i in range(buffers)]
    for i, wish in enumerate(wishes):
        if wish is None:
            values.append(f.load(I64, f.at(f.params["dims"], i, I64)))
    values += [f.cast(f.params[who], I64) for who in ("worker", "workers")]
    return _make_open_kernel(f, [*values, f.params["scratch"]], wishes)


def _make_open_kernel(
    f: Function, values: Sequence[Value], wishes: Sequence[int | None]
) -> OpenKernel:
    """values: buffers, run-time sizes, worker, workers, scratch."""
    given = iter(values[len(values) - 3 - wishes.count(None) :])
    dims = tuple(next(given) if w is None else integer(w) for w in wishes)
    buffers = tuple(values[: len(values) - 3 - wishes.count(None)])
    return OpenKernel(f, buffers, dims, *given)


def share(
    f: Function, count: Value | int, worker: Value, workers: Value, grain: int = 1
) -> tuple[Value, Value]:
    """This worker's [lo, hi) of `count` tasks: contiguous, together exactly [0, count).

    Shares differ by at most one grain; bounds inside are multiples of the grain.
    """
    n = f.as_value(count, I64)
    units = f.ceil_div(n, grain)
    lo = f.udiv(f.mul(units, worker), workers)
    hi = f.udiv(f.mul(units, f.add(worker, 1)), workers)
    if grain == 1:
        return lo, hi
    return f.smin(f.mul(lo, grain), n), f.smin(f.mul(hi, grain), n)
