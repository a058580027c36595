"""Generated code for named processors: no call of a library, and right answers where it can run.

Code is generated and assembled for every processor on any machine. It runs where this machine has
all the features of the processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.compiler.lowering import lower
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import optimize
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.plan.processors import PROCESSORS, maskable_processors, processor_target
from irc_compiler.plan.specs import find_specs
from irc_compiler.plan.specs.base import Spec
from irc_compiler.plan.target import Target
from irc_compiler.runtime.jit.code_image import OBJECT, CodeImage
from irc_compiler.runtime.jit.elf_read import read_object
from irc_compiler.runtime.jit.host_features import detected_features
from irc_compiler.runtime.jit.llvm import emit_objects
from irc_compiler.runtime.kernels.kernel_table import generate
from irc_compiler.runtime.kernels.shared_functions import SHARED_FUNCTIONS
from support.kernels.harness import run, target_of
from support.models.kernel_families import CASES, FAMILY_CASES, family_model

from tests.runtime.kernels.emit.test_scalar_program import (
    BF16,
    F16,
    F32,
    FLOATS,
    FUNCTIONS,
    INTS,
    build,
    check,
    data,
    spec_of,
)

# What the loaders give to generated code (runtime/jit/image_loader.py, shared_functions.py).
ALLOWED = {"memcpy", "memmove", "memset", *SHARED_FUNCTIONS}
HERE = maskable_processors(detected_features())
TYPES = [*FLOATS, *INTS, DType.boolean]
# Casts of one element, and of vectors with remaining elements.
COUNTS = (1, 77)
# The least and the most that processors of an architecture have.
ENDS = ("x86-64-v2", "sapphirerapids", "neoverse-v1")
ends_in_slow_suite = pytest.mark.extended(when=lambda params: params["processor"] not in ENDS)
# Models that convert to and from 16-bit floats or bytes; the others differ by instruction set only.
RUN = [c for c in CASES if "bf16" in c or c[2] == "f16" or c[0] == "quantized"]


def needs(processor: str) -> None:
    if processor not in HERE:
        missing = PROCESSORS[processor] - detected_features()
        pytest.skip(f"not run: this machine lacks {', '.join(sorted(missing))} of {processor}")


def needed(image: CodeImage) -> frozenset[str]:
    """Names that machine code takes from elsewhere."""
    if image.kind != OBJECT:
        return frozenset(image.imports)
    code = read_object(image.code)
    assert code is not None
    return code.needed_names()


def assert_no_calls(specs: Sequence[Spec], processor: str) -> None:
    target = processor_target(processor)
    texts = [generate(spec, target, "k0").text for spec in specs]
    images = emit_objects(texts, target)
    calls = {
        spec: names
        for spec, image in zip(specs, images, strict=True)
        if (names := needed(image) - ALLOWED)
    }
    assert not calls


@cache
def optimised(name: str, dtype: str, precision: str) -> Graph:
    graph = family_model(name, dtype).graph
    optimize(graph, Options(precision))
    return graph


def casts() -> list[Spec]:
    """Every type to every other type, for every count."""
    specs: list[Spec] = []
    for source in TYPES:
        b = Builder()
        x = b.input(0, source)
        program = b.finish(*(b.cast(x, to) for to in TYPES if to is not source))
        specs += [spec_of(program, [source], count) for count in COUNTS]
    return specs + quotients()


def quotients() -> list[Spec]:
    """Values of 16 bits that are divided, rounded and made integers, as QuantizeLinear does."""
    specs: list[Spec] = []
    for half in (F16, BF16):
        b = Builder()
        near = b.op("round_even", b.op("div", b.input(0, half), b.const(0.3, half)))
        wide = b.op("add", b.cast(near, DType.i32), b.const(3, DType.i32))
        program = b.finish(b.cast(b.op("max", wide, b.const(-9, DType.i32)), DType.i16))
        specs += [spec_of(program, [half], count) for count in COUNTS]
    return specs


def scalar_functions() -> list[Spec]:
    """Every function and rounding: of f32 and f64, and a few that stand for f16 and bf16, which
    pass through f32."""
    rounding = "ceil floor round_even round_away trunc sign isinf recip sqrt".split()
    specs: list[Spec] = []
    for dtype in FLOATS:
        one = ["exp", "erf"] if dtype.bits == 16 else list(FUNCTIONS)
        two = ["pow", "atan2", "mod", "floormod", "max", "min"]
        for ops, arity in ((one + rounding, 1), (two, 2), (["fma", "clip"], 3)):
            program = build(ops, arity, dtype)
            specs += [spec_of(program, [dtype] * arity, count) for count in (1, 77)]
    return specs


@pytest.mark.slow
@ends_in_slow_suite
@pytest.mark.parametrize("processor", PROCESSORS)
def test_no_kernel_of_a_family_calls_a_library(processor: str) -> None:
    target = processor_target(processor)
    specs: dict[Spec, None] = {}
    for name, dtype, precision in FAMILY_CASES:
        plan, _ = lower(optimised(name, dtype, precision), target, Options(precision))
        specs |= dict.fromkeys(step.spec for step in plan.kernel_steps())
    assert {spec.family for spec in specs} == {s.family for s in find_specs()}
    assert_no_calls(list(specs), processor)


@pytest.mark.slow
@ends_in_slow_suite
@pytest.mark.parametrize("processor", PROCESSORS)
def test_no_conversion_calls_a_library(processor: str) -> None:
    assert_no_calls(casts(), processor)


@pytest.mark.slow
@pytest.mark.parametrize("processor", ENDS)
def test_no_function_calls_a_library(processor: str) -> None:
    assert_no_calls(scalar_functions(), processor)


@pytest.mark.slow
@ends_in_slow_suite
@pytest.mark.parametrize("processor", PROCESSORS)
def test_conversions_agree_with_evaluation(processor: str) -> None:
    needs(processor)
    for source in TYPES:
        b = Builder()
        x = b.input(0, source)
        program = b.finish(*(b.cast(x, to) for to in TYPES if to is not source))
        values = data(source)
        for count in COUNTS:
            check(program, [values[:count]], processor)


@pytest.mark.slow
@ends_in_slow_suite
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("half", [F16, BF16], ids=str)
def test_conversions_of_16_bit_floats_are_those_of_ml_dtypes(half, processor: str) -> None:
    """Every 16-bit float, and f32 next to and in the middle of two of them: bit for bit."""
    needs(processor)
    halves = np.arange(1 << 16, dtype=np.uint16).view(half.numpy)
    singles = halves.astype(np.float32)
    words = singles.view(np.uint32)
    middle = 0x8000 if half is BF16 else 0x1000
    near = np.concatenate([words, words + middle, words + (middle - 1), words + (middle + 1)])
    near = np.concatenate([near, np.arange(0, 1 << 32, 65521, dtype=np.uint32)]).view(np.float32)
    with np.errstate(all="ignore"):
        assert_same_numbers(converted(halves, half, F32, processor), singles)
        assert_same_numbers(converted(near, F32, half, processor), near.astype(half.numpy))


def converted(x: np.ndarray, source, to, processor: str) -> np.ndarray:
    b = Builder()
    spec = spec_of(b.finish(b.cast(b.input(0, source), to)), [source], x.size)
    return run(spec, [x], [x.shape], isa=processor).outs[0]


def assert_same_numbers(found: np.ndarray, want: np.ndarray) -> None:
    """Equal bits, where both are not NaN; NaN in the same places."""
    nan = np.isnan(want.astype(np.float32))
    assert (np.isnan(found.astype(np.float32)) == nan).all()
    assert found[~nan].tobytes() == want[~nan].tobytes()


@pytest.mark.slow
@ends_in_slow_suite
@pytest.mark.parametrize("case", RUN, ids="-".join)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_models_of_all_families_run(
    processor: str, case: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(processor)
    name, dtype, precision = case
    monkeypatch.setenv("IRC_CPU", processor)
    monkeypatch.delenv("IRC_ISA", raising=False)
    target = assert_model_runs(name, dtype, precision)
    assert target.cpu_features == processor_target(processor).cpu_features


@pytest.mark.slow
@pytest.mark.aarch64
@pytest.mark.parametrize("case", [c for c in CASES if c[1:] == ("f32", "f32")], ids="-".join)
def test_models_of_all_families_run_on_this_machine(case: tuple[str, str, str]) -> None:
    assert_model_runs(*case)


def assert_model_runs(name: str, dtype: str, precision: str) -> Target:
    """Compile and run a model, compare it with evaluation; the Target that it was compiled for."""
    model = family_model(name, dtype)
    net = irc.compile_model(model, precision=precision)
    sizes = {"N": 3, "M": 5, "B": 2, "Q": 3, "K": 4}
    rng = np.random.default_rng(1)
    inputs = []
    for port in net.inputs:
        shape = [sizes[d] if isinstance(d, str) else d for d in port.shape]
        array = rng.uniform(0.1, 2, shape)
        inputs.append(array.astype("i8" if port.dtype == "i64" else "f4"))
    # A step of quantization, which another order of sums can change, is 1/255 of the largest.
    tolerance = 0.005 if name == "quantized" else 0.05
    for found, want in zip(net(inputs), interpret(model.graph, inputs), strict=True):
        scale = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(found / scale, want / scale, rtol=0, atol=tolerance)
    return net.program.target


def test_every_processor_is_a_target_of_its_own_features() -> None:
    for name, features in PROCESSORS.items():
        target = target_of(name)
        assert set(target.cpu_features) <= features
        assert target.isa == "plain" or set(target.cpu_features) == features
