"""LLVM assembly text in, object code out, object code into memory.

The only door to LLVM's optimiser, code generator and linker. llvmlite guards every foreign call by
one global lock, so plain threads would compile one after the other. The two long calls (optimise,
generate code: nine tenths of the time) are made past that lock; this is sound because every module
here lives in an LLVM context of its own and has a target machine of its own.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ...ir.errors import Error
from ...ir.target import Target
from ..machine import usable_cores
from ..threads import reset_in_child
from .host import binding, target_machine
from .objects import names_of

_dump_numbers = itertools.count()

# A module with this line is written as it shall run (a matrix kernel is): a few passes do for it,
# in half the time of the standard ones.
BRIEF = "!irc.brief = !{}\n"


def emit_object(ir_text: str, target: Target, *, opt: int = 3) -> bytes:
    """Object code (a relocatable image) of an LLVM module, verified and optimised at -O`opt`.

    Raises Error where LLVM refuses the text: a fault of a kernel writer, never of a model.
    """
    image = _generate(ir_text, target, opt, as_object=True)
    _dump(ir_text, target, opt)
    return image


def emit_assembly(ir_text: str, target: Target, *, opt: int = 3) -> str:
    """The same as assembly text, for reading and for tests of generated code."""
    return _generate(ir_text, target, opt, as_object=False).decode()


def emit_objects(
    texts: Sequence[str], target: Target, *, threads: int | None = None
) -> list[bytes]:
    """One image per text, in order, made on up to `threads` threads (None: one per usable CPU)."""
    if threads is None:
        threads = usable_cores()
    if threads <= 1 or len(texts) <= 1:
        return [emit_object(text, target) for text in texts]
    # Long texts first, so that no thread is left with the largest at the end.
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    images: list[bytes] = [b""] * len(texts)
    with ThreadPoolExecutor(min(threads, len(texts)), "irc-compile") as pool:
        done = pool.map(emit_object, [texts[i] for i in order], itertools.repeat(target))
        for i, image in zip(order, done, strict=True):
            images[i] = image
    return images


def _generate(ir_text: str, target: Target, opt: int, *, as_object: bool) -> bytes:
    llvm = binding()
    machine = target_machine(target, opt=opt)
    context = llvm.context.create_context()
    try:
        module = llvm.parse_assembly(ir_text, context)
    except RuntimeError as e:
        raise _refused(ir_text, str(e)) from e
    try:
        try:
            module.verify()
        except RuntimeError as e:
            raise _refused(ir_text, str(e)) from e
        # Kernels write their vectors themselves; the vectorisers would only spend time on tails.
        tuning = llvm.create_pipeline_tuning_options(speed_level=opt)
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, tuning)
        passes = _brief(llvm) if BRIEF in ir_text else builder.getModulePassManager()
        _past_lock("LLVMPY_RunNewModulePassManager")(passes, module, builder)
        return _emit(machine, module, as_object)
    finally:
        module.close()  # before its context
        context.close()


def _brief(llvm: Any) -> Any:
    """Variables into registers, then cleaning; no loop is moved or changed."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    return passes


def _emit(machine: Any, module: Any, as_object: bool) -> bytes:
    from llvmlite.binding import ffi

    with ffi.OutputString() as problem:
        emit = _past_lock("LLVMPY_TargetMachineEmitToMemory")
        buffer = emit(machine, module, int(as_object), problem)
        if not buffer:
            raise Error("LLVM could not generate code", got=str(problem))
    try:
        size = ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _past_lock(name: str) -> Callable[..., Any]:
    from llvmlite.binding import ffi

    wrapped = getattr(ffi.lib, name)
    return getattr(wrapped, "_cfn", wrapped)  # another llvmlite: locked, slower, still right


def _refused(ir_text: str, message: str) -> Error:
    line = next((int(p) for p in message.replace(",", ":").split(":") if p.strip().isdigit()), 0)
    lines = ir_text.splitlines()
    where = f"line {line}: {lines[line - 1].strip()[:200]}" if 0 < line <= len(lines) else None
    return Error(
        "LLVM refused a generated kernel: this is a bug of irc",
        where=where,
        got=message.strip()[:2000],
        fix="set IRC_DUMP_LLVM=<folder> to keep the text, and report it",
    )


def _dump(ir_text: str, target: Target, opt: int) -> None:
    folder = os.environ.get("IRC_DUMP_LLVM")
    if not folder:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    first = ir_text.find("define i32 @")
    name = ir_text[first + 12 :].split("(", 1)[0] if first >= 0 else "module"
    stem = f"{next(_dump_numbers):04d}-{name[:60]}"
    Path(folder, f"{stem}.ll").write_text(ir_text)
    Path(folder, f"{stem}.s").write_text(emit_assembly(ir_text, target, opt=opt))


class Library:
    """Loaded object code. Its addresses are valid as long as the Library lives.

    When the last reference goes, the code is unmapped: whoever stores an address keeps the Library.
    """

    def __init__(self, jit: Any, tracker: Any, addresses: dict[str, int]) -> None:
        self._jit, self._tracker, self._addresses = jit, tracker, addresses

    def address(self, symbol: str) -> int:
        """The address of an exported symbol; KeyError for others."""
        return self._addresses[symbol]

    def symbols(self) -> tuple[str, ...]:
        """The exported symbols, sorted."""
        return tuple(sorted(self._addresses))

    def function(self, symbol: str, *argtypes: Any, returns: Any = ctypes.c_int32) -> Any:
        """A ctypes function that keeps the Library alive. For tests and one-off calls."""
        made = ctypes.CFUNCTYPE(returns, *argtypes)(self.address(symbol))
        made.library = self  # type: ignore[attr-defined]
        return made

    def close(self) -> None:
        """Unload now. Idempotent."""
        owned = self._tracker, self._jit  # the tracker goes before its JIT
        self._tracker = self._jit = None
        self._addresses = {}
        for part in owned:
            if part is not None:
                part.close()

    def __del__(self, _ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not _ending():  # at exit the process takes the pages, and LLVM may be gone
            self.close()


# What code generation may call on its own. Anything else a kernel needs is a fault, and is found
# at link time by name.
_IMPORTS = ("memcpy", "memmove", "memset")
_link_lock = threading.Lock()


def _reset_lock() -> None:
    """In a forked child: the lock may be held by a thread that is not there."""
    global _link_lock
    _link_lock = threading.Lock()


reset_in_child(_reset_lock)


def load_objects(
    images: Sequence[bytes],
    symbols: Iterable[str],
    target: Target,
    imports: dict[str, int] | None = None,
) -> Library:
    """Link images (of emit_object, trusted: LLVM dies on forged ones) and load them.

    symbols: the names whose addresses are wanted. imports: further addresses by name. Images must
    not define the same external name twice. Error where a name is missing.
    """
    given = {**_libc(), **(imports or {})}
    _check_names(images, set(given))
    llvm = binding()
    builder = llvm.JITLibraryBuilder()
    for name, address in given.items():
        builder.import_symbol(name, address)
    for image in images:
        builder.add_object_img(image)
    names = sorted(set(symbols))
    for name in names:
        builder.export_symbol(name)
    # One JIT per library: a library's name inside a JIT can never be given back.
    with _link_lock:
        jit = llvm.create_lljit_compiler(
            target_machine(target), use_jit_link=True, suppress_errors=True
        )
        try:
            tracker = builder.link(jit, "kernels")
        except RuntimeError as e:
            jit.close()
            raise Error("generated code could not be linked", got=str(e).strip()[:2000]) from e
    return Library(jit, tracker, {name: tracker[name] for name in names})


def _check_names(images: Sequence[bytes], given: set[str]) -> None:
    names = [found for image in images if (found := names_of(image)) is not None]
    known = given.union(*(n.defined for n in names))
    missing = set[str]().union(*(n.needed for n in names)) - known
    if missing:
        raise Error(
            "generated code needs functions that kernels do not have: this is a bug of irc",
            got=", ".join(sorted(missing))[:500],
            expected=", ".join(sorted(known))[:500],
        )


def _libc() -> dict[str, int]:
    process = ctypes.CDLL(None)
    found = {n: ctypes.cast(getattr(process, n), ctypes.c_void_p).value for n in _IMPORTS}
    return {name: address for name, address in found.items() if address is not None}
