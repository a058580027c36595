"""What is joined is written where it is joined, though others read it too: steps of plans, the
memory they take, and the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.plan.plan import KernelStep
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.runtime.machine.memory_planner import live_peak

Compile = Callable[..., irc.CompiledModel]


@dataclass
class Net:
    """Writes a graph's text: 3 x 3 convolutions of an image of 8 channels, or of `channels`."""

    side: int | str = 12
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        side = f'"{self.side}"' if isinstance(self.side, str) else self.side
        self.x = self.add(f'Parameter.1() {{element_type=f32, shape=[2, 8, {side}, {side}]}} "x"')

    def add(self, text: str) -> str:
        self.lines.append(f"%{len(self.lines)} = {text}")
        return f"%{len(self.lines) - 1}"

    def conv(self, x: str, channels: int, out: int) -> str:
        seed = len(self.lines)
        w = self.add(f"Constant.1() {{data=~{seed}, dtype=f32, shape=[{out}, {channels}, 3, 3]}}")
        return self.add(f"Relu.1({self.add(f'Convolution.1({x}, {w}) {SAME}')})")

    def norm(self, x: str, channels: int) -> str:
        """Something that reads all channels and is not a convolution."""
        c = self.add(f"Constant.1() {{data=~7, dtype=f32, shape=[1, {channels}, 1, 1]}}")
        return self.add(f"Relu.1({self.add(f'Multiply.1({x}, {c})')})")

    def join(self, *parts: str) -> str:
        return self.add(f"Concat.1({', '.join(parts)}) {{axis=1}}")

    def split(self, x: str, parts: int) -> list[str]:
        axis = self.add("Constant.1() {data=[1], dtype=i64, shape=[]}")
        made = self.add(f"Split.1({x}, {axis}) {{num_splits={parts}}}")
        return [made, *(f"{made}:{i}" for i in range(1, parts))]

    def pool(self, x: str) -> str:
        return self.add(f"MaxPool.1({x}) {{kernel=[2, 2], strides=[2, 2]}}")

    def double(self, x: str, channels: int) -> str:
        """An image of twice the sides."""
        wide = self.conv(x, channels, 4 * channels)
        return self.add(f'DepthToSpace.1({wide}) {{mode="blocks_first", block_size=2}}')

    def graph(self, *results: str) -> Graph:
        for i, result in enumerate(results):
            self.add(f'Result.1({result}) "y{i}"')
        return parse_graph('graph "g"\n' + "\n".join(self.lines) + "\n")


SAME = "{pads_begin=[1, 1], pads_end=[1, 1]}"


def dense(net: Net, layers: int = 4, *, last: bool = False, nested: bool = False) -> Graph:
    """DenseNet's block: each layer reads what all before it have made (`last`: the newest first;
    `nested`: by joining what was joined before)."""
    parts, channels = [net.conv(net.x, 8, 16)], 16
    whole = parts[0]
    for _ in range(layers):
        parts.append(net.conv(net.norm(whole, channels), channels, 8))
        channels += 8
        joined = [whole, parts[-1]] if nested else parts
        whole = net.join(*(reversed(joined) if last else joined))
    return net.graph(net.conv(whole, channels, 4))


def halves(net: Net) -> Graph:
    """A block of YOLO: both halves and what is made of the second, joined."""
    left, right = net.split(net.conv(net.x, 8, 32), 2)
    inner = net.conv(right, 16, 16)
    return net.graph(net.conv(net.join(left, right, inner, net.conv(inner, 16, 16)), 64, 8))


def ladder(net: Net, widths: tuple[int, ...]) -> Graph:
    """A U-Net: each skip of the way down is joined to what comes back up."""
    skips: list[tuple[str, int]] = []
    x, channels = net.x, 8
    for width in widths:
        x, channels = net.conv(x, channels, width), width
        skips.append((x, width))
        x = net.pool(x)
    for skip, width in reversed(skips):
        x = net.join(skip, net.double(x, channels))
        x, channels = net.conv(x, width + channels, width), width
    return net.graph(x)


def mixed(net: Net) -> Graph:
    """Joined twice side by side, in two places, and read by a result of the model."""
    a, b = net.conv(net.x, 8, 16), net.conv(net.x, 8, 16)
    first, second = net.join(a, a, b), net.join(b, a)
    return net.graph(net.conv(first, 48, 8), second)


GRAPHS: dict[str, Callable[[], Graph]] = {
    "dense": lambda: dense(Net()),
    "dense, the newest first": lambda: dense(Net(), last=True),
    "dense, one by one": lambda: dense(Net(), nested=True),
    "dense of any size": lambda: dense(Net("S")),
    "halves": lambda: halves(Net()),
    "ladder": lambda: ladder(Net(16), (8, 16, 32)),
    "mixed": lambda: mixed(Net()),
}


def copies(net: irc.CompiledModel) -> list[KernelStep]:
    """Steps that only move data; the turns of the model's images at both ends not counted."""
    found = [s for s in net.plan.kernel_steps() if isinstance(s.spec, ElementwiseSpec)]
    moves = [s for s in found if all(i.op == "input" for i in s.spec.program.instrs)]
    return [s for s in moves if "Concat" in s.name or "Split" in s.name]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("name", GRAPHS)
def test_numbers(name: str, precision: str, compile_graph: Compile) -> None:
    graph = GRAPHS[name]()
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 8, 12, 12) if name != "ladder" else (2, 8, 16, 16))
    x = x.astype(np.float32)
    wanted = interpret(graph, [x])
    one = compile_graph(GRAPHS[name](), True, 1, precision)(x)
    two = compile_graph(GRAPHS[name](), True, 2, precision)(x)
    for found, again, want in zip(one, two, wanted, strict=True):
        close = 1e-4 if precision == "f32" else 3e-2
        assert np.abs(found - want).max() <= close * np.abs(want).max()
        assert found.tobytes() == again.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in GRAPHS if n.startswith(("dense", "halves"))])
def test_nothing_is_copied(name: str, compile_graph: Compile) -> None:
    assert copies(compile_graph(GRAPHS[name](), True, 1)) == []


def test_a_value_in_one_buffer_is_copied_to_the_other(compile_graph: Compile) -> None:
    net = compile_graph(mixed(Net()), True, 1)
    # The result is made in place; both are copied into what else they are joined to.
    assert Counter(s.name for s in copies(net)) == Counter({"Concat_7": 3})


def peak(net: irc.CompiledModel) -> int:
    """Bytes of the arena's largest live set."""
    (region,) = net.plan.regions
    roots = [b for b in region.buffers if b.kind == "arena" and b.alias_of is None]
    sizes = np.array([int(np.prod([int(d) for d in b.shape])) * b.dtype.bits // 8 for b in roots])
    return live_peak(sizes, *(np.array([getattr(b, n) for b in roots]) for n in ("first", "last")))


@pytest.mark.slow
def test_a_skip_is_not_held_with_the_memory_of_what_is_joined_to_it(
    compile_graph: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only as far as the arena stays as small as copying makes it."""
    shared = compile_graph(ladder(Net(32), (16, 16, 64)), True, 1)
    place = "irc_compiler.compiler.lowering.build.output_placement.concats_in_place"
    monkeypatch.setattr(place, lambda *_: frozenset())
    copied = compile_graph(ladder(Net(32), (16, 16, 64)), True, 1)
    assert len(copies(copied)) == 3 and 0 < len(copies(shared)) < 3
    assert peak(shared) <= peak(copied)


ALIKE_IN_OTHER_WORDS = """graph "g"
%0 = Parameter.1() {element_type=f32, shape=["N", 4]} "x"
%1 = Parameter.1() {element_type=f32, shape=["M", 4]} "y"
%2 = Constant.1() {data=[1, 0], dtype=i64, shape=[2]}
%3 = Constant.1() {data=[0], dtype=i64, shape=[1]}
%4 = Constant.1() {data=[9223372036854775807], dtype=i64, shape=[1]}
%5 = Constant.1() {data=[2], dtype=i64, shape=[1]}
%6 = Slice.8(%0, %3, %4, %5, %3)
%7 = Slice.8(%1, %3, %4, %5, %3)
%8 = Softmax.8(%6) {axis=1}
%9 = Softmax.8(%7) {axis=1}
%10 = Transpose.1(%8, %2)
%11 = Transpose.1(%9, %2)
%12 = Unsqueeze.1(%10, %3)
%13 = Unsqueeze.1(%11, %3)
%14 = Concat.1(%12, %13) {axis=0}
%15 = Result.1(%14) "z"
"""


def test_a_part_with_equal_sizes_of_another_form_is_written_in_place() -> None:
    """(N + 1) // 2 and (M + 1) // 2, which a run finds equal."""
    graph = parse_graph(ALIKE_IN_OTHER_WORDS)
    net = irc.compile_model(irc.Model(graph), num_threads=1)
    kinds = [type(s.spec).__name__ for s in net.plan.kernel_steps()]
    assert kinds == ["SoftmaxSpec", "ElementwiseSpec"] * 2
    rng = np.random.default_rng(0)
    for n, m in ((0, 0), (1, 2), (20, 19), (5, 5)):
        feeds = [rng.standard_normal((rows, 4)).astype(np.float32) for rows in (n, m)]
        np.testing.assert_allclose(net(feeds)[0], interpret(graph, feeds)[0], rtol=1e-6)
