"""Operations, one file per family; catalog.py has all of them on one screen.

`from irc_compiler.ir.ops import MatMul` loads the catalog, and with it every family. A stored plan
names the files of the operations that it evaluates, and loads no others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalog import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        try:
            value = getattr(import_module(".catalog", __name__), name)
        except AttributeError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        globals()[name] = value
        return value
