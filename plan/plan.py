"""The plan: what lowering hands to the runtime. Frozen, hashable, serialisable, verified.

A plan is a sequence of regions. Inside a region every size is an expression of the region's
symbols, which are read off the shapes of its inputs; a region ends where a shape depends on data
(its `terminal` is then the operation that Python evaluates) or at the end of the graph. Values
between regions live in numbered slots.

A region holds buffers (with lifetimes and alias constraints, but no offsets: placing them is the
runtime's), a table of size expressions, and steps. A kernel step maps its spec's local operands
and sizes to buffers and entries of the size table. Control steps are loops and branches in the
list of steps, whose sizes hold in every iteration. A host step is evaluated in Python, and the
compile report names it. Control flow that Python steers is a terminal with a plan per body.
"""

from __future__ import annotations

from typing import TypeAlias

from ..ir.dims import Dim
from ..ir.dtype import DType
from ..ir.lazy_dataclass import dataclass
from ..ir.op import MAX_BODY_DEPTH, Op
from ..ir.types import Type
from .packing.layouts import Layout
from .specs.base import Spec

# Kinds of control steps.
LOOP, LOOP_END, BRANCH, JUMP, CHECK = "loop", "loop_end", "branch", "jump", "check"
# Kinds of buffers.
INPUT, OUTPUT, CONSTANT, ARENA = "input", "output", "constant", "arena"


# Plans within plans: as deep as bodies of control flow.
MAX_DEPTH = MAX_BODY_DEPTH


@dataclass(frozen=True)
class PlanConstant:
    """One constant in the layout its reader wants, made from entry `source` of the weights.

    `layout` None: the array itself, contiguous. Else panels (plan/packing/layouts.py);
    PackedB where `transposed`: of the transposed matrix. `rounds`: the array is f32, `dtype` is
    bf16 or f16, and packing rounds its elements to nearest even, denormals to zeros for bf16.
    """

    source: int
    dtype: DType
    shape: tuple[int, ...]
    layout: Layout | None = None
    transposed: bool = False
    rounds: bool = False

    @property
    def source_dtype(self) -> DType:
        """The element type of the weights' array."""
        return DType.f32 if self.rounds else self.dtype


@dataclass(frozen=True)
class Buffer:
    """Memory that steps read and write: `shape` elements of `dtype`, contiguous.

    `kind` says where it lives: INPUT and OUTPUT are slot `index` of the region's inputs or
    outputs, CONSTANT is entry `index` of the plan's constants, ARENA is placed by the runtime for
    the steps `first`..`last` (inclusive). `alias_of` makes an ARENA or OUTPUT buffer a part of
    another buffer, at `alias_offset` elements (a piece of a concatenation, an in-place result).
    A part may move, whatever its kind: `stride` elements with each iteration of the loop that
    begins at step `loop`.
    """

    kind: str
    dtype: DType
    shape: tuple[Dim, ...]
    index: int = -1
    first: int = 0
    last: int = 0
    alias_of: int | None = None
    alias_offset: Dim = 0
    name: str = ""
    loop: int | None = None
    stride: Dim = 0


@dataclass(frozen=True)
class KernelStep:
    """Native code: `buffers` and `dims` map the spec's local positions to the region's tables.

    `work` estimates the arithmetic or bytes moved, whichever is larger, in units of one vector
    operation's worth; the runtime shares a step among threads where it is worth a barrier.
    """

    spec: Spec
    buffers: tuple[int, ...]
    dims: tuple[int, ...]
    work: Dim
    name: str = ""
    # Names of the model's nodes this step computes, for reports and messages.
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostStep:
    """An operation evaluated in Python: inputs and outputs are region buffers, None where absent.

    `reason` says why no kernel runs it.
    """

    op: Op
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    name: str = ""
    reason: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class ControlStep:
    """Where the native walk goes on; steps are named by number. `kind`:

    LOOP      the steps up to `target`, its LOOP_END, run at most `trips` (a size's number) times,
              and at most as often as the number in buffer `count` says (negative: no limit); not at
              all where `condition` is false
    LOOP_END  back behind `target`, its LOOP, while iterations are left and `condition` is true
    BRANCH    on at `target` where `condition` is false; before it, a JUMP ends the other way
    JUMP      on at `target`
    CHECK     on at the next step, where the size checks that name this one hold; the run fails
              where one does not. The steps up to `target`, inside the same loop or way, run behind
              it only

    `count`, `condition` and `index` are buffers, None where absent; `condition` is one boolean, the
    others are one i32 or i64. LOOP and LOOP_END write the iteration's number to `index`.
    """

    kind: str
    target: int
    trips: int | None = None
    count: int | None = None
    condition: int | None = None
    index: int | None = None
    name: str = ""
    sources: tuple[str, ...] = ()

    @property
    def buffers(self) -> tuple[int, ...]:
        """The buffers it touches, in the order in which the driver finds them."""
        return tuple(b for b in (self.count, self.condition, self.index) if b is not None)

    @property
    def dims(self) -> tuple[int, ...]:
        """Its sizes' numbers."""
        return () if self.trips is None else (self.trips,)


Step: TypeAlias = KernelStep | HostStep | ControlStep
# What the driver walks.
NativeStep: TypeAlias = KernelStep | ControlStep


@dataclass(frozen=True)
class SymbolSource:
    """Where a region's symbol is read: axis `axis` of region input `input` equals it."""

    symbol: str
    input: int
    axis: int


@dataclass(frozen=True)
class SizeCheck:
    """Two entries of a region's table of sizes that have to be equal for it to run, or where
    `or_one`, the left one may be 1. `what` and `where` are the message if they are not. `step` is
    the CHECK that evaluates them; None: they have to be for the region to run at all."""

    left: int
    right: int
    what: str
    where: str
    or_one: bool = False
    step: int | None = None


@dataclass(frozen=True)
class Terminal:
    """The operation that ends a region, evaluated in Python on slots and writing slots.

    `inputs` are slot numbers, None where absent. Its outputs may have any shape or type. Control
    flow has a plan per body; those plans read the constants of the plan around them and have
    none of their own.
    """

    op: Op
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    name: str = ""
    reason: str = ""
    bodies: tuple[Plan, ...] = ()


@dataclass(frozen=True)
class Region:
    """Steps that run without a look at data. `inputs` and `outputs` are slot numbers.

    `initialises` lists variables, by number, for whose initial values the region is there: it runs
    only where one of them has no value yet.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    symbols: tuple[SymbolSource, ...]
    dims: tuple[Dim, ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    terminal: Terminal | None = None
    initialises: tuple[int, ...] = ()
    checks: tuple[SizeCheck, ...] = ()


@dataclass(frozen=True)
class Variable:
    """State that a request carries from one run to the next.

    During a run its value is in `slot`, and what it will be in the next run gets into `after` (the
    same slot where nothing assigns it). A variable without a value takes that of slot `initial`
    once the last region that initialises it has run; where `initial` is None, zeros of the least
    sizes that the slot's type allows.

    Axis i of what is in `slot` is axis axes[i] of the variable as callers see it; without axes they
    are the same. Where `rows` is the slot of an input, what is in `slot` is the value's rows at
    these indices along `row_axis` (an index out of range gives zeros).
    """

    name: str
    slot: int
    after: int
    initial: int | None
    axes: tuple[int, ...] = ()
    rows: int | None = None
    row_axis: int = 0


@dataclass(frozen=True)
class Denormals:
    """Whether kernels flush denormal operands and results to zero, and for which reason."""

    flush: bool = False
    reason: str = ""


@dataclass(frozen=True)
class PlanPort:
    """One input or output of the whole model."""

    name: str
    names: tuple[str, ...]
    type: Type
    slot: int


@dataclass(frozen=True)
class Plan:
    """The whole model for one Target. `constants` refer to arrays kept next to the plan by the
    caller (`weights[source]`), so that the plan itself stays small, comparable and hashable."""

    name: str
    target_key: str
    precision: str
    inputs: tuple[PlanPort, ...]
    outputs: tuple[PlanPort, ...]
    slots: tuple[Type, ...]
    constants: tuple[PlanConstant, ...]
    regions: tuple[Region, ...]
    # Slots whose value is a constant of the model (a result that is a constant).
    constant_slots: tuple[tuple[int, int], ...] = ()
    variables: tuple[Variable, ...] = ()
    denormals: Denormals = Denormals()

    def all_regions(self) -> list[Region]:
        """Its regions, and those of the bodies inside, in order."""
        found: list[Region] = []
        for region in self.regions:
            found.append(region)
            if region.terminal is not None:
                found += [r for body in region.terminal.bodies for r in body.all_regions()]
        return found

    def kernel_steps(self) -> list[KernelStep]:
        """Every native step, in order, bodies included."""
        return [s for r in self.all_regions() for s in r.steps if isinstance(s, KernelStep)]

    def control_steps(self) -> list[ControlStep]:
        """Every step of native control flow, bodies included."""
        return [s for r in self.all_regions() for s in r.steps if isinstance(s, ControlStep)]

    def specs(self) -> tuple[Spec, ...]:
        """Distinct specs in order of first use."""
        return tuple(dict.fromkeys(s.spec for s in self.kernel_steps()))

    def host_steps(self) -> list[HostStep | Terminal]:
        """Every step that does not run in native code, bodies included."""
        found: list[HostStep | Terminal] = []
        for region in self.all_regions():
            found += [s for s in region.steps if isinstance(s, HostStep)]
            if region.terminal is not None:
                found.append(region.terminal)
        return found
