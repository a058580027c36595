"""What a call accepts, refuses, returns and leaves alone."""

from __future__ import annotations

import array
import pickle
import weakref
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.api import compiled_model as compiled
from support.models.digits import arrays, of_type, two_outputs


@pytest.fixture(scope="module")
def net() -> irc.CompiledModel:
    return irc.compile_model(two_outputs(), num_threads=1)


class ByDLPack:
    """As torch and JAX arrays: no array interface, only DLPack."""

    def __init__(self, inner: Any, device: int = 1, error: str = "") -> None:
        self._inner, self._device, self._error = inner, device, error

    def __dlpack__(self, **options: Any) -> Any:
        if self._error:
            raise BufferError(self._error)
        return self._inner.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self._device, 0)


class OnDevice(ByDLPack):
    """As JAX's arrays of a GPU: NumPy would bring a copy over, without a word."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self._inner, dtype)


class ByInterface:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._inner.__array_interface__


class ByCopy:
    """As pandas columns: an array when asked."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self._inner, dtype)


class Subclass(np.ndarray):
    pass


WRAPPED = {
    "dlpack": ByDLPack,
    "interface": ByInterface,
    "copy": ByCopy,
    "buffer": memoryview,
    "array.array": lambda a: array.array("f", a.tolist()),
    "subclass": lambda a: a.view(Subclass),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype),
    "reversed": lambda a: a[::-1].copy()[::-1],
    "strided": lambda a: np.repeat(a, 3)[::3],
    "byte order": lambda a: a.astype(">f4"),
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(a.dtype),
    "dlpack strided": lambda a: ByDLPack(np.repeat(a, 2)[::2]),
}


@pytest.mark.parametrize("n", [1, 7, 20_000])
@pytest.mark.parametrize("how", WRAPPED)
def test_arrays_of_all_kinds(net: irc.CompiledModel, how: str, n: int) -> None:
    a, b = arrays(n)
    given = WRAPPED[how](a)
    for _ in range(2):
        y = net({"a": given, "b": b})
        assert (y["sum"] == a + b).all() and (y["product"] == a * b).all()
    if how != "copy":
        call = net.bind(a=given, b=b)
        assert (call()["product"] == a * b).all()


def test_a_bound_call_refuses_what_it_could_only_copy(net: irc.CompiledModel) -> None:
    a, b = arrays(5)
    with pytest.raises(irc.InputError, match="'a' can't be read"):
        net.bind(a=ByCopy(a), b=b)


def test_a_bound_call_reads_the_memory_of_others(net: irc.CompiledModel) -> None:
    a, b = arrays(50)
    call = net.bind(a=ByDLPack(a), b=ByInterface(b))
    a += 1
    b -= 1
    y = call()
    assert (y["sum"] == a + b).all() and y[1] is call()[1]


REFUSED = {
    "list": ([1.0, 2.0], "'a' is not an array", "list", "numpy.asarray(value, 'float32')"),
    "number": (3.0, "'a' is not an array", "float", "f32[N]"),
    "bytes": (b"12345678", "'a' is not an array", "bytes", "f32[N]"),
    "f64": (np.zeros(2), "'a' has another element type", "float64", "float32"),
    "f64 by dlpack": (ByDLPack(np.zeros(2)), "'a' has another element type", "float64", "astype"),
    "masked": (np.ma.masked_array([1, 2], [0, 1], np.float32), "'a' can't", "masked", "filled"),
    "objects": (np.array([None, 1]), "'a' has another element type", "object", "float32"),
    "rank": (np.zeros((2, 1), np.float32), "'a' has another number of dim", "[2, 1]", "f32[N]"),
    "device": (ByDLPack(np.zeros(2, np.float32), 2, "on CUDA"), "'a' can't", "on CUDA", "CPU"),
    "copied over": (OnDevice(np.zeros(2, np.float32), 2, "on CUDA"), "'a' can't", "on CUDA", "CPU"),
    "none": (None, "'a' is missing", "f32[N]", ""),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refusals_name_the_input(net: irc.CompiledModel, why: str) -> None:
    value, *parts = REFUSED[why]
    for call in (net, net.bind):
        with pytest.raises(irc.InputError) as error:
            call({"a": value, "b": np.zeros(2, np.float32)})
        assert all(p in str(error.value) for p in parts), str(error.value)


def test_an_input_that_is_not_given(net: irc.CompiledModel) -> None:
    with pytest.raises(irc.InputError) as error:
        net(b=np.zeros(2, np.float32))
    for part in ("'a' is missing", "got: b", "expected: f32[N]", "irc run --input a=FILE.npy"):
        assert part in str(error.value)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "i8", "u8", "i32", "i64"])
def test_element_types(dtype: str) -> None:
    net = irc.compile_model(of_type(dtype), num_threads=1)
    x = np.arange(-4, 8).reshape(4, 3).astype(irc.ir.dtype.DType(dtype).numpy)
    assert (net(x)[0] == x + x).all()
    assert (net(np.asfortranarray(x))[0] == x + x).all()
    assert (net(x.astype(x.dtype.newbyteorder(">")))[0] == x + x).all()


def test_bfloat16_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="not run: torch (the extra `bench`) is missing")
    net = irc.compile_model(of_type("bf16"), num_threads=1)
    x = torch.arange(6).reshape(2, 3).to(torch.bfloat16)
    assert np.asarray(net(x)[0], np.float32).tolist() == [[0, 2, 4], [6, 8, 10]]


def test_torch_tensors(net: irc.CompiledModel) -> None:
    torch = pytest.importorskip("torch", reason="not run: torch (the extra `bench`) is missing")
    a, b = torch.arange(6.0), torch.arange(12.0)[::2]
    assert net([a, b])["sum"].tolist() == (a + b).tolist()
    with pytest.raises(irc.InputError, match="'a' can't be read"):
        net([a.requires_grad_(), b])


def test_ways_to_name_inputs(net: irc.CompiledModel) -> None:
    a, b = arrays(9)
    for y in (net({"b": b, "a": a}), net([a, b]), net((a, b)), net(b=b, a=a), net({"a": a}, b=b)):
        total, product = y
        assert (total == a + b).all() and product is y["product"] and list(y.keys())
    assert isinstance(net([a, b]), irc.Outputs) and "2" not in net([a, b]).keys()
    with pytest.raises(irc.InputError, match="unknown input"):
        net({"a": a, "z": b})
    with pytest.raises(irc.InputError, match="number of inputs"):
        net([a])
    with pytest.raises(irc.InputError, match="unknown output"):
        net([a, b])["z"]
    with pytest.raises(irc.InputError, match="missing"):
        net(a=a)


def test_outputs_pickle(net: irc.CompiledModel) -> None:
    y = net([*arrays(9)])
    again = pickle.loads(pickle.dumps(y))
    assert isinstance(again, irc.Outputs) and (again["sum"] == y["sum"]).all()


@pytest.mark.parametrize("kind", [Subclass, np.ndarray])
@pytest.mark.parametrize("n", [6, 20_000])
def test_inputs_are_neither_kept_nor_written(
    net: irc.CompiledModel, n: int, kind: type[np.ndarray[Any, Any]]
) -> None:
    """Whether they could be written to or not, in the first call and in those that go by tables."""
    for writeable in (True, False):
        a, b = (x.view(kind) for x in arrays(n))
        before = a.tobytes(), b.tobytes()
        a.flags.writeable = b.flags.writeable = writeable
        for _ in range(3):
            net([a, b])
        net([np.asarray(a), np.asarray(b)], out=[np.empty(n, np.float32), None])
        assert (a.tobytes(), b.tobytes()) == before
        gone = weakref.ref(a)
        del a
        assert gone() is None


@pytest.mark.parametrize("n", [5, 20_000])
def test_out_is_used(net: irc.CompiledModel, n: int) -> None:
    a, b = arrays(n)
    total, product = np.full(n, np.nan, np.float32), np.full(n, np.nan, np.float32)
    y = net([a, b], out=[total, product])
    assert y["sum"] is total and y["product"] is product
    assert (total == a + b).all() and (product == a * b).all()
    y = net([a, b], out={"product": total})
    assert y["product"] is total and y["sum"] is not product and (total == a * b).all()
    strided = np.full((n, 2), np.nan, np.float32)[:, 1]
    y = net({"a": a, "b": b}, out=[None, strided])
    assert y[1] is strided and (strided == a * b).all()


@pytest.mark.parametrize("n", [5, 20_000])
def test_out_may_be_an_input(net: irc.CompiledModel, n: int) -> None:
    a, b = arrays(n)
    x, y = a.copy(), b.copy()
    net([x, y], out=[y, x])
    assert (y == a + b).all() and (x == a * b).all()


BAD_OUT = {
    "type": lambda: np.empty(4, np.float64),
    "shape": lambda: np.empty(5, np.float32),
    "read-only": lambda: np.frombuffer(bytes(16), np.float32),
    "no array": lambda: [0.0] * 4,
}


@pytest.mark.parametrize("how", BAD_OUT)
def test_out_that_does_not_fit(net: irc.CompiledModel, how: str) -> None:
    a, b = arrays(4)
    good = np.full(4, np.nan, np.float32)
    with pytest.raises(irc.InputError, match="output 'product'|for output 'product'"):
        net([a, b], out=[good, BAD_OUT[how]()])
    assert np.isnan(good).all()
    with pytest.raises(irc.InputError, match="number of output arrays"):
        net([a, b], out=[good])
    with pytest.raises(irc.InputError, match="unknown output"):
        net([a, b], out={"z": good})


def test_profile_and_stats(net: irc.CompiledModel) -> None:
    times = net.profile([*arrays(64)])
    assert times and all(t.seconds >= 0 and t.native for t in times)
    assert {s for t in times for s in t.sources}
    stats = net.stats()
    assert stats.threads == 1 and stats.kernels >= 1 and stats.shapes >= 1


def test_a_profile_runs_in_memory_that_calls_have_touched(net: irc.CompiledModel) -> None:
    """So no step pays for the pages of a fresh arena."""
    net([*arrays(64)])
    for _ in range(2):
        net.profile([*arrays(64)])
        assert net.stats().contexts == 1


def test_bound_calls_are_the_runtimes_own(net: irc.CompiledModel) -> None:
    call = net.bind([*arrays(3)])
    assert isinstance(call, irc.BoundCall) and isinstance(call(), irc.Outputs)
    assert compiled.CompiledModel is irc.CompiledModel
