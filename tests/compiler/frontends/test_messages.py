"""What a wrong model is told, in both formats: the node, the rule, what it has, what is allowed."""

from __future__ import annotations

import irc_compiler as irc
import pytest
from onnx import parser
from support.frontends.ir_text import edge, layer, net, parameter, port, result

X = "float[2, 3] x"
# The operator set, inputs, the node; what the message has to say.
ONNX: dict[str, tuple[int, str, str, tuple[str, ...]]] = {
    "a scale per element of an axis": (
        19, "float[4, 5] x, float[3] s", "QuantizeLinear <axis = 1> (x, s)",
        ("QuantizeLinear", "one per element of axis 1", "got: f32[3]", "f32[4, 5]", "[5]"),
    ),
    "a zero point of another size": (
        19, "int8[4, 5] x, float[5] s, int8[4] z", "DequantizeLinear <axis = 1> (x, s, z)",
        ("DequantizeLinear", "one per element of axis 1", "got: i8[4]", "[5]"),
    ),
    "a scale per block": (
        21, "float[4, 8] x, float[4, 3] s", "QuantizeLinear <axis = 1, block_size = 2> (x, s)",
        ("per block of 2 along axis 1", "got: f32[4, 3]", "[4, 4]"),
    ),
    "blocks of another rank": (
        21, "int8[4, 8] x, float[4] s", "DequantizeLinear <axis = 1, block_size = 2> (x, s)",
        ("per block of 2 along axis 1", "got: f32[4]", "[4, 4]"),
    ),
    "blocks below nothing": (
        21, "float[4, 8] x, float[4, 8] s", "QuantizeLinear <axis = 1, block_size = -2> (x, s)",
        ("block", "got: -2"),
    ),
    "a float to quantise to": (
        21, "float[4] x, float s", "QuantizeLinear <output_dtype = 1> (x, s)",
        ("output_dtype", "got: f32", "u8", "f8e5m2"),
    ),
    "another type than the zero point's": (
        21, "float[4] x, float s, int8 z", "QuantizeLinear <output_dtype = 2> (x, s, z)",
        ("output_dtype", "zero point's", "got: u8", "expected: i8"),
    ),
    "a precision that is not a float": (
        23, "float[4] x, float s", "QuantizeLinear <precision = 6> (x, s)",
        ("precision", "got: i32", "f32, f16, bf16"),
    ),
    "an integer to dequantise to": (
        23, "int8[4] x, float s", "DequantizeLinear <output_dtype = 6> (x, s)",
        ("output_dtype", "got: i32", "f32, f16, bf16"),
    ),
    "branches of two types": (
        17, f"bool c, {X}",
        """If (c) <then_branch = a () => (float[2, 3] r) { r = Relu (x) },
            else_branch = b () => (int64[2, 3] q) { q = Cast <to = 7> (x) }>""",
        ("If", "differ in element type", "f32[2, 3] and i64[2, 3]", "one element type"),
    ),
    "a recurrence of too few rows": (
        17, "float[5, 2, 3] x, float[1, 16, 3] w, float[1, 12, 4] r",
        "LSTM <hidden_size = 4> (x, w, r)",
        ("LSTM", "R has not 4 rows for each of hidden_size 4", "12 and 16"),
    ),
    "a recurrence of too many columns": (
        17, "float[5, 2, 3] x, float[1, 12, 9] w, float[1, 12, 4] r",
        "GRU <hidden_size = 4> (x, w, r)",
        ("GRU", "W has not the columns of its X", "9 and 3"),
    ),
    "an odd number of paddings": (
        17, "float[1, 3, 8, 8] x, float[4, 3, 3, 3] w", "Conv <pads = [1, 1, 1]> (x, w)",
        ("Conv", "a begin and an end", "[1, 1, 1]", "even"),
    ),
    "inner sizes": (
        17, "float[2, 3] x, float[4, 5] w", "MatMul (x, w)",
        ("MatMul", "inner sizes", "got: [2, 3] x [4, 5]", "columns of the first (3)"),
    ),
    "a window of too few sizes": (
        17, "float[1, 3, 8, 8] x", "MaxPool <kernel_shape = [3]> (x)",
        ("MaxPool", "one number per spatial axis", "kernel [3]", "expected: 2 numbers"),
    ),
    "an operand too few": (
        17, X, 'Einsum <equation = "ij,jk->ik"> (x)',
        ("Einsum", "differ in number", "got: 1 inputs", "one per operand of 'ij,jk->ik'"),
    ),
    "no sequence": (
        17, f"{X}, int64 i", "SequenceAt (x, i)",
        ("SequenceAt", "a sequence is needed", "f32[2, 3]", "seq"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONNX)
def test_onnx(name: str) -> None:
    opset, inputs, made, parts = ONNX[name]
    head = f'<ir_version: 10, opset_import: ["" : {opset}]> net ({inputs}) => (float[M] y)'
    model = parser.parse_model(f"{head} {{ y = {made} }}")
    with pytest.raises(irc.Error) as caught:
        irc.read_model(model, declared_shapes="ignore")
    text = str(caught.value)
    assert all(part in text for part in (*parts, '"y"')), text


IMAGE, FILTERS = "1,3,8,8", "4,3,3,3"
WINDOWS = 'strides="{}" dilations="{}" pads_begin="{}" pads_end="0,0"'
XML: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "strides": ("Convolution", WINDOWS.format("0,1", "1,1", "0,0"), (IMAGE, FILTERS),
                ("strides are 1 or more", "got: [0, 1]")),
    "dilations": ("Convolution", WINDOWS.format("1,1", "1,-1", "0,0"), (IMAGE, FILTERS),
                  ("dilations are 1 or more", "got: [1, -1]")),
    "paddings": ("Convolution", WINDOWS.format("1,1", "1,1", "0"), (IMAGE, FILTERS),
                 ("pads_begin", "one number per spatial axis", "got: [0]", "expected: 2")),
    "no broadcasting": ("Add", 'auto_broadcast="none"', ("2,3", "1,3"),
                        ("does not broadcast", "got: [2, 3] and [1, 3]", "equal shapes")),
    "an input too few": ("Add", "", ("2,3",), ("needs input 1 ('B')", "got: 1", "expected: 2")),
    "an input too many": ("ReLU", "", ("2,3", "2,3"), ("too many inputs", "got: 2", "expected: 1")),
    "types": ("LogicalAnd", "", ("2,3", "2,3"),
              ("element type", "got: f32", "expected: boolean")),
}  # fmt: skip


@pytest.mark.parametrize("name", XML)
def test_xml(name: str) -> None:
    kind, data, shapes, parts = XML[name]
    inputs = "".join(port(i) for i in range(len(shapes)))
    made = layer(2, kind, data=data, inputs=inputs, outputs=port(2))
    layers = [*(parameter(i, shape) for i, shape in enumerate(shapes)), made, result(3)]
    edges = [*(edge(i, 0, 2, i) for i in range(len(shapes))), edge(2, 2, 3, 0)]
    with pytest.raises(irc.Error) as caught:
        irc.read_model(net(layers, edges), b"")
    text = str(caught.value)
    assert all(
        part in text for part in (*parts, f'layer 2 "l2" (line {len(shapes) + 3}), {kind}')
    ), text
