"""Kernel specs: one class per family of kernels, which holds all facts about it."""

from __future__ import annotations

import functools
from importlib import import_module
from pkgutil import iter_modules

from .base import Spec


@functools.cache
def find_specs() -> tuple[type[Spec], ...]:
    """The spec class of every kernel family: those that the files of this package define, by file
    name. A new family needs no line here. The files are not loaded before: a stored plan needs few
    of them."""
    modules = [import_module(f".{found.name}", __name__) for found in iter_modules(__path__)]
    return tuple(
        member
        for module in modules
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, Spec)
        and member.__module__ == module.__name__
        and vars(member).get("family")
    )
