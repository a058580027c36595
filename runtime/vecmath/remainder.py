"""C's remainder of f32 and f64 lanes: exact for every quotient."""

from __future__ import annotations

from ..llvmir.builder import Function, Module
from ..llvmir.values import F32, F64, I1, I64, Value, integer, number, vec
from .formats import INFINITY, NAN


def fmod(f: Function, a: Value, b: Value) -> Value:
    """C's remainder a - trunc(a / b) b: exact, with a's sign; NaN for b = 0 or infinite a.

    Where the quotients of all lanes are small one multiplication does it; else each lane divides
    its mantissas as integers.
    """
    x, y = f.fabs(a), f.fabs(b)
    result = f.var(a.type)
    # f32 products with a quotient below 2**28 are exact in f64; f64's need a fused multiply.
    single = a.element == F32
    if single or f.target.fma:
        wx, wy = (f.cast(x, F64), f.cast(y, F64)) if single else (x, y)
        quotient = f.fdiv(wx, wy)
        easy = all_lanes(f, f.fcmp("olt", quotient, 2.0**28 if single else 2.0**50))
        with f.if_(easy) as branch:
            integral = _truncate(f, quotient)
            rest = f.fma(f.fneg(integral), wy, wx)
            # The rounded quotient may have reached the next integer.
            rest = f.select(f.fcmp("olt", rest, 0.0), f.fadd(rest, wy), rest)
            result.set(f.cast(rest, a.element))
            branch.else_()
            result.set(_each_lane(f, x, y))
    else:
        result.set(_each_lane(f, x, y))
    found = f.select(f.fcmp("oeq", y, INFINITY), x, result.get())
    broken = f.or_(f.fcmp("uno", a, b), f.fcmp("oeq", y, 0.0))
    broken = f.or_(broken, f.fcmp("oeq", x, INFINITY))
    return f.select(broken, number(NAN, a.type), f.copysign(found, a))


def _truncate(f: Function, x: Value) -> Value:
    """trunc of 0 <= x < 2**51 by the magic addend."""
    near = f.fsub(f.fadd(x, 2.0**52), 2.0**52)
    return f.select(f.fcmp("ogt", near, x), f.fsub(near, 1.0), near)


def _each_lane(f: Function, x: Value, y: Value) -> Value:
    """fmod of non-negative lanes, one after the other."""
    bits, words = (32, "i32") if x.element == F32 else (64, "i64")
    callee = f.module.define_once(f"irc.fmod{bits}", _write_fmod)
    if x.lanes == 1:
        return f.bitcast(f.call_function(callee, *(f.bitcast(v, words) for v in (x, y))), x.type)
    result = f.var(vec(words, x.lanes), 0)
    xs, ys = (f.bitcast(v, vec(words, x.lanes)) for v in (x, y))
    with f.range(0, x.lanes, unroll=1) as i:
        at = f.cast(i, "i32")
        one = f.call_function(callee, f.extract(xs, at), f.extract(ys, at))
        result.set(f.insert(result.get(), one, at))
    return f.bitcast(result.get(), x.type)


def _write_fmod(module: Module, name: str) -> Function:
    """Bits of fmod of the positive floats whose bits are x and y; y = 0 gives 0.

    The mantissas are divided as integers, as many quotient bits per round as fit next to them.
    """
    bits = int(name[-2:])
    mantissa = 23 if bits == 32 else 52
    kind = f"i{bits}"
    f = module.function(
        name, [(kind, "x"), (kind, "y")], kind, attributes="nounwind noinline", linkage="internal"
    )
    x, y = f.params["x"], f.params["y"]
    with f.if_(f.or_(f.icmp("ult", x, y), f.icmp("eq", y, integer(0, kind)))):
        f.ret(x)

    def parts(v: Value) -> tuple[Value, Value]:
        """(exponent, mantissa): v = mantissa 2**exponent times the smallest denormal."""
        exponent = f.cast(f.lshr(v, number(mantissa, kind)), I64)
        fraction = f.cast(f.and_(v, number((1 << mantissa) - 1, kind)), I64)
        normal = f.icmp("ne", exponent, 0)
        hidden = f.select(normal, integer(1 << mantissa), integer(0))
        return f.smax(f.sub(exponent, 1), 0), f.or_(fraction, hidden)

    ex, mx = parts(x)
    ey, my = parts(y)
    left = f.var(I64, f.sub(ex, ey))
    rest = f.var(I64, f.urem(mx, my))
    step = 63 - mantissa - 1
    with f.while_(lambda: f.icmp("sgt", left.get(), 0)):
        now = f.smin(left.get(), step)
        rest.set(f.urem(f.shl(rest.get(), now), my))
        left.set(f.sub(left.get(), now))
    # rest * 2**ey in units of the smallest denormal: normalise.
    r = rest.get()
    with f.if_(f.icmp("eq", r, 0)):
        f.ret(integer(0, kind))
    zeros = f.call("llvm.ctlz.i64", I64, r, integer(1, I1))
    up = f.smin(f.sub(zeros, 63 - mantissa), ey)
    shifted = f.shl(r, up)
    # The hidden bit, where it is set, adds one to the exponent next to it.
    exponent = f.shl(f.sub(ey, up), mantissa)
    f.ret(f.cast(f.add(shifted, exponent), kind))
    return f


def all_lanes(f: Function, mask: Value) -> Value:
    """Whether the condition holds in every lane."""
    return mask if mask.lanes == 1 else f.intrinsic("vector.reduce.and", mask, returns=I1)
