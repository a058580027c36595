"""Kernels for Windows and macOS: their assembly keeps the calling conventions. They are not run."""

from __future__ import annotations

import re

import pytest
from irc_compiler.compiler.lowering import lower
from irc_compiler.compiler.options import Options
from irc_compiler.plan.processors import processor_target
from irc_compiler.plan.specs import find_specs
from irc_compiler.plan.specs.base import Spec
from irc_compiler.runtime.driver.codegen_run import driver_text
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.kernel_table import generate
from irc_compiler.runtime.machine.platforms.platform_interface import SystemName
from support.models.kernel_families import FAMILY_CASES

from tests.runtime.kernels.test_processors import optimised

WIN64 = "x86_64-pc-windows-msvc"
MAC = "arm64-apple-macosx14.0.0"
SYSTEM_NAMES: dict[str, SystemName] = {WIN64: "windows", MAC: "macos"}
# The label of a function begins a line; those of blocks begin with a dot.
_FUNCTION = re.compile(r"^(?=[A-Za-z_][\w.]*:)", re.M)
_SAVE = re.compile(r"v?mov(?:[au]p[sd]|dq[au])\s+%xmm(\d+), -?\d*\(%r(?:sp|bp|bx)\)")
# The last operand is the one that is written.
_WRITTEN = re.compile(r"%[xy]mm(\d+)\s*$", re.M)
_PROBED_BYTES = 4096
_DEFINED = re.compile(r"^\s*\.def\s+([\w.]+);", re.M)
_CALLED = re.compile(r"callq\s+([\w.]+)")


def one_spec_per_family(processor: str) -> list[Spec]:
    """The first spec of each family that the models of kernel_families need."""
    found: dict[str, Spec] = {}
    for name, dtype, precision in FAMILY_CASES:
        if (dtype, precision) == ("f32", "f32"):
            plan, _ = lower(
                optimised(name, dtype, precision), processor_target(processor), Options(precision)
            )
            for step in plan.kernel_steps():
                found.setdefault(step.spec.family, step.spec)
    assert set(found) == {spec.family for spec in find_specs()}
    return list(found.values())


def assembly_of(processor: str, system: str) -> list[str]:
    target = processor_target(processor)
    texts = [generate(spec, target, "k0").text for spec in one_spec_per_family(processor)]
    texts.append(driver_text(target, SYSTEM_NAMES[system]))
    return [emit_assembly(text, target, system=system) for text in texts]


def assembled_functions(assembly: str) -> set[str]:
    """Functions that LLVM did not compile, which follow System V's convention: its own have a
    symbol's definition."""
    defined = set(_DEFINED.findall(assembly))
    names = {part.partition(":")[0] for part in _FUNCTION.split(assembly)[1:]}
    return names - defined if defined else set()


def win64_faults(assembly: str) -> list[str]:
    """What breaks the Win64 convention: memory below the stack pointer, xmm6 to xmm15 that are not
    saved, and a frame of a page or more that is not probed."""
    faults = re.findall(r"-\d+\(%rsp\)", assembly)
    assembled = assembled_functions(assembly)
    for part in _FUNCTION.split(assembly)[1:]:
        name, _, body = part.partition(":")
        if name in assembled:
            continue
        used = {int(n) for n in _WRITTEN.findall(body)} & set(range(6, 16))
        if assembled & set(_CALLED.findall(body)):
            used = set(range(6, 16))
        saved = {int(n) for n in _SAVE.findall(body)}
        faults += [f"{name}: xmm{n}" for n in sorted(used - saved)]
        frames = [int(n) for n in re.findall(r"subq\s+\$(\d+), %rsp", body)]
        if max(frames, default=0) >= _PROBED_BYTES:
            faults.append(f"{name}: {max(frames)} bytes")
    return faults


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["x86-64-v2", "haswell"])
def test_kernels_of_all_families_keep_win64(processor: str) -> None:
    texts = assembly_of(processor, WIN64)
    assert all("@feat.00" in text for text in texts)  # objects of Windows
    assert any(_SAVE.search(text) for text in texts)
    assert [fault for text in texts for fault in win64_faults(text)] == []
    assert any(map(assembled_functions, texts)) == (processor == "haswell")


@pytest.mark.slow
def test_kernels_of_all_families_leave_x18_to_macos() -> None:
    for text in assembly_of("neoverse-n1", MAC):
        assert "__TEXT,__text" in text and not re.search(r"\b[wx]18\b", text)


def test_faults_of_win64_are_found() -> None:
    save = "movaps %xmm6, 16(%rsp)\nvmovapd %xmm8, 32(%rsp)\nvaddpd %ymm6, %ymm0, %ymm8\n"
    body = f"k:\nsubq $4096, %rsp\n{save}movl %eax, -8(%rsp)\nvaddps %ymm6, %ymm0, %ymm7\n"
    assert win64_faults(body) == ["-8(%rsp)", "k: xmm7", "k: 4096 bytes"]
