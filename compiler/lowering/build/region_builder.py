"""Building one region: buffers, size table and steps, with views of the values in it.

`RegionBuilder` is the only writer of a region. A lowering gets from it the view of an input, for
memory for an output, and adds steps; lifetimes follow from the steps when the region is finished.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

from ....ir.dims import Dim, Expr, bounds, maximum, minimum, product
from ....ir.dtype import DType
from ....ir.op import Op
from ....plan.plan import (
    ARENA,
    CHECK,
    CONSTANT,
    INPUT,
    LOOP,
    OUTPUT,
    Buffer,
    ControlStep,
    HostStep,
    KernelStep,
    SizeCheck,
    Step,
)
from ....plan.specs.base import Operand, RuntimeDim, Size, Spec, Split
from ...strided_view import Part, View, are_equal, is_contiguous, row_major
from .in_place import reuse_inputs
from .kernel_sharing import share_kernels


class SizeCollector:
    """Collects the run-time sizes of one spec: a static size stays an int, another becomes the
    RuntimeDim of its position."""

    def __init__(self) -> None:
        self.found: dict[Dim, RuntimeDim] = {}

    def __call__(self, dim: Dim) -> Size:
        """The size as a spec holds it."""
        if isinstance(dim, int):
            return dim
        return self.found.setdefault(dim, RuntimeDim(len(self.found)))

    def all(self, dims: Sequence[Dim]) -> tuple[Size, ...]:
        """Several sizes."""
        return tuple(self(d) for d in dims)

    def add_split(self, parts: Sequence[Part] | None) -> Split | None:
        """The sizes of an axis's parts, if there are two."""
        if parts is None or len(parts) != 2:
            return None
        return self(parts[0][0]), self(parts[1][0])

    def operand(self, view: View, strides: Sequence[Dim]) -> Operand:
        """A view walked with these strides."""
        return Operand(view.dtype, self.all(strides), self(view.offset))


@dataclass
class RegionBuilder:
    """The tables of a region while it grows."""

    buffers: list[Buffer] = field(default_factory=list[Buffer])
    steps: list[Step] = field(default_factory=list[Step])
    dims: dict[Dim, int] = field(default_factory=dict[Dim, int])
    checks: list[SizeCheck] = field(default_factory=list[SizeCheck])
    _constants: dict[int, int] = field(default_factory=dict[int, int])
    # Steps with equal specs have the same object, which is compared and stored once.
    _specs: dict[Spec, Spec] = field(default_factory=dict[Spec, Spec])
    _symbols: set[str] = field(default_factory=set[str])
    _searched: int = 0

    # Memory -----------------------------------------------------------------------------------

    def allocate(self, dtype: DType, shape: Sequence[Dim], name: str = "") -> View:
        """Fresh contiguous memory in the arena."""
        return self._view(Buffer(ARENA, dtype, tuple(shape), name=name))

    def input(self, index: int, dtype: DType, shape: Sequence[Dim], name: str = "") -> View:
        """The buffer of region input `index`."""
        return self._view(Buffer(INPUT, dtype, tuple(shape), index, name=name))

    def output(self, index: int, dtype: DType, shape: Sequence[Dim], name: str = "") -> View:
        """The buffer of region output `index`."""
        return self._view(Buffer(OUTPUT, dtype, tuple(shape), index, name=name))

    def constant(self, index: int, dtype: DType, shape: Sequence[int], name: str = "") -> View:
        """The buffer of plan constant `index`."""
        if index not in self._constants:
            view = self._view(Buffer(CONSTANT, dtype, tuple(shape), index, name=name))
            self._constants[index] = view.buffer
        return View(self._constants[index], dtype, tuple(shape), row_major(shape))

    def _view(self, buffer: Buffer) -> View:
        self.buffers.append(buffer)
        at = len(self.buffers) - 1
        return View(at, buffer.dtype, buffer.shape, row_major(buffer.shape))

    def whole_buffer(self, view: View) -> int | None:
        """A buffer with exactly the view's shape and contents, if no copy is needed for it."""
        base = self.buffers[view.buffer]
        if not is_contiguous(view):
            return None
        if base.shape == view.shape and view.offset == 0:
            return view.buffer
        if base.kind not in (ARENA, OUTPUT):
            # Inputs and constants are arrays of the caller: a part of one is copied.
            return None
        alias = replace(
            base,
            shape=view.shape,
            alias_of=view.buffer,
            alias_offset=view.offset,
            loop=None,
            stride=0,
        )
        self.buffers.append(alias)
        return len(self.buffers) - 1

    def symbols(self) -> Set[str]:
        """Names of the symbols in the shapes of the buffers so far."""
        for buffer in self.buffers[self._searched :]:
            sizes = [d for d in buffer.shape if isinstance(d, Expr)]
            self._symbols.update(s.name for d in sizes for s in d.symbols())
        self._searched = len(self.buffers)
        return self._symbols

    # Steps ------------------------------------------------------------------------------------

    def kernel(
        self,
        spec: Spec,
        sizes: SizeCollector,
        views: Sequence[View],
        work: Dim,
        name: str,
        sources: Sequence[str],
    ) -> None:
        """Add a native step; `views` follow the spec's operands."""
        if any(bounds(size)[1] == 0 for size in _extent(spec)):
            return
        self.steps.append(
            KernelStep(
                self._specs.setdefault(spec, spec),
                tuple(v.buffer for v in views),
                tuple(self.dim(d) for d in sizes.found),
                work,
                name,
                tuple(sources),
            )
        )

    def host(
        self,
        op: Op,
        inputs: Sequence[int | None],
        outputs: Sequence[int],
        name: str,
        reason: str,
        sources: Sequence[str] = (),
    ) -> None:
        """Add a step that Python evaluates."""
        step = HostStep(op, tuple(inputs), tuple(outputs), name, reason, tuple(sources))
        self.steps.append(step)

    def control(self, step: ControlStep) -> int:
        """Add a step of control flow, whose target may be set later; returns its number."""
        self.steps.append(step)
        return len(self.steps) - 1

    def add_check(self, checks: Sequence[SizeCheck], name: str) -> int | None:
        """A CHECK of these, if there are any; its target is set later."""
        if not checks:
            return None
        step = self.control(ControlStep(CHECK, 0, name=name))
        self.checks += [replace(check, step=step) for check in checks]
        return step

    def lead(self, number: int, target: int) -> None:
        """Set where a step of control flow leads."""
        step = self.steps[number]
        assert isinstance(step, ControlStep)
        self.steps[number] = replace(step, target=target)

    def add_moving_alias(
        self, buffer: int, loop: int, trips: Dim, stride: Dim, *, back: bool
    ) -> int:
        """What of a buffer the first iteration of a loop sees, `stride` elements (at least 0)
        further on with each iteration, or back: the whole but the rest for the others."""
        base = self.buffers[buffer]
        whole = product(base.shape)
        # Strides do not show that another axis is empty.
        rest = minimum((maximum(trips, 1) - 1) * stride, whole)
        moved = replace(
            base,
            shape=(whole - rest,),
            alias_of=buffer,
            alias_offset=rest if back else 0,
            loop=loop,
            stride=-stride if back else stride,
        )
        self.buffers.append(moved)
        return len(self.buffers) - 1

    def dim(self, dim: Dim) -> int:
        """Position of a size in the region's table."""
        return self.dims.setdefault(dim, len(self.dims))

    def finish(self) -> tuple[tuple[Buffer, ...], tuple[Step, ...], tuple[Dim, ...]]:
        """The region's tables with lifetimes filled in and in-place results placed."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for at, step in enumerate(self.steps):
            touched = step_buffers(step) if isinstance(step, HostStep) else step.buffers
            for buffer in touched:
                root: int | None = buffer
                while root is not None:
                    first.setdefault(root, at)
                    last[root] = at
                    root = self.buffers[root].alias_of
        for at, step in reversed(list(enumerate(self.steps))):
            if isinstance(step, ControlStep) and step.kind == LOOP:
                stay(first, last, at, step.target)
        for i, b in enumerate(self.buffers):
            if i not in first and b.alias_of is not None:  # no step touches it: it has no elements
                root = b.alias_of
                while root not in first and (around := self.buffers[root].alias_of) is not None:
                    root = around
                first[i], last[i] = first.get(root, 0), last.get(root, 0)
        buffers = [
            replace(b, first=first.get(i, 0), last=last.get(i, 0))
            for i, b in enumerate(self.buffers)
        ]
        placed = reuse_inputs(buffers, self.steps)
        steps = share_kernels(placed, self.steps, self.dim)
        return placed, steps, tuple(self.dims)


def stay(first: dict[int, int], last: dict[int, int], begin: int, end: int) -> None:
    """What comes into a loop is there in every iteration, what comes out of it from the first."""
    for b, born in first.items():
        if born < begin <= last[b] <= end:
            last[b] = end
        elif begin <= born <= end < last[b]:
            first[b] = begin


def step_buffers(step: HostStep) -> tuple[int, ...]:
    """The buffers a host step touches."""
    return tuple(b for b in (*step.inputs, *step.outputs) if b is not None)


def _extent(spec: Spec) -> tuple[Dim, ...]:
    """Static sizes of a spec's output space, to leave out steps that write nothing."""
    axes = getattr(spec, "axes", ())
    return tuple(a for a in axes if isinstance(a, int))


def elements(shape: Sequence[Dim]) -> Dim:
    """How many elements a shape has."""
    return product(shape)


def fits(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are equal for certain."""
    return len(a) == len(b) and all(are_equal(x, y) for x, y in zip(a, b, strict=True))
