"""Operations that hand their input on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from irc_compiler.compiler.passes.canonicalize.remove_identities import remove_identities
from irc_compiler.compiler.passes.match.casts import holds_all, loses_nothing
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import cast_array
from support.rewriting import becomes, graph, run, stays

X = '%0 = Input(f32[N, 3]) "x"\n'
GONE = '%0 = Input(f32[N, 3]) "x" names=y\n%9 = Result.1(%0)'
REMOVED = {
    "identity": "%8 = Identity.16(%0)",
    "reshape": "%1 = ShapeOf.3(%0)\n%8 = Reshape.1(%0, %1)",
    "convert": "%8 = Convert.1(%0) {destination_type=f32}",
    "broadcast": "%1 = ShapeOf.3(%0)\n%8 = Broadcast.3(%0, %1)",
    "slice": (
        "%1 = Const(i64[1] = 0)\n%2 = Const(i64[1] = 9223372036854775807)\n"
        "%3 = Const(i64[1] = 1)\n%8 = Slice.8(%0, %1, %2, %3, %3)"
    ),
    "transpose": "%1 = Const(i64[2] = 0, 1)\n%8 = Transpose.1(%0, %1)",
    "concat": "%8 = Concat.1(%0) {axis=1}",
    "times one": "%1 = Const(f32[] = 1)\n%8 = Multiply.1(%0, %1)",
    "one times": "%1 = Const(f32[1, 3] = 1, 1, 1)\n%8 = Multiply.1(%1, %0)",
    "over one": "%1 = Const(f32[] = 1)\n%8 = Divide.1(%0, %1)",
    "to the first": "%1 = Const(f32[] = 1)\n%8 = Power.1(%0, %1)",
    "less zero": "%1 = Const(f32[] = 0)\n%8 = Subtract.1(%0, %1)",
    "plus minus zero": "%1 = Const(f32[] = -0.0)\n%8 = Add.1(%0, %1)",
    "axes added and removed": (
        "%1 = Const(i64[1] = 1)\n%2 = Unsqueeze.1(%0, %1)\n%8 = Squeeze.1(%2, %1)"
    ),
    "there and back": (
        "%1 = Const(i64[1] = -1)\n%2 = Reshape.1(%0, %1)\n%3 = ShapeOf.3(%0)\n"
        "%8 = Reshape.1(%2, %3)"
    ),
    "widened and narrowed": (
        "%1 = Convert.1(%0) {destination_type=f64}\n%8 = Convert.1(%1) {destination_type=f32}"
    ),
}


@pytest.mark.parametrize("case", REMOVED)
def test_removed(case: str) -> None:
    line = REMOVED[case]
    becomes(f"{X}{line} names=y\n%9 = Result.1(%8)", remove_identities, GONE)


STAYING = {
    "x + 0.0 turns -0.0 into 0.0": "%1 = Const(f32[] = 0)\n%8 = Add.1(%0, %1)",
    "x - -0.0 too": "%1 = Const(f32[] = -0.0)\n%8 = Subtract.1(%0, %1)",
    "one divided": "%1 = Const(f32[] = 1)\n%8 = Divide.1(%1, %0)",
    "reversed": (
        "%1 = Const(i64[1] = 9223372036854775807)\n%2 = Const(i64[1] = -9223372036854775807)\n"
        "%3 = Const(i64[1] = -1)\n%4 = Const(i64[1] = 1)\n%8 = Slice.8(%0, %1, %2, %3, %4)"
    ),
    "a transpose of equal sizes": "%1 = Const(i64[2] = 1, 0)\n%8 = Transpose.1(%0, %1)",
    "narrowed": "%1 = Convert.1(%0) {destination_type=f16}\n%8 = Exp.1(%1)",
}


@pytest.mark.parametrize("case", STAYING)
def test_what_stays(case: str) -> None:
    text = f"{X}{STAYING[case]}\n%9 = Result.1(%8)".replace("[N, 3]", "[3, 3]")
    stays(text, remove_identities, None)


def test_a_constant_that_broadcasts() -> None:
    stays(
        X + "%1 = Const(f32[1, 1, 1] = 1)\n%2 = Multiply.1(%0, %1)\n%3 = Result.1(%2)",
        remove_identities,
        "the constant broadcasts the other operand",
    )


def test_an_identity_of_unknown_rank_goes_and_a_reshape_stays() -> None:
    head = "%0 = Input(f32[...])\n"
    becomes(
        head + "%1 = Identity.16(%0)\n%2 = Result.1(%1)",
        remove_identities,
        head + "%2 = Result.1(%0)",
    )
    stays(
        head + "%1 = Input(i64[R])\n%2 = Reshape.1(%0, %1)\n%3 = Result.1(%2)",
        remove_identities,
        "the shape is unknown",
    )


def test_neutral_numbers_beside_an_unknown_rank() -> None:
    """One number changes no shape, a row of ones may; nor is it known what a Squeeze refuses."""
    head = "%0 = Input(f32[...])\n"
    becomes(
        head + "%1 = Const(f32[] = 1)\n%2 = Multiply.1(%0, %1)\n%3 = Result.1(%2)",
        remove_identities,
        head + "%3 = Result.1(%0)",
    )
    for shape, numbers in (("1", "1"), ("3", "1, 1, 1"), ("1, 1", "1")):
        stays(
            f"{head}%1 = Const(f32[{shape}] = {numbers})\n%2 = Multiply.1(%0, %1)\n"
            "%3 = Result.1(%2)",
            remove_identities,
            "whether the constant broadcasts the other operand is unknown",
        )
    stays(
        head + "%1 = Const(i64[1] = 2)\n%2 = Squeeze.1(%0, %1)\n%3 = Const(i64[1] = -1)\n"
        "%4 = Reshape.1(%2, %3)\n%5 = Result.1(%4)",
        remove_identities,
        "the shape is unknown",
    )


@pytest.mark.parametrize(
    "made",
    [
        "%1 = Const(i64[2] = 0, 1)\n%2 = Transpose.1(%0, %1)",
        "%2 = Concat.1(%0) {axis=-3}",
    ],
)
def test_axes_that_the_input_may_not_have_are_looked_for_when_it_runs(made: str) -> None:
    stays(
        f"%0 = Input(f32[...])\n{made}\n%3 = Result.1(%2)",
        remove_identities,
        "whether the input has these axes is seen when it runs",
    )


def test_an_input_that_is_an_output_keeps_both_names() -> None:
    found = run(
        '%0 = Input(f32[3]) "x" names=x\n%1 = Identity.16(%0) "i" names=y\n%2 = Result.1(%1)',
        remove_identities,
    )
    assert found.node(found.parameters[0]).names == [frozenset({"x", "y"})]


def test_reshapes_merge() -> None:
    becomes(
        X
        + """
%1 = Const(i64[3] = -1, 3, 1)
%2 = Reshape.1(%0, %1)
%3 = Const(i64[1] = -1)
%4 = Reshape.1(%2, %3) "last"
%5 = Result.1(%4)
%6 = Result.1(%2)
""",
        remove_identities,
        X
        + """
%3 = Const(i64[1] = -1)
%4 = Reshape.1(%0, %3) "last"
%5 = Result.1(%4)
%1 = Const(i64[3] = -1, 3, 1)
%2 = Reshape.1(%0, %1)
%6 = Result.1(%2)
""",
    )


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("Const(i64[2] = 0, 1)", "the target copies sizes of the inner reshape"),
        ("Input(i64[2])", "the target is unknown"),
    ],
)
def test_reshapes_that_do_not_merge(target: str, reason: str) -> None:
    text = (
        X
        + f"""
%1 = {target}
%2 = Const(i64[1] = -1)
%3 = Reshape.1(%0, %2)
%4 = Reshape.1(%3, %1) {{special_zero=true}}
%5 = Result.1(%4)
"""
    )
    stays(text, remove_identities, reason)


@pytest.mark.parametrize("inner", ["Reshape.1", "Unsqueeze.1", "Squeeze.1"])
def test_reshapes_that_only_a_run_accepts_do_not_merge(inner: str) -> None:
    text = f"""
%0 = Input(f32[1, 3]) "x"
%1 = Input(i64[2]) "how"
%2 = {inner}(%0, %1)
%3 = Const(i64[1] = -1)
%4 = Reshape.1(%2, %3)
%5 = Result.1(%4)
"""
    stays(text, remove_identities, "whether the inner reshape is one is seen when it runs")


def test_conversions_merge() -> None:
    becomes(
        """
%0 = Input(boolean[N])
%1 = Convert.1(%0) {destination_type=i64}
%2 = Convert.1(%1) {destination_type=f32}
%3 = Result.1(%2)
""",
        remove_identities,
        "%0 = Input(boolean[N])\n%2 = Convert.1(%0) {destination_type=f32}\n%3 = Result.1(%2)",
    )
    stays(
        """
%0 = Input(f32[N])
%1 = Convert.1(%0) {destination_type=i32}
%2 = Convert.1(%1) {destination_type=f32}
%3 = Result.1(%2)
""",
        remove_identities,
        "f32 to i32 to f32 is not one conversion",
    )


CAST = [DType(n) for n in "boolean i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64".split()]


def samples(dtype: DType) -> np.ndarray:
    """Values at the ends of the type, around powers of two, and infinities and NaN of a float."""
    if dtype is DType.boolean:
        return np.array([False, True])
    ends = [int(dtype.min), int(dtype.max)] if dtype.is_int else []
    powers = [s * (2**k + d) for k in range(0, 64, 3) for d in (-1, 0, 1) for s in (1, -1)]
    if dtype.is_int:
        fitting = [v for v in (*ends, *powers) if ends[0] <= v <= ends[1]]
        return np.array(fitting, dtype=dtype.numpy)
    fractions = [0.1, -2.5, 1e-30, 65504.0, 3e38, float("inf"), -float("inf"), float("nan")]
    return cast_array(np.array([*powers, *fractions], np.float64), dtype)


@pytest.mark.parametrize("first", CAST)
def test_conversions_that_lose_nothing(first: DType) -> None:
    """What the table says is true for values at the ends of the types."""
    values = samples(first)
    for middle, last in itertools.product(CAST, CAST):
        if loses_nothing(first, middle, last):
            there = cast_array(cast_array(values, middle), last)
            np.testing.assert_array_equal(
                there.astype(np.float64), cast_array(values, last).astype(np.float64)
            )
    assert holds_all(first, first)


def test_elementwise_operations_read_through_broadcasts() -> None:
    becomes(
        """
%0 = Input(f32[N, 4, S])
%1 = Input(f32[N, 1, 1])
%2 = ShapeOf.3(%0)
%3 = Broadcast.3(%1, %2)
%4 = Add.1(%0, %3)
%5 = Result.1(%4)
""",
        remove_identities,
        """
%0 = Input(f32[N, 4, S])
%1 = Input(f32[N, 1, 1])
%4 = Add.1(%0, %1)
%5 = Result.1(%4)
""",
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "%3 = Broadcast.3(%1, %2)\n%4 = Add.1(%1, %3)",
            "the other operands do not have the shape",
        ),
        (
            '%6 = Const(i64[3] = 0, 1, 2)\n%3 = Broadcast.3(%1, %2, %6) {mode="explicit"}\n'
            "%4 = Add.1(%0, %3)",
            "the broadcast follows another rule",
        ),
        (
            '%3 = Broadcast.3(%1, %2)\n%4 = Add.1(%0, %3) {auto_broadcast="none"}',
            "the operation does not broadcast",
        ),
    ],
)
def test_broadcasts_that_stay(line: str, reason: str) -> None:
    text = f"""
%0 = Input(f32[N, 4, S])
%1 = Input(f32[N, 1, 1])
%2 = ShapeOf.3(%0)
{line}
%5 = Result.1(%4)
%7 = Result.1(%0)
"""
    found = graph(text)
    assert found.parameters
    stays(text, remove_identities, reason)


@pytest.mark.parametrize(
    ("sizes", "target", "how"),
    [("N, 4, S", "R", ' {auto_broadcast="none"}'), ("2, 4, 3", "3", "")],
)
def test_a_broadcast_to_what_is_seen_when_it_runs_stays(sizes: str, target: str, how: str) -> None:
    """It may refuse its target, or make another shape than the other operand has."""
    stays(
        f"%0 = Input(f32[{sizes}])\n%1 = Input(f32[{sizes[0]}, 1, 1])\n%2 = Input(i64[{target}])\n"
        f"%3 = Broadcast.3(%1, %2)\n%4 = Add.1(%0, %3){how}\n%5 = Result.1(%4)",
        remove_identities,
        "what is broadcast to is seen when it runs",
    )


def test_a_broadcast_on_axes_that_are_seen_when_it_runs_stays() -> None:
    """There may be no such axes."""
    stays(
        "%0 = Input(f32[2, 3])\n%1 = Const(i64[2] = 2, 3)\n%2 = Input(i64[2])\n"
        '%3 = Broadcast.3(%0, %1, %2) {mode="explicit"}\n%4 = Result.1(%3)',
        remove_identities,
        "the axes to broadcast on are seen when it runs",
    )
