"""AttributeErrors of the stand-ins: they name the nearest attribute that exists."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from .stand_ins import find_attribute

_GUIDE = "docs/migrating.md lists what it has"


def raise_no_attribute(owner: str, name: str, known: Iterable[str]) -> NoReturn:
    """AttributeError that says which attribute `name` may mean."""
    public = sorted(n for n in known if not n.startswith("_"))
    lowered = {n.lower(): n for n in public}
    found = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    nearest = f"; the nearest that it has is {lowered[found[0]]!r}" if found else ""
    text = f"{owner} of irc has no attribute {name!r}{nearest}; {_GUIDE}"
    raise AttributeError(text, name=name)


class NamesNearest:
    """A class whose AttributeErrors name the nearest attribute."""

    def __getattr__(self, name: str) -> Any:
        raise_no_attribute(type(self).__name__, name, dir(self))


def module_attributes(module: str, names: Mapping[str, Any]) -> Callable[[str], Any]:
    """A module's `__getattr__`. `names` are its globals."""

    def find(name: str) -> Any:
        if name.startswith("__"):  # Python itself looks for these
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        with suppress(AttributeError):
            return find_attribute(module, name)
        raise_no_attribute(module, name, names)

    return find
