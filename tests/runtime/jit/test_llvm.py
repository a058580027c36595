"""Modules of LLVM text as machine code: by one call of machine code, and by calls from Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import Error
from irc_compiler.plan.target import Target
from irc_compiler.runtime.jit import llvm
from irc_compiler.runtime.jit.llvm_binding import target_machine
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import ISAS, target_of
from support.kernels.products import Case, make

pytestmark = pytest.mark.aarch64
TARGET = target_of(ISAS[0])
# A value is used before it is defined: text that is read, and refused then.
UNVERIFIED = """define i32 @k() {
 %a = add i32 %b, 1
 br label %x
x:
 %b = add i32 1, 2
 ret i32 %a
}
"""


def texts(target: Target) -> list[str]:
    """A module of several functions, one that no pass may change, and a loop."""
    spec = make(Case(13, 40, 29, dtype=DType.f32, dynamic="n"), "plain", target)[0]
    product = generate(spec, target, "k").text
    unoptimized = "\ndefine i32 @k() noinline optnone {\n ret i32 7\n}\n"
    loop = """define i32 @k(i32 %n) {
 br label %x
x:
 %i = phi i32 [ 0, %0 ], [ %j, %x ]
 %j = add i32 %i, 3
 %more = icmp slt i32 %j, %n
 br i1 %more, label %x, label %end
end:
 ret i32 %j
}
"""
    return [product, unoptimized, loop]


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An llvmlite that lacks a function."""
    text, names = llvm._emit_modules_text()
    monkeypatch.setattr(llvm, "_emit_modules_text", lambda: (text, [*names, "LLVMPY_Missing"]))
    llvm._load_emit_modules.cache_clear()
    yield
    llvm._load_emit_modules.cache_clear()


def test_one_call_makes_the_objects_that_calls_from_python_make() -> None:
    emit = llvm._load_emit_modules()
    assert emit is not None
    levels = [llvm._highest_level(text) for text in texts(TARGET)]
    assert levels == [3, 0, 3]
    machines = [target_machine(TARGET, opt=level) for level in levels]
    found = emit(texts(TARGET), machines, levels)
    assert found == [llvm._generate(t, TARGET, 3, as_object=True) for t in texts(TARGET)]


@pytest.mark.parametrize(
    "text, reason", [("define nonsense", "expected type"), (UNVERIFIED, "dominate")]
)
def test_text_that_llvm_refuses_is_an_error_that_says_why(text: str, reason: str) -> None:
    emit = llvm._load_emit_modules()
    assert emit is not None and emit([text], [target_machine(TARGET)], [3]) == [None]
    with pytest.raises(Error, match=reason):
        llvm.emit_objects([text], TARGET)


@pytest.mark.usefixtures("lacking")
def test_an_llvmlite_that_lacks_a_function_is_called_from_python() -> None:
    assert llvm._load_emit_modules() is None
    images = llvm.emit_objects(texts(TARGET), TARGET)
    assert all("k" in image.exports for image in images)


def test_threads_take_the_longest_texts_several_at_a_time() -> None:
    queue = llvm._TextQueue(2)
    for i in range(20):
        queue.put(i, "x" * (i % 10 + 1))
    taken = [queue.take()]
    assert [len(text) for _, text in taken[0]] == [10, 10, 9, 9, 8, 8, 7, 7]
    queue.end()
    while batch := queue.take():
        taken.append(batch)
    assert [len(batch) for batch in taken] == [8, 3, 2, 1, 1, 1, 1, 1, 1, 1]
    assert sorted(i for batch in taken for i, _ in batch) == list(range(20))
