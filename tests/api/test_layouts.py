"""Arrays however they lie in memory, small ones (which are copied) and large ones (which kernels
read where they are): the same bits as from a plain array, and kernels see none but plain ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops

Make = Callable[[Any], Any]
# Below and above the size up to which inputs are copied, and one that threads share.
SHAPES = [(3, 5, 24), (30, 20, 24), (60, 50, 24)]


def at_byte(offset: int) -> Make:
    """The array at an address that is `offset` beyond a multiple of 64."""

    def make(x: Any) -> Any:
        room = np.zeros(x.nbytes + 128, np.uint8)
        begin = -room.ctypes.data % 64 + offset
        found = room[begin : begin + x.nbytes].view(x.dtype).reshape(x.shape)
        found[...] = x
        assert found.ctypes.data % 64 == offset % 64 and found.flags.c_contiguous
        return found

    return make


def mapped(x: Any) -> Any:
    path = Path(f"{len(list(Path().iterdir()))}.npy")
    np.save(path, x)
    return np.load(path, mmap_mode="r")


def frozen(x: Any) -> Any:
    found = np.asfortranarray(x)
    found.flags.writeable = False
    return found


LAYOUTS: dict[str, Make] = {
    "fortran": np.asfortranarray,
    "fortran, read-only": frozen,
    "fortran, big-endian": lambda x: np.asfortranarray(x).astype(">f4", order="F"),
    "axes turned": lambda x: np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0),
    "every other row": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "all axes backwards": lambda x: x[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
    "part of a larger one": lambda x: np.pad(x, 3)[3:-3, 3:-3, 3:-3],
    "big-endian": lambda x: x.astype(">f4"),
    "mapped from a file": mapped,
    "a field of records": lambda x: np.rec.fromarrays([x, np.ones(x.shape, "i1")], "f4,i1").f0,
    **{f"at byte {n}": at_byte(n) for n in (1, 2, 4, 8, 16, 32, 63)},
}


def plain(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def net() -> irc.CompiledModel:
    """A product, a sum and a step per element, each of which reads an input."""
    x, y = ops.parameter("x", ["N", "M", 24]), ops.parameter("y", ["N", "M", 24])
    w = np.random.default_rng(7).standard_normal((24, 40)).astype(np.float32)
    model = {"p": ops.matmul(x, w), "s": ops.reduce_sum(y, [0]), "e": ops.exp(x) + y}
    return irc.compile_model(ops.model(model))


def instances(net: irc.CompiledModel) -> list[Any]:
    return [i for c in net.session._pool for i in c.instances.values()]


def in_order(instance: Any) -> bool:
    """Do all of the kernels' operands begin at a multiple of their element's size?"""
    return not (instance.pointers % 4).any()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs(
    net: irc.CompiledModel,
    layout: str,
    shape: tuple[int, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    x = plain(shape)
    wanted = [a.copy() for a in net([x, x + 1])]
    for _ in range(2):  # by tables, too
        net([x, x + 1])
    mine, other = LAYOUTS[layout](x), LAYOUTS[layout](x + 1)
    before = mine.tobytes(), mine.strides, mine.flags.writeable
    call, request = net.bind([mine, other]), net.create_infer_request()
    out = [np.empty_like(a) for a in wanted]
    for run in (
        lambda: net([mine, other]),
        lambda: net({"y": other, "x": mine}),
        lambda: net([mine, other], out=out),
        lambda: request([mine, other]),
        call,
    ):
        assert [a.tobytes() for a in run()] == [a.tobytes() for a in wanted]
        assert all(map(in_order, instances(net)))
    assert all(map(in_order, call._context.instances.values()))
    assert (mine.tobytes(), mine.strides, mine.flags.writeable) == before


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", [n for n in LAYOUTS if n not in ("mapped from a file",)])
def test_given_outputs(net: irc.CompiledModel, layout: str, shape: tuple[int, ...]) -> None:
    x = plain(shape)
    wanted = net([x, x + 1])
    out = [None, None, LAYOUTS[layout](np.full(shape, np.nan, np.float32))]
    if out[2].dtype != np.float32 or not out[2].flags.writeable:
        with pytest.raises(irc.InputError, match="for output 'e' does not fit"):
            net([x, x + 1], out=out)
        assert np.isnan(out[2]).all()
        return
    found = net([x, x + 1], out=out)
    assert found[2] is out[2] and (out[2] == wanted[2]).all()
    assert all(map(in_order, instances(net)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_value_for_all(net: irc.CompiledModel, shape: tuple[int, ...]) -> None:
    """A broadcast view: strides of 0, and less memory than elements."""
    one = np.broadcast_to(np.float32(0.75), shape)
    row = np.broadcast_to(plain((shape[-1],)), shape)
    wanted = [a.copy() for a in net([one.copy(), row.copy()])]
    call = net.bind([one, row])
    for run in (lambda: net([one, row]), call):
        assert [a.tobytes() for a in run()] == [a.tobytes() for a in wanted]


@pytest.mark.parametrize("kind", [np.float32, np.array, lambda v: np.full((3,), v)[1, ...]])
def test_without_axes(kind: Make) -> None:
    net = irc.compile_model(ops.model({"y": ops.parameter("x", []) * np.float32(2)}))
    x = kind(np.float32(1.25))
    for y in (net(x)[0], net(x=x)[0], net.bind(x)()[0], net(x, out=np.empty((), np.float32))[0]):
        assert isinstance(y, np.ndarray) and y.shape == () and y == 2.5
    with pytest.raises(irc.InputError, match="'x' has another number of dimensions"):
        net(np.ones(1, np.float32))
