"""Frozen dataclasses whose methods are made when they are needed, one by one.

The standard library compiles six functions for each class in 0.4 to 0.8 ms: most of the time of an
import, and up to a sixth of the time of a first compile. A process uses a quarter of the classes
that it imports, and of many only `__init__`. Here, `@dataclass(frozen=True)`, with `eq=False` or
without, puts placeholders where methods belong. A placeholder is replaced at its first use. Where
fields are simple, what replaces it does the same as the standard library's method and is made in a
fifth of the time; in other cases it is the standard library's. Fields are simple that are compared,
and not keyword only. Other options, and what the standard library refuses, are passed to it at
once.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

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


@dataclasses.dataclass(frozen=True)
class _ReferenceClass:
    """Has what is the same in all classes of the standard library."""

    constant: ClassVar[int] = 0
    variable: list[int] = field(default_factory=list[int])


_REFERENCE: Final[Mapping[str, Any]] = dict(vars(_ReferenceClass))
# What the standard library adds to a class.
_ADDED: Final = tuple(name for name in _ADDED_BY_SOME_VERSION if name in _REFERENCE)
_COMPARED: Final = ("__eq__", "__hash__")  # not added with eq=False
_PARAMETERS_WITHOUT_EQ: Final = copy.copy(_REFERENCE[_PARAMETERS])
_PARAMETERS_WITHOUT_EQ.eq = False
# The kinds of a field, and the default value of a parameter whose field has a factory.
_CONSTANT, _VARIABLE = (_REFERENCE[_FIELDS][n]._field_type for n in ("constant", "variable"))
_FACTORY: Final = _REFERENCE["__init__"].__defaults__[0]
# Annotations that say more than a type.
_SPECIAL: Final = re.compile(r"\b(?:ClassVar|InitVar|KW_ONLY)\b")

_Fields = dict[str, "Field[Any]"]


class _Declaration:
    """What a class declared: annotations, values of fields, and methods of its own. eq: whether it
    is compared by its fields."""

    def __init__(self, owner: Any, declared: dict[str, Any], eq: bool) -> None:
        self.owner, self.declared, self.eq = owner, declared, eq

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """What `dataclass` adds to the class, by name."""
        return tuple(n for n in _ADDED if self.eq or n not in _COMPARED)

    @property
    def parameters(self) -> Any:
        """The options, as the standard library has them."""
        return _REFERENCE[_PARAMETERS] if self.eq else _PARAMETERS_WITHOUT_EQ

    @functools.cached_property
    def fields(self) -> _Fields | None:
        """The fields as the standard library lists them, those of bases first; None where one is
        not simple, or is wrong."""
        found: _Fields = {}
        for base in reversed(self.owner.__mro__[1:]):
            inherited: Any = base.__dict__.get(_FIELDS, {})
            if isinstance(inherited, _Placeholder):
                inherited = inherited.declaration.fields
            if inherited is None:
                return None
            found |= inherited
        for name, type_ in self.declared["__annotations__"].items():
            made = self._make_field(name, type_)
            if made is None:
                return None
            found[name] = made
        good = all(_is_simple(f) for f in found.values()) and "self" not in found
        return found if good else None

    def _make_field(self, name: str, type_: Any) -> Field[Any] | None:
        is_constant = self._is_constant(type_)
        # As the standard library does, which finds values of bases, too.
        value = self.declared.get(name, getattr(self.owner, name, MISSING))
        if is_constant is None or inspect.ismemberdescriptor(value):
            return None
        made: Any = field(default=value)
        if isinstance(value, Field):
            declared = cast("Field[Any]", value)
            if not _is_simple(declared):
                return None
            made = field(init=declared.init, repr=declared.repr, metadata=declared.metadata)
            made.default, made.default_factory = declared.default, declared.default_factory
        if is_constant and made.default_factory is not MISSING:
            return None
        made.name, made.type = name, type_
        made._field_type = _CONSTANT if is_constant else _VARIABLE
        if not is_constant:
            made.kw_only = False
        return made

    def _is_constant(self, type_: Any) -> bool | None:
        """Whether an annotation is that of a class variable; None where that is not clear."""
        if not isinstance(type_, str):
            return None
        if _SPECIAL.search(type_) is None:
            return False
        module = sys.modules.get(self.owner.__module__)
        known = getattr(module, "ClassVar", None) is ClassVar and type_.startswith("ClassVar[")
        return True if known else None


def _is_simple(f: Any) -> bool:
    """Whether a field is a class variable, or an instance's: compared, no keyword only, with a
    default that is allowed, and without a factory if `__init__` has no parameter for it."""
    plain = f.compare and f.hash is None and (f.init or f.default_factory is MISSING)
    allowed = f.kw_only is not True and type(f.default).__hash__ is not None
    return f._field_type is _CONSTANT or (plain and allowed)


class _Placeholder:
    """An attribute that `dataclass` adds to a class, made when it is first read."""

    def __init__(self, name: str, declaration: _Declaration) -> None:
        self.name, self.declaration = name, declaration

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        value = self._make()
        # Functions become methods; what is not a function stays as it is.
        return value.__get__(instance, owner) if inspect.isfunction(value) else value

    def _make(self) -> Any:
        cls, make, fields = self.declaration.owner, _MAKERS.get(self.name), None
        if make is not None:
            fields = self.declaration.fields
        value = None if make is None or fields is None else make(cls, fields)
        if self.name == _PARAMETERS:
            value = self.declaration.parameters
        if value is None:
            return _complete(self.declaration)[self.name]
        if inspect.isfunction(value):
            value.__qualname__ = f"{cls.__qualname__}.{self.name}"
            value.__module__ = cls.__module__
        setattr(cls, self.name, value)
        return value


def _make_lazily(cls: Any, eq: bool = True) -> Any:
    if _is_refused(cls):
        return dataclasses.dataclass(frozen=True, eq=eq)(cls)
    annotations = inspect.get_annotations(cls)
    body: dict[str, Any] = cls.__dict__
    own = {name: body[name] for name in (*annotations, *_ADDED) if name in body}
    # A class that defines __eq__ has None as its __hash__, which is not its own.
    if own.get("__hash__", cls) is None:
        del own["__hash__"]
    declaration = _Declaration(cls, {"__annotations__": annotations, **own}, eq)
    for name, value in own.items():
        if isinstance(value, Field):
            _replace_field(cls, name, cast("Field[Any]", value))
    for name in declaration.attribute_names:
        if name not in own:
            setattr(cls, name, _Placeholder(name, declaration))
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


# -- methods of classes with simple fields -------------------------------------------------------


def _names_of(fields: _Fields) -> tuple[str, ...]:
    return tuple(n for n, f in fields.items() if cast("Any", f)._field_type is _VARIABLE)


def _list_parameters(fields: _Fields) -> tuple[str, ...]:
    return tuple(n for n in _names_of(fields) if fields[n].init)


def _make_init(cls: Any, fields: _Fields) -> Any:
    """None where a field without a default follows one that has one."""
    names = _list_parameters(fields)
    factories = {n: f for n in names if (f := fields[n].default_factory) is not MISSING}
    defaults = {n: f for n in names if (f := fields[n].default) is not MISSING}
    defaults |= dict.fromkeys(factories, _FACTORY)
    optional = names[len(names) - len(defaults) :]
    if set(optional) != set(defaults):
        return None
    space: dict[str, Any] = {"_set_attribute": object.__setattr__, "_factory": _FACTORY}
    space |= {f"_make_{n}": f for n, f in factories.items()}
    values = {n: f"_make_{n}() if {n} is _factory else {n}" for n in factories}
    lines = [f"_set_attribute(self, {n!r}, {values.get(n, n)})" for n in names]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(("self", *(f"{n}=None" if n in defaults else n for n in names)))
    exec(f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]), space)
    made = space["__init__"]
    made.__defaults__ = tuple(defaults[n] for n in optional) or None
    made.__annotations__ = {**{n: fields[n].type for n in names}, "return": None}
    return made


def _read_values(fields: _Fields) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of an instance's fields."""
    names = _names_of(fields)
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _make_eq(cls: Any, fields: _Fields) -> Any:
    del cls
    read = _read_values(fields)

    def __eq__(self: Any, other: Any) -> bool:
        return read(self) == read(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _make_hash(cls: Any, fields: _Fields) -> Any:
    del cls
    read = _read_values(fields)

    def __hash__(self: Any) -> int:
        return hash(read(self))

    return __hash__


def _make_repr(cls: Any, fields: _Fields) -> Any:
    del cls
    names = [n for n in _names_of(fields) if fields[n].repr]

    @recursive_repr("...")
    def __repr__(self: Any) -> str:
        values = (f"{n}={getattr(self, n)!r}" for n in names)
        return f"{self.__class__.__qualname__}({', '.join(values)})"

    return __repr__


_MAKERS: Final[dict[str, Callable[[Any, _Fields], Any]]] = {
    "__init__": _make_init,
    "__repr__": _make_repr,
    "__eq__": _make_eq,
    "__hash__": _make_hash,
    "__match_args__": lambda cls, fields: _list_parameters(fields),
    _FIELDS: lambda cls, fields: fields,
}


# -- methods of the standard library -------------------------------------------------------------


def _complete(declaration: _Declaration) -> dict[str, Any]:
    """Give a class what `dataclass` adds to it; all of that, by name.

    Threads may do this at once: each makes the same. Nothing is taken away before its replacement
    is there, so the methods are made for another class, which has the same fields.
    """
    cls = declaration.owner
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
        {_FIELDS: inherited, _PARAMETERS: _REFERENCE[_PARAMETERS], "__annotations__": types},
    )
    made: Any = type(cls.__name__, (base,), names | declaration.declared)
    dataclasses.dataclass(frozen=True, eq=declaration.eq)(made)
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
        """`dataclasses.dataclass`; methods of frozen classes are made at first use."""
        if cls is None and options in ({"frozen": True}, {"frozen": True, "eq": False}):
            return functools.partial(_make_lazily, eq=options.get("eq", True))
        return dataclasses.dataclass(cls, **options)
