"""From a layer's type and version to the class of the operation; unknown ones in one error.

`opsetN` names the latest class with a version of at most N. Types are looked up in any case, as
OpenVINO does. `version="irc"` is our own dialect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....ir.errors import Lines, UnsupportedOperationError
from ....ir.extensions import find_in_ir
from ....ir.op import Op
from ....ir.ops import find
from .schema_records import Net, XmlLayer
from .text import shorten_text

DIALECT = "irc"
MAX_OPSET = 17
_OPSET = re.compile(r"opset([1-9][0-9]?)", re.ASCII)
# Older files name operations of later sets so (openvino_ir.md 1.4).
_OTHER_SETS = {"experimental": 6, "extension": 6}
_MAX_LISTED = 50
_MAX_EXAMPLES = 3


def look_up(layer: XmlLayer) -> type[Op] | None:
    """The class of a layer's operation, or None where there is none."""
    extension = find_in_ir(layer.type, layer.version)
    if extension is not None:
        return extension
    opset = 0 if layer.version == DIALECT else _opset(layer.version)
    return None if opset is None else find(layer.type, opset)


def _opset(version: str) -> int | None:
    if version in _OTHER_SETS:
        return _OTHER_SETS[version]
    match = _OPSET.fullmatch(version)
    return int(match[1]) if match and int(match[1]) <= MAX_OPSET else None


def refuse_unsupported(layers: list[XmlLayer], file: str) -> None:
    """Raise one UnsupportedOperationError that lists every operation irc does not have."""
    missing: dict[tuple[str, str], list[XmlLayer]] = {}
    for layer in layers:
        if look_up(layer) is None:
            missing.setdefault((layer.type, layer.version), []).append(layer)
    if not missing:
        return
    groups = sorted(missing.items(), key=lambda item: (-len(item[1]), item[0]))
    lines = [_line(*key, found) for key, found in groups[:_MAX_LISTED]]
    if len(groups) > _MAX_LISTED:
        lines.append(f"... and {len(groups) - _MAX_LISTED} more kinds")
    total = sum(len(found) for found in missing.values())
    what = f"{total} layers have" if total > 1 else "one layer has"
    raise UnsupportedOperationError(
        f"{what} an operation that is not supported",
        where=file,
        got=Lines(lines),
        expected="operations that docs/operations.md lists",
        fix="define them: read_model(..., extensions=[...]), or --extension MODULE",
    )


def _line(kind: str, version: str, layers: list[XmlLayer]) -> str:
    shown = ", ".join(f"{layer.origin}{_precisions(layer)}" for layer in layers[:_MAX_EXAMPLES])
    more = len(layers) - _MAX_EXAMPLES
    rest = f" and {more} more" if more > 0 else ""
    unknown_set = "" if version == DIALECT or _opset(version) else " (no such operation set)"
    what = f"{shorten_text(kind)[1:-1]} {shorten_text(version)[1:-1]}{unknown_set}"
    return f"{what}: {len(layers)} x, {shown}{rest}"


def _precisions(layer: XmlLayer) -> str:
    ports = [port.precision for port in (*layer.inputs, *layer.outputs) if port.precision]
    return f" [{', '.join(dict.fromkeys(ports))}]" if ports else ""


def nested_layers(net: Net, order: list[int]) -> Iterator[XmlLayer]:
    """The layers of a net that count (by position), and all layers of their bodies."""
    pending = [net.layers[i] for i in reversed(order)]
    while pending:
        layer = pending.pop()
        yield layer
        for body in layer.bodies.values():
            pending.extend(reversed(body.layers))
