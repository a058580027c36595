"""Broken XML: constants, attributes, types and shapes that contradict each other."""

from __future__ import annotations

from support.frontends.ir_text import (
    constant_net,
    edge,
    layer,
    matmul_net,
    net,
    parameter,
    port,
    result,
    unary_net,
)
from support.frontends.xml_broken_nets import CONST, FORMAT, SHAPE, Case, edited

VALUES: dict[str, Case] = {
    "no weights": (CONST, None, FORMAT, ["no weights were given", "weights=..."]),
    "bin short by one": (
        CONST,
        b"x" * 27,
        FORMAT,
        ["outside", "offset 4, size 24", "27 bytes", "layer 0"],
    ),
    "bin is a git-lfs pointer": (
        constant_net("f32", "500", 0, 2000),
        b"version https://git-lfs.github.com/spec/v1\noid",
        FORMAT,
        ["outside", "git-lfs pointer"],
    ),
    "offset past end": (
        constant_net("f32", "", 29, 4),
        b"x" * 28,
        FORMAT,
        ["outside", "offset 29"],
    ),
    "offset + size overflows": (
        constant_net("f32", "", 2**64 - 4, 8),
        b"x" * 28,
        FORMAT,
        ["outside", f"offset {2**64 - 4}"],
    ),
    "negative offset": (constant_net("f32", "", -4, 4), b"x" * 28, FORMAT, ["'offset'", '"-4"']),
    "size abc": (
        edited('size="24"', 'size="abc"', CONST),
        b"x" * 28,
        FORMAT,
        ["'size'", '"abc"', "unsigned"],
    ),
    "size too small": (
        constant_net("f32", "2, 3", 0, 23),
        b"x" * 28,
        FORMAT,
        ["too small", "size 23", "24 bytes", "f32[2, 3]"],
    ),
    "shape product overflows": (
        constant_net("f32", f"{2**62}, {2**62}", 0, 24),
        b"x" * 28,
        FORMAT,
        ["too small", str(2**126)],
    ),
    "empty shape overflows": (
        constant_net("f32", f"0, {2**63 - 1}, {2**63 - 1}", 0, 0),
        b"",
        FORMAT,
        ["size overflows", f"f32[0, {2**63 - 1}", "below 2^59"],
    ),
    "negative const dim": (constant_net("f32", "-1", 0, 4), b"x" * 28, FORMAT, ["'shape'", '"-1"']),
    "const without size": (
        edited(' size="24"', "", CONST),
        b"x" * 28,
        FORMAT,
        ["no attribute 'size'"],
    ),
    "const without shape": (
        edited(' shape="2, 3"', "", CONST),
        b"x" * 28,
        FORMAT,
        ["no attribute 'shape'", "layer 0"],
    ),
    "const shape 2,,3": (
        constant_net("f32", "2,,3", 0, 24),
        b"x" * 28,
        FORMAT,
        ["'shape'", '"2,,3"'],
    ),
    "const shape 2,3,": (
        constant_net("f32", "2,3,", 0, 24),
        b"x" * 28,
        FORMAT,
        ["'shape'", '"2,3,"'],
    ),
    "const element type": (
        edited('element_type="f32"', 'element_type="FP32"', CONST),
        b"x" * 28,
        FORMAT,
        ["'element_type'", '"FP32"', "f32"],
    ),
    # Parameters and attributes
    "parameter shape": (unary_net(shape="2,foo"), None, FORMAT, ["'shape'", '"2,foo"', "layer 0"]),
    "parameter without shape": (
        edited(' shape="2,3"', " ", unary_net()),
        None,
        FORMAT,
        ["no attribute 'shape'"],
    ),
    "parameter without type": (
        edited(' element_type="f32"', "", unary_net()),
        None,
        FORMAT,
        ["no attribute 'element_type'"],
    ),
    "bool attribute": (
        edited('transpose_a="false"', 'transpose_a="maybe"', matmul_net("2,3", "3,4", (2, 4))),
        None,
        FORMAT,
        ["'transpose_a'", '"maybe"', "true, false", 'layer 2 "product"'],
    ),
    "int attribute": (
        unary_net("Softmax", data='axis="abc"'),
        None,
        FORMAT,
        ["'axis'", '"abc"', "integer"],
    ),
    "fraction for int": (
        unary_net("Softmax", data='axis="1.5"'),
        None,
        FORMAT,
        ["'axis'", '"1.5"'],
    ),
    "float attribute": (
        unary_net("Elu", data='alpha="x"'),
        None,
        FORMAT,
        ["'alpha'", '"x"', "number"],
    ),
    "word attribute": (
        unary_net("Gelu", data='approximation_mode="foo"', version="opset7"),
        None,
        FORMAT,
        ["'approximation_mode'", '"foo"', "one of ERF, TANH", "layer 1"],
    ),
    "word of another operation": (
        unary_net("Round", data='mode="bilinear"', version="opset5"),
        None,
        FORMAT,
        ["'mode'", '"bilinear"', "half_to_even"],
    ),
    "required attribute": (unary_net("Elu"), None, FORMAT, ["'alpha' is missing", "layer 1"]),
    "type attribute": (
        unary_net("Convert", data='destination_type="float"'),
        None,
        FORMAT,
        ["'destination_type'", '"float"'],
    ),
    # Types and shapes
    "axis out of range": (
        unary_net("Softmax", data='axis="5"', version="opset8"),
        None,
        SHAPE,
        ["axis", "5", "layer 1"],
    ),
    "inner sizes": (
        matmul_net("2,3", "4,5", (2, 5)),
        None,
        SHAPE,
        ["inner sizes", "product", "[2, 3] x [4, 5]", "(3)"],
    ),
    "batch sizes": (matmul_net("2,2,3", "3,3,5", ()), None, SHAPE, ["batch", "product"]),
    "rank 0": (matmul_net("", "3,5", ()), None, SHAPE, ["scalar", "product"]),
    "declared shape": (
        matmul_net("2,3", "3,5", (7, 7)),
        None,
        SHAPE,
        ["shape [7, 7]", "f32[2, 5]", 'layer 2 "product" (line 5)', 'declared_shapes="ignore"'],
    ),
    "declared rank": (matmul_net("2,3", "3,5", (1, 2, 5)), None, SHAPE, ["[1, 2, 5]", "ignore"]),
    "declared type": (
        edited('<port id="1" precision="FP32">', '<port id="1" precision="I64">'),
        None,
        SHAPE,
        ["element type i64", "f32[2, 3]", 'layer 1 "a"', 'declared_shapes="ignore"'],
    ),
    "mixed types": (
        net(
            [
                parameter(0),
                parameter(1, "2,3", "f16", "FP16"),
                layer(2, "Add", inputs=port(0) + port(1), outputs=port(2)),
                result(3),
            ],
            [edge(0, 0, 2, 0), edge(1, 0, 2, 1), edge(2, 2, 3, 0)],
        ),
        None,
        SHAPE,
        ["one element type", "f32, f16", "layer 2"],
    ),
}
