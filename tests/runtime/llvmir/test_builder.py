"""The LLVM door and our words for it: every word computed against Python or NumPy."""

from __future__ import annotations

import ctypes
import gc
import math
import threading

import ml_dtypes
import numpy as np
import pytest
from irc_compiler.ir.errors import Error
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit import llvm
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm_binding import target_machine
from irc_compiler.runtime.llvmir.builder import Module
from irc_compiler.runtime.llvmir.kernel_entry import (
    INPLACE,
    READ,
    WRITE,
    BufferAssumptions,
    open_kernel,
    share,
)
from irc_compiler.runtime.llvmir.values import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    PTR,
    Value,
    float_text,
    integer,
    number,
    vec,
)
from irc_compiler.runtime.machine.detect import host_target

P = ctypes.c_void_p


def load(module, *symbols):
    return load_objects([llvm.emit_object(module.text(), module.target)], symbols, module.target)


def run_i64(build, *args, isa="plain"):
    """The i64 result of a function whose body `build(f, *params)` returns."""
    module = Module(host_target(isa))
    f = module.function("f", [(I64, f"a{i}") for i in range(len(args))], I64)
    f.ret(build(f, *f.params.values()))
    types = [ctypes.c_int64] * len(args)
    return load(module, "f").function("f", *types, returns=ctypes.c_int64)(*args)


def run_kernel(kernel_name, library, arrays, dims=(), workers=1):
    call = library.function(kernel_name, P, P, ctypes.c_int32, ctypes.c_int32, P)
    buffers = (P * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
    sizes = np.array([*dims, 0], np.int64)
    status = 0
    for worker in range(workers):
        status |= call(buffers, sizes.ctypes.data, worker, workers, None)
    return status


# -- llvm.py ------------------------------------------------------------------------------------


def test_refused_text_names_its_line():
    with pytest.raises(Error, match="bug of irc") as e:
        llvm.emit_object("define i32 @x() {\n ret i64 0\n}", generic_target("plain"))
    assert "ret i64 0" in str(e.value)
    with pytest.raises(Error):
        invalid = "define i32 @x() {\n br label %q\nq:\n %a = add i32 %a, 1\n ret i32 %a\n}"
        llvm.emit_object(invalid, generic_target("plain"))


def test_missing_symbol_is_an_error():
    target = host_target("plain")
    image = llvm.emit_object("define void @a() {\n ret void\n}", target)
    with pytest.raises(Error, match="linked"):
        load_objects([image], ["b"], target)


def test_stray_library_call_is_an_error():
    """expf is in every process; a kernel that calls it is wrong all the same."""
    target = host_target("plain")
    text = "declare float @expf(float)\ndefine float @a(float %x) {\n"
    text += " %r = call float @expf(float %x)\n ret float %r\n}"
    image = llvm.emit_object(text, target)
    with pytest.raises(Error, match="do not have") as e:
        load_objects([image], ["a"], target)
    assert "expf" in str(e.value)
    address = ctypes.cast(ctypes.CDLL("libm.so.6").expf, ctypes.c_void_p).value
    library = load_objects([image], ["a"], target, {"expf": address})
    assert library.function("a", ctypes.c_float, returns=ctypes.c_float)(0.0) == 1.0


def test_objects_may_use_each_other_and_memset():
    target = host_target("plain")
    one = llvm.emit_object("define i32 @one() noinline {\n ret i32 41\n}", target)
    text = "declare i32 @one()\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
    text += "define i32 @two(ptr %p, i64 %n) {\n"
    text += " call void @llvm.memset.p0.i64(ptr %p, i8 7, i64 %n, i1 0)\n"
    text += " %a = call i32 @one()\n %b = add i32 %a, 1\n ret i32 %b\n}"
    library = load_objects([one, llvm.emit_object(text, target)], ["two"], target)
    memory = np.zeros(1000, np.uint8)
    assert library.function("two", P, ctypes.c_int64)(memory.ctypes.data, 999) == 42
    assert memory.sum() == 7 * 999


def _constant(i):
    return f"define i32 @k{i}() {{\n ret i32 {i * 7}\n}}"


def test_objects_made_on_threads_equal_those_made_alone():
    target = host_target("plain")
    texts = [_constant(i) for i in range(40)]
    alone = llvm.emit_objects(texts, target, threads=1)
    assert llvm.emit_objects(texts, target, threads=4) == alone
    names = [f"k{i}" for i in range(40)]
    library = load_objects(alone, names, target)
    assert library.symbols() == tuple(sorted(names))
    assert [library.function(n)() for n in names] == [7 * i for i in range(40)]


def replace_compiler(monkeypatch, compile_text):
    """Objects are what compile_text(text) gives, and images are objects."""
    llvm._load_emit_modules()  # once per process, by the functions that are replaced here

    def generate(texts, *_):
        return [compile_text(text) for text in texts]

    monkeypatch.setattr(llvm, "_generate_objects", generate)
    monkeypatch.setattr(llvm, "image_of", lambda data, copied: data)


def test_objects_are_made_side_by_side(monkeypatch):
    """Each waits for the other: one after the other they would wait in vain."""
    both = threading.Barrier(2)

    def meet(text):
        both.wait(20)
        return text

    replace_compiler(monkeypatch, meet)
    texts = [_constant(0), _constant(1)]
    assert llvm.emit_objects(texts, generic_target("plain"), threads=2) == texts


def test_objects_are_made_while_texts_are_generated(monkeypatch):
    begun = threading.Event()

    def emit(text):
        begun.set()
        return text

    def generate():
        yield _constant(0)
        assert begun.wait(20)
        yield _constant(1)

    replace_compiler(monkeypatch, emit)
    texts = [_constant(0), _constant(1)]
    assert llvm.emit_objects(generate(), generic_target("plain"), threads=2) == texts


@pytest.mark.parametrize("optimized, level", [(False, 0), (True, 3)])
def test_a_module_of_entries_that_only_call_takes_no_optimization(monkeypatch, optimized, level):
    target = host_target("plain")
    module = Module(target)
    entry = open_kernel(module, "k", [WRITE], only_calls=True, optimized=optimized)
    f = entry.function
    last = f.var(I64, 0)
    with f.range(0, f.add(entry.workers, 4)) as i:
        last.set(f.add(last.get(), i))
    f.store(last.get(), entry.buffers[0])
    levels = list[int]()

    def make(target, *, opt=3, system=None):
        levels.append(opt)
        return target_machine(target, opt=opt, system=system)

    llvm._load_emit_modules()  # which takes a machine of its own
    monkeypatch.setattr(llvm, "target_machine", make)
    images = llvm.emit_objects([module.text()] * 2, target, threads=1)
    assert levels == [level] and images[0] == images[1] == llvm.emit_object(module.text(), target)
    result = np.zeros(1, np.int64)
    assert run_kernel("k", load_objects(images[:1], ["k"], target), [result]) == 0
    assert result[0] == sum(range(5))


def test_an_optimized_function_next_to_an_entry_is_optimized():
    target = host_target("plain")
    module = Module(target)
    entry = open_kernel(module, "k", [WRITE], only_calls=True, optimized=False)
    add = module.function(
        "add", [(I64, "a")], I64, attributes="nounwind noinline", linkage="internal"
    )
    total = add.var(I64, 0)
    with add.range(0, 5) as _:
        total.set(add.add(total.get(), add.params["a"]))
    add.ret(total.get())
    step = entry.function.var(I64, 3)
    entry.function.store(entry.function.call_function(add, step.get()), entry.buffers[0])
    result = np.zeros(1, np.int64)
    assert run_kernel("k", load(module, "k"), [result]) == 0
    assert result[0] == 15
    text = llvm.emit_assembly(module.text(), target)
    body = text[text.index("\nadd:") : text.index(".size\tadd")]
    whole = text[text.index("\nk:") : text.index(".size\tk,")]
    # Variables of the function are in registers, those of the entry on the stack.
    assert "sp)" not in body and "sp)" in whole


def test_errors_on_threads_arrive():
    with pytest.raises(Error):
        llvm.emit_objects(
            [_constant(0), "nonsense", _constant(1)], generic_target("plain"), threads=2
        )


def test_long_calls_go_past_the_lock():
    """llvmlite's wrapper of every foreign function takes one lock; ours must not be that one."""
    from llvmlite.binding import ffi

    for name in ("LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"):
        assert isinstance(llvm._past_lock(name), ctypes._CFuncPtr)
        assert not isinstance(getattr(ffi.lib, name), ctypes._CFuncPtr)


@pytest.mark.slow
def test_libraries_unload():
    target = host_target("plain")
    image = llvm.emit_object(_constant(3), target)

    def mapped():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[0])

    for round_ in range(3):
        for _ in range(40):
            assert load_objects([image], ["k3"], target).function("k3")() == 21
        gc.collect()
        if round_ == 0:
            before = mapped()
    assert mapped() - before < 200  # 80 loads of at least 4 pages each, were they kept

    library = load_objects([image], ["k3"], target)
    library.close()
    library.close()
    with pytest.raises(KeyError):
        library.address("k3")


def test_dump(tmp_path, monkeypatch):
    monkeypatch.setenv("IRC_DUMP_LLVM", str(tmp_path / "d"))
    llvm.emit_object(_constant(1), generic_target("plain"))
    names = sorted(p.suffix for p in (tmp_path / "d").iterdir())
    assert names == [".ll", ".s"]


def test_vectors_are_not_halved():
    module = Module(generic_target("avx512"))
    f = module.function("f", [(PTR, "x")])
    x = f.params["x"]
    v = f.load(vec(F32, 16), x)
    f.store(f.fma(v, v, v), x)
    assert "zmm" in llvm.emit_assembly(module.text(), module.target)


# -- constants ------------------------------------------------------------------------------------


def test_float_constants():
    assert float_text(1.0, F32) == "0x3FF0000000000000"
    assert float_text(0.0, F32) == "0x0000000000000000"  # and then the other one, which it equals
    assert float_text(-0.0, F32) == "0x8000000000000000"
    assert float_text(0.1, F32) == "0x3FB99999A0000000"
    assert float_text(1e39, F32) == "0x7FF0000000000000"
    assert float_text(-1e39, F32) == "0xFFF0000000000000"
    assert float_text(65520.0, F16) == str(0x7C00) and float_text(-1e9, F16) == str(0xFC00)
    for x in (1.0, 0.1, -3.14, 1e-40, 3e38, math.inf):
        want = np.array(x, np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
        assert float_text(x, BF16) == str(int(want))
    assert integer(300, I8).text == "44" and integer(255, I8).text == "-1"
    assert integer(3, I1).text == "1"
    assert number(2, vec(I32, 2)).text == "<i32 2, i32 2>"


def test_folding_writes_nothing():
    f = Module(generic_target("plain")).function("f", [(I64, "a")])
    a = f.params["a"]
    assert f.add(2, 3).known == 5 and f.mul(1 << 62, 4).known == 0
    assert f.add(a, 0) is a and f.mul(1, a) is a and f.udiv(a, 1) is a
    assert f.mul(a, 0).known == 0
    assert (f.sdiv(-7, 2).known, f.srem(-7, 2).known) == (-3, -1)
    assert f.udiv(-1, 1 << 63).known == 1
    assert f.ceil_div(7, 3).known == 3
    assert (f.smin(-1, 4).known, f.smax(-1, 4).known) == (-1, 4)
    assert [f.icmp(p, -1, 1).known for p in ("slt", "ult", "eq", "sge")] == [1, 0, 0, 0]
    assert f.lines == []
    with pytest.raises(TypeError):
        f.add(a, Value(I32, "%x"))
    with pytest.raises(TypeError):
        bool(a)


# -- flow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lo,hi,step", [(0, 0, 1), (0, 1, 1), (3, 17, 4), (5, 2, 1), (-4, 9, 3)])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("unroll", [None, 1, 4, "full"])
def test_range(lo, hi, step, known, unroll):
    def build(f, a, b, s):
        total = f.var(I64, 100)
        bounds = (lo, hi, step) if known else (a, b, s)
        with f.range(*bounds, unroll=unroll) as i:
            total.set(f.add(f.mul(total.get(), 3), i))
        return total.get()

    want = 100
    for i in range(lo, hi, step):
        want = want * 3 + i
    assert run_i64(build, lo, hi, step) == want


def test_nested_ranges_and_branches():
    def build(f, n):
        total = f.var(I64, 0)
        with f.range(0, n) as i:
            with f.range(i, n) as j:
                even = f.icmp("eq", f.urem(j, 2), 0)
                with f.if_(even) as branch:
                    total.set(f.add(total.get(), j))
                    branch.else_()
                    with f.if_(f.icmp("sgt", i, 2)):
                        total.set(f.sub(total.get(), i))
        return total.get()

    want = sum((j if j % 2 == 0 else -i if i > 2 else 0) for i in range(9) for j in range(i, 9))
    assert run_i64(build, 9) == want


@pytest.mark.parametrize("condition", [True, False])
def test_known_branches_keep_one_part(condition):
    def build(f, a):
        out = f.var(I64, 0)
        with f.if_(condition) as branch:
            out.set(f.add(a, 1))
            branch.else_()
            out.set(f.add(a, 2))
        with f.if_(False):
            f.ret(99)
        return out.get()

    assert run_i64(build, 10) == (11 if condition else 12)


def test_early_return_and_while():
    def build(f, n):
        i = f.var(I64, 0)
        with f.while_(lambda: f.icmp("slt", i.get(), n)):
            with f.if_(f.icmp("eq", i.get(), 5)):
                f.ret(f.mul(i.get(), 100))
            i.set(f.add(i.get(), 1))
        return i.get()

    assert (run_i64(build, 3), run_i64(build, 9)) == (3, 500)


def test_calls_between_functions_and_tables():
    module = Module(host_target("plain"))
    helper = module.function("h", [(I64, "i")], I64, linkage="internal")
    table = module.table([4, 5, 6], I64)
    assert module.table([4, 5, 6], I64).text == table.text
    helper.ret(helper.load(I64, helper.at(table, helper.params["i"], I64)))
    f = module.function("f", [(I64, "i")], I64)
    f.ret(f.add(f.call_function(helper, f.params["i"]), f.call_function(helper, 2)))
    call = load(module, "f").function("f", ctypes.c_int64, returns=ctypes.c_int64)
    assert [call(i) for i in range(3)] == [10, 11, 12]
    with pytest.raises(ValueError):
        module.function("f")
    with pytest.raises(TypeError):
        f.call_function(helper)


# -- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64, 100])
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("grain", [1, 16])
def test_shares_cover_all_once(count, workers, grain):
    module = Module(host_target("plain"))
    k = open_kernel(module, "k", [WRITE], 1)
    f = k.function
    lo, hi = share(f, k.dims[0], k.worker, k.workers, grain)
    out = f.at(k.buffers[0], f.mul(k.worker, 2), I64)
    f.store(lo, out)
    f.store(hi, f.at(out, 1, I64))
    bounds = np.full((workers, 2), -1, np.int64)
    assert run_kernel("k", load(module, "k"), [bounds], [count], workers) == 0
    assert bounds[0, 0] == 0 and bounds[-1, 1] == count
    assert (bounds[1:, 0] == bounds[:-1, 1]).all()
    assert (bounds[:, 1] >= bounds[:, 0]).all()
    sizes = bounds[:, 1] - bounds[:, 0]
    assert sizes.max() - sizes.min() <= grain
    inner = bounds[1:, 0][bounds[1:, 0] < count]
    assert (inner % grain == 0).all()


def test_kernel_arguments():
    module = Module(host_target("plain"))
    k = open_kernel(module, "k", [BufferAssumptions(align=8), INPLACE], [None, 5, None])
    f = k.function
    assert k.dims[1].known == 5
    total = f.add(f.load(I64, k.buffers[0]), f.mul(k.dims[0], 100))
    total = f.add(total, f.mul(k.dims[2], 10000))
    total = f.add(total, f.add(f.mul(k.workers, 10), k.worker))
    f.store(total, k.buffers[1])
    f.ret(42)
    source, out = np.array([1000000]), np.array([0])
    call = load(module, "k").function("k", P, P, ctypes.c_int32, ctypes.c_int32, P)
    buffers = (P * 2)(source.ctypes.data, out.ctypes.data)
    dims = np.array([7, 111, 9])
    assert call(buffers, dims.ctypes.data, 3, 4, None) == 42
    assert out[0] == 1000000 + 700 + 90000 + 43


@pytest.mark.parametrize("element,dtype", [(F32, "f4"), (F64, "f8"), (I8, "i1"), ("i16", "i2")])
@pytest.mark.parametrize("lanes", [16, 8, 4, 1])
def test_masked_copy_touches_nothing_else(target, element, dtype, lanes):
    module = Module(target)
    k = open_kernel(module, "k", [READ, WRITE], 1)
    f = k.function
    type_ = vec(element, lanes)
    mask = f.mask(lanes, k.dims[0])
    f.store_masked(f.load_masked(type_, k.buffers[0], mask, 7), k.buffers[1], mask)
    f.store(f.load_masked(type_, k.buffers[0], mask, 7), f.at(k.buffers[1], lanes, element))
    library = load(module, "k")
    for count in (-5, 0, 1, lanes // 2, lanes, lanes + 1, 1 << 40):
        x = np.arange(1, lanes + 1).astype(dtype)
        y = np.full(2 * lanes, 99, dtype)
        run_kernel("k", library, [x, y], [count])
        n = min(max(count, 0), lanes)
        assert y.tolist() == [*x[:n], *[99] * (lanes - n), *x[:n], *[7] * (lanes - n)]


def test_masked_load_at_the_end_of_a_page(target):
    """Lanes that are off are not read: the page behind the array is not there."""
    import mmap

    libc = ctypes.CDLL(None)
    page = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(page))
    assert libc.mprotect(P(base + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    module = Module(target)
    k = open_kernel(module, "k", [READ, WRITE], 1)
    f, type_ = k.function, vec(F32, 16)
    mask = f.mask(16, k.dims[0])
    f.store(f.load_masked(type_, k.buffers[0], mask), k.buffers[1])
    call = load(module, "k").function("k", P, P, ctypes.c_int32, ctypes.c_int32, P)
    out = np.full(16, np.nan, np.float32)
    source = base + mmap.PAGESIZE - 12
    three, dims = np.array([1, 2, 3], np.float32), np.array([3])
    ctypes.memmove(source, three.ctypes.data, 12)
    buffers = (P * 2)(source, out.ctypes.data)
    call(buffers, dims.ctypes.data, 0, 1, None)
    assert out.tolist() == [1, 2, 3] + [0] * 13
    libc.mprotect(P(base + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), 3)
