"""Frozen dataclasses whose methods are made when the first of them is needed.

The standard library compiles six functions for each class, which takes most of the time of an
import, and a process uses a quarter of the classes that it imports. Here, `@dataclass(frozen=True)`
puts placeholders where they belong, and the class is what the standard library makes of it from
their first use on. Other options, and what it refuses, are passed to the standard library at once.
"""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import MISSING, Field, FrozenInstanceError
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

_FIELDS: Final = "__dataclass_fields__"
_PARAMETERS: Final = "__dataclass_params__"
_ADDED_BY_SOME_VERSION: Final = (
    "__init__",
    "__repr__",
    "__eq__",
    "__hash__",
    "__replace__",  # from CPython 3.13 on
    "__match_args__",
    _PARAMETERS,
    _FIELDS,
)
_SAMPLE: Final = vars(dataclasses.make_dataclass("Sample", (), frozen=True))
# What the standard library adds to a class.
_ADDED: Final = tuple(name for name in _ADDED_BY_SOME_VERSION if name in _SAMPLE)


class _Placeholder:
    """An attribute that `dataclass` adds to a class, made when it is first read.

    declared: what the class declared: annotations, values of fields, and methods of its own.
    """

    def __init__(self, name: str, owner: Any, declared: dict[str, Any]) -> None:
        self.name, self.owner, self.declared = name, owner, declared

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        value = _complete(self.owner, self.declared)[self.name]
        # Functions become methods; what is not a function stays as it is.
        return value.__get__(instance, owner) if inspect.isfunction(value) else value


def _make_lazily(cls: Any) -> Any:
    if _is_refused(cls):
        return dataclasses.dataclass(frozen=True)(cls)
    annotations = inspect.get_annotations(cls)
    body: dict[str, Any] = cls.__dict__
    own = {name: body[name] for name in (*annotations, *_ADDED) if name in body}
    # A class that defines __eq__ has None as its __hash__, which is not its own.
    if own.get("__hash__", cls) is None:
        del own["__hash__"]
    declared: dict[str, Any] = {"__annotations__": annotations, **own}
    for name, value in own.items():
        if isinstance(value, Field):
            _replace_field(cls, name, cast("Field[Any]", value))
    for name in _ADDED:
        if name not in own:
            setattr(cls, name, _Placeholder(name, cls, declared))
    cls.__setattr__ = _refuse_assignment
    cls.__delattr__ = _refuse_deletion
    return cls


def _is_refused(cls: Any) -> bool:
    """Whether `dataclass` may refuse to freeze a class: it sets attributes itself, or a base is
    not frozen."""
    sets_attributes = "__setattr__" in cls.__dict__ or "__delattr__" in cls.__dict__
    found: list[Any] = [base.__dict__.get(_PARAMETERS) for base in cls.__mro__[1:]]
    made = [p for p in found if p is not None and not isinstance(p, _Placeholder)]
    return sets_attributes or any(not p.frozen for p in made)


def _replace_field(cls: Any, name: str, declared: Field[Any]) -> None:
    """Give an attribute the default value that `field` was called with."""
    if declared.default is MISSING:
        delattr(cls, name)
    else:
        setattr(cls, name, declared.default)


def _complete(cls: Any, declared: dict[str, Any]) -> dict[str, Any]:
    """Give a class what `dataclass` adds to it; all of that, by name.

    Threads may do this at once: each makes the same. Nothing is taken away before its replacement
    is there, so the methods are made for another class, which has the same fields.
    """
    # Without a text of its own, `dataclass` makes one, in as much time as its methods.
    text = cls.__doc__ or cls.__name__
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": text}
    if hasattr(cls, "__post_init__"):
        names["__post_init__"] = cls.__post_init__
    inherited: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= getattr(base, _FIELDS, {})
    types = {name: found.type for name, found in inherited.items()}
    base = type(
        "Base",
        (),
        {_FIELDS: inherited, _PARAMETERS: _SAMPLE[_PARAMETERS], "__annotations__": types},
    )
    made: Any = type(cls.__name__, (base,), names | declared)
    dataclasses.dataclass(frozen=True)(made)
    added: dict[str, Any] = dict(made.__dict__)
    for name in _ADDED:
        if isinstance(cls.__dict__.get(name), _Placeholder) and name in added:
            setattr(cls, name, added[name])
    return added


def _refuse_assignment(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


if not TYPE_CHECKING:

    def dataclass(cls=None, /, **options):
        """`dataclasses.dataclass`; methods of `@dataclass(frozen=True)` are made at first use."""
        if options == {"frozen": True} and cls is None:
            return _make_lazily
        return dataclasses.dataclass(cls, **options)
