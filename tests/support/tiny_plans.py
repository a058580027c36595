"""Small plans by hand, and tiny kernels for them that do not share a line with the real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from irc_compiler.ir import dims as dim
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.op import Op, Port
from irc_compiler.ir.scalar.program import Instr, Program
from irc_compiler.ir.types import TensorType
from irc_compiler.plan.plan import (
    ARENA,
    CONSTANT,
    INPUT,
    OUTPUT,
    Buffer,
    HostStep,
    KernelStep,
    Plan,
    PlanConstant,
    PlanPort,
    Region,
    Step,
    SymbolSource,
    Terminal,
)
from irc_compiler.plan.specs.base import GATHER_OUT_OF_RANGE, Operand, RuntimeDim, Size, Spec
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.plan.specs.gather_scatter import GatherSpec
from irc_compiler.runtime.jit.program import CompiledPlan as Compiled
from irc_compiler.runtime.jit.program import build_program
from irc_compiler.runtime.kernels.emit.contract import Kernel
from irc_compiler.runtime.llvmir.builder import Module
from irc_compiler.runtime.llvmir.kernel_entry import BufferAssumptions as Argument
from irc_compiler.runtime.llvmir.kernel_entry import open_kernel, share
from irc_compiler.runtime.llvmir.values import F32, I64
from irc_compiler.runtime.machine.detect import host_target

f32, i64 = DType.f32, DType.i64
N = dim.symbol("N", 0, 1 << 24)
TARGET = host_target()


def pointwise(op: str, n: Size, dtype: DType = f32) -> ElementwiseSpec:
    """out[i] = a[i] op b[i]; "copy" is out[i] = a[i]."""
    inputs = 1 if op == "copy" else 2
    instrs = [Instr("input", (i,), dtype) for i in range(inputs)]
    if op != "copy":
        instrs.append(Instr(op, (0, 1), dtype))
    walk = Operand(dtype, (1,))
    program = Program(tuple(instrs), (len(instrs) - 1,))
    return ElementwiseSpec((n,), (walk,) * inputs, (walk,), program)


def pick(n: Size, axis: Size) -> GatherSpec:
    """out[i] = data[index[i]]; status GATHER_OUT_OF_RANGE with i where index[i] is outside."""
    data, index, out = (Operand(t, s) for t, s in ((f32, (0, 1, 1)), (i64, (1,)), (f32, (0, 1, 1))))
    return GatherSpec(1, axis, n, 1, data, index, out)


def generate(spec: Spec, target: Any, symbol: str) -> Kernel:
    """Scalar loops: right for any worker count, and slow."""
    module = Module(target)
    count = len(spec.operands())
    k = open_kernel(
        module, symbol, [Argument(noalias=False, writes=True)] * count, spec.runtime_dims
    )
    f = k.function
    size = spec.axes[0] if isinstance(spec, ElementwiseSpec) else getattr(spec, "count", 0)
    n = k.dims[size.index] if isinstance(size, RuntimeDim) else size
    low, high = share(f, n, k.worker, k.workers)
    with f.range(low, high) as i:
        if isinstance(spec, ElementwiseSpec):
            values = [f.load(F32, f.at(b, i, F32)) for b in k.buffers[:-1]]
            op = spec.program.instrs[-1].op
            made = values[0] if op == "input" else getattr(f, f"f{op}")(*values)
        else:
            assert isinstance(spec, GatherSpec)
            at = f.load(I64, f.at(k.buffers[1], i, I64))
            axis = k.dims[spec.axis.index] if isinstance(spec.axis, RuntimeDim) else spec.axis
            with f.if_(f.icmp("uge", at, axis)):
                f.store(i, k.scratch)
                f.ret(GATHER_OUT_OF_RANGE)
            made = f.load(F32, f.at(k.buffers[0], at, F32))
        f.store(made, f.at(k.buffers[-1], i, F32))
    f.ret(0)
    return Kernel(symbol, module.text())


@dataclass(frozen=True)
class Call(Op):
    """An operation whose meaning is a function of the test, looked up by name."""

    kind = "Call"
    inputs = (Port("values", variadic=True),)
    name: str = ""

    def infer(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()

    def evaluate(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return FUNCTIONS[self.name](*values)


FUNCTIONS: dict[str, Callable[..., tuple[Any, ...]]] = {}


class Maker:
    """Writes a region step by step: every buffer has the shape [n]."""

    def __init__(self, n: Any = N) -> None:
        self.n = n
        self.buffers: list[Buffer] = []
        self.steps: list[Step] = []
        self.sizes: list[dim.Dim] = [n]
        self.inputs = self.outputs = 0
        self.constants: list[PlanConstant] = []
        self.weights: dict[int, np.ndarray] = {}

    def _add(self, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def input(self, dtype: DType = f32, n: Any = None) -> int:
        self.inputs += 1
        shape = (self.n if n is None else n,)
        return self._add(Buffer(INPUT, dtype, shape, self.inputs - 1, name=f"in{self.inputs - 1}"))

    def constant(self, array: np.ndarray) -> int:
        number = len(self.constants)
        dtype = DType.from_numpy(array.dtype)
        self.constants.append(PlanConstant(number, dtype, array.shape))
        self.weights[number] = array
        return self._add(Buffer(CONSTANT, dtype, array.shape, number, name=f"c{number}"))

    def place(self, output: bool, dtype: DType = f32, n: Any = None) -> int:
        shape = (self.n if n is None else n,)
        if output:
            self.outputs += 1
            return self._add(Buffer(OUTPUT, dtype, shape, self.outputs - 1, name="out"))
        # Alive from here to the end: tests that want less replace the buffer.
        first = len(self.steps)
        return self._add(Buffer(ARENA, dtype, shape, first=first, last=-1, name="temporary"))

    def op(self, op: str, *inputs: int, output: bool = False, into: int | None = None) -> int:
        out = self.place(output) if into is None else into
        static = isinstance(self.n, int)
        spec = pointwise(op, self.n if static else RuntimeDim(0))
        dims = () if static else (0,)
        name = f"{op}{len(self.steps)}"
        step = KernelStep(spec, (*inputs, out), dims, self.n * 1, name, (f"node_{name}",))
        self.steps.append(step)
        return out

    def pick(self, data: int, index: int, output: bool = False) -> int:
        out = self.place(output)
        spec = pick(RuntimeDim(0), RuntimeDim(0))
        self.steps.append(KernelStep(spec, (data, index, out), (0,), self.n * 1, "pick", ("G",)))
        return out

    def host(self, name: str, *inputs: int, output: bool = False) -> int:
        out = self.place(output)
        self.steps.append(HostStep(Call(name), inputs, (out,), name, "a test"))
        return out

    def region(
        self,
        slots_in: tuple[int, ...],
        slots_out: tuple[int, ...],
        terminal: Terminal | None = None,
    ) -> Region:
        last = len(self.steps) - 1
        buffers = tuple(
            Buffer(**{**b.__dict__, "last": last}) if b.kind == ARENA and b.last < 0 else b
            for b in self.buffers
        )
        symbols = () if isinstance(self.n, int) else (SymbolSource("N", 0, 0),)
        return Region(
            slots_in, slots_out, symbols, tuple(self.sizes), buffers, tuple(self.steps), terminal
        )

    def plan(self) -> Plan:
        """A plan of this one region."""
        slots_in = tuple(range(self.inputs))
        slots_out = tuple(range(self.inputs, self.inputs + self.outputs))
        region = self.region(slots_in, slots_out)
        types: dict[int, TensorType] = {}
        for b in region.buffers:
            if b.kind == INPUT:
                types[b.index] = TensorType(b.dtype, b.shape)
            if b.kind == OUTPUT and b.alias_of is None:
                types[self.inputs + b.index] = TensorType(b.dtype, b.shape)
        return make_plan(
            [types[i] for i in range(len(types))],
            slots_in,
            slots_out,
            (region,),
            tuple(self.constants),
        )

    def compile(self, **options: Any) -> Compiled:
        return compile_plan(self.plan(), self.weights, **options)


def make_plan(
    slots: list[Any],
    slots_in: tuple[int, ...],
    slots_out: tuple[int, ...],
    regions: tuple[Region, ...],
    constants: tuple[PlanConstant, ...] = (),
    **more: Any,
) -> Plan:
    inputs = tuple(PlanPort(f"in{n}", (f"in{n}",), slots[s], s) for n, s in enumerate(slots_in))
    outputs = tuple(PlanPort(f"out{n}", (f"out{n}",), slots[s], s) for n, s in enumerate(slots_out))
    key = TARGET.key()
    return Plan("tiny", key, "f32", inputs, outputs, tuple(slots), constants, regions, **more)


def compile_plan(plan: Plan, weights: dict[int, np.ndarray] | None = None, **more: Any) -> Compiled:
    return build_program(plan, weights or {}, TARGET, generate=generate, threads=1, **more)


def chain(n: Any = N, length: int = 3) -> Maker:
    """out = ((a + b) * b + b) * b ... of `length` steps; two inputs, one output."""
    m = Maker(n)
    a, b = m.input(), m.input()
    for k in range(length):
        a = m.op("mul" if k % 2 else "add", a, b, output=k == length - 1)
    return m


def chain_answer(a: np.ndarray, b: np.ndarray, length: int = 3) -> np.ndarray:
    for k in range(length):
        a = a * b if k % 2 else a + b
    return a


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-4, 5, (2, n))
    return a.astype(np.float32), b.astype(np.float32)
