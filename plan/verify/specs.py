"""Verifies what kernel generators rely on: ranges, ranks, and each family's own `Spec.verify`.

`verify_plan` and `RegionLayoutTables` keep a step's operands inside their buffers. A generator
trusts more than that: that a program's instructions are well-formed and typed, that what it stores
has the type of the operand it stores to, and that packed panels have the Target's width. Lowering
writes specs for which all of it holds; a spec from a file is believed only after this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...ir.types import MAX_RANK
from ..specs.base import Spec, verified_spaces
from ..specs.checks import spec_error
from ..target import Target
from .spec_ranges import check_ranges

MAX_OPERANDS: Final = 256


def verify_specs(specs: Sequence[Spec], target: Target) -> None:
    """VerificationError where a generator for `target` could be misled."""
    for spec in specs:
        where = spec.where
        check_ranges(spec, where)
        count = len(spec.operands())
        if count > MAX_OPERANDS:
            raise spec_error("a kernel has too many operands", where, count, MAX_OPERANDS)
        if any(len(space) > MAX_RANK for space in verified_spaces(spec)):
            raise spec_error("a kernel has too many axes", where, "", MAX_RANK)
        spec.verify(target)
        # Generated code depends on the sizes that are known; the others come with a call.
        spec.verify_sizes(lambda s: s if isinstance(s, int) else 0, where)
