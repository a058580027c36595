"""docs/operations.md from the code: every operation, its versions, types, who runs it, formats.

    python -m benchmarks.operations            # print the page
    python -m benchmarks.operations --write    # write docs/operations.md

Element types and ONNX's operators are found by calling `infer` for one type after another, and the
importers' tables.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from typing import Any

from irc_compiler.compiler.export.decompose import EXPANSIONS
from irc_compiler.compiler.frontends.onnx import ops as onnx_ops
from irc_compiler.compiler.frontends.onnx.ops.refused import REASONS
from irc_compiler.compiler.lowering import op_table as table
from irc_compiler.compiler.options import Options
from irc_compiler.compiler.pipeline import PASSES
from irc_compiler.ir import ops
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.op import Fact, Op
from irc_compiler.ir.types import TensorType

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operations.md"
# Operations of the graph itself, and what needs no row.
# Native without a line of their own in the table: control flow is steps of the driver, cells
# become sequences, and sizes are known to the driver.
_ALIKE = (
    *(ops.Elementwise, ops.Reduction, ops.If, ops.Loop, ops.TensorIterator),
    *(ops.RNNCell, ops.GRUCell, ops.LSTMCell),
    *(ops.ScaledDotProductAttention, ops.ShapeOf1, ops.ShapeOf),
)
# Kinds that passes write as operations with kernels.
_DECOMPOSED = frozenset(
    kind
    for each in PASSES
    for rule in each.rules(Options())
    if rule.name.startswith("decompose_")
    for kind in rule.kinds
)
_GRAPH = {"Parameter", "Result", "Constant", "TypedParameter"}
_HEAD = """# Operations

Written by `python -m benchmarks.operations --write`; a test keeps it true to the code.

Every operation is one class in `ir/ops/`. Its **versions** are those that IR's reader knows as
classes of their own (a later operation set means the latest one before it; *irc* is the dialect).
**element types**: of the first data input. **runs**: *native* has a kernel, or is written as
operations that have (some forms and types go to the host: the compile report names them and says
why), *host* is evaluated with NumPy inside the run, *state* is a value that a request hands from
run to run, *onnx.reference* is handed to the onnx package. **writes**: *IR* as it is, *expanded*
into standard operations, *dialect* only with `dialect=True` and in `.irc` files.

Measured in November 2026 with onnx 1.23.2 and openvino 2026.4.1: irc passes 2015 of ONNX's 2024
backend cases (99.6 %; `python -m benchmarks.coverage`), 1929 without onnx.reference, and all
63 with matmul or gemm in their names. Of the 1609 node cases that OpenVINO converts, irc computes
1518 from OpenVINO's IR (94.3 %; `python -m benchmarks.interop read`), and OpenVINO computes 1484
from irc's (92.2 %; `... write`). CI runs a part; `pytest tests/interop --exhaustive` runs all.

"""


_DIFFERENCES = """
## Where OpenVINO and its specification differ

irc follows the specification. Where that leaves a case open it does what the CPU plugin of
openvino 2026.4.1 does, which all of these operations are compared with:

- NonMaxSuppression 4 adds rows of -1 up to the number of boxes that there may be, as specified; the
  plugin does not. Versions 1 and 3 return the boxes that they find, as the plugin does: their
  specification reserves fewer rows than there may be boxes.
- Proposal: boxes of `framework="tensorflow"` are (y, x, y, x), and are clipped to height, then
  width. Among equal scores the first box wins, here as in the other operations that choose boxes;
  OpenVINO's order among them is not defined.
- PriorBox: a fixed size is not rounded. Sizes and ratios that contradict the
  number of boxes that OpenVINO reserves are an error. `min_max_aspect_ratios_order=false` runs with
  sizes known at run time, which the plugin refuses.
- BinaryConvolution: filters count the bits of a byte from the lowest, as OpenVINO's converter
  writes them; a padding of 0 adds nothing, as in the plugin.
- Inverse of a singular matrix is an error.
- RandomUniform and Multinomial draw other numbers from the same distribution.
- EmbeddingBag...: an index outside of the table, falling offsets and segment numbers that are out
  of range are errors.
- I420toRGB, NV12toRGB and the BGR forms round halves away from zero, as OpenVINO's reference does;
  the plugin rounds them to even.
- ExperimentalDetectronDetectionOutput clips boxes to the image, as specified; the plugin clips them
  on the left and above only.
- DeformablePSROIPooling runs with dynamic shapes, which the plugin refuses.
"""


def _classes() -> dict[str, list[type[Op]]]:
    found: dict[str, list[type[Op]]] = defaultdict(list)
    for cls in ops.ALL_OPS:
        found[cls.kind].append(cls)
    return dict(sorted(found.items()))


def _runs(classes: Iterable[type[Op]]) -> str:
    """By the lowering table, and whether there is an `evaluate`."""
    words: list[str] = []
    for cls in classes:
        native = cls in table.LOWERERS or issubclass(cls, _ALIKE) or cls.kind in _DECOMPOSED
        state = issubclass(cls, ops.ReadValue | ops.Assign)
        if state:
            word = "state"
        elif cls.__name__ == "OnnxNode":
            word = "onnx.reference"
        elif native:
            word = "native"
        else:
            word = "host" if cls.evaluate is not Op.evaluate else "graph"
        if word not in words:
            words.append(word)
    return ", ".join(words)


def _types(cls: type[Op]) -> str:
    """The element types of the first data input that `infer` takes, in words where they have one;
    shapes are left unknown, other inputs have that type or one that goes with it."""
    op = _instance(cls)
    if op is None or cls.kind in _UNTYPED:
        return "any"
    taken = frozenset(t for t in _ALL if _takes(op, t))
    for words, types in _WORDS:
        if taken == types:
            return words
    return ", ".join(t.value for t in DType if t in taken) or "any"


_NUMBERS = frozenset(t for t in DType if t.is_int or t.is_float)
_INTEGERS = frozenset(t for t in DType if t.is_int)
_FLOATS = frozenset(t for t in DType if t.is_float)
_BOOLEAN, _STRING = frozenset([DType.boolean]), frozenset([DType.string])
_COMPLEX = frozenset([DType.c64, DType.c128])
_ALL = _NUMBERS | _BOOLEAN | _STRING | _COMPLEX
_WORDS = (
    ("any", _ALL),
    ("any but strings", _ALL - _STRING),
    ("numbers, booleans, strings", _ALL - _COMPLEX),
    ("numbers, booleans", _NUMBERS | _BOOLEAN),
    ("numbers", _NUMBERS),
    ("floats", _FLOATS),
    ("numbers but nf4", _NUMBERS - {DType.nf4}),
    ("floats but nf4", _FLOATS - {DType.nf4}),
    ("integers, booleans", _INTEGERS | _BOOLEAN),
    ("integers", _INTEGERS),
    ("booleans", _BOOLEAN),
)
# Whose types follow from what they hold.
_UNTYPED = {"If", "Loop", "TensorIterator", "Group", "OnnxNode"}
_ATTRIBUTES: dict[str, Any] = {
    "equation": "a->a",
    "mode": "max",
    "sort": "value",
    "activation": "identity",
    "function": "identity",
    "target": DType.f32,
    "counted": "f32[]",
    "auto_pad": "explicit",
    "variable_id": "v",
}
_BY_TYPE: dict[str, Any] = {"int": 1, "float": 1.0, "bool": False, "str": "", "DType": DType.f32}


def _instance(cls: type[Op]) -> Op | None:
    """An instance with plausible values for the attributes that it needs."""
    values: dict[str, Any] = {}
    for attribute in cls.attributes():
        if not attribute.required:
            continue
        name = getattr(attribute.annotation, "__name__", "")
        values[attribute.name] = _ATTRIBUTES.get(attribute.name, _BY_TYPE.get(name, (1,)))
    try:
        return cls(**values)
    except Exception:  # no plausible values: the page says "any"
        return None


def _takes(op: Op, dtype: DType) -> bool:
    data = next((i for i, p in enumerate(op.inputs) if p.name not in ("cond", "condition")), 0)
    ports = [p for p in op.inputs if not p.optional]
    others = {dtype, DType.i64, DType.i32, DType.f32, DType.boolean}
    if len(ports) > 4:
        others = {dtype, DType.i64}
    for kinds in itertools.product(others, repeat=len(ports)):
        if not ports or kinds[min(data, len(ports) - 1)] is not dtype:
            continue
        facts = [Fact(TensorType(k, None)) for k in kinds]
        try:
            op.infer(*op.slots(list(facts)))
        except Exception:
            continue
        return True
    return False


def _writes(classes: Iterable[type[Op]]) -> str:
    words: list[str] = []
    for cls in classes:
        word = "IR" if cls.version else "expanded" if cls.kind in EXPANSIONS else "dialect"
        if word not in words:
            words.append(word)
    return ", ".join(words)


def _version(cls: type[Op]) -> str:
    return str(cls.version) if cls.version else "irc"


def _importers() -> dict[str, dict[str, list[int]]]:
    """Domain -> operator -> the versions from which on an importer holds."""
    found: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for name, versions in onnx_ops.IMPORTERS.items():
        domain, _, kind = name.rpartition("::")
        found[domain or "ai.onnx"][kind] = sorted(versions)
    return found


def _by_reference() -> set[str]:
    from irc_compiler.compiler.frontends.onnx.ops import reference

    return {name.rpartition("::")[2] for name in reference.IMPORTERS}


def _refused(read: int) -> list[str]:
    """What of com.microsoft is refused, by reason."""
    listed: dict[str, list[str]] = defaultdict(list)
    for name, reason in REASONS.items():
        listed[reason].append(name)
    lines = [
        f"irc reads these {read} operators of com.microsoft, all but {_of_cpu()} of those that",
        f"onnxruntime's CPU provider runs, and refuses {len(REASONS)} with a reason:",
        "",
    ]
    for reason, names in listed.items():
        text = f"- {', '.join(names)}: {reason}"
        lines += wrap(text, 100, subsequent_indent="  ", break_long_words=False)
    return [*lines, ""]


def _of_cpu() -> int:
    """How many operators are refused though onnxruntime's CPU provider has them."""
    others = ("GPUs", "processor", "accelerator")
    return sum(not any(word in reason for word in others) for reason in REASONS.values())


def page() -> str:
    """The text of docs/operations.md."""
    classes = _classes()
    lines = [_HEAD + f"{len(classes)} operations in {len(ops.ALL_OPS)} versions.", ""]
    lines += ["| operation | versions | element types | runs | writes |", "|---|---|---|---|---|"]
    for kind, versions in classes.items():
        if kind in _GRAPH:
            continue
        cells = (
            kind,
            ", ".join(_version(c) for c in sorted(versions, key=lambda c: c.version)),
            _types(versions[-1]),
            _runs(versions),
            _writes(versions),
        )
        lines.append(f"| {' | '.join(cells)} |")
    reference = _by_reference()
    lines += [_DIFFERENCES, "## ONNX's operators", ""]
    lines += [
        "The number is the version of the operator set from which on an importer holds; what the",
        "onnx package defines as a function of others is expanded. *(r)*: evaluated by",
        "onnx.reference.",
        "",
    ]
    for domain, kinds in sorted(_importers().items()):
        lines += [f"### {domain}", ""]
        for kind, versions in sorted(kinds.items()):
            mark = " *(r)*" if kind in reference else ""
            lines.append(f"- {kind} {', '.join(map(str, versions))}{mark}")
        lines.append("")
        if domain == "com.microsoft":
            lines += _refused(len(kinds))
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/operations.md")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
