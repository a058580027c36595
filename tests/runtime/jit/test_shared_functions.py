"""Shared functions: loaded where an image calls them, once, and from the cache without LLVM."""

from __future__ import annotations

import pytest
from irc_compiler.runtime.jit import shared_functions as module
from irc_compiler.runtime.jit.code_image import FLAT, OBJECT, CodeImage
from irc_compiler.runtime.jit.shared_functions import shared_functions
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.shared_functions import SHARED_FUNCTIONS, SPLIT_WORK
from support.kernels.harness import ISAS, compile_spec, target_of
from support.kernels.products import Case, make

CALLER = CodeImage(FLAT, bytes(16), {"k": 0}, {SPLIT_WORK: 8})


class Cache(dict[str, bytes]):
    """A code cache in memory."""

    def put(self, key: str, payload: bytes) -> None:
        self[key] = payload


@pytest.fixture
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_library", None)


@pytest.mark.usefixtures("nothing_loaded")
def test_functions_are_loaded_for_images_that_may_call_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = CodeImage(FLAT, bytes(16), {"k": 0}, {"memset": 8})
    with monkeypatch.context() as patch:
        patch.setattr(module, "kept_code", lambda *_: pytest.fail("functions are compiled"))
        assert shared_functions([]) == shared_functions([other]) == {}
    found = shared_functions([other, CALLER])
    assert found.keys() == set(SHARED_FUNCTIONS) and all(found.values())
    assert shared_functions([CodeImage(OBJECT, b"object")]) == found


@pytest.mark.usefixtures("nothing_loaded")
def test_the_cache_holds_the_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache()
    shared_functions([CALLER], cache)
    assert len(cache) == 1
    monkeypatch.setattr(module, "_library", None)
    monkeypatch.setattr(
        "irc_compiler.runtime.jit.llvm.emit_object", lambda *_: pytest.fail("LLVM runs again")
    )
    assert shared_functions([CALLER], cache).keys() == set(SHARED_FUNCTIONS)


@pytest.mark.parametrize("isa", ISAS)
def test_a_product_calls_them_by_name(isa: str) -> None:
    spec = make(Case(30, 40, 50), isa)[0]
    assert f"@{SPLIT_WORK}(" in generate(spec, target_of(isa), "k").text
    assert SPLIT_WORK not in compile_spec(spec, isa).library.symbols()
