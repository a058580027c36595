"""Equal functions of several modules: compiled once, and copied into each module's image."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Mapping, Sequence

import pytest
from irc_compiler.plan.target import Isa, Target, generic_target
from irc_compiler.runtime.jit import llvm
from irc_compiler.runtime.jit.code_image import FLAT, OBJECT, CodeImage
from irc_compiler.runtime.jit.elf_flatten import copies_functions, image_of
from irc_compiler.runtime.jit.equal_functions import FunctionPool
from irc_compiler.runtime.jit.host_features import host_arch
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm import emit_objects
from support.tiny_plans import TARGET

needs_copies = pytest.mark.skipif(
    not copies_functions(host_arch()), reason="not run: objects are linked by LLVM here"
)

# A table, a loop with metadata, and a call of another internal function.
_INNER = """define internal i64 @inner{suffix}(i64 %x) nounwind noinline {{
entry:
 %y = mul i64 %x, {factor}
 ret i64 %y
}}
"""
# A call of a function in assembly.
_CALL = ' %y = call i64 @"\\01deep"(i64 %x)\n'
_OUTER = """define internal i64 @outer{suffix}(ptr noalias %to, i64 %n) nounwind noinline {{
entry:
 br label %loop
loop:
 %i = phi i64 [ 0, %entry ], [ %next, %loop ]
 %sum = phi i64 [ 0, %entry ], [ %more, %loop ]
 %at = getelementptr i64, ptr @c0, i64 %i
 %x = load i64, ptr %at
 %y = call i64 @inner{suffix}(i64 %x)
 %more = add i64 %sum, %y
 %next = add i64 %i, 1
 %go = icmp slt i64 %next, %n
 br i1 %go, label %loop, label %end, !llvm.loop !{loop}
end:
 call void @llvm.memset.p0.i64(ptr %to, i8 7, i64 %n, i1 false)
 ret i64 %more
}}
"""


def module(name: str, *, factor: int = 3, cell: int = 5, suffix: str = "", loop: int = 1) -> str:
    """A module whose function @name(to, n) calls outer, which calls inner."""
    text = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
    text += f"@c0 = internal constant [3 x i64] [i64 {cell}, i64 7, i64 11], align 8\n"
    text += f"define i64 @{name}(ptr %to, i64 %n) nounwind {{\nentry:\n"
    text += f" %x = call i64 @outer{suffix}(ptr %to, i64 %n)\n ret i64 %x\n}}\n"
    text += _OUTER.format(suffix=suffix, loop=loop)
    text += _INNER.format(suffix=suffix, factor=factor)
    text += '!0 = !{!"llvm.loop.unroll.disable"}\n'
    text += "".join(f"!{n} = distinct !{{!{n}, !0}}\n" for n in range(1, loop + 1))
    return text


def defined(text: str) -> list[str]:
    return re.findall(r"^define internal .*?@([\w.]+)", text, re.M)


def test_a_later_module_declares_what_an_earlier_one_defines() -> None:
    pool = FunctionPool()
    first, second = pool.reduce(0, module("a")), pool.reduce(1, module("b", loop=3))
    assert defined(first.text) == ["outer", "inner"] and not first.sources
    assert 'section ".text.outer"' in first.text
    assert defined(second.text) == []
    assert second.sources == {"outer": (0, "outer"), "inner": (0, "inner")}


@pytest.mark.parametrize(
    "changed",
    [{"cell": 6}, {"factor": 4}, {"suffix": ".1"}],
)
def test_other_constants_callees_and_names_of_callees_are_other_functions(
    changed: dict[str, object],
) -> None:
    pool = FunctionPool()
    pool.reduce(0, module("a"))
    second = pool.reduce(1, module("b", **changed))  # type: ignore[arg-type]
    assert f"outer{changed.get('suffix', '')}" in defined(second.text)


def test_a_function_that_calls_a_copied_one_is_no_source() -> None:
    """Its code alone would not do: the copied function is in a third module."""
    pool = FunctionPool()
    pool.reduce(0, module("a"))
    second, third = (pool.reduce(n, module("bc"[n - 1], cell=n)) for n in (1, 2))
    for found in (second, third):
        assert defined(found.text) == ["outer"] and found.sources == {"inner": (0, "inner")}


def test_functions_that_llvm_may_inline_stay() -> None:
    text = module("a").replace(" noinline {", " {")
    pool = FunctionPool()
    assert pool.reduce(0, text).text == pool.reduce(1, text).text == text


def run(name: str, images: list[CodeImage], n: int = 3) -> tuple[int, bytes]:
    library = load_objects(images, [name], TARGET)
    memory = (ctypes.c_char * 4)(*b"....")
    call = library.function(name, ctypes.c_void_p, ctypes.c_int64, returns=ctypes.c_int64)
    return call(memory, n), bytes(memory)


@needs_copies
@pytest.mark.parametrize("threads", [1, 2])
def test_images_hold_copies_of_functions_that_are_compiled_once(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    compiled: list[str] = []
    generate = llvm._generate_objects

    def record(texts: Sequence[str], target: Target, machines: Mapping[int, object]) -> list[bytes]:
        compiled.extend(texts)
        return generate(texts, target, machines)

    monkeypatch.setattr(llvm, "_generate_objects", record)
    texts = [module("a"), module("b", loop=2), module("c", factor=5), module("d")]
    images = emit_objects(texts, TARGET, threads=threads)
    assert sum(len(defined(text)) for text in compiled) == 4  # a's two, and c's two
    assert [list(i.exports) for i in images] == [["a"], ["b"], ["c"], ["d"]]
    assert all(i.kind == FLAT and list(i.imports) == ["memset"] for i in images)
    # Each image by itself: it needs no other one.
    for name, image, factor in zip("abcd", images, (3, 3, 5, 3), strict=True):
        assert run(name, [image]) == ((5 + 7 + 11) * factor, b"\7\7\7.")


@needs_copies
@pytest.mark.parametrize("refused", ["source", "image"])
def test_functions_that_cannot_be_copied_are_compiled_again(
    monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    if refused == "source":
        monkeypatch.setattr(llvm, "read_flat_object", lambda data: None)
    else:
        monkeypatch.setattr(
            llvm,
            "image_of",
            lambda data, copied=None: CodeImage(OBJECT, data) if copied else image_of(data),
        )
    images = emit_objects([module("a"), module("b")], TARGET, threads=1)
    assert [i.kind for i in images] == [FLAT, FLAT]
    assert run("b", [images[1]]) == ((5 + 7 + 11) * 3, b"\7\7\7.")


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="not run: objects are not ELF here"
)
@pytest.mark.parametrize("isa", ["avx2", "neon"])
def test_copies_are_laid_out_for_each_processor(isa: Isa) -> None:
    target = generic_target(isa)
    images = emit_objects([module("a"), module("b")], target, threads=1)
    assert [i.kind for i in images] == [FLAT, FLAT]
    assert [sorted(i.imports) for i in images] == [["memset"], ["memset"]]
    sizes = [len(i.code) for i in images]
    assert abs(sizes[0] - sizes[1]) <= 64  # the order of sections differs, and so do gaps


def test_functions_that_call_assembly_stay_in_their_modules() -> None:
    """Their texts are equal; what they call is not. So are those of functions that call them."""
    pool = FunctionPool()
    for number, factor in enumerate((3, 5)):
        text = module(f"k{number}").replace(" %y = mul i64 %x, 3\n", _CALL)
        assert _CALL in text
        lines = rf"deep:\0Aimulq ${factor}, %rdi, %rax\0Aretq"
        reduced = pool.reduce(number, f'module asm "{lines}"\n{text}')
        assert reduced.sources == {} and "section" not in reduced.text
