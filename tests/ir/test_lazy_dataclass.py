"""Frozen dataclasses that are made at their first use are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import threading
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pytest
from irc_compiler.ir import lazy_dataclass
from irc_compiler.ir.lazy_dataclass import dataclass

Decorator = Callable[..., Any]
_USUAL: Any = dataclasses.make_dataclass("Usual", (), frozen=True).__dict__["__dataclass_params__"]
ROOT = Path(lazy_dataclass.__file__).parents[1]


def plain(decorate: Decorator) -> type:
    @decorate(frozen=True)
    class Pair:
        """Two numbers."""

        kind: ClassVar[str] = "pair"
        a: int
        b: float = 2.5

        @cached_property
        def total(self) -> float:
            return self.a + self.b

    return Pair


def with_fields(decorate: Decorator) -> type:
    @decorate(frozen=True)
    class Pair:
        a: int = field(metadata={"xml": "A"})
        b: list[int] = field(default_factory=list[int], compare=False)
        c: str = field(default="c", repr=False, kw_only=True)

    return Pair


def with_post_init(decorate: Decorator) -> type:
    @decorate(frozen=True)
    class Pair:
        a: int
        b: int = 0

        def __post_init__(self) -> None:
            object.__setattr__(self, "b", self.a + 1)

    return Pair


def with_own_methods(decorate: Decorator) -> type:
    @decorate(frozen=True)
    class Pair:
        a: int
        b: int = 3

        def __repr__(self) -> str:
            return f"<{self.a}>"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.a == other.a

    return Pair


def with_own_hash(decorate: Decorator) -> type:
    @decorate(frozen=True)
    class Pair:
        a: int

        def __hash__(self) -> int:
            return 7

    return Pair


def derived(decorate: Decorator) -> type:
    base = plain(decorate)

    @decorate(frozen=True)
    class Derived(base):
        c: int = 4
        b: float = 1.0

    return Derived


def undecorated(decorate: Decorator) -> type:
    class Derived(derived(decorate)):
        pass

    return Derived


def joined(decorate: Decorator) -> type:
    @decorate(frozen=True)
    class Joined(undecorated(decorate), with_post_init(decorate)):
        d: int = 5

    return Joined


def without_fields(decorate: Decorator) -> type:
    @decorate(frozen=True)
    class Empty:
        def __init__(self, *values: int) -> None:
            del values

    return Empty


def with_simple_fields(decorate: Decorator) -> type:
    @decorate(frozen=True)
    class Pair:
        a: int = field(default=3, metadata={"range": (1, 4)})
        b: int = field(init=False)
        c: int = field(init=False, repr=False, default=7)
        d: int = field(repr=False, default=8)

        def __post_init__(self) -> None:
            object.__setattr__(self, "b", self.a + 1)

    return Pair


def without_comparison(decorate: Decorator) -> type:
    @decorate(frozen=True, eq=False)
    class Pair:
        a: int
        b: int = 3

    return Pair


def derived_without_comparison(decorate: Decorator) -> type:
    @decorate(frozen=True, eq=False)
    class Derived(plain(decorate)):
        c: int = 4

    return Derived


def with_own_comparison(decorate: Decorator) -> type:
    @decorate(frozen=True, eq=False)
    class Pair:
        a: int
        b: list[int] = field(default_factory=list[int], compare=False)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.a == other.a

        def __hash__(self) -> int:
            return hash(self.a)

    return Pair


MAKERS = [
    *(plain, with_fields, with_post_init, with_own_methods, with_own_hash, derived, undecorated),
    *(joined, without_fields, with_simple_fields, without_comparison, derived_without_comparison),
    with_own_comparison,
]


def _describe(cls: Any) -> dict[str, Any]:
    """What can be seen of a class and its instances."""
    one, same, other = cls(1), cls(1), cls(2)
    names = [f.name for f in dataclasses.fields(cls)]
    changed = dataclasses.replace(one, a=9) if names else one
    return {
        "repr": [repr(x).rpartition(".")[2] for x in (one, other, changed)],
        "equal": [one == same, one == other, one == "1", one == changed],
        "hash": [hash(one) == hash(same), hash(one) == hash(other)],
        "match": cls.__match_args__,
        "fields": [
            (f.name, f.default, f.init, f.repr, f.metadata, f.kw_only)
            for f in dataclasses.fields(cls)
        ],
        "defaults": {name: getattr(cls, name, None) for name in names},
        "signature": str(inspect.signature(cls)),
        "name": cls.__init__.__qualname__.rpartition(".")[2],
        "options": repr(cls.__dataclass_params__),
        "values": [vars(x) for x in (one, changed)],
        "copied": vars(copy.deepcopy(one)) == vars(one),
        "replaceable": hasattr(one, "__replace__"),
    }


@pytest.mark.parametrize("make", MAKERS)
def test_classes_are_those_of_the_standard_library(make: Callable[[Decorator], type]) -> None:
    assert _describe(make(dataclass)) == _describe(make(dataclasses.dataclass))


@pytest.mark.parametrize("make", MAKERS)
def test_instances_are_frozen(make: Callable[[Decorator], type]) -> None:
    one = make(dataclass)(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        one.a = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'a'"):
        del one.a


def test_lazy_and_other_dataclasses_derive_from_each_other() -> None:
    described: list[dict[str, Any]] = []
    for first in (dataclass, dataclasses.dataclass):
        for second in (dataclass, dataclasses.dataclass):

            @second(frozen=True)
            class Derived(plain(first)):
                c: int = 4

            described.append(_describe(Derived))
    assert described == described[:1] * 4


def _is_made(cls: type, name: str = "__init__") -> bool:
    return type(vars(cls)[name]).__name__ != "_Placeholder"


# What uses a class first, and the attribute that it needs.
FIRST_USES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "instance": (lambda cls: cls(1), "__init__"),
    "fields": (dataclasses.fields, "__dataclass_fields__"),
    "is a dataclass": (dataclasses.is_dataclass, "__dataclass_fields__"),
    "signature": (inspect.signature, "__init__"),
    "pattern": (lambda cls: cls.__match_args__, "__match_args__"),
    "parameters": (lambda cls: cls.__dataclass_params__, "__dataclass_params__"),
    "comparison": (lambda cls: object.__new__(cls) == 1, "__eq__"),
    "replace": (lambda cls: dataclasses.replace(_without_init(cls), a=3), "__init__"),
    "hash": (lambda cls: hash(_without_init(cls)), "__hash__"),
    "text": (lambda cls: repr(_without_init(cls)), "__repr__"),
}


def _without_init(cls: Any) -> Any:
    """An instance as pickle makes it."""
    made = object.__new__(cls)
    made.__dict__.update(a=1, b=2.5)
    return made


@pytest.mark.parametrize("make", [plain, with_fields])
@pytest.mark.parametrize("use", FIRST_USES)
def test_the_first_use_makes_the_method(use: str, make: Callable[[Decorator], type]) -> None:
    cls, (first_use, name) = make(dataclass), FIRST_USES[use]
    assert not _is_made(cls, name)
    first_use(cls)
    assert _is_made(cls, name)
    assert _describe(cls) == _describe(make(dataclasses.dataclass))


def test_classes_with_simple_fields_make_no_method_that_is_not_used() -> None:
    cls = derived(dataclass)
    assert cls(1).total == 2.0
    assert _is_made(cls)
    assert not any(_is_made(cls, name) for name in ("__eq__", "__hash__", "__repr__"))
    assert not _is_made(cls.__bases__[0])


@pytest.mark.parametrize("make", [with_simple_fields, without_comparison])
def test_fields_and_options_that_are_simple(make: Callable[[Decorator], type]) -> None:
    cls = make(dataclass)
    cls(1)
    assert _is_made(cls) and not _is_made(cls, "__repr__")
    repr(cls(1))
    assert _is_made(cls, "__repr__") and not _is_made(cls, "__match_args__")


def _list_own_classes() -> list[Any]:
    """The frozen dataclasses of irc's packages that a compile imports."""
    found: list[Any] = []
    for package in ("ir", "plan", "compiler", "runtime", "api"):
        path, prefix = [str(ROOT / package)], f"irc_compiler.{package}."
        names = [m.name for m in pkgutil.walk_packages(path, prefix)]
        for name in names:
            module = importlib.import_module(name)
            values = list(vars(module).values())
            found += [v for v in values if _is_frozen(v) and v.__module__ == name]
    return found


def _is_frozen(value: Any) -> bool:
    params = vars(value).get("__dataclass_params__") if isinstance(value, type) else None
    return params is not None and repr(value.__dataclass_params__) == repr(_USUAL)


def test_own_classes_are_those_of_the_standard_library() -> None:
    """Signatures, fields and what is compared of each class, which the standard library makes of
    the same declaration."""
    classes = _list_own_classes()
    assert len(classes) > 250
    simple = 0
    for cls in classes:
        found, names = dataclasses.fields(cls), [f.name for f in dataclasses.fields(cls)]
        declared = [(f.name, f.type, dataclasses.field(default=f.default)) for f in found]
        for (_, _, made), f in zip(declared, found, strict=True):
            made.default_factory, made.init, made.repr = f.default_factory, f.init, f.repr
            made.kw_only, made.compare, made.hash = f.kw_only, f.compare, f.hash
        wanted = dataclasses.make_dataclass(cls.__name__, declared, frozen=True)
        assert str(inspect.signature(cls.__init__)) == str(inspect.signature(wanted.__init__)), cls
        assert cls.__match_args__ == wanted.__match_args__, cls
        if any(not f.init or not f.repr or not f.compare for f in found):
            continue
        made, other = object.__new__(cls), object.__new__(wanted)
        for instance in (made, other):
            instance.__dict__.update({name: n for n, name in enumerate(names)})
        simple += 1
        own = {n for n in ("__hash__", "__eq__", "__repr__") if _is_declared(cls, n)}
        if "__hash__" not in own and "__eq__" not in own:
            assert hash(made) == hash(other), cls
        if "__repr__" not in own:
            assert repr(made).rpartition(".")[2] == repr(other).rpartition(".")[2], cls
        if "__eq__" not in own:
            assert made == copy.copy(made) and made != other, cls
    assert simple > 200


def _is_declared(cls: type, name: str) -> bool:
    """Whether the source of a class or of a base has a method of that name."""
    for base in cls.__mro__[:-1]:
        method = inspect.unwrap(vars(base).get(name, _is_declared))
        code = getattr(method, "__code__", None)
        if code is not None and code.co_filename == inspect.getfile(base):
            return True
    return False


@dataclass(frozen=True)
class Pickled:
    """At the top of a module, where pickle finds it."""

    a: int


def test_an_instance_is_unpickled_before_the_class_was_used() -> None:
    made = object.__new__(Pickled)
    made.__dict__["a"] = 4
    data = pickle.dumps(made)
    assert not _is_made(Pickled)
    assert pickle.loads(data).a == 4
    assert not _is_made(Pickled)
    assert pickle.loads(data) == Pickled(4)


def test_threads_use_a_class_first_at_once() -> None:
    count, rounds = 8, 40
    classes = [joined(dataclass) for _ in range(rounds)]
    barrier, wrong = threading.Barrier(count), list[str]()

    def work(number: int) -> None:
        for cls in classes:
            barrier.wait()
            made: Any = cls(number)
            if (made.a, made.b, made.d) != (number, number + 1, 5) or made != cls(number):
                wrong.append(repr(made))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_wrong_declaration_is_an_error_of_the_first_use() -> None:
    @dataclass(frozen=True)
    class Wrong:
        a: list[int] = []

    with pytest.raises(ValueError, match="mutable default"):
        Wrong()


class _SetsItself:
    a: int

    def __setattr__(self, name: str, value: object) -> None:
        del name, value


@dataclasses.dataclass
class _Changeable:
    a: int


class _OfAChangeable(_Changeable):
    b: int


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (_SetsItself, "overwrite attribute __setattr__"),
        (_OfAChangeable, "inherit frozen dataclass"),
    ],
)
def test_what_the_standard_library_refuses_is_refused_at_once(cls: type, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        dataclass(frozen=True)(cls)


def test_other_options_are_those_of_the_standard_library() -> None:
    @dataclass(frozen=True, slots=True)
    class Slotted:
        a: int

    @dataclass
    class Mutable:
        a: int

    @dataclass()
    class Called:
        a: int

    assert _is_made(Slotted) and _is_made(Mutable) and _is_made(Called)
    mutable, called = Mutable(1), Called(1)
    mutable.a = called.a = 3
    assert (mutable, called) == (Mutable(3), Called(3))
    assert not hasattr(Slotted(1), "__dict__")
