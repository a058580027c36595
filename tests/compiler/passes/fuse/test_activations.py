"""Activations join the product that they alone read."""

from __future__ import annotations

import pytest
from irc_compiler.compiler.passes.fuse.activations import NAMES, fuse_activations
from support.rewriting import becomes, stays

BEFORE = """
%0 = Input(f32[N, 4])
%1 = Const(f32[4, 3] = ~1)
%2 = Const(f32[3] = 1, 2, 3)
%3 = Gemm.0(%0, %1, %2)
{constants}%4 = {operation} "act" names=y
%5 = Result.1(%4)
"""
AFTER = """
%0 = Input(f32[N, 4])
%1 = Const(f32[4, 3] = ~1)
%2 = Const(f32[3] = 1, 2, 3)
%4 = Gemm.0(%0, %1, %2) {{activation="{name}", activation_params=[{parameters}]}} "act" names=y
%5 = Result.1(%4)
"""
# Operation, its constants, the activation's name and parameters.
CASES = [
    ("Relu.1(%3)", [], "relu", ""),
    ("PRelu.1(%3, %6)", ["f32[1] = 0.25"], "leaky_relu", "0.25"),
    ("Clamp.1(%3) {min=-1.0, max=6.0}", [], "clip", "-1.0, 6.0"),
    ("Elu.1(%3) {alpha=0.5}", [], "elu", "0.5"),
    ("Selu.1(%3, %6, %7)", ["f32[] = 1.5", "f32[1] = 0.5"], "scaled_elu", "1.5, 0.5"),
    ("Sigmoid.1(%3)", [], "sigmoid", ""),
    ("HardSigmoid.1(%3, %6, %7)", ["f32[] = 0.25", "f32[] = 0.5"], "hard_sigmoid", "0.25, 0.5"),
    ("HSigmoid.5(%3)", [], "hard_sigmoid", f"{1 / 6}, 0.5"),
    ("Tanh.1(%3)", [], "tanh", ""),
    ("SoftPlus.4(%3)", [], "softplus", ""),
    ("SoftSign.9(%3)", [], "softsign", ""),
    ("Mish.4(%3)", [], "mish", ""),
    ("HSwish.4(%3)", [], "hard_swish", f"{1 / 6}, 0.5"),
    ("Swish.4(%3)", [], "swish", "1.0"),
    ("Swish.4(%3, %6)", ["f32[] = 1.5"], "swish", "1.5"),
    ("Gelu.2(%3)", [], "gelu", ""),
    ('Gelu.7(%3) {approximation_mode="ERF"}', [], "gelu", ""),
    ('Gelu.7(%3) {approximation_mode="tanh"}', [], "gelu_tanh", ""),
    ('Activation.0(%3) {function="celu", parameters=[2.0]}', [], "celu", "2.0"),
]


@pytest.mark.parametrize(("operation", "constants", "name", "parameters"), CASES)
def test_every_activation(operation: str, constants: list[str], name: str, parameters: str) -> None:
    lines = "".join(f"%{6 + i} = Const({c})\n" for i, c in enumerate(constants))
    becomes(
        BEFORE.format(operation=operation, constants=lines),
        fuse_activations,
        AFTER.format(name=name, parameters=parameters),
    )


def test_the_table_is_covered() -> None:
    tested = {c[0].split("(")[0] for c in CASES}
    assert {f"{cls.kind}.{cls.version}" for cls in NAMES} <= tested


def test_a_plain_product_becomes_a_gemm() -> None:
    becomes(
        """
%0 = Input(f32[B, 2, 4])
%1 = Input(f32[4, 3])
%2 = MatMul.1(%0, %1)
%3 = Relu.1(%2) "act"
%4 = Result.1(%3)
""",
        fuse_activations,
        """
%0 = Input(f32[B, 2, 4])
%1 = Input(f32[4, 3])
%3 = Gemm.0(%0, %1) {activation="relu"} "act"
%4 = Result.1(%3)
""",
    )


REFUSED = {
    "readers": (
        "%4 = Relu.1(%3)\n%5 = Result.1(%4)\n%6 = Result.1(%3)",
        "the product has other readers",
    ),
    "slopes per channel": (
        "%6 = Const(f32[3] = 1, 2, 3)\n%4 = PRelu.1(%3, %6)\n%5 = Result.1(%4)",
        "a parameter of the activation is not a constant number",
    ),
    "a parameter of higher rank": (
        "%6 = Const(f32[1, 1, 1] = 1)\n%4 = Swish.4(%3, %6)\n%5 = Result.1(%4)",
        "a parameter has a higher rank than the product",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    lines, reason = REFUSED[case]
    head = "%0 = Input(f32[N, 4])\n%1 = Const(f32[4, 3] = ~1)\n%3 = MatMul.1(%0, %1)\n"
    stays(head + lines, fuse_activations, reason)


def test_one_activation_only() -> None:
    becomes(
        """
%0 = Input(f32[N, 4])
%1 = Input(f32[4, 3])
%2 = MatMul.1(%0, %1)
%3 = Relu.1(%2)
%4 = Tanh.1(%3)
%5 = Result.1(%4)
""",
        fuse_activations,
        """
%0 = Input(f32[N, 4])
%1 = Input(f32[4, 3])
%2 = Gemm.0(%0, %1) {activation="relu"}
%4 = Tanh.1(%2)
%5 = Result.1(%4)
""",
    )
    stays(
        """
%0 = Input(f32[N, 4])
%1 = Input(f32[4, 3])
%2 = Gemm.0(%0, %1) {activation="relu"}
%4 = Tanh.1(%2)
%5 = Result.1(%4)
""",
        fuse_activations,
        "the product has an activation already",
    )


def test_activations_of_integers() -> None:
    text = "%0 = Input(i32[2, 4])\n%1 = Input(i32[4, 3])\n%2 = MatMul.1(%0, %1)\n"
    stays(
        text + "%3 = Tanh.1(%2)\n%4 = Result.1(%3)",
        fuse_activations,
        "the activation of integers is rounded",
    )
    becomes(
        text + "%3 = Relu.1(%2)\n%4 = Result.1(%3)",
        fuse_activations,
        """
%0 = Input(i32[2, 4])
%1 = Input(i32[4, 3])
%2 = Gemm.0(%0, %1) {activation="relu"}
%4 = Result.1(%2)
""",
    )


CONVOLUTION = """
%0 = Input(f32[1, 2, 4, 6])
%1 = Const(f32[2, 1, 1, 3, 3] = ~1)
%2 = Const(i64[3] = 1, 2, 24)
%3 = GroupConvolution.1(%0, %1) {{pads_begin=[1, 1], pads_end=[1, 1]}}
{steps}
%9 = Result.1(%5)
"""
FLATTEN = "Reshape.1({}, %2) {{special_zero=false}}"
ADD = "%6 = Const(f32[2, 1, 1] = 1, 2)\n%7 = Add.1(%3, %6)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # A depthwise convolution whose pixels are flattened, as in PVT-v2.
        (
            f"%4 = {FLATTEN.format('%3')}\n%5 = Gelu.2(%4) names=y",
            f"%4 = Gelu.2(%3)\n%5 = {FLATTEN.format('%4')} names=y",
        ),
        (
            f"{ADD}%4 = {FLATTEN.format('%7')}\n%5 = Relu.1(%4) names=y",
            f"{ADD}%4 = Relu.1(%7)\n%5 = {FLATTEN.format('%4')} names=y",
        ),
    ],
)
def test_activations_move_in_front_of_reshapes(before: str, after: str) -> None:
    becomes(CONVOLUTION.format(steps=before), fuse_activations, CONVOLUTION.format(steps=after))


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (
            f"%4 = {FLATTEN.format('%3')}\n%8 = Relu.1(%4)\n%5 = Add.1(%4, %8)",
            "the reshaped value has other readers",
        ),
        # Nothing computes an epilogue.
        (
            f"%7 = MaxPool.1(%3) {{kernel=[1, 1]}}\n%4 = {FLATTEN.format('%7')}\n%5 = Relu.1(%4)",
            None,
        ),
        (
            f"%6 = Const(f32[2, 1] = 1, 2)\n%4 = {FLATTEN.format('%3')}\n%5 = PRelu.1(%4, %6)",
            "a parameter of the activation is not a constant number",
        ),
    ],
)
def test_activations_stay_behind_reshapes(steps: str, reason: str | None) -> None:
    stays(CONVOLUTION.format(steps=steps), fuse_activations, reason)
