"""Frozen dataclasses that are made at their first use are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar

import pytest
from irc_compiler.ir.lazy_dataclass import dataclass

Decorator = Callable[..., Any]


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


MAKERS = [
    *(plain, with_fields, with_post_init, with_own_methods, with_own_hash, derived, undecorated),
    *(joined, without_fields),
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
        "fields": [(f.name, f.default, f.metadata, f.kw_only) for f in dataclasses.fields(cls)],
        "defaults": {name: getattr(cls, name, None) for name in names},
        "signature": str(inspect.signature(cls)),
        "name": cls.__init__.__qualname__.rpartition(".")[2],
        "frozen": cls.__dataclass_params__.frozen,
        "values": [vars(x) for x in (one, changed)],
        "copied": copy.deepcopy(one) == one,
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


def _is_made(cls: type) -> bool:
    return inspect.isfunction(vars(cls)["__init__"])


FIRST_USES: dict[str, Callable[[Any], Any]] = {
    "instance": lambda cls: cls(1),
    "fields": dataclasses.fields,
    "is a dataclass": dataclasses.is_dataclass,
    "signature": inspect.signature,
    "pattern": lambda cls: cls.__match_args__,
    "parameters": lambda cls: cls.__dataclass_params__,
    "comparison": lambda cls: object.__new__(cls) == 1,
    "replace": lambda cls: dataclasses.replace(_without_init(cls), a=3),
    "hash": lambda cls: hash(_without_init(cls)),
    "text": lambda cls: repr(_without_init(cls)),
}


def _without_init(cls: Any) -> Any:
    """An instance as pickle makes it."""
    made = object.__new__(cls)
    made.__dict__.update(a=1, b=2.5)
    return made


@pytest.mark.parametrize("use", FIRST_USES)
def test_the_first_use_makes_the_methods(use: str) -> None:
    cls = plain(dataclass)
    assert not _is_made(cls)
    FIRST_USES[use](cls)
    assert _is_made(cls)
    assert _describe(cls) == _describe(plain(dataclasses.dataclass))


def test_a_base_is_made_with_a_derived_class() -> None:
    cls = derived(dataclass)
    assert cls(1).total == 2.0
    assert _is_made(cls) and _is_made(cls.__bases__[0])


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
