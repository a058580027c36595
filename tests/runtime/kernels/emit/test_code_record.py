"""Code that kernels share: numbers and addresses in a record, and which layers have equal code."""

from __future__ import annotations

import ctypes
import sys

import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.target import Isa, generic_target
from irc_compiler.runtime.jit.code_image import FLAT
from irc_compiler.runtime.jit.elf_flatten import copies_functions
from irc_compiler.runtime.jit.equal_functions import FunctionPool
from irc_compiler.runtime.jit.host_features import host_arch
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm import emit_objects
from irc_compiler.runtime.kernels.emit.code_record import CodeRecord
from irc_compiler.runtime.kernels.kernel_table import generate
from irc_compiler.runtime.llvmir.builder import Module
from irc_compiler.runtime.llvmir.kernel_entry import open_shared_body, write_entry
from irc_compiler.runtime.llvmir.values import I32, PTR
from support.kernels.harness import TILED, target_of
from support.tiny_plans import TARGET

from tests.runtime.kernels.conv.test_direct import Case
from tests.runtime.kernels.conv.test_int8 import make

U8 = DType.u8
needs_copies = pytest.mark.skipif(
    not copies_functions(host_arch()), reason="not run: objects are linked by LLVM here"
)


def kernel(name: str, times: int, scale: float, target=TARGET) -> str:
    """A kernel that writes two numbers by a function that it calls by its address."""
    module = Module(target)
    record = CodeRecord(module)
    write = module.function(
        "write", [(PTR, "frame"), (PTR, "to")], attributes="nounwind noinline", linkage="internal"
    )
    write.store(record.integer(write, "tile.times", times), write.params["to"])
    constant = record.constant(write, "epilogue.scale", scale, "<2 x float>")
    write.store(constant, write.offset(write.params["to"], 8))
    write.store(
        record.constant(write, "epilogue.zero", times, I32), write.offset(write.params["to"], 16)
    )
    words = record.table(write, "epilogue.words", [7, 10 * times])
    word = write.load(I32, write.offset(words, 8))
    write.store(word, write.offset(write.params["to"], 20))
    entry = open_shared_body(module, 1, 0)
    f = entry.function
    frame = record.open_frame(f, 8)
    with f.range(0, record.integer(f, "loops.times", times)) as i:
        record.call(f, write, frame, f.offset(entry.buffers[0], f.mul(i, 24)))
    f.ret(0)
    write_entry(module, name, f, record.store_in)
    return module.text()


@needs_copies
def test_kernels_of_other_numbers_share_functions() -> None:
    pool = FunctionPool()
    pool.reduce(0, kernel("a", 2, 0.5))
    reduced = pool.reduce(1, kernel("b", 3, -1.25))
    assert reduced.sources == {"body": (0, "body"), "write": (0, "write")}
    images = emit_objects([kernel("a", 2, 0.5), kernel("b", 3, -1.25)], TARGET, threads=1)
    assert [i.kind for i in images] == [FLAT, FLAT]
    # The second image by itself: what it copies reads its own numbers.
    library = load_objects([images[1]], ["b"], TARGET)
    memory = (ctypes.c_char * 72)()
    buffers = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    types = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    call = library.function("b", *types, returns=ctypes.c_int)
    assert call(buffers, None, 0, 1, None) == 0
    one = (3).to_bytes(8, "little") + bytes(ctypes.c_float(-1.25)) * 2 + bytes(ctypes.c_int(3))
    assert bytes(memory) == (one + (30).to_bytes(4, "little")) * 3


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="not run: objects are not ELF here"
)
@pytest.mark.parametrize("isa", ["avx2", "neon"])
def test_addresses_of_copies_are_laid_out_for_each_processor(isa: Isa) -> None:
    target = generic_target(isa)
    texts = [kernel("a", 2, 0.5, target), kernel("b", 3, 1.5, target)]
    assert [i.kind for i in emit_objects(texts, target, threads=1)] == [FLAT, FLAT]


def test_a_key_has_one_value() -> None:
    module = Module(TARGET)
    record = CodeRecord(module)
    f = module.function("f", [(PTR, "record")])
    record.integer(f, "loops.rows", 3)
    with pytest.raises(ValueError, match=r"loops\.rows is 3 and 4"):
        record.integer(f, "loops.rows", 4)


def layer(channels: int, side: int, isa: str) -> str:
    """The text of a convolution of u8."""
    case = Case((side, side), (3, 3), channels, 64, pads=(1, 1), pads_end=(1, 1))
    spec, *_ = make(case, target_of(isa), U8, None, U8, wide=False)
    return generate(spec, target_of(isa), f"k{channels}").text


@pytest.mark.parametrize("isa", ["neoverse-n1", *TILED])
def test_layers_of_other_sizes_share_functions(isa: str) -> None:
    pool = FunctionPool()
    pool.reduce(0, layer(64, 28, isa))
    sources = pool.reduce(1, layer(128, 26, isa)).sources
    assert "copy_rows" in sources
    assert isa not in TILED or len(sources) == 4  # and loops, tile and epilogue
