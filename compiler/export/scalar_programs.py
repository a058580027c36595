"""Scalar programs and activations as standard elementwise operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...ir import ops
from ...ir.dtype import DType
from ...ir.errors import UnsupportedOperationError
from ...ir.graph import Value
from ...ir.op import Op
from ...ir.ops import ACTIVATIONS
from ...ir.scalar.builder import Builder
from ...ir.scalar.program import Instr, Program
from .attribute_format import KEEP_DIALECT
from .graph_builder import Build

# One standard operation per scalar instruction of the same number of arguments.
_OPERATIONS: dict[str, Callable[[], Op]] = {
    "neg": ops.Negative,
    "abs": ops.Abs,
    "sign": ops.Sign,
    "sqrt": ops.Sqrt,
    "exp": ops.Exp,
    "log": ops.Log,
    "tanh": ops.Tanh,
    "erf": ops.Erf,
    "gelu": ops.Gelu,
    "sigmoid": ops.Sigmoid,
    "softplus": ops.SoftPlus,
    "sin": ops.Sin,
    "cos": ops.Cos,
    "tan": ops.Tan,
    "asin": ops.Asin,
    "acos": ops.Acos,
    "atan": ops.Atan,
    "sinh": ops.Sinh,
    "cosh": ops.Cosh,
    "asinh": ops.Asinh,
    "acosh": ops.Acosh,
    "atanh": ops.Atanh,
    "ceil": ops.Ceiling,
    "floor": ops.Floor,
    "round_even": lambda: ops.Round("half_to_even"),
    "round_away": lambda: ops.Round("half_away_from_zero"),
    "not": ops.LogicalNot,
    "isnan": ops.IsNaN,
    "isinf": ops.IsInf,
    "bitnot": ops.BitwiseNot,
    "add": ops.Add,
    "sub": ops.Subtract,
    "mul": ops.Multiply,
    # Divide's own default rounds integers down, as Python does.
    "div": lambda: ops.Divide(m_pythondiv=False),
    "max": ops.Maximum,
    "min": ops.Minimum,
    "pow": ops.Power,
    "mod": ops.Mod,
    "floormod": ops.FloorMod,
    "eq": ops.Equal,
    "ne": ops.NotEqual,
    "lt": ops.Less,
    "le": ops.LessEqual,
    "gt": ops.Greater,
    "ge": ops.GreaterEqual,
    "and": ops.LogicalAnd,
    "or": ops.LogicalOr,
    "xor": ops.LogicalXor,
    "bitand": ops.BitwiseAnd,
    "bitor": ops.BitwiseOr,
    "bitxor": ops.BitwiseXor,
    "shl": ops.BitwiseLeftShift,
    "shr": ops.BitwiseRightShift,
    "select": ops.Select,
}


def expand_program(build: Build, program: Program, inputs: Sequence[Value]) -> list[Value]:
    """The values of a program's results.

    Raises UnsupportedOperationError for an instruction without a standard operation.
    """
    made: list[Value] = []
    for instr in program.instrs:
        if instr.op == "input":
            made.append(inputs[instr.args[0]])
        elif instr.op == "const":
            made.append(build.number(instr.value or 0, instr.dtype))
        elif instr.op == "cast":
            made.append(build.cast(made[instr.args[0]], instr.dtype))
        else:
            made.append(_instruction(build, instr, [made[i] for i in instr.args]))
    return [made[r] for r in program.results]


def _instruction(build: Build, instr: Instr, args: list[Value]) -> Value:
    operation = _OPERATIONS.get(instr.op)
    if operation is not None:
        return build.op(operation(), *args)
    expansion = _EXPANSIONS.get(instr.op)
    if expansion is None:
        raise UnsupportedOperationError(
            f"the scalar operation {instr.op!r} has no form in OpenVINO's operation sets",
            fix=KEEP_DIALECT,
        )
    return expansion(build, instr.dtype, args)


def _reciprocal(build: Build, dtype: DType, x: Value) -> Value:
    return build.op(ops.Divide(), build.number(1, dtype), x)


def _build_truncate(build: Build, dtype: DType, x: Value) -> Value:
    below = build.op(ops.Less(), x, build.number(0, dtype))
    return build.op(ops.Select(), below, build.op(ops.Ceiling(), x), build.op(ops.Floor(), x))


def _build_flush(build: Build, dtype: DType, x: Value) -> Value:
    tiny = build.op(ops.Less(), build.op(ops.Abs(), x), build.number(2.0**-126, dtype))
    return build.op(ops.Select(), tiny, build.multiply(x, build.number(0, dtype)), x)


_EXPANSIONS: dict[str, Callable[[Build, DType, list[Value]], Value]] = {
    "recip": lambda b, t, x: _reciprocal(b, t, x[0]),
    "rsqrt": lambda b, t, x: _reciprocal(b, t, b.op(ops.Sqrt(), x[0])),
    "expm1": lambda b, t, x: b.op(ops.Subtract(), b.op(ops.Exp(), x[0]), b.number(1, t)),
    "log1p": lambda b, t, x: b.op(ops.Log(), b.add(x[0], b.number(1, t))),
    "trunc": lambda b, t, x: _build_truncate(b, t, x[0]),
    "flush": lambda b, t, x: _build_flush(b, t, x[0]),
    "fma": lambda b, _, x: b.add(b.multiply(x[0], x[1]), x[2]),
    "clip": lambda b, _, x: b.op(ops.Minimum(), b.op(ops.Maximum(), x[0], x[1]), x[2]),
}


# Activations that a standard operation says exactly: the operation and its further inputs.
_ACTIVATIONS: dict[str, Callable[[list[float]], tuple[Op, list[float]]]] = {
    "relu": lambda _: (ops.Relu(), []),
    "leaky_relu": lambda p: (ops.PRelu(), p),
    "parametrised_relu": lambda p: (ops.PRelu(), p),
    "elu": lambda p: (ops.Elu(p[0]), []),
    "scaled_elu": lambda p: (ops.Selu(), p),
    "sigmoid": lambda _: (ops.Sigmoid(), []),
    "hard_sigmoid": lambda p: (ops.HardSigmoid(), p),
    "tanh": lambda _: (ops.Tanh(), []),
    "softsign": lambda _: (ops.SoftSign(), []),
    "gelu": lambda _: (ops.Gelu("ERF"), []),
    "gelu_tanh": lambda _: (ops.Gelu("TANH"), []),
    "swish": lambda p: (ops.Swish(), p),
    "mish": lambda _: (ops.Mish(), []),
    "clip": lambda p: (ops.Clamp(p[0], p[1]), []),
}


def expand_activation(build: Build, name: str, parameters: Sequence[float], x: Value) -> Value:
    """An activation of ACTIVATIONS applied to a value."""
    if name == "identity":
        return x
    dtype = build.dtype(x)
    defaults = [value for _, value in ACTIVATIONS[name].parameters]
    given = [*parameters, *defaults[len(parameters) :]]
    special = _ACTIVATIONS.get(name)
    if special is not None and np.isfinite(given).all():
        op, constants = special(given)
        return build.op(op, x, *(build.number(c, dtype) for c in constants))
    b = Builder()
    result = ACTIVATIONS[name].formula(b, b.input(0, dtype), *given)
    return expand_program(build, b.finish(result), [x])[0]
