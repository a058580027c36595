"""LLVM assembly text in, machine code out.

The only interface to LLVM's optimiser and code generator. llvmlite guards every foreign call by
one global lock, and a thread that returns from one waits for the interpreter's, up to five
milliseconds while another thread runs Python. So the calls for a module of `emit_objects` are made
by a function of machine code, past both locks; other modules make the two long calls past
llvmlite's. This is sound because every module here lives in an LLVM context of its own, and no
target machine serves two threads at once.
"""

from __future__ import annotations

import ctypes
import functools
import heapq
import itertools
import os
import platform
import re
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ...ir.errors import Error
from ...plan.target import Target, generic_target
from ..llvmir.kernel_entry import UNOPTIMIZED
from ..machine.cpus import usable_cores
from .code_image import OBJECT, CodeImage
from .elf_flatten import FunctionSource, copies_functions, image_of, read_flat_object
from .elf_read import ElfObject
from .equal_functions import FunctionPool, ReducedModule
from .fork_guard import inside_llvm
from .llvm_binding import ARCH_NAMES, load_binding, target_machine

# Texts that a thread compiles in one call.
_MAX_TEXTS: Final = 8
_dump_numbers = itertools.count()


def emit_object(ir_text: str, target: Target) -> CodeImage:
    """The machine code of an LLVM module, verified and optimised.

    Raises Error where LLVM refuses the text: a fault of a kernel writer, never of a model.
    """
    with inside_llvm():
        generated = _generate(ir_text, target, 3, as_object=True)
    image = image_of(generated)
    _dump(ir_text, target)
    return image


def emit_assembly(ir_text: str, target: Target, *, system: str | None = None) -> str:
    """The same as assembly text, for reading and for tests of generated code. system: the triple of
    another operating system."""
    with inside_llvm():
        return _generate(ir_text, target, 3, as_object=False, system=system).decode()


def emit_objects(
    texts: Iterable[str], target: Target, *, threads: int | None = None
) -> list[CodeImage]:
    """One image per text, in order, made on up to `threads` threads (None: one per usable CPU).

    Texts are compiled while the iterator produces others, and functions that they define alike
    once.
    """
    if threads is None:
        threads = usable_cores()
    pool, machines = FunctionPool(), _MachinePool(target, threads)
    _load_emit_modules()  # here, so that one thread does it
    modules: list[tuple[str, ReducedModule]] = []
    queue = _TextQueue(max(1, threads))
    objects: dict[int, bytes] = {}

    def emit_some() -> None:
        """Compile some of the texts that wait."""
        if batch := queue.take():
            with inside_llvm(), machines.take() as held:
                made = _generate_objects([text for _, text in batch], target, held)
            objects.update(zip([i for i, _ in batch], made, strict=True))

    with ThreadPoolExecutor(max(1, threads), "irc-compile") as executor:
        tasks: list[Future[None]] = []
        for i, text in enumerate(texts):
            alone = not copies_functions(target.arch)
            module = ReducedModule(text, {}) if alone else pool.reduce(i, text)
            modules.append((text, module))
            machines.prepare(_highest_level(module.text))
            queue.put(i, module.text)
            tasks.append(executor.submit(emit_some))
        queue.end()
        for task in tasks:
            task.result()
    needed = {number for _, module in modules for number, _ in module.sources.values()}
    read = {number: read_flat_object(objects[number]) for number in needed}
    images: list[CodeImage] = []
    for i, (text, module) in enumerate(modules):
        images.append(_make_image(text, module, objects[i], read, target))
        _dump(text, target)
    return images


def _make_image(
    text: str,
    module: ReducedModule,
    compiled: bytes,
    others: Mapping[int, ElfObject | None],
    target: Target,
) -> CodeImage:
    """The image of a reduced module with the functions that it lacks; of the complete text where
    they cannot be copied."""
    copied: dict[str, FunctionSource] = {}
    for name, (number, other) in module.sources.items():
        elf = others[number]
        if elf is None:
            return emit_object(text, target)
        copied[name] = FunctionSource(elf, other)
    image = image_of(compiled, copied)
    return emit_object(text, target) if copied and image.kind == OBJECT else image


def _generate(
    ir_text: str,
    target: Target,
    opt: int,
    *,
    as_object: bool,
    system: str | None = None,
    machine: Any = None,
) -> bytes:
    """machine: a target machine of the calling thread for `target` and the level that the text
    allows (None: a new one)."""
    llvm = load_binding()
    opt = min(opt, _highest_level(ir_text))
    machine = machine or target_machine(target, opt=opt, system=system)
    context = llvm.context.create_context()
    try:
        module = llvm.parse_assembly(ir_text, context)
    except RuntimeError as e:
        raise _ir_error(ir_text, str(e)) from e
    try:
        try:
            module.verify()
        except RuntimeError as e:
            raise _ir_error(ir_text, str(e)) from e
        if opt:
            tuning = llvm.create_pipeline_tuning_options(speed_level=opt)
            builder = llvm.create_pass_builder(machine, tuning)
            _past_lock("LLVMPY_RunNewModulePassManager")(_list_passes(llvm), module, builder)
        return _emit(machine, module, as_object)
    finally:
        module.close()  # before its context
        context.close()


def _highest_level(ir_text: str) -> int:
    """The optimization level that a module's functions allow: 0, which generates code fast, where
    all are compiled as they are written."""
    return 0 if 0 < ir_text.count(f" {UNOPTIMIZED} ") == ir_text.count("\ndefine ") else 3


def _list_passes(llvm: Any) -> Any:
    """Variables into registers, then cleaning. Kernels are written as they should run, so no loop
    is moved or changed: the standard passes take five times as long for the same loops."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    return passes


def _generate_objects(
    texts: Sequence[str], target: Target, machines: Mapping[int, Any]
) -> list[bytes]:
    """The objects of modules. machines: of the levels that the texts allow."""
    levels = [_highest_level(text) for text in texts]
    emit = _load_emit_modules()
    none: list[bytes | None] = [None] * len(texts)
    made = emit(texts, [machines[n] for n in levels], levels) if emit is not None else none
    # What is refused is tried again by calls that say why.
    return [
        found or _generate(text, target, level, as_object=True, machine=machines[level])
        for found, text, level in zip(made, texts, levels, strict=True)
    ]


class _TextQueue:
    """Texts that wait for `threads` threads, the longest first, so that no thread gets the largest
    at the end. A thread takes several: between its calls it waits for the interpreter's lock."""

    def __init__(self, threads: int) -> None:
        self._threads, self._more, self._lock = threads, True, threading.Lock()
        self._waiting: list[tuple[int, int, str]] = []

    def put(self, number: int, text: str) -> None:
        with self._lock:
            heapq.heappush(self._waiting, (-len(text), number, text))

    def end(self) -> None:
        """Say that no text follows: threads take fewer, so that they end together."""
        self._more = False

    def take(self) -> list[tuple[int, str]]:
        """Texts and their numbers; none where other threads have taken all."""
        with self._lock:
            waiting = len(self._waiting)
            share = -(-waiting // self._threads) if self._more else waiting // (2 * self._threads)
            count = min(waiting, max(1, min(share, _MAX_TEXTS)))
            return [heapq.heappop(self._waiting)[1:] for _ in range(count)]


class _MachinePool:
    """Target machines of each level for so many threads. A machine holds what LLVM derives from
    the processor's features. They are made in one thread: each takes many short calls, after which
    others would wait for the interpreter's lock."""

    def __init__(self, target: Target, threads: int) -> None:
        self._target = target
        self._held: list[dict[int, Any]] = [{} for _ in range(max(1, threads))]
        self._free = list(self._held)

    def prepare(self, level: int) -> None:
        """Make the machines of a level."""
        for held in self._held:
            if level not in held:
                held[level] = target_machine(self._target, opt=level)

    @contextmanager
    def take(self) -> Generator[Mapping[int, Any]]:
        """One thread's machines of the levels that are prepared."""
        held = self._free.pop()
        try:
            yield held
        finally:
            self._free.append(held)


# Calls of llvmlite for modules, one after the other: of `text`, which ends with a zero, to the
# object in a buffer, or null for text that LLVM refuses, with the passes of `_list_passes`.
_EMIT_MODULE: Final = """
define internal ptr @emit_module(ptr %text, ptr %machine, i32 %level) noinline optnone {
 %slot = alloca ptr
 store ptr null, ptr %slot
 %context = call ptr @LLVMPY_ContextCreate()
 %module = call ptr @LLVMPY_ParseAssembly(ptr %context, ptr %text, ptr %slot)
 %unread = icmp eq ptr %module, null
 br i1 %unread, label %refused, label %verify
verify:
 %wrong = call i32 @LLVMPY_VerifyModule(ptr %module, ptr %slot)
 %message = load ptr, ptr %slot
 call void @LLVMPY_DisposeString(ptr %message)
 store ptr null, ptr %slot
 %low = trunc i32 %wrong to i8
 %bad = icmp ne i8 %low, 0
 br i1 %bad, label %close, label %optimize
optimize:
 %none = icmp eq i32 %level, 0
 br i1 %none, label %emit, label %build
build:
 %tuning = call ptr @LLVMPY_CreatePipelineTuningOptions()
 %builder = call ptr @LLVMPY_CreatePassBuilder(ptr %machine, ptr %tuning)
 %passes = call ptr @LLVMPY_CreateNewModulePassManager()
 call void @LLVMPY_module_AddSROAPass(ptr %passes)
 call void @LLVMPY_module_AddSimplifyCFGPass(ptr %passes)
 call void @LLVMPY_module_AddInstCombinePass(ptr %passes)
 call void @LLVMPY_module_AddNewGVNPass(ptr %passes)
 call void @LLVMPY_RunNewModulePassManager(ptr %passes, ptr %module, ptr %builder)
 call void @LLVMPY_DisposeNewModulePassManger(ptr %passes)
 call void @LLVMPY_DisposePassBuilder(ptr %builder)
 call void @LLVMPY_DisposePipelineTuningOptions(ptr %tuning)
 br label %emit
emit:
 %made = call ptr @LLVMPY_TargetMachineEmitToMemory(ptr %machine, ptr %module, i32 1, ptr %slot)
 br label %close
close:
 %buffer = phi ptr [ null, %verify ], [ %made, %emit ]
 call void @LLVMPY_DisposeModule(ptr %module)
 br label %refused
refused:
 %result = phi ptr [ null, %0 ], [ %buffer, %close ]
 call void @LLVMPY_ContextDispose(ptr %context)
 ret ptr %result
}
define void @irc_emit_modules(
 ptr %texts, ptr %machines, ptr %levels, ptr %buffers, i64 %count) noinline optnone {
 br label %next
next:
 %i = phi i64 [ 0, %0 ], [ %after, %next ]
 %text.at = getelementptr ptr, ptr %texts, i64 %i
 %machine.at = getelementptr ptr, ptr %machines, i64 %i
 %level.at = getelementptr i32, ptr %levels, i64 %i
 %buffer.at = getelementptr ptr, ptr %buffers, i64 %i
 %text = load ptr, ptr %text.at
 %machine = load ptr, ptr %machine.at
 %level = load i32, ptr %level.at
 %buffer = call ptr @emit_module(ptr %text, ptr %machine, i32 %level)
 store ptr %buffer, ptr %buffer.at
 %after = add i64 %i, 1
 %more = icmp ult i64 %after, %count
 br i1 %more, label %next, label %done
done:
 ret void
}
"""
_PARAMETER: Final = re.compile(r"(ptr|i32) (%\w+|\w+)")


def _emit_modules_text() -> tuple[str, list[str]]:
    """The functions with declarations of what they call, and the names of that."""
    calls = re.findall(r"call (\w+) @(LLVMPY_\w+)\((.*)\)", _EMIT_MODULE)
    declared = {
        name: f"declare {returns} @{name}({', '.join(t for t, _ in _PARAMETER.findall(given))})"
        for returns, name, given in calls
    }
    return "\n".join([_EMIT_MODULE, *declared.values(), ""]), list(declared)


_EmitModules = Callable[[Sequence[str], Sequence[Any], Sequence[int]], list[bytes | None]]


@functools.cache
def _load_emit_modules() -> _EmitModules | None:
    """emit(texts, machines, levels): modules' objects, None for text that LLVM refuses. None for an
    llvmlite that lacks a function that it calls."""
    from llvmlite.binding import ffi

    from .image_loader import load_objects

    text, names = _emit_modules_text()
    if not all(hasattr(ffi.lib, name) for name in names):
        return None
    intel = platform.machine().lower() in ARCH_NAMES["x86_64"]
    target = generic_target("plain" if intel else "neon")
    imports = {name: _address(name) for name in names}
    library = load_objects([emit_object(text, target)], ["irc_emit_modules"], target, imports)
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    call = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, pointer, ctypes.c_size_t)(
        library.address("irc_emit_modules")
    )
    # Short calls keep the interpreter's lock.
    start = ctypes.PYFUNCTYPE(pointer, pointer)(_address("LLVMPY_GetBufferStart"))
    size = ctypes.PYFUNCTYPE(ctypes.c_size_t, pointer)(_address("LLVMPY_GetBufferSize"))
    dispose = ctypes.PYFUNCTYPE(None, pointer)(_address("LLVMPY_DisposeMemoryBuffer"))

    def read(buffer: int | None) -> bytes | None:
        if not buffer:
            return None
        try:
            return ctypes.string_at(start(buffer), size(buffer))
        finally:
            dispose(buffer)

    def emit(
        texts: Sequence[str], machines: Sequence[Any], levels: Sequence[int]
    ) -> list[bytes | None]:
        n = len(texts)
        buffers = (pointer * n)()
        call(
            (ctypes.c_char_p * n)(*(text.encode() for text in texts)),
            (pointer * n)(*(ctypes.cast(m, pointer).value for m in machines)),
            (integer * n)(*levels),
            buffers,
            n,
        )
        return [read(buffer) for buffer in buffers]

    emit.__dict__["library"] = library  # its code stays loaded
    return emit


def _address(name: str) -> int:
    """Of a function of llvmlite's library."""
    function: Any = _past_lock(name)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


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


def _ir_error(ir_text: str, message: str) -> Error:
    line = next((int(p) for p in message.replace(",", ":").split(":") if p.strip().isdigit()), 0)
    lines = ir_text.splitlines()
    where = f"line {line}: {lines[line - 1].strip()[:200]}" if 0 < line <= len(lines) else None
    return Error(
        "LLVM refused a generated kernel: this is a bug of irc",
        where=where,
        got=message.strip()[:2000],
        fix="set IRC_DUMP_LLVM=<folder> to keep the text, and report it",
    )


def _dump(ir_text: str, target: Target) -> None:
    folder = os.environ.get("IRC_DUMP_LLVM")
    if not folder:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    first = ir_text.find("define i32 @")
    name = ir_text[first + 12 :].split("(", 1)[0] if first >= 0 else "module"
    stem = f"{next(_dump_numbers):04d}-{name[:60]}"
    Path(folder, f"{stem}.ll").write_text(ir_text)
    Path(folder, f"{stem}.s").write_text(emit_assembly(ir_text, target))
