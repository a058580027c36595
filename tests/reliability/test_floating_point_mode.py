"""The caller's floating-point mode and NumPy's error state: the same after a call as before, and
without a say in the answers, wherever the steps run and whatever goes wrong."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.ops import DFT, Unique
from irc_compiler.runtime.driver.loader import load_driver
from irc_compiler.runtime.machine.detect import host_target
from onnx import numpy_helper, parser

x86 = pytest.mark.skipif(host_target().arch != "x86_64", reason="not run: no MXCSR here")

# Rounding up; flush-to-zero and denormals-are-zero; all of it, with the sticky flags set.
MODES = [0x5F80, 0x9FC0, 0xFFFF]
FLAGS = 0x3F  # what arithmetic leaves behind, the caller's own too

HEAD = '<ir_version: 9, opset_import: ["": 17]> g (float[N, 2] x) => (y) '
TEXTS = {
    "kernels": "<float[2] w = {0.3333333, 0.7}> { a = Mul(x, w) b = Softmax(a) y = Mul(b, x) }",
    "a step in Python": """<int64[1] n = {-1}, float[2] w = {0.3333333, 0.7}>
        { a = Mul(x, w) u = Unsqueeze(a, n) d = DFT<axis = 0>(u) y = Mul(d, d) }""",
    "Python between regions": """<float[2] w = {0.3, 0.7}>
        { a = Mul(x, w) u = Unique(a) y = Mul(u, u) }""",
    "a loop in Python": """<int64 n = {3}> { start = Mul(x, x)
        y = Loop(n, , start) <body = b (int64 i, bool c, float[K, 2] v) => (bool d, float[M, 2] o)
            { d = Identity(c) t = Mul(v, v) o = Concat<axis = 0>(t, x) }> }""",
}  # fmt: skip


def compiled(name: str, **options: Any) -> irc.CompiledModel:
    return irc.compile_model(parser.parse_model(HEAD + TEXTS[name]), **options)


def rows(n: int) -> Any:
    """With denormals, infinities and numbers whose squares overflow."""
    x = np.random.default_rng(n).standard_normal((n, 2)).astype(np.float32)
    x[0] = 1e-40, 3e-39
    return x


@contextmanager
def under(mode: int) -> Iterator[None]:
    """The block runs under this mode, and leaves it as it was."""
    swap = load_driver().swap_mode
    old = swap(mode)
    try:
        yield
    finally:
        now = swap(old)
    assert now & ~FLAGS == mode & ~FLAGS, f"{mode:x} has become {now:x}"


@x86
@pytest.mark.parametrize("mode", MODES, ids=hex)
@pytest.mark.parametrize("name", TEXTS)
def test_it_is_given_back_and_has_no_say(name: str, mode: int) -> None:
    net = compiled(name)
    hosted = {type(s).__name__ for s in net.plan.host_steps()}
    assert hosted == {"a step in Python": {"HostStep"}, "kernels": set()}.get(name, {"Terminal"})
    for n in (1, 5000 if name != "Python between regions" else 300):
        x = rows(n)
        wanted = net(x)[0].copy()
        call, request, mine = net.bind(x), net.create_infer_request(), np.empty_like(wanted)
        runs: list[Callable[[], Any]] = [
            lambda net=net, x=x: net(x),
            lambda net=net, x=x, mine=mine: net(x, out=[mine]),
            call,
            lambda request=request, x=x: request(x),
        ]
        for run in runs:
            with under(mode):
                found = run()
            assert found[0].tobytes() == wanted.tobytes()
        with under(mode):
            net.profile(x)


class Odd(Exception):
    """Not one of irc's."""


@x86
@pytest.mark.parametrize("error", [Odd, KeyboardInterrupt])
@pytest.mark.parametrize("mode", MODES, ids=hex)
@pytest.mark.parametrize("name", ["a step in Python", "Python between regions"])
def test_an_error_in_python_gives_it_back(
    name: str, mode: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = compiled(name)

    def fail(self: Any, *inputs: Any) -> Any:
        raise error

    for op in (DFT, Unique):
        monkeypatch.setattr(op, "evaluate", fail)
    call: Callable[[], Any]
    for call in (lambda: net(rows(3)), lambda: net.profile(rows(3)), lambda: net.bind(rows(3))):
        with under(mode), pytest.raises(irc.ExecutionError if error is Odd else error):
            call()


@x86
@pytest.mark.parametrize("mode", MODES, ids=hex)
def test_an_error_in_a_kernel_or_an_input_gives_it_back(mode: int) -> None:
    text = HEAD.replace("x)", "x, int64[K] i)") + "{ a = Mul(x, x) y = Gather(a, i) }"
    net = irc.compile_model(parser.parse_model(text))
    good, bad = np.array([1, 0]), np.array([1, 9])
    assert not net.plan.host_steps()
    for x, i, error in ((rows(2), bad, irc.ExecutionError), (rows(2)[:, :1], good, irc.InputError)):
        with under(mode), pytest.raises(error):
            net(x=x, i=i)
    for _ in range(2):  # a call that goes by tables
        net(x=rows(2), i=good)
    with under(mode), pytest.raises(irc.ExecutionError):
        net(x=rows(2), i=bad)


@x86
@pytest.mark.parametrize("mode", MODES, ids=hex)
def test_what_is_compiled_under_it_is_the_same(mode: int) -> None:
    """Constants are folded and packed as under the default mode, and it is given back."""
    text = (
        HEAD
        + """<float[2] v = {1.0, 1e-38}, float[2] w = {3.0, 10.0}>
        { q = Div(v, w) y = Add(x, q) }"""
    )
    model, x = parser.parse_model(text), np.zeros((1, 2), np.float32)
    net = irc.compile_model(model)
    wanted, pickled = net(x)[0].tobytes(), pickle.dumps(net)
    assert np.frombuffer(wanted, np.float32)[1] == np.float32(1e-38) / np.float32(10) > 0
    with under(mode):
        nets = [irc.compile_model(model), pickle.loads(pickled)]
    assert [n(x)[0].tobytes() for n in nets] == [wanted] * 2
    with under(mode), pytest.raises(irc.Error):
        irc.compile_model(b"no model")


@x86
@pytest.mark.parametrize("mode", MODES, ids=hex)
def test_what_is_loaded_under_it_is_the_same(mode: int) -> None:
    """A filter of Winograd's transform, which is computed when the model is loaded."""
    head = HEAD.replace("[N, 2]", "[1, 16, 56, 56]").replace("x)", "x, float[16, 16, 3, 3] w)")
    model = parser.parse_model(head + "{ y = Conv<pads = [1, 1, 1, 1]>(x, w) }")
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 16, 56, 56), (16, 16, 3, 3)))
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    net = irc.compile_model(model)
    pickled = pickle.dumps(net)
    with under(mode):
        again = pickle.loads(pickled)
    assert again(x)[0].tobytes() == net(x)[0].tobytes()


@pytest.mark.parametrize("how", ["raise", "warn", "print", "call"])
@pytest.mark.parametrize("name", TEXTS)
def test_numpys_error_state(name: str, how: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it is: infinities and NaN are values, nothing is said, and it stays as it is."""
    net = compiled(name)
    x = np.array([[np.inf, -np.inf], [3e38, 0], [1e-40, np.nan]], np.float32)
    wanted, heard = net(x)[0].tobytes(), []
    call = net.bind(x)
    with np.errstate(all=how, call=lambda *what: heard.append(what)), warnings.catch_warnings():
        warnings.simplefilter("error")
        before = np.geterr(), np.geterrcall()
        for run in (lambda: net(x), call, lambda: compiled(name)(x)):
            assert run()[0].tobytes() == wanted
            assert (np.geterr(), np.geterrcall()) == before
    assert not heard and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("how", ["raise", "warn", "call"])
def test_numpys_error_state_in_a_step_in_python(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that divides by zero in NumPy, without a thought of the caller."""
    real = DFT.evaluate

    def divides(self: Any, *inputs: Any) -> Any:
        assert not np.isfinite(np.ones(1) / np.zeros(1)).any()
        return real(self, *inputs)

    net, heard = compiled("a step in Python"), []
    wanted = net(rows(3))[0].tobytes()
    monkeypatch.setattr(DFT, "evaluate", divides)
    with np.errstate(all=how, call=lambda *what: heard.append(what)), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net(rows(3))[0].tobytes() == wanted
    assert not heard
