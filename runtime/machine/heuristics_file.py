"""The file of thresholds that IRC_HEURISTICS names: TOML, one threshold a line.

gemm_a_block_l2_divisor = 4
amx_max_block_rows = 192
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ...ir.errors import UsageError, VerificationError
from ...plan.heuristics import DEFAULT_HEURISTICS, Heuristics

_MAX_BYTES: Final = 1 << 16


def chosen_heuristics() -> Heuristics:
    """The thresholds of this process: those of the file that IRC_HEURISTICS names, else the
    defaults. UsageError for a file that cannot be read, is not TOML, or has a wrong entry."""
    name = os.environ.get("IRC_HEURISTICS", "")
    return read_heuristics(Path(name)) if name else DEFAULT_HEURISTICS


def read_heuristics(path: Path) -> Heuristics:
    """The thresholds of a file; those that it does not name have their defaults."""
    import tomllib

    where = f"{path} (environment variable IRC_HEURISTICS)"
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            "the file of heuristics cannot be read", where=where, got=reason
        ) from error
    if len(data) > _MAX_BYTES:
        raise UsageError(
            "the file of heuristics is too large",
            where=where,
            got=f"more than {_MAX_BYTES} bytes",
            expected=f"at most {_MAX_BYTES}",
        )
    try:
        return Heuristics.from_dict(tomllib.loads(data.decode()))
    except (ValueError, RecursionError) as error:
        got = " ".join(str(error).split())[:200]
        raise UsageError(
            "the file of heuristics is not TOML", where=where, got=got, expected="name = number"
        ) from error
    except VerificationError as error:
        raise UsageError(
            error.what,
            where=f"{error.where} in {where}",
            got=error.got,
            expected=error.expected,
            fix=error.fix,
        ) from error
