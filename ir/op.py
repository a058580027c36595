"""What an operation is: declared attributes and ports, effects, `infer` and `evaluate`.

An operation is a frozen dataclass deriving from `Op`. Its fields are its attributes: readers,
writers and printers walk `attributes()` and need no code per operation. Meaning sits on the
class and nowhere else; treatment (importing, rewriting, lowering) sits in tables elsewhere.

    @dataclass(frozen=True)
    class MatMul(Op):
        kind, version = "MatMul", 1
        inputs = (Port("A"), Port("B"))
        transpose_a: bool = False
        transpose_b: bool = False

        def infer(self, a: Fact, b: Fact) -> tuple[Type, ...]: ...
        def evaluate(self, a: Array, b: Array) -> tuple[Array, ...]: ...

A class that adds no attributes inherits what `dataclass` generated for its base: the decorator
would only generate it again, at every start.

Both methods take one slot per declared port: None where an optional input is absent, a tuple
where the port is variadic. Both return a tuple with one entry per output.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, get_type_hints

import numpy.typing as npt

from .errors import VerificationError
from .lazy_dataclass import dataclass
from .types import TensorType, Type

if TYPE_CHECKING:
    from .graph import Graph

Array: TypeAlias = npt.NDArray[Any]
# A body made runnable: its parameters' values to its results'.
RunBody: TypeAlias = Callable[[list[Any]], list[Any]]

# A value that may be a shape is carried through compilation while it has at most this many
# elements (docs/dev/architecture.md, Shapes).
KNOWN_VALUE_LIMIT = 64
# Bodies of control flow within bodies: inference, passes and lowering recurse over them.
MAX_BODY_DEPTH = 32


class Effects(enum.Enum):
    """Only operations without effects are folded, shared or removed."""

    NONE = "none"
    RANDOM = "random"
    STATE = "state"
    FAILURE = "failure"


@dataclass(frozen=True)
class Port:
    """One declared input or output. A variadic port is the last one and takes the rest."""

    name: str
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True, eq=False)
class Fact:
    """What is known of one input at compile time: its type, and its value if it is known.

    `value` is an array of at most `KNOWN_VALUE_LIMIT` elements (object dtype where elements are
    symbolic dims), or the whole array where the producer is a Constant.
    """

    type: Type
    value: Array | None = None

    @property
    def tensor(self) -> TensorType:
        """The type, which must be a tensor's."""
        if not isinstance(self.type, TensorType):
            raise VerificationError("a tensor is needed here", got=str(self.type))
        return self.type


@dataclass(frozen=True)
class Attribute:
    """One declared attribute: its field name, its name in XML, annotated type and default."""

    name: str
    xml: str
    annotation: Any
    default: Any
    required: bool


def attr(default: Any = dataclasses.MISSING, *, xml: str | None = None) -> Any:
    """Declare an attribute whose XML name differs from the field's name."""
    return field(default=default, metadata={"xml": xml} if xml else {})


@dataclass(frozen=True)
class Op:
    """Base of all operations; see the module's text. `version` is the operation set number in
    which first has this class, or 0 for irc's own dialect (`version="irc"` in XML).

    (`**_: Any` below lets subclasses name their parameters without breaking the type checker.)
    """

    kind: ClassVar[str] = ""
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = ()
    outputs: ClassVar[tuple[Port, ...]] = (Port("output"),)
    effects: ClassVar[Effects] = Effects.NONE
    # True where outputs may be shapes: evaluate then also accepts object arrays of Dim.
    evaluates_shapes: ClassVar[bool] = False
    # True where integer outputs are floats rounded: what a type does not hold saturates.
    saturates: ClassVar[bool] = False
    # True where the output's shape depends on input data, so that a region must end here.
    data_dependent: ClassVar[bool] = False
    # True where outputs share no memory with inputs nor with anything that lasts.
    fresh: ClassVar[bool] = False
    # Temporaries of `evaluate` (scratch_bytes): bytes per element, and copies, of the largest
    # input or output.
    scratch_width: ClassVar[int] = 0
    scratch_copies: ClassVar[int] = 0

    def infer(self, *facts: Any, **_: Any) -> tuple[Type, ...]:
        """Types of the outputs, from facts of the inputs.

        Raises ShapeError (what, got, expected) where the inputs break the operation's rules.
        """
        raise VerificationError(f"{self.kind} does not say how types follow from its inputs")

    def evaluate(self, *arrays: Any, **_: Any) -> tuple[Any, ...]:
        """Outputs computed with NumPy: constant folder, oracle of kernel tests, and fallback.

        Inputs are never written to. Numbers follow docs/numerics.md.
        """
        raise VerificationError(f"{self.kind} cannot be evaluated")

    def find_constant_result(self, facts: Sequence[Fact | None]) -> bool | None:
        """What every element of the only output is where one known input decides that, whatever
        the others hold."""
        return None

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        """An upper bound of the bytes of temporaries that `evaluate` holds at once, from types of
        known sizes: they are charged to the memory budget before it runs, in addition to outputs.
        Blocks of bounded size (ir/scalar/blocks.py) do not count."""
        known = [(t.elements, t.dtype.numpy.itemsize) for t in (*inputs, *outputs) if t is not None]
        width, copies = self.scratch_width, self.scratch_copies
        return max((n * (width + copies * itemsize) for n, itemsize in known), default=0)

    def output_count(self) -> int:
        """How many outputs this instance has."""
        return len(self.outputs)

    def bodies(self) -> tuple[Graph, ...]:
        """Graphs that this operation holds (control flow)."""
        return ()

    def with_bodies(self, bodies: Sequence[Graph]) -> Op:
        """The same operation with other bodies of the same interfaces."""
        raise VerificationError(f"{self.kind} has no bodies")

    def body_types(self, facts: Sequence[Fact | None]) -> list[list[Type | None]]:
        """Per body, the types that its parameters have in every run, from facts by input port;
        None where only the body's own declaration defines it."""
        raise VerificationError(f"{self.kind} has no bodies")

    def run(self, values: Sequence[Any], bodies: Sequence[RunBody]) -> tuple[Any, ...]:
        """`evaluate` on inputs by port, with something that runs each body."""
        raise VerificationError(f"{self.kind} has no bodies")

    @classmethod
    def attributes(cls) -> tuple[Attribute, ...]:
        """The declared attributes in order, from the dataclass fields."""
        found = _ATTRIBUTES.get(cls)
        if found is None:
            hints = get_type_hints(cls)
            found = tuple(
                Attribute(
                    f.name,
                    f.metadata.get("xml", f.name),
                    hints[f.name],
                    f.default,
                    f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
                )
                for f in dataclasses.fields(cls)
            )
            _ATTRIBUTES[cls] = found
        return found

    def slots(self, values: list[Any], *, running: bool = False) -> list[Any]:
        """Arrange a flat list of inputs as one slot per declared port.

        Raises VerificationError where a required input is missing or there are too many. When
        `running`, None is also the value of an empty optional, so nothing is missing.
        """
        out: list[Any] = []
        for i, port in enumerate(self.inputs):
            if port.variadic:
                rest = tuple(values[i:])
                if not rest and not port.optional and not running:
                    raise VerificationError(f"{self.kind} needs at least one input {port.name!r}")
                return [*out, rest]
            value = values[i] if i < len(values) else None
            if value is None and not port.optional and not running:
                least = sum(not p.optional for p in self.inputs)
                raise VerificationError(
                    f"{self.kind} needs input {i} ({port.name!r})",
                    got=f"{sum(v is not None for v in values)} inputs",
                    expected=f"{least} or more" if least < len(self.inputs) else least,
                )
            out.append(value)
        if any(v is not None for v in values[len(self.inputs) :]):
            raise VerificationError(
                f"{self.kind} has too many inputs", got=len(values), expected=len(self.inputs)
            )
        return out


_ATTRIBUTES: dict[type[Op], tuple[Attribute, ...]] = {}
