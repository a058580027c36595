"""Plans of small graphs: native results against `evaluate` of every operation."""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph
from support.models.lowering_cases import CASES

SYMBOLS = ({"N": 1, "M": 1, "B": 1, "S": 1, "D": 1}, {"N": 3, "M": 4, "B": 2, "S": 5, "D": 17})
LARGE = {"N": 37, "M": 19, "B": 3, "S": 33, "D": 40}


def arrays(net: irc.CompiledModel, sizes: dict[str, int], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = []
    for port in net.inputs:
        assert port.shape is not None
        shape = [sizes[d] if isinstance(d, str) else d for d in port.shape]
        types = {"f16": "f2", "f32": "f4", "i32": "i4", "i64": "i8", "u8": "u1"}
        made.append(rng.integers(-4, 5, shape).astype(types[port.dtype]))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("optimised", [False, True], ids=["as-is", "optimised"])
@pytest.mark.parametrize("name", CASES)
def test_against_evaluate(name: str, optimised: bool, compile_graph) -> None:
    graph = parse_graph(f'graph "{name}"\n{CASES[name]}')
    for threads in (1, 2):
        net = compile_graph(graph.copy(), optimised, threads)
        for seed, sizes in enumerate((*SYMBOLS, LARGE)):
            inputs = arrays(net, sizes, seed)
            wanted = interpret(graph, inputs)
            got = net(inputs)
            assert len(got) == len(wanted)
            for g, w in zip(got, wanted, strict=True):
                assert g.shape == w.shape and g.dtype == w.dtype
                tolerance = 2e-3 if w.dtype == np.float16 else 2e-5
                np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


def test_equal_layers_share_one_spec(compile_graph) -> None:
    """It is compared by identity, and stored once."""
    weights = [f"%{n} = Constant.1() {{data=~{n}, dtype=f32, shape=[8, 8]}}" for n in (1, 2, 3)]
    layers = [f"%{n + 3} = MatMul.1(%{(0, 4, 5)[n - 1]}, %{n})" for n in (1, 2, 3)]
    graph = parse_graph(
        "\n".join(
            [
                'graph "layers"',
                '%0 = Parameter.1() {element_type=f32, shape=["N", 8]} "x"',
                *weights,
                *layers,
                '%7 = Result.1(%6) "y"',
            ]
        )
    )
    steps = list(compile_graph(graph, True, 1).plan.kernel_steps())
    assert len(steps) == 3
    assert len({id(step.spec) for step in steps}) == len({step.spec for step in steps}) < 3
