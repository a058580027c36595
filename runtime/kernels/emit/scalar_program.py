"""Scalar programs as LLVM: one instruction of a Program becomes a few words on vectors.

Inside a program a boolean is an i1 vector, every other type its own LLVM element. Meaning:
ir/scalar/evaluate.py, to which the tests compare every operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from ....ir.dtype import DType
from ....ir.errors import UnsupportedOperationError
from ....ir.lazy_dataclass import dataclass
from ....ir.scalar.program import Instr, Program
from ....plan.specs.base import DIVISION_BY_ZERO
from ...llvmir.builder import Function
from ...llvmir.values import F32, F64, I1, I8, I32, I64, Value, integer, number, vec
from ...vecmath.bf16_results import BF16_RESULTS
from ...vecmath.table import MATH
from .casts import bfloat_of_flushed, cast, element_type, flush_denormals
from .code_record import Constants
from .requantize import (
    Rounded,
    divisor,
    find_byte_functions,
    find_replaced,
    read_byte,
    read_table,
    reads_tables,
    round_to_int32,
    rounded_byte,
    saturate,
    saturates_in_store,
)


@dataclass(frozen=True)
class Guard:
    """What an integer division needs: the index of the lanes, and which of them count.

    `element` is the iteration number of lane 0 (i64), `mask` the active lanes (None: all). A
    division by zero in an active lane stores its number to `scratch` and returns from the kernel.
    """

    scratch: Value
    element: Value | int = 0
    mask: Value | None = None


def program_types(program: Program) -> list[DType]:
    """Types of the results."""
    return [program.instrs[r].dtype for r in program.results]


def emit_program(
    f: Function,
    program: Program,
    inputs: Sequence[Value | None],
    *,
    lanes: int | None = None,
    guard: Guard | None = None,
    constants: Constants | None = None,
) -> list[Value]:
    """The program's results for `inputs`, one Value per operand number (None: not read).

    constants: what gives scales, zero points and tables that are not written into the code.
    All inputs have the same lane count (1: scalars); `lanes` is needed where there is none.
    """
    if lanes is None:
        lanes = next((v.lanes for v in inputs if v is not None), 1)
    emitter = _Emitter(f, program, lanes, guard, constants)
    values: list[Value] = []
    replaced = find_replaced(program, bool(emitter.functions))
    for index, instr in enumerate(program.instrs):
        if index in replaced:
            value = _UNUSED
        elif instr.op == "input":
            value = inputs[instr.args[0]]
            if value is None:
                raise ValueError(f"program reads input {instr.args[0]}, which is not given")
        elif index in emitter.scales:
            value = emitter.constant(instr.value or 0.0, F32)
        else:
            value = emitter.bytes_of(index, values)
            if value is None:
                args = [values[i] for i in instr.args]
                value = emitter.emit(instr, args, index in emitter.rounded_to_bf16)
        values.append(value)
    return [values[r] for r in program.results]


# In place of a value that nothing reads.
_UNUSED: Final = Value("void", "")


_FUNCTIONS = MATH.keys() - {"pow", "sqrt"}
_ROUND = {"ceil": "ceil", "floor": "floor", "round_even": "rint", "trunc": "trunc"}
_COMPARE = {
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
}
_LOGIC = {"and": "and", "or": "or", "xor": "xor", "bitand": "and", "bitor": "or", "bitxor": "xor"}


class _Emitter:
    def __init__(
        self,
        f: Function,
        program: Program,
        lanes: int,
        guard: Guard | None,
        constants: Constants | None,
    ) -> None:
        self.f, self.program, self.lanes, self.guard = f, program, lanes, guard
        self.constants, self.count = constants, 0
        self.functions = find_byte_functions(program) if reads_tables(f.target, lanes) else {}
        self.scales = _find_scales(program) if constants is not None else frozenset[int]()
        self.rounded_to_bf16 = find_rounded_to_bf16(program)
        # What was flushed to give a value.
        self.unflushed: dict[str, Value] = {}
        # Bytes that were rounded: how, and in 32 bits less their zero point.
        self.rounded: dict[int, tuple[Rounded, Value]] = {}

    def constant(self, x: float, element: str) -> Value:
        """A constant that `constants` gives, if that is there."""
        if self.constants is None:
            return number(x, vec(element, self.lanes))
        self.count += 1
        return self.constants.constant(self.count, x, vec(element, self.lanes))

    def table(self, words: Sequence[int]) -> Value:
        """The address of a table that `constants` gives, if that is there."""
        if self.constants is None:
            return self.f.module.table(words, I64)
        self.count += 1
        return self.constants.table(self.count, words)

    def bytes_of(self, index: int, values: Sequence[Value]) -> Value | None:
        """Instruction `index` where it rounds to bytes or reads such (requantize.py), or None."""
        f, program = self.f, self.program
        instr = program.instrs[index]
        how = rounded_byte(program, index)
        if index in self.functions:
            source, words = self.functions[index]
            byte = read_table(f, self.wide_byte(source, values), self.table(words))
            if how is not None:
                wide = f.cast(byte, I32, signed_=how.dtype.is_signed)
                self.rounded[index] = how, f.sub(wide, how.zero)
            return byte
        if how is not None:
            found = divisor(program, how.ratio)
            source, by = found or (how.ratio, None)
            saturates = saturates_in_store(program, index, how, f.target)
            near = round_to_int32(f, values[source], by, how, self.constant, saturates)
            if saturates:
                return saturate(f, near, how.dtype)
            self.rounded[index] = how, near
            # Added to the bytes: where the zero point is not in the code, LLVM would store what
            # narrows 32 bits directly, which takes longer.
            byte = f.cast(near, element_type(how.dtype))
            return f.add(byte, self.constant(how.zero, I8)) if how.zero else byte
        read = read_byte(program, index)
        if read is None:
            return None
        if instr.op == "sub":
            return f.cast(self.rounded[read][1], F32)
        return f.cast(self.wide_byte(read, values), F32)

    def wide_byte(self, index: int, values: Sequence[Value]) -> Value:
        """The byte of instruction `index` in the lowest bits of 32; as a number, if it was rounded
        here."""
        if index not in self.rounded:
            return self.f.cast(values[index], I32)
        how, near = self.rounded[index]
        return self.f.add(near, self.constant(how.zero, I32) if how.zero else 0)

    def type_of(self, dtype: DType) -> str:
        return vec(element_type(dtype), self.lanes)

    def emit(self, instr: Instr, args: Sequence[Value], to_bf16: bool) -> Value:
        """One instruction other than "input". to_bf16: its result is rounded to bf16."""
        f, op = self.f, instr.op
        if op == "const":
            value = 0 if instr.value is None else instr.value
            return number(value, self.type_of(instr.dtype))
        source = self.program.instrs[instr.args[-1]].dtype
        if op == "cast" and instr.dtype is DType.bf16 and args[0].text in self.unflushed:
            return bfloat_of_flushed(f, self.unflushed[args[0].text])
        if op == "cast":
            return cast(f, args[0], source, instr.dtype)
        if op == "select":
            return f.select(*args)
        if op == "flush":
            value = flush_denormals(f, args[0])
            self.unflushed[value.text] = args[0]
            return value
        if op in _COMPARE:
            return self.compare(op, source, args)
        if op in _LOGIC:
            return f.op(args[0].type, f"{_LOGIC[op]} {args[0]}, {args[1].text}")
        if op in ("not", "bitnot"):
            return f.xor(args[0], -1)
        if source.is_float:
            # f16 and bf16 compute in f32 and round to their own type once.
            wide = [cast(f, a, source, DType.f32) if source.bits == 16 else a for a in args]
            value = self.emit_float(instr, wide, to_bf16)
            if source.bits == 16 and instr.dtype is source:
                value = cast(f, value, DType.f32, source)
            return value
        return self.integral(instr, source, args)

    def compare(self, op: str, source: DType, args: Sequence[Value]) -> Value:
        f = self.f
        on_floats, signed, unsigned = _COMPARE[op]
        if source.is_float:
            a, b = (cast(f, a, source, DType.f32) if source.bits == 16 else a for a in args)
            return f.fcmp(on_floats, a, b)
        return f.icmp(signed if source.is_signed else unsigned, *args)

    # -- floats -------------------------------------------------------------------------------

    def emit_float(self, instr: Instr, args: Sequence[Value], to_bf16: bool) -> Value:
        f, op, x = self.f, instr.op, args[0]
        if op in _SIMPLE_FLOAT:
            return _SIMPLE_FLOAT[op](f, *args)
        if op in _FUNCTIONS:
            return (BF16_RESULTS if to_bf16 else MATH)[op](f, *args)
        if op in _ROUND:
            return round_to(f, x, _ROUND[op])
        if op == "pow":
            return self.power(instr, args)
        if op in ("max", "min"):
            return pick(f, op, *args)
        if op == "clip":
            return pick(f, "min", pick(f, "max", x, args[1]), args[2])
        if op == "sign":
            zero, one = number(0.0, x.type), number(1.0, x.type)
            unsigned = f.select(f.fcmp("olt", x, zero), number(-1.0, x.type), x)
            return f.select(
                f.fcmp("ogt", x, zero), one, f.select(f.fcmp("oeq", x, zero), zero, unsigned)
            )
        if op == "round_away":
            truncated = round_to(f, x, "trunc")
            step = f.copysign(1.0, x)
            far = f.fcmp("oge", f.fabs(f.fsub(x, truncated)), 0.5)
            return f.select(far, f.fadd(truncated, step), truncated)
        if op == "isinf":
            return f.fcmp("oeq", f.fabs(x), float("inf"))
        if op in ("mod", "floormod"):
            return self.remainder(op, *args)
        raise UnsupportedOperationError(f"no kernel computes {op!r} of {instr.dtype}")

    def power(self, instr: Instr, args: Sequence[Value]) -> Value:
        """Small whole exponents by products, which the exact answer rounds within 1 ulp of."""
        f, x = self.f, args[0]
        exponent = self.program.instrs[instr.args[1]]
        known = exponent.value if exponent.op == "const" else None
        if known in (0, 1, 2, 3, -1):
            one = number(1.0, x.type)
            square = f.fmul(x, x) if known in (2, 3) else x
            return (
                {0: one, 1: x, 2: square, -1: x}[known]
                if known in (0, 1, 2)
                else (f.fmul(square, x) if known == 3 else f.fdiv(one, x))
            )
        return MATH["pow"](f, *args)

    def remainder(self, op: str, a: Value, b: Value) -> Value:
        f = self.f
        r = MATH["fmod"](f, a, b)
        if op == "mod":
            return r
        zero = number(0.0, a.type)
        differ = f.fcmp("olt", f.fmul(f.copysign(1.0, r), f.copysign(1.0, b)), zero)
        wrong = f.op(differ.type, f"and {differ}, {f.fcmp('une', r, zero).text}")
        return f.select(
            wrong, f.fadd(r, b), f.select(f.fcmp("oeq", r, zero), f.copysign(0.0, b), r)
        )

    # -- integers -----------------------------------------------------------------------------

    def integral(self, instr: Instr, dtype: DType, args: Sequence[Value]) -> Value:
        f, op, x = self.f, instr.op, args[0]
        signed = dtype.is_signed
        if op in _SIMPLE_INTEGER:
            return _SIMPLE_INTEGER[op](f, *args)
        if op in ("max", "min"):
            return f.intrinsic(f"{'s' if signed else 'u'}{op}", *args)
        if op == "clip":
            kind = "s" if signed else "u"
            return f.intrinsic(f"{kind}min", f.intrinsic(f"{kind}max", x, args[1]), args[2])
        if op == "abs":
            return f.intrinsic("smax", x, f.sub(integer(0, x.type), x)) if signed else x
        if op == "sign":
            top = integer(1, x.type)
            small = f.intrinsic("smin" if signed else "umin", x, top)
            return f.intrinsic("smax", small, integer(-1, x.type)) if signed else small
        if op in ("shl", "shr"):
            return self.shift(op, signed, *args)
        if op in ("div", "mod", "floormod"):
            return self.divide(instr, signed, *args)
        if op == "pow":
            return self.integer_power(signed, *args)
        raise UnsupportedOperationError(f"no kernel computes {op!r} of {dtype}")

    def shift(self, op: str, signed: bool, x: Value, count: Value) -> Value:
        f, bits = self.f, memory_bits(x)
        inside = f.icmp("ult", count, integer(bits, x.type))
        if op == "shr" and signed:
            safe = f.select(inside, count, integer(bits - 1, x.type))
            return f.op(x.type, f"ashr {x}, {safe.text}")
        # Lanes shifted too far are poison, and are not chosen.
        moved = f.op(x.type, f"{'shl' if op == 'shl' else 'lshr'} {x}, {count.text}")
        return f.select(inside, moved, integer(0, x.type))

    def divide(self, instr: Instr, signed: bool, a: Value, b: Value) -> Value:
        """Truncating division or a remainder; MIN / -1 wraps, zero is reported."""
        f, op = self.f, instr.op
        divisor = self.program.instrs[instr.args[1]]
        known = int(divisor.value or 0) if divisor.op == "const" else None
        one, zero = integer(1, a.type), integer(0, a.type)
        if not known:
            b = self.not_zero(b)
        minus = None
        if signed and (known is None or known == -1):
            minus = f.icmp("eq", b, integer(-1, a.type))
            b = f.select(minus, one, b)
        kind = "s" if signed else "u"
        if op == "div":
            q = f.op(a.type, f"{kind}div {a}, {b.text}")
            return q if minus is None else f.select(minus, f.sub(zero, a), q)
        r = f.op(a.type, f"{kind}rem {a}, {b.text}")
        if op == "mod" or not signed:
            return r
        differ = f.icmp("slt", f.op(a.type, f"xor {r}, {b.text}"), zero)
        wrong = f.op(differ.type, f"and {differ}, {f.icmp('ne', r, zero).text}")
        return f.select(wrong, f.add(r, b), r)

    def not_zero(self, b: Value) -> Value:
        """b with zeros replaced by 1; a zero in an active lane leaves the kernel."""
        f, guard = self.f, self.guard
        bad = f.icmp("eq", b, integer(0, b.type))
        safe = f.select(bad, integer(1, b.type), b)
        if guard is None:
            raise UnsupportedOperationError("integer division is not supported in this kernel")
        if guard.mask is not None:
            bad = f.op(bad.type, f"and {bad}, {guard.mask.text}")
        bits = bad
        some = bad
        if bad.lanes > 1:
            bits = f.bitcast(bad, f"i{bad.lanes}")
            some = f.icmp("ne", bits, integer(0, bits.type))
        with f.if_(some):
            lane: Value | int = 0
            if bad.lanes > 1:
                found = f.call(f"llvm.cttz.i{bad.lanes}", bits.type, bits, integer(1, I1))
                lane = f.cast(found, I64, signed_=False) if bad.lanes < 64 else found
            f.store(f.add(guard.element, lane), guard.scratch)
            f.ret(DIVISION_BY_ZERO)
        return safe

    def integer_power(self, signed: bool, a: Value, b: Value) -> Value:
        """a ** b modulo 2**bits by squaring; a negative b gives 1 / a**-b truncated."""
        f, t = self.f, a.type
        one, zero = integer(1, t), integer(0, t)
        left = f.var(t, f.intrinsic("smax", b, zero) if signed else b)
        base, result = f.var(t, a), f.var(t, one)

        def has_remaining() -> Value:
            some = f.icmp("ne", left.get(), zero)
            return some if a.lanes == 1 else f.intrinsic("vector.reduce.or", some, returns=I1)

        with f.while_(has_remaining):
            n, x, r = left.get(), base.get(), result.get()
            odd = f.icmp("ne", f.op(t, f"and {n}, {one.text}"), zero)
            result.set(f.select(odd, f.mul(r, x), r))
            base.set(f.mul(x, x))
            left.set(f.op(t, f"lshr {n}, {one.text}"))
        if not signed:
            return result.get()
        minus = integer(-1, t)
        odd = f.icmp("ne", f.op(t, f"and {b}, {one.text}"), zero)
        inverse = f.select(f.icmp("eq", a, minus), f.select(odd, minus, one), zero)
        inverse = f.select(f.icmp("eq", a, one), one, inverse)
        return f.select(f.icmp("slt", b, zero), inverse, result.get())


def _find_scales(program: Program) -> frozenset[int]:
    """The constants of f32 that are added, subtracted, multiplied and chosen only: other code looks
    at the value of a constant."""
    readers = [i for i in program.instrs if i.op != "input"]
    others = {a for i in readers if i.op not in _VALUE_BLIND for a in i.args}
    return frozenset(
        n
        for n, i in enumerate(program.instrs)
        if i.op == "const" and i.dtype is DType.f32 and n not in others | {*program.results}
    )


# The relative error of a result is at most the sum of those of its operands.
_KEEPS_RELATIVE_ERROR: Final = ("mul", "div", "neg", "abs", "select", "flush")


@lru_cache(maxsize=256)
def find_rounded_to_bf16(program: Program) -> frozenset[int]:
    """The functions of BF16_RESULTS whose values nothing reads but what rounds them to bf16, as
    they are or behind products, quotients and choices."""
    instrs = program.instrs
    read_as_f32 = {r for r in program.results if instrs[r].dtype is not DType.bf16}
    for index in reversed(range(len(instrs))):
        instr = instrs[index]
        is_rounded = instr.dtype is DType.bf16 and instr.op == "cast"
        keeps_error = instr.op in _KEEPS_RELATIVE_ERROR and index not in read_as_f32
        if instr.op == "input" or is_rounded or keeps_error or _compares_to_zero(program, instr):
            continue
        read_as_f32.update(instr.args)
    return frozenset(
        n
        for n, i in enumerate(instrs)
        if i.op in BF16_RESULTS
        and (i.dtype is DType.bf16 or (i.dtype is DType.f32 and n not in read_as_f32))
    )


def _compares_to_zero(program: Program, instr: Instr) -> bool:
    """Whether an instruction compares a value with 0, which has the same result for one that is
    near it: functions are 0 where their approximations are."""
    other = program.instrs[instr.args[-1]] if instr.op == "eq" else None
    return other is not None and other.op == "const" and other.value == 0


def memory_bits(x: Value) -> int:
    return int(x.element[1:])


def pick(f: Function, op: str, a: Value, b: Value) -> Value:
    """max or min that propagates NaN; which zero of two signs is not promised."""
    word = f.max_or if op == "max" else f.min_or
    # The one instruction gives b where either is NaN: right unless only a is.
    if is_constant(a):
        return word(a, b)
    if is_constant(b):
        return word(b, a)
    return f.select(f.fcmp("uno", a, a), a, word(a, b))


def is_constant(x: Value) -> bool:
    """A constant that is not NaN (the text of a constant does not name a local value)."""
    return not x.text.startswith("%") and "x7FF8" not in x.text and "xFFF8" not in x.text


def round_to(f: Function, x: Value, how: str) -> Value:
    """ceil, floor, rint or trunc; signs of zeros are kept."""
    if f.target.isa != "plain":
        return f.intrinsic(how, x)
    # No such instruction, and LLVM would call a library. Adding 2**23 (2**52) rounds to nearest.
    magic = 2.0**52 if x.element == F64 else 2.0**23
    size = f.fabs(x)
    near = f.fsub(f.fadd(size, magic), magic)
    if how == "trunc":
        near = f.select(f.fcmp("ogt", near, size), f.fsub(near, 1.0), near)
    y = f.copysign(near, x)
    if how == "floor":
        y = f.select(f.fcmp("ogt", y, x), f.fsub(y, 1.0), y)
    if how == "ceil":
        y = f.copysign(f.select(f.fcmp("olt", y, x), f.fadd(y, 1.0), y), x)
    return f.select(f.fcmp("olt", size, magic), y, x)


_VALUE_BLIND = ("add", "sub", "mul", "select")
_SIMPLE_FLOAT: dict[str, Callable[..., Value]] = {
    "neg": lambda f, x: f.fneg(x),
    "abs": lambda f, x: f.fabs(x),
    "sqrt": lambda f, x: f.sqrt(x),
    "rsqrt": lambda f, x: f.fdiv(1.0, f.sqrt(x)),
    "recip": lambda f, x: f.fdiv(1.0, x),
    "isnan": lambda f, x: f.fcmp("uno", x, x),
    "add": lambda f, a, b: f.fadd(a, b),
    "sub": lambda f, a, b: f.fsub(a, b),
    "mul": lambda f, a, b: f.fmul(a, b),
    "div": lambda f, a, b: f.fdiv(a, b),
    "fma": lambda f, a, b, c: f.fma(a, b, c),
}
_SIMPLE_INTEGER: dict[str, Callable[..., Value]] = {
    "neg": lambda f, x: f.sub(integer(0, x.type), x),
    "add": lambda f, a, b: f.op(a.type, f"add {a}, {b.text}"),
    "sub": lambda f, a, b: f.op(a.type, f"sub {a}, {b.text}"),
    "mul": lambda f, a, b: f.op(a.type, f"mul {a}, {b.text}"),
    "fma": lambda f, a, b, c: f.add(f.mul(a, b), c),
}
