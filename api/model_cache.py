"""Compiled models in the code cache: what a program compiles at each of its starts is found there.

An entry is a program (runtime/artifact/program_file.py) with the model's rt_info and the state
(inode, size, times) of each other file that it was read from. Its name is a digest of all that
decides a plan: the model's content, the options, the Target, and irc's own files. The digest of a
file is remembered by its state. Language models are named by the states of their files alone. Each
compile stores its model: that takes 1 to 6 % longer.

`IRC_MODEL_CACHE=0` leaves models out of the cache. So do operations of users, an explicit
`max_memory`, and options and variables that ask for what only a compile shows.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from ..compiler.frontends.onnx.files.content import identify_content
from ..compiler.frontends.openvino_objects import is_openvino_model, serialize_model
from ..compiler.model import Model, Origin
from ..ir.errors import ArtifactError, ModelFormatError
from ..ir.extensions import has_extensions
from ..ir.lazy_dataclass import dataclass
from .model_source import CompileConfig, ModelSource

if TYPE_CHECKING:
    from ..compiler.frontends.xml.source import FileState
    from ..compiler.rewrite.trace import Trace
    from ..plan.plan import Plan
    from ..runtime.artifact.program_file import ProgramFile
    from ..runtime.jit.disk_cache import DiskCache
    from ..runtime.jit.program import CompiledPlan

# The part of the cache that a model may take, and that a language model may, which takes longer to
# compile: one by so many.
GRAPH_SHARE: Final = 8
LANGUAGE_MODEL_SHARE: Final = 2
# A file that was written so short a time ago may be written again without a change of its times.
_MIN_AGE_NS: Final = 2_000_000_000
_SHOWING_COMPILES: Final = ("IRC_TRACE", "IRC_DUMP_GRAPH", "IRC_DUMP_LLVM")
# The packages of irc whose text decides what a plan is.
_PACKAGES: Final = ("api", "compiler", "ir", "llm", "plan", "runtime")
_FILES: Final = "files"
_READ: Final = "files read"
_RT_INFO: Final = "rt_info"

_DIGEST_LETTERS: Final = 64
# A name that OpenVINO makes of an operation's type and of how many there were in the process,
# but for those by which values are passed and kept.
_NUMBERED_NAME: Final = re.compile(
    rb'name="([A-Za-z]\w*?)_\d+" type="(?!Parameter"|Result"|ReadValue"|Assign")'
)

# The identities of sources that are known within `identify_once`, by the source's address and the
# state of its file; each with the source, whose address no other object can have so.
_identities: ContextVar[dict[Any, tuple[Any, _Identity | None]] | None] = ContextVar(
    "identities", default=None
)

# Inode, size, and times of the last write and the last change: what differs once a file was
# written or replaced.
_State = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Main:
    """The file of a model, its state, and the SHA-256 of its content."""

    path: str
    state: _State
    digest: str

    @staticmethod
    def of(path: str, state: _State, cache: DiskCache) -> _Main | None:
        """A file of that state; its digest is the one that was computed for this state before. None
        where it cannot be read."""
        key = _digest(["digest of a file", path, state])
        found = cache.get(key) if _is_stable(state) else None
        if found is not None and len(found) == _DIGEST_LETTERS:
            return _Main(path, state, found.decode("ascii", "replace"))
        try:
            digest = _digest_file(path)
        except OSError:
            return None
        if _is_stable(state) and _state_of(path) == state:
            cache.put(key, digest.encode())
        return _Main(path, state, digest)

    def is_unchanged(self) -> bool:
        """Whether the file has the same content still."""
        if _state_of(self.path) == self.state and _is_stable(self.state):
            return True
        try:
            return _digest_file(self.path) == self.digest
        except OSError:
            return False


@dataclass(frozen=True)
class _Identity:
    """What identifies the content of a model: `parts`, as JSON has it.

    main: its file, None for bytes and an openvino.Model. graph_name: the name that bytes give the
    graph, where they may be another model's but for it.
    """

    parts: Any
    main: _Main | None = None
    graph_name: str | None = None


@dataclass(frozen=True)
class StoredModel:
    """What an entry holds. files: the paths that the model is read from."""

    entry: ModelEntry
    program: ProgramFile
    files: tuple[str, ...]

    @property
    def plan(self) -> Plan:
        """The plan, with the name of this model's graph."""
        name, plan = self.entry.identity.graph_name, self.program.plan
        return plan if name is None else replace(plan, name=name)


@dataclass(frozen=True)
class ModelEntry:
    """The entry of a model in the cache, which may be there or not.

    files: those that are known before it is read. limit: bytes of the entry. is_unchanged: whether
    the source is what it was, as far as it is in memory. attached: what is stored with the plan, by
    name.
    """

    cache: DiskCache
    key: str
    identity: _Identity
    files: tuple[tuple[str, _State], ...]
    limit: int
    is_unchanged: Callable[[], bool]
    attached: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def find(self) -> StoredModel | None:
        """What is stored, if it can be used and no file of the model has changed since."""
        from ..ir.limits.host_memory import default_max_memory
        from ..runtime.artifact.program_file import ProgramFile

        file = self.cache.open_file(self.key)
        if file is None:
            return None
        try:
            program = ProgramFile(file)
        except (ArtifactError, OSError):
            self.remove()
            return None
        files = program.attached[_FILES]
        changed = any(_state_of(path) != state for path, state in files.items())
        if changed or program.nbytes > default_max_memory():
            program.close()
            return None
        main = self.identity.main
        mine = () if main is None else (main.path,)
        return StoredModel(self, program, (*mine, *files))

    def store(self, source: ModelSource, program: CompiledPlan) -> None:
        """Store the program that was made of a model. One that is too large is left out, and one
        whose files may be written again unseen."""
        from ..runtime.artifact.program_file import write_program

        main = self.identity.main
        read = [f for f in source.files if main is None or str(f.path) != main.path]
        files = _stable_files(read, self.files)
        if files is None or (main is not None and not main.is_unchanged()):
            return
        if program.constant_bytes > self.limit:
            return
        attached = {**self.attached, _FILES: files, _RT_INFO: source.rt_info or {}}
        self.cache.put_file(
            self.key, lambda stream: write_program(stream, program, attached), self.limit
        )

    def remove(self) -> None:
        """Remove an entry that cannot be used."""
        self.cache.remove_file(self.key)


class CachedSource(ModelSource):
    """A model whose plan was in the cache. It is read and compiled again, as far as the plan, where
    the model, its graph, or what the passes did is asked for."""

    def __init__(
        self, stored: StoredModel, read: Callable[[], Model], config: CompileConfig
    ) -> None:
        from ..compiler.frontends.xml.source import FileState

        files = tuple(FileState.of(Path(p), os.stat(p)) for p in stored.files)

        def read_again() -> Model:
            if not stored.entry.is_unchanged():
                raise ModelFormatError(
                    "the compiled model is needed again, and it is not what it was",
                    got="bytes, or an openvino.Model, that were changed since",
                    expected="the model that was compiled",
                    fix="compile it again",
                )
            return read()

        super().__init__(Origin(read_again, files).reload, config)
        self.rt_info = stored.program.attached[_RT_INFO]

    def read_trace(self) -> Trace | None:
        _ = self.graph
        return self.trace


def find_entry(
    source: Any, config: CompileConfig, *others: str, share: int = GRAPH_SHARE
) -> ModelEntry | None:
    """The entry of what is compiled so; None where the cache is left alone (module docstring).

    source: a file, a folder, or bytes. others: what decides the plan besides. share: the part of
    the cache that the entry may take: 1 / share.
    """
    from ..runtime.jit.disk_cache import default_cache

    options = config.options
    if (
        os.environ.get("IRC_MODEL_CACHE") == "0"
        or any(os.environ.get(name) for name in _SHOWING_COMPILES)
        or config.max_memory is not None
        or options.verify
        or options.stop_after is not None
        or has_extensions()
    ):
        return None
    cache = default_cache()
    if cache is None:
        return None
    limit, files = cache.limit // share, _states_of(source)
    if share == GRAPH_SHARE:
        found, files = _identify(source, cache, limit), {}
    else:
        size = sum(state[1] for state in files.values())
        good = 0 < size <= limit and all(_is_stable(state) for state in files.values())
        found = _Identity(list(files.items())) if good else None
    if found is None:
        return None
    from ..runtime.machine.detect import host_target

    parts = [_own_files(), host_target().key(), config.encode(), others, found.parts]

    def is_unchanged() -> bool:
        return (
            bool(files) or found.main is not None or _read_identity(source, cache, limit) == found
        )

    return ModelEntry(cache, _digest(parts), found, tuple(files.items()), limit, is_unchanged)


@contextmanager
def identify_once() -> Iterator[None]:
    """Look models up within it with one digest of each file of one state and each object: a digest
    takes 0.6 ms per MB."""
    token = _identities.set({})
    try:
        yield
    finally:
        _identities.reset(token)


def recall_json(source: Any, name: str) -> Any:
    """What `remember_json` stored for a model's file or bytes; None where there is nothing."""
    entry = _locate_json(source, name)
    found = None if entry is None else entry[0].get(entry[1])
    return None if found is None else json.loads(found)


def remember_json(source: Any, name: str, make: Callable[[], Any]) -> Any:
    """What `make` gives, as JSON has it, for a model's file or bytes: from the cache, if it was
    made before. name: what it is."""
    entry = _locate_json(source, name)
    if entry is None:
        return make()
    cache, key, main = entry
    if (found := cache.get(key)) is not None:
        return json.loads(found)
    made = make()
    if main is None or main.is_unchanged():
        cache.put(key, json.dumps(made).encode())
    return made


def record_read(source: Any, files: Sequence[FileState]) -> None:
    """Remember that a model's file can be read, and the files that it was read from."""
    entry, states = _locate_json(source, _READ), _stable_files(files, ())
    if entry is not None and states is not None:
        entry[0].put(entry[1], json.dumps(states).encode())


def was_read(source: Any) -> bool:
    """Whether a model's file was read before, and is the same still, as are its other files."""
    states = recall_json(source, _READ)
    return bool(states) and all(_state_of(path) == tuple(s) for path, s in states.items())


def _locate_json(source: Any, name: str) -> tuple[DiskCache, str, _Main | None] | None:
    """The cache, the key of what is stored so, and the file; None where the cache is off, and for
    models that it does not take."""
    from ..runtime.jit.disk_cache import default_cache

    cache = None if os.environ.get("IRC_MODEL_CACHE") == "0" else default_cache()
    found = None if cache is None else _identify(source, cache, cache.limit // GRAPH_SHARE)
    if cache is None or found is None:
        return None
    return cache, _digest([_own_files(), name, found.parts]), found.main


def _identify(source: Any, cache: DiskCache, limit: int) -> _Identity | None:
    """`_read_identity`, or what it gave before within `identify_once`."""
    known = _identities.get()
    if known is None:
        return _read_identity(source, cache, limit)
    key = id(source), limit, *_states_of(source).items()
    if key not in known:
        known[key] = source, _read_identity(source, cache, limit)
    return known[key][1]


def _read_identity(source: Any, cache: DiskCache, limit: int) -> _Identity | None:
    """What identifies a file, bytes or an openvino.Model; None for other sources and those of more
    than `limit` bytes."""
    if is_openvino_model(source):
        with serialize_model(source) as xml:
            weights = xml.with_suffix(".bin")
            if xml.stat().st_size + weights.stat().st_size > limit:
                return None
            text = _NUMBERED_NAME.sub(rb'name="\1" type="', xml.read_bytes())
            return _Identity([hashlib.sha256(text).hexdigest(), _digest_file(weights)])
    if isinstance(source, bytes | bytearray | memoryview):
        return _identify_bytes(source) if len(source) <= limit else None
    if not isinstance(source, str | os.PathLike):
        return None
    path = os.path.abspath(cast("str | os.PathLike[str]", source))
    state = _state_of(path)
    main = None if state is None or state[1] > limit else _Main.of(path, state, cache)
    if main is None:
        return None
    # The weights of an .xml are another file: equal texts may have other weights.
    is_text = main.path.lower().endswith(".xml")
    return _Identity([main.digest, main.path if is_text else ""], main)


def _identify_bytes(source: bytes | bytearray | memoryview) -> _Identity:
    content = identify_content(source)
    if content is None:
        return _Identity([hashlib.sha256(source).hexdigest(), ""])
    return _Identity([content.digest, "content"], graph_name=content.graph_name)


def _digest(parts: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _digest_file(path: str | Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _states_of(source: Any) -> dict[str, _State]:
    """The files of a path: itself, or those of a folder."""
    if not isinstance(source, str | os.PathLike):
        return {}
    path = os.path.abspath(cast("str | os.PathLike[str]", source))
    try:
        paths = sorted(e.path for e in os.scandir(path)) if os.path.isdir(path) else [path]
    except (OSError, ValueError):
        return {}
    return {p: state for p in paths if (state := _state_of(p)) is not None}


def _stable_files(
    read: Sequence[FileState], known: Iterable[tuple[str, _State]]
) -> dict[str, _State] | None:
    """The files that a model was read from, with their states; None where one may be written again
    unseen, or was since."""
    found = dict(known)
    for file in read:
        state = _state_of(file.path)
        if state is None or file.describe_change() is not None:
            return None
        found.setdefault(str(file.path), state)
    good = all(_is_stable(state) and _state_of(path) == state for path, state in found.items())
    return found if good else None


def _state_of(path: str) -> _State | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_stable(state: _State) -> bool:
    return max(state[2:]) + _MIN_AGE_NS < time.time_ns()


@functools.cache
def _own_files() -> str:
    """A digest of the states of irc's files that decide what a plan is, and of the versions that
    read what is stored."""
    from ..runtime.jit.builtin_code import identify_llvm

    root = Path(__file__).parents[1]
    states = [np.__version__, sys.version, identify_llvm()]
    for package in _PACKAGES:
        _list_states(os.path.join(root, package), states)
    return hashlib.sha256("\n".join(states).encode()).hexdigest()


def _list_states(folder: str, states: list[str]) -> None:
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda e: e.name)
    for entry in entries:
        if entry.name.endswith(".py"):
            found = entry.stat()
            states.append(f"{entry.path} {found.st_size} {found.st_mtime_ns}")
        elif entry.name != "__pycache__" and entry.is_dir():
            _list_states(entry.path, states)
