"""Runs a model of one operation, built with openvino's factories, in OpenVINO and in irc.

`check` covers what an operation of OpenVINO's sets needs: it is read from the IR that OpenVINO
writes, with fixed and with dynamic shapes, computed by `evaluate` and by a compiled model, and
written as IR that OpenVINO reads back with the same answer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.types import TensorType

from .models.exact_int8 import OPENVINO_CONFIG

HINTS = OPENVINO_CONFIG
Build = Callable[..., Any]


def first_fast(cases: Sequence[Any], count: int = 1) -> list[Any]:
    """Parameters of a test of which all but the first `count` are marked slow."""
    marks = [()] * count + [(pytest.mark.slow,)] * max(len(cases) - count, 0)
    return [pytest.param(c, marks=m) for c, m in zip(cases, marks, strict=False)]


class k:
    """An input that is a constant of the model."""

    def __init__(self, value: Any, dtype: Any = np.int64) -> None:
        self.value = np.asarray(value, None if isinstance(value, np.ndarray) else dtype)


def model_of(build: Build, inputs: Sequence[Any], *, dynamic: bool = False) -> ov.Model:
    """The model of one node; with `dynamic`, parameters keep only their ranks."""
    parameters, nodes = [], []
    for n, value in enumerate(inputs):
        if isinstance(value, k):
            nodes.append(ov.opset13.constant(value.value))
            continue
        dtype = ov.Type.string if value.dtype == object else ov.Type(value.dtype)
        shape = [-1] * value.ndim if dynamic else list(value.shape)
        parameters.append(ov.opset13.parameter(shape, dtype, name=f"x{n}"))
        parameters[-1].output(0).set_names({f"x{n}"})
        nodes.append(parameters[-1])
    return ov.Model(build(*nodes).outputs(), parameters, "case")


def run_openvino(model: ov.Model, given: Sequence[Any]) -> list[Any]:
    """OpenVINO's outputs. It runs in a thread of its own: its CPU plugin lets the calling thread
    flush denormals, and other tests of this process would see that."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_run_openvino, model, given).result()


def _run_openvino(model: ov.Model, given: Sequence[Any]) -> list[Any]:
    compiled = ov.Core().compile_model(model, "CPU", HINTS)
    # OpenVINO takes strings as NumPy's own, irc as objects.
    found = compiled([x.astype(str) if x.dtype == object else x for x in given])
    made = [np.array(found[n]) for n in range(len(compiled.outputs))]
    return [a.astype(object) if a.dtype.kind == "U" else a for a in made]


def _close(ours: Any, theirs: Any, tolerance: float, what: str) -> None:
    assert ours.shape == theirs.shape, what
    assert ours.dtype == theirs.dtype, what
    if ours.dtype.kind not in "fV":
        np.testing.assert_array_equal(ours, theirs, what)
        return
    # The largest value of the case sets the scale: sums that cancel lose digits.
    wide = theirs.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    atol = tolerance * max(1.0, float(finite.max(initial=0.0)))
    np.testing.assert_allclose(
        ours.astype(np.float64), wide, rtol=tolerance, atol=atol, err_msg=what
    )


def check(
    build: Build,
    inputs: Sequence[Any],
    *,
    expected: Sequence[Any] | None = None,
    tolerance: float = 2e-5,
    native: bool = False,
) -> list[Any]:
    """Compare every way of computing with OpenVINO's run, or with `expected` where its answer
    differs from its specification. `native`: with fixed shapes no step is in Python. Returns
    irc's answer."""
    given = [x for x in inputs if not isinstance(x, k)]
    want = list(expected) if expected is not None else None
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        for dynamic in (False, True):
            model = model_of(build, inputs, dynamic=dynamic)
            path = Path(folder) / f"model{dynamic}.xml"
            ov.serialize(model, path)
            if want is None:
                want = run_openvino(model, given)
            read = irc.read_model(path)
            found = interpret(read.graph, given)
            _agree(found, want, tolerance, f"evaluated, dynamic={dynamic}")
            for value, node in zip(found, read.graph.results, strict=True):
                type_ = read.graph.type(read.graph.input(node, 0))
                assert isinstance(type_, TensorType)
                assert type_.shape is None or len(type_.shape) == value.ndim
            net = irc.compile_model(read)
            assert dynamic or not native or not net.plan.host_steps(), net.report()
            made = net(dict(zip((p.name for p in net.inputs), given, strict=True)))
            _agree([made[n] for n in range(len(want))], want, tolerance, f"run, dynamic={dynamic}")
            again = Path(folder) / f"again{dynamic}.xml"
            irc.save_model(read, again)
            theirs = ov.Core().read_model(again)
            # OpenVINO runs some operations with fixed shapes only.
            if expected is None and not dynamic:
                _agree(run_openvino(theirs, given), want, tolerance, "written, run by OpenVINO")
            else:
                _agree(interpret(irc.read_model(again).graph, given), want, tolerance, "written")
    return found


def _agree(found: Sequence[Any], want: Sequence[Any], tolerance: float, what: str) -> None:
    assert len(found) == len(want), what
    for port, (ours, theirs) in enumerate(zip(found, want, strict=True)):
        _close(np.asarray(ours), np.asarray(theirs), tolerance, f"output {port}: {what}")
