"""What readers make of a broken file: an answer, or one of irc's errors, soon and in little memory.

Anything else is a finding: another exception, more than 5 s, more than 256 MiB above the file's
size; a signal ends the process, and the command that started it says so.
"""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler.api.compiled_model import compile_with_options
from irc_compiler.cli.arguments import load_array
from irc_compiler.compiler.export.xml import to_xml_text
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.compiler.model import Model
from irc_compiler.ir.errors import Error
from irc_compiler.ir.graph import Graph
from support.artifacts import Parts

from .mutations import break_artifact, break_bytes, break_text

SECONDS = 5.0
MIB_ABOVE = 256
# A run of a forged plan may take what its shapes ask for, up to here.
MEMORY = 1 << 27
DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "ir"


class Careless(AssertionError):
    """A reader took a broken file badly."""


def resident() -> tuple[int, int]:
    """(now, peak) in bytes, of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return tuple(int(fields[k].split()[0]) << 10 for k in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


@contextmanager
def within_limits(size: int, seconds: float = SECONDS) -> Iterator[None]:
    """Careless where the block takes longer or more memory than a file of that size may.

    The time is that of the processor, as others may hold it; what waits for ever ends its batch."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, started = resident()[0], time.process_time()
    yield
    spent, peak = time.process_time() - started, resident()[1]
    if spent > seconds:
        raise Careless(f"{spent:.1f} s")
    if peak - before > size + (MIB_ABOVE << 20):
        raise Careless(f"{(peak - before) >> 20} MiB for a file of {size} bytes")


def refused(read: Callable[[], Any], size: int) -> bool:
    """Whether one of irc's errors came, which says what and where."""
    with within_limits(size):
        try:
            read()
        except Error as error:
            if not error.what or len(str(error)) > 20_000:
                raise Careless(
                    f"an error that says too little or too much: {error.what[:80]!r}"
                ) from error
            return True
    return False


def check_xml(text: bytes, weights: bytes) -> bool:
    """Read, and written again where it is fine."""

    def read() -> None:
        to_xml_text(read_xml(text, weights, max_memory=MEMORY))

    return refused(read, len(text) + len(weights))


def check_onnx(data: bytes) -> bool:
    return refused(lambda: read_onnx(data, max_memory=MEMORY), len(data))


def check_npy(data: bytes, path: Path) -> bool:
    path.write_bytes(data)
    return refused(lambda: load_array(str(path)), len(data))


def check_artifact(data: bytes, inputs: Sequence[Any], *, run: bool = True) -> bool:
    """Loaded, and run where that is accepted: wrong numbers are accepted, a signal is a finding."""

    def load() -> None:
        held.append(irc.CompiledModel.load(data, max_memory=MEMORY, num_threads=1))

    held: list[irc.CompiledModel] = []
    if refused(load, len(data)):
        return True
    if not run:
        return False
    try:
        for array in held[0](list(inputs)):
            assert not isinstance(array, np.ndarray) or array.size >= 0
    except Error as error:
        assert str(error)
    return False


def artifact_of(graph: Graph) -> bytes:
    stream = io.BytesIO()
    compile_with_options(Model(graph), irc.compiler.options.Options(), 1)._write(stream)
    return stream.getvalue()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """An artefact with bytes changed as they are: digests find it."""
    while (found := break_bytes(data, rng)) == data:
        pass
    return found


def forged(data: bytes, rng: random.Random) -> bytes:
    """An artefact changed inside, all digests right."""
    return break_artifact(Parts(data), rng)


def xml_corpus() -> list[tuple[str, bytes]]:
    return [(p.read_text(), p.with_suffix(".bin").read_bytes()) for p in sorted(DATA.glob("*.xml"))]


def onnx_corpus() -> list[bytes]:
    return [p.read_bytes() for p in sorted(DATA.glob("*.onnx"))]


def broken_xml(rng: random.Random, corpus: Sequence[tuple[str, bytes]]) -> tuple[bytes, bytes]:
    text, weights = rng.choice(corpus)
    if rng.random() < 0.3:
        return break_bytes(text.encode(), rng), weights
    if rng.random() < 0.2:
        weights = weights[: rng.randrange(len(weights) + 1)]
    return break_text(text, rng).encode("utf-8", "surrogatepass"), weights


def npy_corpus() -> list[bytes]:
    found: list[bytes] = []
    for array in (
        np.arange(6.0),
        np.zeros((2, 0), np.int8),
        np.array(3),
        np.asfortranarray(np.eye(3)),
    ):
        stream = io.BytesIO()
        np.save(stream, array)
        found.append(stream.getvalue())
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.arange(5), b=np.eye(2))
    return [*found, stream.getvalue()]
