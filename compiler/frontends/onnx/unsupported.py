"""Operations that irc does not have, collected over a whole model and reported in one error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ....ir.errors import Lines, UnsupportedOperationError
from ....ir.types import TensorType, Type
from ..xml.text import shorten_text
from .ops import refused

# Why a whole domain is not read.
_DOMAIN_REASONS = {
    "com.microsoft.nchwc": "weights in the blocks of the processor that onnxruntime ran on: save "
    "the model again with graph_optimization_level ORT_ENABLE_EXTENDED",
}
_MAX_LISTED = 50
_MAX_EXAMPLES = 3


@dataclass
class Unsupported:
    """What could not be imported: (operator and operator set, reason) -> nodes with their types."""

    found: dict[tuple[str, str], list[str]] = field(
        default_factory=dict[tuple[str, str], list[str]]
    )

    def add(
        self,
        op_type: str,
        domain: str,
        version: int | None,
        label: str,
        types: Sequence[Type | None],
        reason: str = "",
    ) -> None:
        """Record one node. `version` None: the model imports no operator set of that domain."""
        operator_set = f"{shorten_text(domain)[1:-1] or 'ai.onnx'} {version or '(not imported)'}"
        key = (
            f"{shorten_text(op_type)[1:-1]} of {operator_set}",
            reason or _reason_of(op_type, domain),
        )
        self.found.setdefault(key, []).append(f"{label}{_dtypes(types)}")

    def add_input(self, kind: str, label: str) -> None:
        """Record an input that is not a tensor but of another kind (sequence, optional, ...)."""
        self.found.setdefault((f"an input of {kind} type", ""), []).append(label)

    def check(self, label: str) -> None:
        """Raise the one error, if there is anything to report."""
        if not self.found:
            return
        groups = sorted(self.found.items(), key=lambda item: (-len(item[1]), item[0]))
        lines = [_line(*key, nodes) for key, nodes in groups[:_MAX_LISTED]]
        if len(groups) > _MAX_LISTED:
            lines.append(f"... and {len(groups) - _MAX_LISTED} more kinds")
        total = sum(map(len, self.found.values()))
        what = f"{total} nodes have operations" if total > 1 else "one node has an operation"
        raise UnsupportedOperationError(
            f"{what} or types that are not supported",
            where=label,
            got=Lines(lines),
            expected="operations that docs/operations.md lists",
            fix="define them: read_model(..., extensions=[...]), or --extension MODULE",
        )


def _reason_of(op_type: str, domain: str) -> str:
    if domain == "com.microsoft":
        return refused.REASONS.get(op_type, "")
    return _DOMAIN_REASONS.get(domain, "")


def _line(what: str, reason: str, nodes: list[str]) -> str:
    shown = ", ".join(nodes[:_MAX_EXAMPLES])
    more = f" and {len(nodes) - _MAX_EXAMPLES} more" if len(nodes) > _MAX_EXAMPLES else ""
    why = f" ({reason})" if reason else ""
    return f"{what}{why}: {len(nodes)} x, {shown}{more}"


def _dtypes(types: Sequence[Type | None]) -> str:
    names: Counter[str] = Counter()
    for type_ in types:
        if type_ is not None:
            names[str(type_.dtype if isinstance(type_, TensorType) else type_)] += 1
    return f" [{', '.join(names)}]" if names else ""
