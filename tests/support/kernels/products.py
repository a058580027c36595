"""Products for tests: a Case becomes a GemmSpec, buffers in its layouts, and the exact answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder, evaluate_program
from irc_compiler.ir.scalar.program import Program
from irc_compiler.plan.packing.layouts import PackedB, PackedLayout
from irc_compiler.plan.packing.panel_params import BYTES, accumulator, packed_layout
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Size
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.target import Target
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack

from support.kernels.harness import (
    Compiled,
    guard_copy,
    run,
    same_bits,
    strides_of,
    target_of,
    unwritten,
)

F32 = DType.f32


@dataclass(frozen=True)
class Case:
    """One product. Layouts: "rows" (last axis contiguous), "columns" (the axis before), "gaps"
    (neither), b also "packed"; a batch axis marked in `a_once`/`b_once` is broadcast."""

    m: int
    k: int
    n: int
    batch: tuple[int, ...] = ()
    dtype: DType = F32
    a: str = "rows"
    b: str = "packed"
    out: str = "rows"
    epilogue: str = "none"
    dynamic: str = ""
    a_once: bool = False
    b_once: bool = False
    compute_dtype: DType | None = None
    b_dtype: DType | None = None  # None: as a
    a_zero_point: str = ""  # of bytes: "one", or "each" row
    b_zero_point: str = ""  # of bytes: "one", or "each" column
    a_from: DType | None = None  # what is converted to `dtype` as it is multiplied
    b_from: DType | None = None
    bf16x3: bool = False
    seed: int = field(default=0, compare=False)


def lay_out(array: np.ndarray, layout: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """A contiguous buffer that holds the array in that layout, and the array's strides in it."""
    if layout == "columns":
        memory = np.ascontiguousarray(array.swapaxes(-1, -2))
        s = strides_of(memory.shape)
        return memory, (*s[:-2], s[-1], s[-2])
    if layout == "gaps":
        memory = np.zeros((*array.shape[:-1], max(0, 2 * array.shape[-1] - 1)), array.dtype)
        memory[..., ::2] = array
        s = strides_of(memory.shape)
        return memory, (*s[:-1], 2)
    return np.ascontiguousarray(array), strides_of(array.shape)


def epilogue_of(name: str, dtype: DType, acc: DType) -> tuple[Program, list[str]]:
    """A program and the shapes of its extras: "n" a row, "m" a column, "mn" a full matrix."""
    b = Builder()
    x = b.input(0, acc)
    extras: list[str] = []
    if name in ("bias", "relu", "gelu"):
        extras = ["n"]
        x = b.op("add", x, b.cast(b.input(1, dtype), acc))
    if name == "relu":
        x = b.op("max", x, b.const(0, acc))
    if name == "gelu":
        half = b.op("mul", x, b.const(0.5, acc))
        erf = b.op("erf", b.op("mul", x, b.const(0.125, acc)))
        x = b.op("mul", half, b.op("add", erf, b.const(1, acc)))
    if name == "residual":
        extras = ["mn", "m"]
        x = b.op(
            "add", b.op("add", x, b.cast(b.input(1, dtype), acc)), b.cast(b.input(2, dtype), acc)
        )
    if name == "mask":
        extras = ["mask"]
        x = b.op("select", b.input(1, DType.boolean), x, b.const(7, acc))
    return b.finish(b.cast(x, dtype)), extras


class Dims:
    """Sizes of a spec: those named in `dynamic` become run-time arguments. "s" among them: strides
    that happen to be 0 or 1 as well, so that one kernel serves every size of a layout."""

    def __init__(self, dynamic: str) -> None:
        self.dynamic, self.values = dynamic, list[int]()

    def size(self, name: str, value: int) -> Size:
        if name not in self.dynamic:
            return value
        self.values.append(value)
        return RuntimeDim(len(self.values) - 1)


def integers(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> np.ndarray:
    if dtype is DType.boolean:
        return rng.integers(0, 2, tuple(shape)) > 0
    if dtype in BYTES:
        return rng.integers(
            int(dtype.min), int(dtype.max), tuple(shape), dtype.numpy, endpoint=True
        )
    low = -3 if dtype.is_signed else 0
    return rng.integers(low, 4, tuple(shape)).astype(dtype.numpy)


def operand(array: np.ndarray, layout: str, batch: int, dims: Dims, dtype: DType, name: str):
    memory, strides = lay_out(array, layout)
    lead = [0 if array.shape[i] == 1 else strides[i] for i in range(batch)]
    unit = {"rows": 1, "columns": 0}.get(layout)
    rest = [
        s if s in (0, 1) and ("s" not in dims.dynamic or i == unit) else dims.size(name, s)
        for i, s in enumerate(strides[batch:])
    ]
    sized = [dims.size(name, s) if s else 0 for s in lead]
    return memory, Operand(dtype, (*sized, *rest))


def make(case: Case, isa: str, target: Target | None = None):
    """(spec, input buffers, run-time sizes, shape of the output's buffer, expected output)."""
    rng = np.random.default_rng(case.seed)
    acc, rank = accumulator(case.dtype), len(case.batch)
    dims = Dims(case.dynamic)
    a_batch = tuple(1 for _ in case.batch) if case.a_once else case.batch
    b_batch = tuple(1 for _ in case.batch) if case.b_once else case.batch
    a = integers(rng, (*a_batch, case.m, case.k), case.dtype)
    b_dtype = case.b_dtype or case.dtype
    b = integers(rng, (*b_batch, case.k, case.n), b_dtype)
    m, n, k = dims.size("m", case.m), dims.size("n", case.n), dims.size("k", case.k)
    if case.a_from:
        a = integers(rng, a.shape, case.a_from)
    a_memory, a_operand = operand(a, case.a, rank, dims, case.a_from or case.dtype, "a")
    packed: PackedB | None = None
    if case.b_from:
        b = integers(rng, b.shape, case.b_from)
    if case.b == "packed" and isinstance(n, int) and isinstance(k, int):
        packed = packed_layout(
            case.k, case.n, b_dtype, target or target_of(isa), case.compute_dtype
        )
    if packed:
        b_memory = pack_right(b, case, packed)
        block = PackedLayout.of(packed, case.k, case.n).size
        lead = [0 if b.shape[i] == 1 else s * block for i, s in enumerate(strides_of(b_batch))]
        b_operand = Operand(case.compute_dtype or b_dtype, (*lead, 0, 0))
    else:
        layout = "rows" if case.b == "packed" else case.b
        b_memory, b_operand = operand(b, layout, rank, dims, case.b_from or b_dtype, "b")
    zeros, zero_memory = [], []
    for side, rows, dtype, axis in (
        (case.a_zero_point, case.m, case.dtype, -1),
        (case.b_zero_point, case.n, b_dtype, -2),
    ):
        zeros.append(None)
        if side:
            zero = integers(rng, (rows if side == "each" else 1,), dtype)
            zero_memory.append(zero)
            zeros[-1] = Operand(dtype, (*[0] * rank, int(side == "each")))
            wide = np.expand_dims(zero.astype(np.int32), axis)
            a, b = (a - wide, b) if axis == -1 else (a, b - wide)
    out_shape = (*case.batch, case.m, case.n)
    out_memory, out_operand = operand(np.zeros(out_shape), case.out, rank, dims, case.dtype, "c")
    program, kinds = epilogue_of(case.epilogue, case.dtype, acc)
    extras, extra_operands, extra_memory = [], [], []
    for kind in kinds:
        dtype = DType.boolean if kind == "mask" else case.dtype
        shape = {"n": (1, case.n), "m": (case.m, 1)}.get(kind, out_shape)
        x = integers(rng, shape, case.dtype)
        x = x > 0 if kind == "mask" else x
        strides = strides_of(shape)
        full = [0] * (len(out_shape) - len(shape)) + [
            0 if size == 1 else s for s, size in zip(strides, shape, strict=True)
        ]
        extras.append(x)
        extra_memory.append(x)
        extra_operands.append(Operand(dtype, tuple(full)))
    batch = tuple(dims.size("q", q) for q in case.batch)
    spec = GemmSpec(
        batch, m, n, k, a_operand, b_operand,
        Operand(case.dtype, out_operand.strides), acc, packed, program, tuple(extra_operands),
        case.compute_dtype, a_zero_point=zeros[0], b_zero_point=zeros[1],
        a_cast=case.dtype if case.a_from else None, b_cast=b_dtype if case.b_from else None,
        bf16x3=case.bf16x3,
    )  # fmt: skip
    total = exact_product(a, b, acc)
    expected = evaluate_program(program, [np.broadcast_to(total, out_shape), *extras])[0]
    return (
        spec,
        [a_memory, b_memory, *zero_memory, *extra_memory],
        dims.values,
        out_memory,
        expected,
    )


def pack_right(b: np.ndarray, case: Case, packed: PackedB) -> np.ndarray:
    stored, rounds = (
        case.compute_dtype or case.b_dtype or case.dtype,
        case.compute_dtype not in (None, case.dtype),
    )
    return pack(b, PlanConstant(0, stored, b.shape, packed, rounds=rounds))


def exact_product(a: np.ndarray, b: np.ndarray, acc: DType) -> np.ndarray:
    if acc.is_int:
        return np.matmul(a.astype(acc.numpy), b.astype(acc.numpy))
    return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(acc.numpy)


def extract(buffer: np.ndarray, layout: str, shape: Sequence[int]) -> np.ndarray:
    """What lies in an output's buffer; of one with gaps these are as they were before."""
    if layout == "columns":
        return buffer.reshape(*shape[:-2], shape[-1], shape[-2]).swapaxes(-1, -2)
    if layout == "gaps":
        before = unwritten(buffer.shape, buffer.dtype)
        assert same_bits(buffer[..., 1::2], before[..., 1::2]), "a kernel wrote between elements"
        return buffer[..., ::2]
    return buffer.reshape(shape)


def run_case(case: Case, isa: str, workers: int = 1, at: str = "end") -> np.ndarray:
    spec, inputs, dims, out_memory, expected = make(case, isa)
    result = run(spec, inputs, [out_memory.shape], isa=isa, dims=dims, workers=workers, at=at)
    assert result.status == 0
    return extract(result.outs[0], case.out, expected.shape)


def check(case: Case, isa: str, workers: int = 1, at: str = "end") -> None:
    found, expected = run_case(case, isa, workers, at), make(case, isa)[-1]
    if case.epilogue == "gelu":
        limit = 2e-2 if case.dtype.bits == 16 else 1e-5
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), rtol=limit, atol=limit
        )
    else:
        np.testing.assert_array_equal(found, expected)


def product(left: np.ndarray, right: np.ndarray, isa: str, **case: object) -> np.ndarray:
    """left @ right of floats in f32, for any layout; `case` are fields of Case."""
    workers, target = case.pop("workers", 1), case.pop("target", None)
    c = Case(left.shape[-2], left.shape[-1], right.shape[-1], batch=left.shape[:-2], **case)  # type: ignore
    spec, inputs, dims, out_memory, expected = make(c, isa)
    left, right = left.astype(np.float32), right.astype(np.float32)
    inputs[0] = lay_out(left, c.a)[0]
    inputs[1] = lay_out(right, "rows" if c.b == "packed" else c.b)[0]
    if spec.packed:
        inputs[1] = pack_right(right, c, spec.packed)
    if target is not None:
        out = unwritten(out_memory.shape, np.float32)
        Compiled(spec, target)([*map(guard_copy, inputs), out], dims)  # type: ignore[arg-type]
        return out.reshape(expected.shape)
    result = run(spec, inputs, [out_memory.shape], isa=isa, dims=dims, workers=int(str(workers)))
    return extract(result.outs[0], c.out, expected.shape)


def check_bits(left: np.ndarray, right: np.ndarray, isa: str, **case: object) -> np.ndarray:
    """The product; its bits depend on neither threads, rows, layouts nor the kind of kernel."""
    expected = product(left, right, isa, **case)
    for workers in (2, 3, 4):
        assert same_bits(product(left, right, isa, workers=workers, **case), expected)
    for dynamic in ("m", "mnkabc"):
        assert same_bits(product(left, right, isa, dynamic=dynamic, workers=2, **case), expected)
    for m in (1, 2, 15):
        assert same_bits(product(left[3 : 3 + m], right, isa, **case), expected[3 : 3 + m])
    for layout in ("rows", "columns", "gaps"):
        assert same_bits(product(left, right, isa, a=layout, b=layout, **case), expected)
    return expected
