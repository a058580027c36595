"""Greedy CTC decoding against the operations' own meaning, on every instruction set."""

from __future__ import annotations

from dataclasses import replace

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.ops import CTCGreedyDecoder, CTCGreedyDecoderSeqLen
from irc_compiler.plan.specs.base import EMPTY_AXIS, LENGTH_OUT_OF_RANGE, Operand
from irc_compiler.plan.specs.checks import FLOATS
from irc_compiler.plan.specs.ctc_decode import CTCDecodeSpec
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.machine.detect import host_target
from support.kernels.harness import ISAS, Sizes, run

F32, I32, I64 = DType.f32, DType.i32, DType.i64
TYPES = sorted(FLOATS, key=str)
# Elements of which many are equal, and all that rank in their own ways.
VALUES = [-np.inf, -2.0, -1e-40, -0.0, 0.0, 1e-40, 1.0, 1.5, np.inf, np.nan]


def make_case(
    shape: tuple[int, int, int], dtype: DType = F32, dynamic: bool = False, merge: bool = True
) -> tuple[CTCDecodeSpec, list[np.ndarray], list[int]]:
    """Sequences with lengths, the last class blank; the data has steps first where sizes are the
    run's. Data, lengths, and the sizes."""
    count, steps, classes = shape
    rng = np.random.default_rng(sum(shape))
    data = rng.choice(VALUES[: 6 + 2 * (classes % 3)], shape).astype(dtype.numpy)
    lengths = rng.integers(0, steps + 1, count).astype(np.int32)
    sizes = Sizes(dynamic)
    strides = (steps * classes, classes, 1)
    if dynamic:
        data, strides = data.transpose(1, 0, 2).copy(), (classes, count * classes, 1)
    spec = CTCDecodeSpec(
        *(sizes(n) for n in shape), sizes(classes - 1), merge, False,
        Operand(dtype, tuple(sizes(n) for n in strides[:2]) + (1,)),
        Operand(I32, (1,)), Operand(I64, (sizes(steps), 1)), Operand(I32, (1,)),
    )  # fmt: skip
    return spec, [data, lengths], sizes.dims


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("merge", [True, False])
def test_ctc_decode_equals_evaluate(isa: str, dtype: DType, merge: bool) -> None:
    """For classes around vectors, any number of workers, and sizes known or not."""
    op = CTCGreedyDecoderSeqLen(merge, I64, I32)
    for classes in (1, 3, 8, 19, 70):
        for dynamic, workers in ((False, 1), (False, 3), (True, 2)):
            shape = (5, 13, classes)
            spec, data, dims = make_case(shape, dtype, dynamic, merge)
            verify_specs([spec], host_target())
            result = run(spec, data, [(5, 13), (5,)], isa=isa, dims=dims, workers=workers)
            assert result.status == 0
            given = data[0].transpose(1, 0, 2) if dynamic else data[0]
            for found, wanted in zip(result.outs, op.evaluate(given, data[1]), strict=True):
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_ctc_decode_with_a_mask(isa: str, dtype: DType) -> None:
    """The first 0 ends a sequence, whatever is behind it; classes are floats."""
    spec, data, dims = make_case((4, 6, 19), dtype)
    mask = np.array(
        [[1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1], [1, 2, 0, 1, 1, 1], [1, -1, np.nan, 1, 1, 0]]
    ).astype(dtype.numpy)
    masked = replace(
        spec, has_mask=True, ends=Operand(dtype, (6, 1)), out=Operand(dtype, (6, 1)), count=None
    )
    verify_specs([masked], host_target())
    result = run(masked, [data[0], mask], [(4, 6)], isa=isa, dims=dims, workers=2)
    (wanted,) = CTCGreedyDecoder().evaluate(data[0].transpose(1, 0, 2), mask.T)
    assert result.status == 0 and wanted.dtype == result.outs[0].dtype
    np.testing.assert_array_equal(result.outs[0], wanted[..., 0, 0])


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
def test_ctc_decode_takes_the_first_of_equal_classes(isa: str) -> None:
    """In every lane, for each value that all elements may have, NaN behind infinities."""
    for classes in (7, 8, 9, 33):
        spec, data, dims = make_case((1, classes, classes + 1), merge=False)
        data[1][:] = classes
        for value in VALUES:
            data[0][...] = -np.inf
            for t in range(classes):
                data[0][0, t, t:] = value
            data[0][0, :, -1] = value
            found = run(spec, data, [(1, classes), (1,)], isa=isa, dims=dims).outs
            wanted = np.zeros(classes) if value == -np.inf else np.arange(classes)
            np.testing.assert_array_equal(found[0][0], wanted, str(value))
            assert found[1] == [classes]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", [(0, 4, 3), (3, 0, 4), (3, 0, 0), (0, 2, 0)])
def test_ctc_decode_of_no_elements(isa: str, shape: tuple[int, int, int]) -> None:
    spec, data, dims = make_case((3, 4, 5), dynamic=True)
    data = [np.zeros(shape, np.float32), np.zeros(shape[0], np.int32)]
    dims = [*shape, shape[2] - 1, shape[2], shape[0] * shape[2], shape[1]]
    result = run(spec, data, [shape[:2], shape[:1]], isa=isa, dims=dims)
    assert result.status == 0 and not result.outs[1].any()


@pytest.mark.parametrize("isa", ISAS)
def test_ctc_decode_without_classes(isa: str) -> None:
    spec, data, dims = make_case((2, 3, 1))
    spec = replace(spec, classes=0, blank=-1)
    assert run(spec, data, [(2, 3), (2,)], isa=isa, dims=dims).status == EMPTY_AXIS


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("length", [-1, 5, 2**31 - 1])
def test_ctc_decode_of_a_length_out_of_range(isa: str, length: int) -> None:
    spec, data, dims = make_case((4, 4, 3))
    data[1][2] = length
    result = run(spec, data, [(4, 4), (4,)], isa=isa, dims=dims)
    assert (result.status, result.element) == (LENGTH_OUT_OF_RANGE, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"classes": 1 << 31},
        {"blank": -2},
        {"data": Operand(DType.i32, (12, 3, 1))},
        {"ends": Operand(F32, (1,))},
        {"ends": Operand(I32, (4, 1))},
        {"has_mask": True},
        {"out": Operand(DType.u8, (4, 1))},
        {"count": Operand(F32, (1,))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_verify_rejects_a_forged_ctc_decode(change: dict[str, object]) -> None:
    spec, _, _ = make_case((4, 4, 3))
    with pytest.raises(VerificationError, match=r"ctc_decode|CTCDecodeSpec"):
        verify_specs([replace(spec, **change)], host_target())


@pytest.mark.parametrize("blank", [None, 0, 2, 77])
def test_ctc_decode_is_native_with_symbolic_sizes(blank: int | None) -> None:
    op = CTCGreedyDecoderSeqLen()
    x, lengths = ops.parameter("x", ("N", "T", "C")), ops.parameter("n", ("N",), "i64")
    given = [] if blank is None else [np.array([blank])]
    classes, counts = ops.apply(op, x, lengths, *map(ops.constant, given))
    net = irc.compile_model(ops.model({"classes": classes, "counts": counts}))
    assert not net.plan.host_steps(), net.report()
    for shape in ((3, 7, 5), (1, 1, 1), (2, 30, 11)):
        _, data, _ = make_case(shape)
        feeds = [data[0], data[1].astype(np.int64)]
        found = net(feeds)
        for n, wanted in enumerate(op.evaluate(*feeds, *given)):
            np.testing.assert_array_equal(found[n], wanted)
    with pytest.raises(irc.Error, match="longer than its data"):
        net([np.zeros((1, 2, 3), np.float32), np.array([3])])


def test_ctc_decode_with_a_blank_of_the_run_stays_in_python() -> None:
    x, lengths = ops.parameter("x", (2, 4, 3)), ops.parameter("n", (2,), "i32")
    outs = ops.apply(CTCGreedyDecoderSeqLen(), x, lengths, ops.parameter("blank", (1,), "i32"))
    net = irc.compile_model(ops.model(outs))
    assert "the blank class is known at run time only" in net.report()
