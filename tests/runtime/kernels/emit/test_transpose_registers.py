"""Squares of elements in registers: their columns, for every size and type that kernels have."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.emit.transpose_registers import transpose_registers
from irc_compiler.runtime.llvmir.builder import Module
from irc_compiler.runtime.llvmir.values import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    PTR,
    bits_of,
    bytes_of,
    vec,
)
from support.kernels.harness import ISAS, target_of

SQUARES = [
    (side, element)
    for element in (I8, I16, I32, F32, I64, F64)
    for side in (1, 2, 4, 8, 16)
    if side * bits_of(element) <= 512
]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("side, element", SQUARES)
def test_columns_of_a_square(side: int, element: str, isa: str) -> None:
    target = target_of(isa)
    module = Module(target)
    f = module.function("turn", [(PTR, "data"), (PTR, "to")])
    kind = vec(element, side)
    places = [f.offset(f.params["data"], i * bytes_of(kind)) for i in range(side)]
    turned = transpose_registers(f, [f.load(kind, place) for place in places])
    for i, column in enumerate(turned):
        f.store(column, f.offset(f.params["to"], i * bytes_of(kind)), 1)
    library = load_objects([emit_object(module.text(), target)], ["turn"], target)
    call = library.function("turn", ctypes.c_void_p, ctypes.c_void_p, returns=None)
    size = bytes_of(element)
    data = np.random.default_rng(1).integers(0, 256, (side, side, size), np.uint8)
    found = np.empty_like(data)
    call(data.ctypes.data, found.ctypes.data)
    assert np.array_equal(found, data.transpose(1, 0, 2))
