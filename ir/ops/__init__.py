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
        catalog = import_module(".catalog", __name__)
        if not hasattr(catalog, name):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        globals()[name] = value = getattr(catalog, name)
        return value
