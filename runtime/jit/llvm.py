"""LLVM assembly text in, machine code out.

The only interface to LLVM's optimiser and code generator. llvmlite guards every foreign call by
one global lock, so plain threads would compile one after the other. The two long calls (optimize,
generate code: nine tenths of the time) are made past that lock; this is sound because every module
here lives in an LLVM context of its own and has a target machine of its own.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ...ir.errors import Error
from ...plan.target import Target
from ..llvmir.kernel_entry import UNOPTIMIZED
from ..machine.cpus import usable_cores
from .code_image import OBJECT, CodeImage
from .elf_flatten import FunctionSource, copies_functions, image_of, read_flat_object
from .elf_read import ElfObject
from .equal_functions import FunctionPool, ReducedModule
from .fork_guard import inside_llvm
from .llvm_binding import load_binding, target_machine

_dump_numbers = itertools.count()

# A module with this line is written as it shall run (a matrix kernel is): a few passes do for it,
# in half the time of the standard ones.
BRIEF = "!irc.brief = !{}\n"


def emit_object(ir_text: str, target: Target, *, opt: int = 3) -> CodeImage:
    """The machine code of an LLVM module, verified and optimised at -O`opt`.

    Raises Error where LLVM refuses the text: a fault of a kernel writer, never of a model.
    """
    with inside_llvm():
        generated = _generate(ir_text, target, opt, as_object=True)
    image = image_of(generated)
    _dump(ir_text, target, opt)
    return image


def emit_assembly(ir_text: str, target: Target, *, opt: int = 3, system: str | None = None) -> str:
    """The same as assembly text, for reading and for tests of generated code. system: the triple of
    another operating system."""
    with inside_llvm():
        return _generate(ir_text, target, opt, as_object=False, system=system).decode()


def emit_objects(
    texts: Iterable[str], target: Target, *, threads: int | None = None
) -> list[CodeImage]:
    """One image per text, in order, made on up to `threads` threads (None: one per usable CPU).

    Texts are compiled while the iterator produces others, and functions that they define alike
    once.
    """
    if threads is None:
        threads = usable_cores()
    pool = FunctionPool()
    machines = threading.local()
    modules: list[tuple[str, ReducedModule]] = []
    waiting: list[tuple[int, int, str]] = []
    objects: dict[int, bytes] = {}

    def emit_longest() -> None:
        """Compile the longest text that waits, so that no thread gets the largest at the end."""
        _, i, text = heapq.heappop(waiting)
        with inside_llvm():
            # A target machine holds what LLVM derives from the processor's features.
            level = _highest_level(text)
            made: dict[str, Any] = machines.__dict__
            if (name := f"level {level}") not in made:
                made[name] = target_machine(target, opt=level)
            machine = made[name]
            objects[i] = _generate(text, target, level, as_object=True, machine=machine)

    with ThreadPoolExecutor(max(1, threads), "irc-compile") as executor:
        tasks: list[Future[None]] = []
        for i, text in enumerate(texts):
            alone = BRIEF not in text or not copies_functions(target.arch)
            module = ReducedModule(text, {}) if alone else pool.reduce(i, text)
            modules.append((text, module))
            heapq.heappush(waiting, (-len(module.text), i, module.text))
            tasks.append(executor.submit(emit_longest))
        for task in tasks:
            task.result()
    needed = {number for _, module in modules for number, _ in module.sources.values()}
    read = {number: read_flat_object(objects[number]) for number in needed}
    images: list[CodeImage] = []
    for i, (text, module) in enumerate(modules):
        images.append(_make_image(text, module, objects[i], read, target))
        _dump(text, target, 3)
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
        # Kernels write their vectors themselves; the vectorisers would only spend time on tails.
        tuning = llvm.create_pipeline_tuning_options(speed_level=opt)
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, tuning)
        if opt:
            brief = BRIEF in ir_text
            passes = _run_short_pipeline(llvm) if brief else builder.getModulePassManager()
            _past_lock("LLVMPY_RunNewModulePassManager")(passes, module, builder)
        return _emit(machine, module, as_object)
    finally:
        module.close()  # before its context
        context.close()


def _highest_level(ir_text: str) -> int:
    """The optimization level that a module's functions allow: 0, which generates code fast, where
    all are compiled as they are written."""
    return 0 if 0 < ir_text.count(f" {UNOPTIMIZED} {{") == ir_text.count("\ndefine ") else 3


def _run_short_pipeline(llvm: Any) -> Any:
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
