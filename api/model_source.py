"""Where a compiled model comes from: a model in memory, files, or an artefact.

A source has the model, its optimised graph, and the plan with the arrays behind its constants. Each
is made at its first use, and kept from then on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias

from ..compiler.model import Model, Origin, RtInfo
from ..compiler.options import Options, Shapes, to_compile_config
from ..ir.errors import ExecutionError
from ..ir.lazy_dataclass import dataclass

# What calls of a model are made for.
Performance: TypeAlias = Literal["latency", "throughput"]

if TYPE_CHECKING:
    from ..compiler.frontends.xml.source import FileState
    from ..compiler.rewrite.trace import Trace
    from ..ir.deferred_array import StoredArray
    from ..ir.graph import Graph
    from ..plan.plan import Plan
    from ..plan.target import Target
    from ..runtime.artifact.reader import Artifact, PlanEntry
    from ..runtime.artifact.writer import StoredPlan

    # A plan for this machine, and the arrays behind its constants, by their numbers.
    PlanWeights: TypeAlias = tuple[Plan, Mapping[int, StoredArray]]


@dataclass(frozen=True)
class CompileConfig:
    """What a model is compiled with: options, fixed sizes by input name, and how its calls run.

    performance: "latency", where all threads compute each call, or "throughput", where one does and
    there are so many calls at a time.
    """

    options: Options
    shapes: Shapes
    num_threads: int | None
    max_memory: int | None
    performance: Performance = "latency"

    def encode(self) -> dict[str, Any]:
        """As artefacts store it."""
        return to_compile_config(self.options, self.shapes)


class ModelSource:
    """What a compiled model was made of. read: gives the model.

    rt_info: the model's, None where it has to be read. trace: what the passes did, None before they
    ran. entry: the plan of an artefact that is used. files: what the model was read from.
    """

    rt_info: RtInfo | None = None
    trace: Trace | None = None
    entry: PlanEntry | None = None
    files: tuple[FileState, ...] = ()
    owns_graph = False  # then the passes may change it

    def __init__(self, read: Callable[[], Model], config: CompileConfig) -> None:
        self._read, self.config = read, config

    @cached_property
    def model(self) -> Model:
        """The model that was compiled."""
        return self._read()

    @cached_property
    def graph(self) -> Graph:
        """Its optimised graph."""
        from ..compiler.pipeline import optimize
        from ..compiler.rewrite.trace import Trace
        from ..compiler.shape_analysis.grow_caches import grow_caches
        from ..compiler.shape_analysis.override_inputs import fix_shapes
        from ..compiler.shape_analysis.unify_dims import unify_sizes

        graph, options = self.model.graph, self.config.options
        graph = graph if self.owns_graph else graph.copy()
        graph = unify_sizes(grow_caches(fix_shapes(graph, self.config.shapes)))
        # The messages of the passes are shown the first time that they run.
        trace = Trace(options.stop_after, aloud=self.trace is None)
        self.trace = optimize(graph, options, trace)
        return graph

    @cached_property
    def lowering(self) -> PlanWeights:
        """The plan that runs, with its arrays."""
        from ..compiler.lowering import lower
        from ..runtime.machine.detect import host_target

        return lower(self.graph, host_target(), self.config.options)

    def read_trace(self) -> Trace | None:
        """What the passes did; None where a stored plan was loaded."""
        return self.trace

    def take_weights(self) -> dict[int, StoredArray]:
        """The arrays behind the plan's constants. A source that owns its graph drops all it has."""
        return dict(self.lowering[1])

    def copy_to(self, stream: BinaryIO) -> bool:
        """Copy the artefact whose plan is used, if there is one."""
        return False

    def other_plans(self, known: Sequence[tuple[Mapping[str, Any], Target]]) -> list[StoredPlan]:
        """An artefact's plans for other options and machines than these."""
        return []

    def read_attachments(self) -> dict[str, bytes]:
        """What is stored with the model, by name."""
        return {}


class InMemorySource(ModelSource):
    """A model that the caller has."""

    def __init__(self, model: Model, config: CompileConfig) -> None:
        super().__init__(lambda: model, config)
        self.rt_info = model.graph.rt_info


class FileSource(ModelSource):
    """A model that was just read from files. Kernels hold its weights in another order: once
    packed, they are read and compiled again, as far as the plan, when they are needed."""

    owns_graph = True

    def __init__(self, model: Model, origin: Origin, config: CompileConfig) -> None:
        super().__init__(origin.reload, config)
        self.model, self.rt_info, self.files = model, model.graph.rt_info, origin.files

    def take_weights(self) -> dict[int, StoredArray]:
        weights = super().take_weights()
        self.model.graph.clear()
        self.graph.clear()
        del self.model, self.graph, self.lowering
        self.owns_graph = False
        return weights


class ArtifactSource(ModelSource):
    """An artefact. If it has a plan for this machine and these options, that is its `entry`."""

    def __init__(self, artifact: Artifact, config: CompileConfig) -> None:
        from ..runtime.machine.detect import host_target

        super().__init__(self._read_graph, config)
        self._artifact = artifact
        self.entry = artifact.find(config.encode(), host_target())

    def _read_graph(self) -> Model:
        from ..compiler.frontends.xml.reader import read_xml

        text, weights = self._artifact.read_graph()
        with self._artifact.report_as_file_error("the artefact's graph is broken"):
            return Model(read_xml(text, weights))

    @property
    def lowering(self) -> PlanWeights:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The plan that runs; of a stored one the arrays are read each time."""
        if self.entry is None:
            return super().lowering
        read = self._artifact.read_plan(self.entry)
        return read.plan, read.arrays()

    def copy_to(self, stream: BinaryIO) -> bool:
        if self.entry is not None:
            self._artifact.copy_to(stream)
        return self.entry is not None

    def other_plans(self, known: Sequence[tuple[Mapping[str, Any], Target]]) -> list[StoredPlan]:
        from ..runtime.artifact.writer import stored_plan

        entries = (e for e in self._artifact.plans if (e.options, e.target) not in known)
        return [stored_plan(self._artifact, e) for e in entries]

    def read_attachments(self) -> dict[str, bytes]:
        return {n: self._artifact.read_attachment(n) for n in self._artifact.attachments}


class ClosedSource(ModelSource):
    """What a closed model keeps of its source."""

    def __init__(self, source: ModelSource) -> None:
        super().__init__(self._refuse, source.config)
        self.trace = source.trace

    def _refuse(self) -> Model:
        raise closed_error()


def closed_error() -> ExecutionError:
    """What a closed model answers."""
    return ExecutionError("the model is closed", fix="compile or load it again")


def list_attachments(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of what an artefact stores with its model. ArtifactError where it is broken."""
    from ..runtime.artifact.reader import Artifact

    return Artifact(path).attachments
