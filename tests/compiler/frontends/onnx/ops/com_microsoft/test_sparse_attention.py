"""SparseAttention against onnxruntime over layouts of blocks, shared heads and rotation."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import onnxruntime as ort
import pytest
from onnx import numpy_helper
from support.frontends.ml_models import one_node
from support.models.exact_int8 import create_session

MS = "com.microsoft"
B, N, H, BLOCK, ROOM = 2, 4, 16, 16, 64
_R = np.random.default_rng(41)


def f(*shape: int) -> Any:
    return _R.standard_normal(shape).astype(np.float32)


def layouts(count: int) -> tuple[Any, Any]:
    """Rows and columns of random causal blocks that see themselves."""
    size = ROOM // BLOCK
    found = [[[k for k in range(q + 1) if k == q or _R.random() < 0.5] for q in range(size)]
             for _ in range(count)]  # fmt: skip
    rows = np.array([[0, *np.cumsum([len(r) for r in layout])] for layout in found], np.int32)
    columns = np.full((count, int(rows[:, -1].max())), -1, np.int32)
    for i, layout in enumerate(found):
        listed = [k for row in layout for k in row]
        columns[i, : len(listed)] = listed
    return rows, columns


def model_of(
    new: int, past: int, shared: int, count: int, rotary: bool, packed: bool
) -> tuple[Any, dict[str, Any]]:
    """The blocks are initializers, as exporters write them."""
    rows, columns = layouts(count)
    parts = [f(B, new, N * H), f(B, new, shared * H), f(B, new, shared * H)]
    given: list[Any] = [np.concatenate(parts, 2), None, None] if packed else parts
    caches = [f(B, shared, ROOM, H), f(B, shared, ROOM, H)]
    total = np.array([past + new], np.int32)
    lengths = np.array([past + new] * B, np.int32)
    angles = f(ROOM, H // 2)
    tables = [np.cos(angles), np.sin(angles)] if rotary else []
    inputs = [*given, *caches, rows, columns, total, lengths, *tables]
    model, feeds = one_node("SparseAttention", inputs, ["y", "k", "v"], domain=MS, num_heads=N,
                            kv_num_heads=shared, sparse_block_size=BLOCK,
                            do_rotary=int(rotary))  # fmt: skip
    ports = [p for p in model.graph.input if p.name not in ("x5", "x6")]
    for name in ("x5", "x6"):
        model.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
    del model.graph.input[:]
    model.graph.input.extend(ports)
    return model, feeds


@pytest.mark.slow
@pytest.mark.parametrize(("new", "past"), [(40, 0), (1, 37)])
@pytest.mark.parametrize(("shared", "count"), [(4, 1), (2, 2), (1, 4)])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_blocks(new: int, past: int, shared: int, count: int, rotary: bool, packed: bool) -> None:
    model, feeds = model_of(new, past, shared, count, rotary, packed)
    got = irc.compile_model(model)(feeds)
    session = create_session(model)
    binding = session.io_binding()
    # onnxruntime writes the present where the past is.
    values = {k: ort.OrtValue.ortvalue_from_numpy(v.copy()) for k, v in feeds.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y")
    binding.bind_ortvalue_output("k", values["x3"])
    binding.bind_ortvalue_output("v", values["x4"])
    session.run_with_iobinding(binding)
    want = [v.numpy() for v in binding.get_outputs()]
    np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=1e-5)
    for found, expected in zip(got[1:], want[1:], strict=True):
        used = past + new
        np.testing.assert_allclose(found[:, :, :used], expected[:, :, :used], rtol=1e-5, atol=1e-5)


def test_blocks_that_are_not_constants_are_refused() -> None:
    model, _ = model_of(4, 0, 2, 2, False, False)
    del model.graph.initializer[:]
    for i in (5, 6):
        port = model.graph.input.add(name=f"x{i}")
        port.type.tensor_type.elem_type = 6
        port.type.tensor_type.shape.dim.add(dim_value=2)
        port.type.tensor_type.shape.dim.add(dim_value=5)
    with pytest.raises(irc.UnsupportedOperationError, match="not constants"):
        irc.read_model(model)
