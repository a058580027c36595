"""Greedy CTC decoding: a task is a sequence, whose steps are walked in order.

Each lane of a vector keeps its first largest element, NaN larger than every number; of the lanes
that hold the largest, the one with the least class wins, as in NumPy's argmax.
"""

from __future__ import annotations

from ....ir.dtype import DType
from ....plan.specs.base import EMPTY_AXIS, LENGTH_OUT_OF_RANGE, Operand
from ....plan.specs.ctc_decode import CTCDecodeSpec
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import READ, WRITE, OpenKernel, open_kernel, share
from ...llvmir.values import F32, F64, I32, I64, Value, vec
from ..emit.casts import memory_type
from ..emit.contract import Kernel
from ..emit.strided_loops import Lane, RuntimeSizes, address_of, base_pointer, emit_vectors

# Vectors of classes that are compared at a time.
_VECTORS = 4


def generate(spec: CTCDecodeSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of greedy decoding."""
    module = Module(target)
    buffers = [READ, READ, *[WRITE] * spec.output_count()]
    entry = open_kernel(module, symbol, buffers, spec.runtime_dims)
    _Decoder(spec, entry).run()
    entry.function.ret(0)
    return Kernel(symbol, module.text())


class _Decoder:
    def __init__(self, spec: CTCDecodeSpec, entry: OpenKernel) -> None:
        self.spec, self.entry, f = spec, entry, entry.function
        self.f, self.sizes = f, RuntimeSizes(f, entry.dims)
        self.steps, self.classes, self.blank = (
            self.sizes.value(n) for n in (spec.steps, spec.classes, spec.blank)
        )
        self.bases = [
            base_pointer(f, self.sizes, p, o)
            for p, o in zip(entry.buffers, spec.operands(), strict=True)
        ]
        is_wide = spec.data.dtype is DType.f64
        self.computing, self.index, bits = (F64, I64, 64) if is_wide else (F32, I32, 32)
        self.lanes, self.highest = f.target.lanes(bits), (1 << (bits - 1)) - 1
        self.data = Lane(f, self.sizes, spec.data.dtype, spec.data.strides[2], self.lanes)

    def run(self) -> None:
        f, spec, entry = self.f, self.spec, self.entry
        lo, hi = share(f, self.sizes.value(spec.sequences), entry.worker, entry.workers)
        some = f.and_(f.icmp("slt", lo, hi), f.icmp("sgt", self.steps, 0))
        with f.if_(f.and_(some, f.icmp("eq", self.classes, 0))):
            f.store(lo, entry.scratch)
            f.ret(EMPTY_AXIS)
        with f.range(lo, hi, unroll=1, outer=True) as n:
            count = self.decode(n)
            with f.range(count, self.steps, unroll=1) as t:
                self.store_integer(2, spec.out, f.as_value(-1, I64), n, t)
            if spec.count is not None:
                self.store_integer(3, spec.count, count, n)

    def address_of_operand(self, number: int, operand: Operand, *positions: Value) -> Value:
        element = memory_type(operand.dtype)
        return address_of(
            self.sizes, self.bases[number], operand.strides, *positions, element=element
        )

    def store_integer(self, number: int, operand: Operand, value: Value, *positions: Value) -> None:
        """Store an integer in an output; as a float it is rounded to f32 first."""
        f = self.f
        value = f.cast(value, F32) if operand.dtype.is_float else value
        element = memory_type(operand.dtype)
        f.store(f.cast(value, element), self.address_of_operand(number, operand, *positions))

    def decode(self, n: Value) -> Value:
        """Store the classes of sequence n at the front of its row; how many they are."""
        f, spec = self.f, self.spec
        count, before = f.var(I64, 0), f.var(I64, -1)
        end = self.steps if spec.has_mask else self.read_length(n)
        open_ = f.var(I32, 1)
        with f.range(0, end, unroll=1, outer=True) as t:
            if spec.has_mask:
                with f.if_(f.not_(self.is_counted(n, t))):
                    open_.set(0)
            with f.if_(f.icmp("ne", open_.get(), 0)):
                best = self.find_largest(n, t)
                keep = f.icmp("ne", best, self.blank)
                if spec.merges_repeated:
                    keep = f.and_(keep, f.icmp("ne", best, before.get()))
                with f.if_(keep):
                    self.store_integer(2, spec.out, best, n, count.get())
                    count.set(f.add(count.get(), 1))
                before.set(best)
        return count.get()

    def read_length(self, n: Value) -> Value:
        """How many steps of sequence n count."""
        f, ends = self.f, self.spec.ends
        found = f.load(memory_type(ends.dtype), self.address_of_operand(1, ends, n))
        found = f.cast(found, I64, signed_=ends.dtype.is_signed)
        with f.if_(f.icmp("ugt", found, self.steps)):
            f.store(n, self.entry.scratch)
            f.ret(LENGTH_OUT_OF_RANGE)
        return found

    def is_counted(self, n: Value, t: Value) -> Value:
        """Whether the mask is not 0 at a step."""
        f, ends = self.f, self.spec.ends
        found = f.load(memory_type(ends.dtype), self.address_of_operand(1, ends, n, t))
        return f.fcmp("une", f.cast(found, F64 if ends.dtype is DType.f64 else F32), 0.0)

    # -- the largest element --------------------------------------------------------------------

    def find_largest(self, n: Value, t: Value) -> Value:
        """The class of the largest element of a step."""
        f = self.f
        # Each vector of a block has its own maxima: the loop does not wait for one comparison.
        # A lane whose elements are all minus infinity keeps the highest class.
        best = [f.var(vec(self.computing, self.lanes), -float("inf")) for _ in range(_VECTORS)]
        where = [f.var(vec(self.index, self.lanes), self.highest) for _ in range(_VECTORS)]
        self.data.begin(self.address_of_operand(0, self.spec.data, n, t))
        for first, tails in emit_vectors(f, self.classes, self.lanes, _VECTORS):
            for u, tail in enumerate(tails):
                c, old = f.add(first, u * self.lanes), best[u].get()
                x = f.cast(self.data.load(c, tail), self.computing)
                # True for NaN as well, unless the lane holds one already.
                more = f.and_(f.fcmp("ugt", x, old), f.fcmp("ord", old, old))
                more = f.and_(more, tail.mask) if tail else more
                classes = f.add(f.cast(c, self.index), f.iota(self.lanes, self.index))
                best[u].set(f.select(more, x, old))
                where[u].set(f.select(more, classes, where[u].get()))
        return self.join_lanes([b.get() for b in best], [w.get() for w in where])

    def join_lanes(self, best: list[Value], where: list[Value]) -> Value:
        """The least class of the lanes that hold the largest element."""
        f, most = self.f, best[0]
        for other in best[1:]:
            most = f.maximum(most, other)
        top = f.splat(f.reduce("maximum", most), self.lanes)
        found = f.splat(self.highest, self.lanes, self.index)
        for values, classes in zip(best, where, strict=True):
            both_nan = f.and_(f.fcmp("uno", values, values), f.fcmp("uno", top, top))
            is_top = f.or_(f.fcmp("oeq", values, top), both_nan)
            found = f.smin(found, f.select(is_top, classes, self.highest))
        least = f.reduce("smin", found)
        return f.select(f.icmp("eq", least, self.highest), 0, f.cast(least, I64))
