"""Arguments that several verbs share, and reading and writing arrays."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ..api import CompiledModel, PortInfo, compile_model
from ..compiler.frontends.xml.source import kind_of, open_at_once
from ..ir.errors import (
    Error,
    InputError,
    InputFileError,
    MemoryLimitError,
    ModelFormatError,
    UsageError,
)
from ..ir.limits.format_bytes import format_size
from ..ir.limits.host_memory import default_max_memory
from .logging import log

if TYPE_CHECKING:
    import zipfile

Array = npt.NDArray[Any]
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def add_model(parser: argparse.ArgumentParser, kinds: str = ".onnx, .xml") -> None:
    """The model path, and what a model may be."""
    parser.add_argument("model", help=f"the model ({kinds})")
    parser.add_argument(
        "--declared-shapes",
        choices=("check", "ignore"),
        default="check",
        help="shapes and types that a model declares and inference contradicts: an error, or "
        "nothing (default: check)",
    )
    parser.add_argument(
        "--max-memory",
        type=bytes_of,
        metavar="BYTES",
        help="for any file, constant, buffer or input, such as 500M or 2G (default: four fifths "
        "of the memory there is)",
    )
    parser.add_argument(
        "--extension",
        action="append",
        default=[],
        metavar="MODULE",
        help="a Python module (a name, or a path *.py) whose list EXTENSIONS holds operations and "
        "passes",
    )


def limits(args: argparse.Namespace) -> dict[str, Any]:
    """What add_model's options say, as read_model and compile_model take it."""
    found: dict[str, Any] = {
        "declared_shapes": args.declared_shapes,
        "max_memory": args.max_memory,
    }
    extensions = [e for name in args.extension for e in load_extensions(name)]
    return found | ({"extensions": extensions} if extensions else {})


def load_extensions(name: str) -> list[Any]:
    """The list EXTENSIONS of a module, which is imported by its name or its path. UsageError where
    there is none."""
    try:
        if name.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(name).stem, name)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, module)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(name)
    except (ImportError, OSError, SyntaxError) as error:
        raise UsageError(
            "an extension cannot be imported",
            where=name,
            got=str(error),
            expected="a module's name, or the path of a .py file",
        ) from error
    found = getattr(module, "EXTENSIONS", None)
    if not isinstance(found, list | tuple):
        raise UsageError(
            "a module of extensions has no list of them", where=name, expected="EXTENSIONS = [...]"
        )
    return list(cast("Sequence[Any]", found))


def add_compilation(parser: argparse.ArgumentParser) -> None:
    """Options of compilation."""
    add_precision(parser)
    parser.add_argument(
        "--denormals",
        choices=("auto", "flush", "keep"),
        help="floating-point numbers below the smallest normal one: taken for zeros, or kept "
        "(default: auto, which flushes them unless a constant is one; a .irc keeps its own)",
    )
    add_activations(parser)
    add_shapes(parser)


def add_precision(parser: argparse.ArgumentParser) -> None:
    """What matrix products and convolutions may round their factors to."""
    parser.add_argument(
        "--precision",
        choices=("f32", "bf16", "f16"),
        help="of matrix products and (not f16) convolutions (default: f32, or what a .irc was "
        "compiled for)",
    )


def add_activations(parser: argparse.ArgumentParser) -> None:
    """Whether what compressed weights are multiplied by is quantized."""
    parser.add_argument(
        "--activations",
        choices=("f32", "int8"),
        help="what compressed weights are multiplied by; int8 is quantized at run time, per row "
        "and group of inputs (default: f32, or what a .irc was compiled for)",
    )


def add_kv_cache(parser: argparse.ArgumentParser) -> None:
    """The form of a language model's cache."""
    parser.add_argument(
        "--kv-cache",
        choices=("f32", "f16", "bf16", "u8", "u4"),
        help="the form of a language model's keys and values (default: f32, or what a .irc was "
        "compiled for)",
    )


def add_shapes(parser: argparse.ArgumentParser) -> None:
    """Shapes that the user fixes."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="fix an input's shape, such as x=1,3,224,224; ? keeps a size",
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Arrays that the user gives."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="an input from an .npy file; an .npz file gives its arrays by their names",
    )


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Whether machine code of a .irc may run."""
    parser.add_argument(
        "--trust-code",
        action="store_true",
        help="run the machine code that a .irc holds, instead of compiling its plan again",
    )


def compile_from_args(args: argparse.Namespace) -> CompiledModel:
    """The model of the command line, compiled with its options; -v prints the outcome of each
    machine code of a .irc."""
    net = compile_model(
        require_file(args.model),
        precision=args.precision,
        denormals=args.denormals,
        activations=args.activations,
        num_threads=args.threads,
        shapes=parse_shapes(args.shape) or None,
        trust_code=args.trust_code,
        **limits(args),
    )
    if net.has_stored_code:
        other = "not used: kernels come from this user's cache or are compiled (--trust-code)"
        log(f"the file's machine code is {'trusted' if args.trust_code else other}")
    return net


def add_threads(parser: argparse.ArgumentParser) -> None:
    """How many threads a run may use."""
    parser.add_argument(
        "--threads", type=count_of, default=None, help="threads to use (default: all usable CPUs)"
    )


def parse_shapes(items: Sequence[str]) -> dict[str, list[int | str | None]]:
    """`x=1,3,?` options as shapes by input name. UsageError where one can't be read."""
    found: dict[str, list[int | str | None]] = {}
    for item in items:
        name, equals, sizes = item.rpartition("=")
        if not equals or not name:
            raise UsageError("a shape can't be read", got=item, expected="NAME=1,3,224,224")
        found[name] = [_size(s.strip(), item) for s in sizes.split(",")] if sizes else []
    return found


def _size(text: str, item: str) -> int | str | None:
    if text == "?":
        return None
    if text.isascii() and text.isdecimal():
        return int(text)
    if text.isidentifier():
        return text
    raise UsageError("a size can't be read", where=item, got=text, expected="a number, a name or ?")


def count_of(text: str) -> int:
    """An integer from 1 up, for argparse."""
    value = int(text) if text.isascii() and text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 1 up")
    return value


def bytes_of(text: str) -> int:
    """A number of bytes, such as 4096, 500M (times 2^20) or 2G, for argparse."""
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes, such as 500M")
    return count_of(digits) << _UNITS[unit]


def amount_of(text: str) -> float:
    """A finite number from 0 up, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number from 0 up")
    return value


def given_inputs(args: argparse.Namespace, ports: Sequence[PortInfo]) -> dict[str, Array]:
    """The arrays of the command line, for a model with these inputs."""
    return load_inputs(args.input, [p.name for p in ports], args.max_memory)


def load_inputs(
    items: Sequence[str], known: Sequence[str], max_memory: int | None = None
) -> dict[str, Array]:
    """`x=batch.npy` options as arrays by input name, of a model with the inputs `known`.

    A .npz file gives all its arrays by their own names (`--input batch.npz`). Object arrays are
    never unpickled. InputFileError where a file can't be read, MemoryLimitError where it holds more
    than `max_memory` (default: as of runs), InputError for an array that no input takes.
    """
    found: dict[str, Array] = {}
    for item in items:
        name, equals, path = item.partition("=")
        if not equals:
            name, path = "", item
        loaded = load_array(path, known, max_memory)
        if isinstance(loaded, dict):
            if name:
                raise UsageError("an .npz file names its arrays itself", got=item, expected=path)
            _add(found, loaded)
        elif not name:
            raise UsageError("an input needs a name", got=item, expected=f"NAME={path}")
        else:
            _add(found, {name: loaded})
    return found


def _add(found: dict[str, Array], more: Mapping[str, Array]) -> None:
    for name, array in more.items():
        if name in found:
            raise UsageError("an input is given twice", got=name, expected="one array of that name")
        found[name] = array


def load_array(
    path: str, known: Sequence[str] | None = None, max_memory: int | None = None
) -> Array | dict[str, Array]:
    """An .npy array or the arrays of an .npz file, which are `known` inputs' if that is given."""
    found = ""
    try:
        with open(path, "rb", opener=open_at_once) as file:
            _require_fitting(path, file, default_max_memory() if max_memory is None else max_memory)
            found = _content(file)
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            names = list(dict.fromkeys(loaded.files))  # a member may be listed any number of times
            for name in names:
                if known is not None and name not in known:
                    expected = ", ".join(known) or "no inputs"
                    raise InputError("unknown input", where=path, got=name, expected=expected)
            return {name: loaded[name] for name in names}
    except Error:
        raise
    except OSError as error:
        text = error.strerror or str(error)
        raise _unreadable_error(path, text) from error
    except Exception as error:
        # A broken header makes NumPy's reader raise anything, up to errors of Python's tokenizer;
        # and NumPy's own text would advise to unpickle the file.
        raise InputFileError(
            "an input file is not an array of numbers, or cut short",
            where=path,
            got=found,
            expected="what numpy.save or numpy.savez writes of numbers",
        ) from error


def _content(file: IO[bytes]) -> str:
    """What a file seems to hold, for a message."""
    head, size = file.read(128), os.fstat(file.fileno()).st_size
    file.seek(0)
    if not head.startswith(b"\x93NUMPY"):
        return f"{size} bytes that begin with {head[:16]!r}" if head else "an empty file"
    if b"'|O'" in head:
        return "an array of Python objects, which are never unpickled"
    return f"{size} bytes that begin as an .npy file"


def _unreadable_error(path: str, got: str) -> InputFileError:
    expected = "the path of an .npy or .npz file"
    return InputFileError("an input file can't be read", where=path, got=got, expected=expected)


def _require_fitting(path: str, file: IO[bytes], limit: int) -> None:
    """Refuse what waits for a writer, and what holds more than the limit: a member of an .npz file
    may be a thousand times as large as it is stored."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise _unreadable_error(path, kind_of(status.st_mode))
    import zipfile

    size = status.st_size
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as members:
            size = sum(_stated_bytes(members, member) for member in members.infolist())
    file.seek(0)
    if size > limit:
        raise MemoryLimitError(
            "an input file holds more than max_memory allows",
            where=path,
            got=format_size(size),
            expected=f"at most {format_size(limit)}",
            fix="raise max_memory",
        )


def _stated_bytes(members: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """The larger of what a member of an .npz file and the array's own header say it takes: either
    may be wrong, and both are allocated before a byte is compared."""
    with members.open(member) as stream:
        return max(member.file_size, _array_bytes(stream))


def _array_bytes(stream: IO[bytes]) -> int:
    """Bytes of the array that an .npy header describes; 0 where there is no such header."""
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_2_0
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else read
        shape, _, dtype = read(stream)
    except Exception:  # NumPy's reader, which raises anything, says later what is wrong
        return 0
    return math.prod(shape) * dtype.itemsize


def require_suffix(path: str, *suffixes: str) -> Path:
    """The path, which must end so. UsageError else."""
    if Path(path).suffix.lower() not in suffixes:
        expected = " or ".join(f"*{suffix}" for suffix in suffixes)
        raise UsageError("the output's name has the wrong ending", got=path, expected=expected)
    return Path(path)


def default_output(model: str, suffix: str) -> str:
    """A model's name with another ending, in the current folder."""
    return str(Path(Path(model).name).with_suffix(suffix))


def require_file(path: str) -> str:
    """The path of a model, which must be there."""
    if not Path(path).is_file():
        there = "a folder" if Path(path).is_dir() else "no plain file"
        raise ModelFormatError(
            "the model file is not there" if not Path(path).exists() else f"this is {there}",
            where=path,
            expected="the path of a model file",
        )
    return path
