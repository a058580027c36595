"""Constants inside kernels come back from an artefact, whatever number of their type they are."""

from __future__ import annotations

from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.api.compiled_model import compile_with_options
from irc_compiler.compiler.model import Model
from irc_compiler.compiler.options import Options
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.text.graph_text import parse_graph

LEASTS = {"i64": -(2**63), "i8": -128, "f64": -1.5, "f32": -0.75, "bf16": -2.0}
LARGEST = {"u64": 2**64 - 1, "i64": 2**63 - 1, "u8": 255, "f64": 1e308, "f16": 6e4}
USES = {
    "padded by": "%2 = Constant.1() {data=[1], dtype=i64, shape=[1]}\n"
    '%3 = Pad.1(%0, %2, %2, %1) {pad_mode="constant"}',
    "compared with": "%3 = Minimum.1(%0, %1)",
}


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("dtype", "number"), [*LEASTS.items(), *LARGEST.items()])
def test_a_number(dtype: str, number: float, use: str, tmp_path: Path) -> None:
    text = f"""graph "g"
%0 = Parameter.1() {{element_type={dtype}, shape=[3]}} "x"
%1 = Constant.1() {{data=[{number}], dtype={dtype}, shape=[]}}
{USES[use]}
%4 = Result.1(%3) "y"
"""
    net = compile_with_options(Model(parse_graph(text)), Options(), 1)
    assert not net.plan.host_steps()
    net.export(tmp_path / "m.irc")
    x = np.arange(3).astype(DType(dtype).numpy)
    held = np.array(number).astype(x.dtype)
    (found,) = irc.CompiledModel.load(tmp_path / "m.irc")([x])
    want = np.minimum(x, held) if use == "compared with" else np.array([held, *x, held])
    np.testing.assert_array_equal(found, want)
