"""What a caller can choose about compilation, in one frozen value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ..ir.lazy_dataclass import dataclass

# Constant folding may make a model's constants grow by at most this much
# (docs/dev/architecture.md).
FOLDING_LIMIT = 64 * 2**20
PRECISIONS = ("f32", "bf16", "f16")
CONV_ALGORITHMS = ("auto", "direct")
DENORMALS = ("auto", "flush", "keep")
ACTIVATIONS = ("f32", "int8")


@dataclass(frozen=True)
class Options:
    """Options of the passes and of lowering.

    precision: "f32" keeps a float32 model in float32; "bf16" lets matrix products and
    convolutions take bf16 operands, "f16" lets matrix products take f16 operands. fold_limit: bytes
    by which folding may enlarge the constants.
    verify: check the graph after every pass. stop_after: stop once this many rules have fired (a
    bisecting tool).
    conv_algorithm: "auto" lets 3x3 convolutions use Winograd's transform, "direct" does not.
    denormals: "flush" takes floating-point numbers below the smallest normal one for zeros, "keep"
    computes with them, "auto" flushes unless the model holds such a number as a constant.
    activations: "int8" quantizes, at run time, what is multiplied by compressed weights; "f32" does
    not.
    """

    precision: str = "f32"
    fold_limit: int = FOLDING_LIMIT
    verify: bool = False
    stop_after: int | None = None
    conv_algorithm: str = "auto"
    denormals: str = "auto"
    activations: str = "f32"


Shapes = Mapping[str, Sequence[int | str | None]]


def to_compile_config(options: Options, shapes: Shapes) -> dict[str, Any]:
    """What decides a plan, besides model and Target, as JSON: equal recipes give equal plans."""
    from ..ir.serialization.dataclass_json import encode

    plain = encode(replace(options, verify=False))
    return {"options": plain, "shapes": {n: list(s) for n, s in sorted(shapes.items())}}


def from_recipe(recipe: Any) -> tuple[Options, Shapes]:
    """What to_compile_config wrote. VerificationError for anything else."""
    from ..ir.serialization.dataclass_json import decode, encode, invalid_data_error

    given = cast("dict[str, Any]", recipe) if isinstance(recipe, dict) else {}
    if set(given) != {"options", "shapes"} or not isinstance(given["shapes"], dict):
        raise invalid_data_error(recipe, "options, and shapes by name")
    # An older irc had fewer options: those it did not know are as they were, at their defaults.
    stored = given["options"]
    if not isinstance(stored, dict):
        raise invalid_data_error(stored, "options by name")
    known = {**encode(Options()), **cast("dict[str, Any]", stored)}
    options: Options = decode(Options, known)
    if options.precision not in PRECISIONS or not 0 <= options.fold_limit <= FOLDING_LIMIT:
        raise invalid_data_error(given["options"], "options that irc has")
    if options.conv_algorithm not in CONV_ALGORITHMS:
        raise invalid_data_error(options.conv_algorithm, " or ".join(CONV_ALGORITHMS))
    if options.denormals not in DENORMALS:
        raise invalid_data_error(options.denormals, " or ".join(DENORMALS))
    if options.activations not in ACTIVATIONS:
        raise invalid_data_error(options.activations, " or ".join(ACTIVATIONS))
    sizes = tuple[int | str | None, ...]
    shapes = cast("dict[str, Any]", given["shapes"])
    return options, {decode(str, name): list(decode(sizes, s)) for name, s in shapes.items()}
