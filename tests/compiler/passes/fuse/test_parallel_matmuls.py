"""Products of the same rows as one product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from irc_compiler.api import compile_model
from irc_compiler.compiler import pipeline
from irc_compiler.compiler.model import Model
from irc_compiler.compiler.passes.attention.fuse import fuse_attention
from irc_compiler.compiler.passes.fuse import parallel_matmuls
from irc_compiler.compiler.passes.fuse.matmul_add import fuse_matmul_add
from irc_compiler.compiler.passes.fuse.parallel_matmuls import fuse_parallel_matmuls
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.ops import Constant, Gemm
from irc_compiler.ir.provenance import file_slice_of, note
from support.rewriting import graph, random_inputs, run, same_values, stays

HEADS = """
%{0} = Const(i64[4] = 0, 0, 2, 8)
%{1} = Reshape.1({2}, %{0}) {{special_zero=true}}
%{3} = Const(i64[4] = 0, 2, 1, 3)
%{4} = Transpose.1(%{1}, %{3})
"""


def heads(at: int, value: str) -> str:
    """Lines that make [B, 2, S, 8] of a product; the last is %{at + 3}."""
    return HEADS.format(at, at + 1, value, at + 2, at + 3)


def attention(rows: str = "B, S", biases: str = "qkv", turned: bool = False) -> str:
    """Queries, keys and values of rows, each with a bias or without, mixed."""
    flag = " {transpose_b=true}" if turned else ""
    text = f'%0 = Input(f32[{rows}, 12]) "x"\n'
    for i, name in enumerate("qkv"):
        at = 10 * (i + 1)
        size = "16, 12" if turned else "12, 16"
        text += f"%{at} = Const(f32[{size}] = ~{i})\n%{at + 1} = MatMul.1(%0, %{at}){flag}\n"
        if name in biases:
            text += f"%{at + 2} = Const(f32[16] = ~{i + 7})\n"
            text += f"%{at + 3} = Add.1(%{at + 1}, %{at + 2})\n"
        text += heads(at + 4, f"%{at + 3 if name in biases else at + 1}")
    return text + (
        "%50 = MatMul.1(%17, %27) {transpose_b=true}\n%51 = Softmax.8(%50) {axis=3}\n"
        "%52 = MatMul.1(%51, %37)\n%53 = Result.1(%52)\n"
    )


PASSES = [fuse_attention, fuse_matmul_add, fuse_parallel_matmuls]


def products(found: Graph) -> list[int]:
    return [n for n in found.order() if found.op(n).kind in ("MatMul", "Gemm")]


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("biases", ["", "qkv", "qv"])
def test_queries_keys_and_values_are_one_product(biases: str, turned: bool) -> None:
    """Also where the keys alone have no bias: what they get in its place changes no sum."""
    text = attention(biases=biases, turned=turned)
    found = run(text, PASSES)
    (merged,) = products(found)
    op = found.op(merged)
    assert isinstance(op, Gemm) and op.transpose_b == turned
    weight, addend = (found.op(v.node) if v else None for v in (*found.inputs(merged), None)[1:3])
    assert isinstance(weight, Constant) and weight.data.shape == ((48, 12) if turned else (12, 48))
    if biases == "qv":
        assert isinstance(addend, Constant)
        (empty,) = (part for part in np.split(addend.data, 3) if not part.any())
        assert np.signbit(empty).all()
    else:
        assert (addend is None) == (biases == "")
    same_values(run(text, PASSES[:2]), found)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["2, 5", "B, S"])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_a_merged_product_keeps_bits(
    rows: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And has no copies next to it."""
    text = attention(rows, "qv")
    merged = compile_model(Model(graph(text)), precision=precision)
    left = tuple(p for p in pipeline.PASSES if p.name != "fuse_parallel_matmuls")
    monkeypatch.setattr(pipeline, "PASSES", left)
    single = compile_model(Model(graph(text)), precision=precision)
    counts = [len(net.plan.kernel_steps()) for net in (merged, single)]
    assert counts == [2, 4]
    (x,) = random_inputs(graph(text), B=2, S=5)
    x[0, 0] = -0.0
    x[-1, -1, 0], x[0, 1, 0] = np.nan, 1e30
    assert merged(x)[0].tobytes() == single(x)[0].tobytes()


def weights_of(made: Graph) -> Iterator[np.ndarray]:
    for node in made.order():
        op = made.op(node)
        if isinstance(op, Constant) and op.data.ndim == 2:
            yield op.data


def test_weights_of_a_file_stay_known() -> None:
    """Two models of a file share the merged weight; one of the parts' is not enough."""
    for known in (3, 2):
        slices = []
        for _ in range(2):
            made = graph(attention(biases=""))
            for i, data in zip(range(known), weights_of(made), strict=False):
                note(data, "a file", 1000 * i)
            (weight,) = weights_of(run(made, PASSES))
            slices.append(file_slice_of(weight))
        assert slices[0] == slices[1] and (slices[0] is not None) == (known == 3)


def test_f16_weights_of_merged_matmuls_stay_f16() -> None:
    """Weights kept as f16 stay so."""
    text = attention(biases="")
    for at in (10, 20, 30):
        line = f"%{at + 80} = Const(f16[12, 16] = ~{at})\n%{at} = Convert.1(%{at + 80})"
        text = text.replace(
            f"%{at} = Const(f32[12, 16] = ~{at // 10 - 1})", line + " {destination_type=f32}"
        )
    found = run(text, PASSES)
    (merged,) = products(found)
    weight = found.inputs(merged)[1]
    assert weight is not None and found.op(weight.node).kind == "Convert"
    same_values(run(text, PASSES[:2]), found)


PAIR = """
%0 = Input(f32[B, 12]) "x"
%1 = Const(f32[12, 16] = ~1)
%2 = Const(f32[12, 16] = ~2)
%3 = MatMul.1(%0, %1)
%4 = MatMul.1(%0, %2)
"""


@pytest.mark.parametrize(
    "readers, reason",
    [
        ("%5 = Result.1(%3)\n%6 = Result.1(%4)", "Result reads a product's result as it lies"),
        ("%5 = Multiply.1(%3, %4)\n%6 = Result.1(%5)", "Multiply reads a product's result"),
        ("%5 = Concat.1(%3, %4) {axis=0}\n%6 = Result.1(%5)", "Concat reads a product's result"),
        (
            "%5 = Const(i64[1] = -1)\n%6 = Reshape.1(%3, %5) {special_zero=false}\n"
            "%7 = Reshape.1(%4, %5) {special_zero=false}\n%8 = Tanh.1(%6)\n%9 = Tanh.1(%7)\n"
            "%10 = Result.1(%8)\n%11 = Result.1(%9)",
            "Reshape would copy a part",
        ),
    ],
)
def test_products_that_would_be_copied_stay(readers: str, reason: str) -> None:
    """A product writes where its reader wants it, and takes what follows into its epilogue."""
    if reason.endswith("result"):
        reason += " as it lies"
    stays(PAIR + readers, fuse_parallel_matmuls, reason)


def test_large_products_stay() -> None:
    text = attention("4096, 100", biases="")
    stays(text, fuse_parallel_matmuls, "a large product gains nothing from others next to it")


def test_others_of_other_rows_or_shared_weights_stay() -> None:
    shared = attention(biases="").replace("MatMul.1(%0, %20)", "MatMul.1(%0, %10)")
    found = run(shared, PASSES)
    assert len(products(found)) == 3
    mixed = attention(biases="").replace("%11 = MatMul.1(%0, %10)", "%11 = MatMul.1(%8, %10)")
    mixed = mixed.replace('"x"\n', '"x"\n%8 = Input(f32[B, S, 12]) "y"\n')
    found = run(mixed, PASSES)
    assert len(products(found)) == 2
    same_values(run(mixed, PASSES[:2]), found)


def test_products_that_no_other_joins_look_at_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many products of one value each looks at those with equal attributes, not at all."""
    count, looks = 60, 0
    text = '%0 = Input(f32[4, 8]) "x"\n%1 = Const(i64[3] = 4, 2, 4)\n'
    for i in range(count):
        at = 2 + 5 * i
        text += f"%{at} = Const(f32[8, 8] = ~{i})\n"
        text += f"%{at + 1} = Gemm.0(%0, %{at}) {{alpha={1 + i // 2 / 64}}}\n"
        text += f"%{at + 2} = Reshape.1(%{at + 1}, %1) {{special_zero=false}}\n"
        text += f"%{at + 3} = Relu.1(%{at + 2})\n%{at + 4} = Result.1(%{at + 3})\n"

    def member(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return parallel_matmuls_member(*args)

    parallel_matmuls_member = parallel_matmuls._match_member
    monkeypatch.setattr(parallel_matmuls, "_match_member", member)
    merged = run(text, fuse_parallel_matmuls)
    assert len(products(merged)) == count // 2
    assert looks <= 5 * count
