"""Batches of examples, and the findings they leave: files to replay and to keep as seeds."""

from __future__ import annotations

import collections
import random
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import onnx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from irc_compiler.compiler.export.xml import to_xml_text
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.errors import Error
from irc_compiler.ir.graph import Graph

from . import broken_files as files
from .agreement import check_graph, draw_inputs, draw_sizes
from .graphs import graphs

SEEDS = Path(__file__).parent / "seeds"
# Mutations of one drawn graph's artefact.
FORGERIES = 12


class Batch:
    """Counts, and where findings go."""

    def __init__(self, what: str, seed: int, folder: Path) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self._name, self._folder, self._number = f"{what}-{seed}", folder, 0

    def attempt(self, store: Callable[[Path], None], check: Callable[[], Any]) -> Any:
        """Run a check; what it is about is stored first, so that a signal leaves it behind."""
        store(self._folder / "current")
        self.counts["tried"] += 1
        try:
            return check()
        except Exception as error:
            self._number += 1
            base = self._folder / f"{self._name}-{self._number}"
            store(base)
            said = f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}"
            base.with_suffix(".txt").write_text(said)
            self.counts["findings"] += 1
            return None


def _drawn(count: int, seed: int, strategy: Any, check: Callable[..., None]) -> None:
    """Call `check` with so many examples."""
    run = given(strategy)(check)
    run = settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )(run)  # fmt: skip
    hypothesis.seed(seed)(run)()


def store_graph(graph: Graph) -> Callable[[Path], None]:
    """Writes a graph in irc's dialect."""

    def store(base: Path) -> None:
        try:
            text, weights = to_xml_text(graph, dialect=True)
        except Error:
            return
        base.with_suffix(".xml").write_text(text)
        base.with_suffix(".bin").write_bytes(weights)

    return store


def _note(batch: Batch, found: Any) -> None:
    if found is not None:
        batch.counts["ran"] += found.ran
        batch.counts.update(found.checks)


def graph_batch(batch: Batch, seed: int, count: int) -> None:
    def one(graph: Graph) -> None:
        number = batch.counts["tried"] % 5
        _note(batch, batch.attempt(store_graph(graph), lambda: check_graph(graph, number)))

    _drawn(count, seed, graphs(), one)


def onnx_batch(batch: Batch, seed: int, count: int) -> None:
    from .onnx_models import models, stored_feeds

    def one(drawn: tuple[onnx.ModelProto, list[Any]]) -> None:
        model, inputs = drawn

        def check() -> Any:
            try:
                graph = read_onnx(model)
            except Error:
                batch.counts["refused"] += 1
                return None
            return check_graph(graph, 0, inputs)

        def store(base: Path) -> None:
            base.with_suffix(".onnx").write_bytes(model.SerializeToString())
            base.with_suffix(".feeds").write_bytes(stored_feeds(model, inputs))

        _note(batch, batch.attempt(store, check))

    _drawn(count, seed, models(), one)


def _store(suffix: str, data: bytes, **more: bytes) -> Callable[[Path], None]:
    def store(base: Path) -> None:
        base.with_suffix(suffix).write_bytes(data)
        for name, content in more.items():
            base.with_suffix(f".{name}").write_bytes(content)

    return store


def byte_batch(batch: Batch, seed: int, count: int) -> None:
    rng = random.Random(seed)
    xml, onnx_files, arrays = files.xml_corpus(), files.onnx_corpus(), files.npy_corpus()

    def note(kind: str, refused: bool | None) -> None:
        batch.counts[f"{kind} {'refused' if refused else 'accepted'}"] += refused is not None

    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            text, weights = files.broken_xml(rng, xml)
            check = lambda t=text, w=weights: files.check_xml(t, w)  # noqa: E731
            note("xml", batch.attempt(_store(".xml", text, bin=weights), check))
            data = files.break_bytes(rng.choice(onnx_files), rng)
            check = lambda d=data: files.check_onnx(d)  # noqa: E731
            note("onnx", batch.attempt(_store(".onnx", data), check))
            array = files.break_bytes(rng.choice(arrays), rng)
            check = lambda d=array: files.check_npy(d, Path(folder) / "a.npy")  # noqa: E731
            note("npy", batch.attempt(_store(".npy", array), check))

    def forge(graph: Graph) -> None:
        try:
            data = files.artifact_of(graph)
            inputs = draw_inputs(graph, draw_sizes(graph, rng), rng)
        except Error:
            return
        loops = any(graph.op(n).bodies() for n in graph.ids())
        for n in range(FORGERIES):
            made = files.damaged(data, rng) if n % 4 == 0 else files.forged(data, rng)
            check = lambda d=made: files.check_artifact(d, inputs, run=not loops)  # noqa: E731
            note("artefact", batch.attempt(_store(".irc", made), check))

    _drawn(max(1, count // 5), seed, graphs(), forge)


BATCHES: dict[str, Callable[[Batch, int, int], None]] = {
    "graphs": graph_batch,
    "onnx": onnx_batch,
    "bytes": byte_batch,
}


def run_batch(what: str, seed: int, count: int, folder: Path) -> dict[str, int]:
    """Counts of a batch; findings lie in the folder."""
    batch = Batch(what, seed, folder)
    BATCHES[what](batch, seed, count)
    return dict(batch.counts)


def replay(paths: Sequence[Path]) -> int:
    """Check files again as their endings say."""
    for path in paths:
        print(path.name, check_file(path), flush=True)
    return 0


def check_file(path: Path) -> str:
    """What a stored finding comes to now; raises where it is one still."""
    data = path.read_bytes()
    if path.suffix == ".xml":
        weights = path.with_suffix(".bin")
        held = weights.read_bytes() if weights.exists() else b""
        if files.check_xml(data, held) and files.refused(lambda: read_xml(data, held), len(data)):
            return "refused"
        ran = [check_graph(read_xml(data, held), seed).ran for seed in range(5)]
        return f"agrees, ran {sum(ran)} times"
    if path.suffix == ".onnx":
        if files.check_onnx(data):
            return "refused"
        from .onnx_models import read_feeds

        feeds = path.with_suffix(".feeds")
        given = read_feeds(feeds.read_bytes()) if feeds.exists() else None
        ran = [check_graph(read_onnx(data), seed, given).ran for seed in range(5)]
        return f"agrees, ran {sum(ran)} times"
    if path.suffix == ".npy":
        with tempfile.TemporaryDirectory() as folder:
            return "refused" if files.check_npy(data, Path(folder) / "a.npy") else "accepted"
    return "refused" if files.check_artifact(data, ()) else "accepted"


__all__ = ["BATCHES", "SEEDS", "check_file", "replay", "run_batch", "st"]
