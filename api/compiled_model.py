"""A compiled model, where compiler and runtime meet: the compiler makes a plan for the Target that
the runtime reports, the runtime turns the plan into a program, and a CompiledModel owns all three.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, SupportsIndex

from ..compiler.metadata import HasMetadata
from ..compiler.model import Model, PortInfo, RtInfo, describe_port
from ..compiler.options import Options, Shapes, from_recipe
from ..ir.errors import (
    ArtifactError,
    MemoryLimitError,
    UsageError,
    VerificationError,
    memory_errors,
)
from ..ir.limits.memory_budget import with_budget
from ..plan.verify.spec_ranges import require_possible_sizes
from ..runtime.driver.loader import in_default_mode
from .model_source import (
    ArtifactSource,
    ClosedSource,
    CompileConfig,
    FileSource,
    InMemorySource,
    ModelSource,
    Performance,
    closed_error,
)
from .ports import Outputs, PortTable, outputs_type

if TYPE_CHECKING:
    from ..compiler.rewrite.trace import Trace
    from ..ir.deferred_array import StoredArray
    from ..ir.graph import Graph
    from ..plan.plan import Plan
    from ..runtime.artifact.reader import Artifact, PlanEntry
    from ..runtime.execution.bound_call import BoundCall
    from ..runtime.execution.profile import StepTime
    from ..runtime.execution.session import Session
    from ..runtime.execution.stats import Stats
    from ..runtime.jit.program import CompiledPlan
    from .call_pool import CallPool
    from .infer_request import InferRequest
    from .model_cache import ModelEntry, StoredModel


class CompiledModel(HasMetadata):
    """A model ready to run on this machine; call it like a function.

    Calls are thread-safe, work in forked children, and neither keep nor write their inputs.
    `inputs` and `outputs` describe the ports, `plan` what runs, `trace` what the passes did,
    `report()` how it runs. Pickled, it is its artefact: code is made (or found in the cache) and
    threads counted where it is unpickled. `close()` (the end of a `with` block) gives memory back.
    """

    def __init__(
        self,
        plan: Plan,
        program: CompiledPlan,
        session: Session,
        source: ModelSource,
        options: Options,
    ) -> None:
        """`compile_with_options` and `load` make it."""
        self.plan, self.options, self._source = plan, options, source
        self._program: CompiledPlan | None = program
        self._session: Session | None = session
        if source.rt_info is not None:
            self.rt_info = source.rt_info
        inputs, self._given = PortTable(plan.inputs, "input"), PortTable(plan.outputs, "output")
        self._run, self._ordered = session.run, inputs.inputs
        self._show = outputs_type(self._given.names)
        self._own_pool: CallPool | None = None

    @property
    def session(self) -> Session:
        """The runtime's side. ExecutionError once the model is closed."""
        if self._session is None:
            raise closed_error()
        return self._session

    @property
    def program(self) -> CompiledPlan:
        """Machine code and constants. ExecutionError once the model is closed."""
        if self._program is None:
            raise closed_error()
        return self._program

    @property
    def model(self) -> Model:
        """The model that was compiled; of files and artefacts, read again when accessed."""
        return self._source.model

    @property
    def graph(self) -> Graph:
        """The optimised graph."""
        return self._source.graph

    @property
    def trace(self) -> Trace | None:
        """What the passes did; None where a stored plan was loaded."""
        return self._source.read_trace()

    @property
    def inputs(self) -> tuple[PortInfo, ...]:
        """The inputs in order."""
        return tuple(describe_port(p.name, p.names, p.type) for p in self.plan.inputs)

    @property
    def outputs(self) -> tuple[PortInfo, ...]:
        """The outputs in order."""
        return tuple(describe_port(p.name, p.names, p.type) for p in self.plan.outputs)

    @cached_property
    def rt_info(self) -> RtInfo:
        """The model's rt_info, a tree of texts; of an artefact, read with its graph."""
        return self.model.graph.rt_info

    def __call__(self, inputs: Any = None, /, *, out: Any = None, **named: Any) -> Outputs:
        """Run. `inputs`: one array, a list in order, or a mapping by name; or keyword arguments.

        Any array with the right element type and shape will do: NumPy's, of whatever strides and
        byte order, or one that supports DLPack, the array interface or the buffer protocol (torch
        tensors, for one). Returns fresh arrays, or those given as `out` (one array, a list in
        order or a mapping by name; None for a fresh one), which may be inputs, too. (An input that
        is called "out" goes into a mapping.) InputError for a missing, unknown or unfitting array.
        """
        if out is None:
            return self._show(self._run(self._ordered(inputs, named)))
        values = self._ordered(inputs, named)
        return self._show(self.session.run(values, out=self._given.order_inputs(out)))

    def bind(self, inputs: Any = None, /, **named: Any) -> BoundCall[Outputs]:
        """Fix the input arrays and output buffers; the result is called without arguments.

        Each call reads the arrays as they are then and returns the same output arrays,
        overwritten. Nothing is allocated. It works on after the model is closed.
        """
        return self.session.bind(self._ordered(inputs, named), self._show)

    def create_infer_request(self) -> InferRequest:
        """A request with variables of its own: what its runs assign, its later runs read.

        A model's state (ReadValue, Assign) lasts in requests only: a plain call, a bound call and a
        profile start from the initial values each time.
        """
        from .infer_request import InferRequest

        return InferRequest(self.session, self._ordered, self._given, self._show)

    @property
    def calls_at_a_time(self) -> int:
        """Calls that `pool` and `infer_async` run at the same time: of performance="throughput" one
        per thread, else one, which all threads compute."""
        config = self._source.config
        if config.performance == "latency":
            return 1
        from ..runtime.driver.thread_pool import default_threads

        return config.num_threads or default_threads()

    def pool(self, size: int | None = None) -> CallPool:
        """Threads that make `size` calls at the same time (None: `calls_at_a_time`). Of
        performance="throughput" on a machine of several NUMA nodes, each node has a share of the
        threads, which stay on its CPUs, and a copy of the weights."""
        from ..runtime.machine.numa import divide_calls, read_usable_nodes
        from .call_pool import CallGroup, CallPool

        _ = self.session  # a closed model has no calls
        if size is not None and size < 1:
            raise UsageError("a pool has at least one thread", got=size, expected="1 or more")
        size = self.calls_at_a_time if size is None else size
        nodes = read_usable_nodes() if self._source.config.performance == "throughput" else ()
        if len(nodes) < 2 or size < len(nodes):
            return CallPool(CallGroup(size, lambda: self))
        shares = zip(nodes, divide_calls(size, nodes), strict=True)
        groups = [CallGroup(n, self._make_local_call, node.cpus) for node, n in shares if n]
        return CallPool(*groups)

    def _make_local_call(self) -> Callable[..., Outputs]:
        """A call like the model's own whose weights are in the memory of this thread's node."""
        from ..runtime.execution.session import Session

        program, limits = self.program.copy_constants(), self.session.limits
        local = Session(program, num_threads=limits.threads, max_memory=limits.max_memory)

        def call(inputs: Any = None, /, **named: Any) -> Outputs:
            _ = self.session  # a closed model has no calls
            return self._show(local.run(self._ordered(inputs, named)))

        return call

    async def infer_async(self, inputs: Any = None, /, **named: Any) -> Outputs:
        """The outputs of a call (inputs as of a plain one) that runs on a thread of the model's own
        pool, while the event loop goes on. A cancelled call that has begun runs to its end."""
        import asyncio

        if self._own_pool is None:
            self._own_pool = self.pool()
        return await asyncio.wrap_future(self._own_pool.submit(inputs, **named))

    def profile(self, inputs: Any = None, /, **named: Any) -> list[StepTime]:
        """One run, each step timed on its own: what it is, whose work it does, seconds."""
        with memory_errors():
            return self.session.profile(self._ordered(inputs, named))

    def stats(self) -> Stats:
        """What the model holds: threads, bytes of constants and arenas, kernels, shapes seen."""
        return self.session.stats()

    def close(self) -> None:
        """Give code, weights and arenas back; calls from now on raise ExecutionError.

        Running calls finish, bound calls go on while they live. Closing twice is not an error.
        """
        if self._session is None:
            return
        if self._own_pool is not None:
            self._own_pool.close()
        self._session.close()
        self._program = self._session = None
        self._source = ClosedSource(self._source)
        self._run = lambda inputs: self.session.run(inputs)

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        stream = io.BytesIO()
        self._write(stream)
        content = stream.getbuffer() if protocol.__index__() >= 5 else stream.getvalue()
        # Protocol 5 lets Ray, Dask and others move the weights without another copy.
        data = pickle.PickleBuffer(content) if isinstance(content, memoryview) else content
        config = self._source.config
        return _unpickle, (data, config.num_threads, config.max_memory, config.performance)

    def report(self) -> str:
        """How the model runs: steps, kernels, precision, and every step outside native code."""
        from ..compiler.report import describe_bf16x3, describe_int8_tiles, report
        from ..plan.packing.panel_params import describe_f16_sums
        from ..runtime.jit.host_features import without_tiles
        from ..runtime.machine.detect import host_target

        lines = [report(self.plan, self.trace)]
        if self._source.config.performance == "throughput":
            from ..runtime.machine.numa import read_usable_nodes

            nodes = len(read_usable_nodes())
            more = f", on {nodes} NUMA nodes with a copy of the weights each" if nodes > 1 else ""
            lines.append(f"calls      {self.calls_at_a_time} at a time, one thread each{more}")
        linked = self._program.count_linked if self._program is not None else 0
        if linked:
            lines.append(f"linked     {linked} kernels by LLVM")
        if self.plan.precision == "f16":
            lines.append(f"sums       {describe_f16_sums(host_target())}")
        for tiles in (describe_int8_tiles(self.plan, host_target()), describe_bf16x3(self.plan)):
            lines += [f"tiles      {tiles}"] if tiles else []
        if reason := without_tiles():
            lines.append(f"tiles      none: AMX is there, but {reason}")
        return "\n".join(lines)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        also: Sequence[CompiledModel] = (),
        code: bool = False,
        attachments: Mapping[str, bytes] | None = None,
    ) -> None:
        """Write the compiled model as one `.irc` file, whole or not at all.

        It holds the model's portable graph, its weights once, and this net's plan. also: nets of
        the same model with other options, whose plans are stored with it. code: store the machine
        code, too, for those who load it with `trust_code`. attachments: bytes by name that are
        stored with it, besides those of the file that the net was loaded from.
        """
        from ..compiler.export.files import replace_files

        _ = self.session  # a closed model has nothing to write
        with replace_files(Path(path)) as (stream,):
            self._write(stream, also, code, attachments)

    def _write(
        self,
        stream: BinaryIO,
        also: Sequence[CompiledModel] = (),
        code: bool = False,
        attachments: Mapping[str, bytes] | None = None,
    ) -> None:
        """The artefact onto a seekable stream."""
        from ..compiler.export.xml import write_net
        from ..ir.extensions import extensions_of
        from ..runtime.artifact.writer import StoredPlan, write_artifact
        from ..runtime.jit.disk_cache import default_cache
        from ..runtime.jit.program import code_of
        from ..runtime.machine.detect import host_target

        if not (also or code or attachments) and self._source.copy_to(stream):
            return
        target, plans = host_target(), list[StoredPlan]()
        for net in (self, *also):
            config = net._source.config.encode()
            images = code_of(net.plan, target, default_cache()) if code else None
            plans.append(StoredPlan(config, target, *net._source.lowering, images))
        plans += self._source.other_plans([(p.options, p.target) for p in plans])

        def write_graph(to: BinaryIO) -> tuple[str, Any]:
            text, weights = write_net(self.model.graph, to, dialect=True)
            return text, weights.find

        kinds = extensions_of(self.model.graph)
        attached = self._source.read_attachments() | dict(attachments or {})
        write_artifact(stream, write_graph, self._source.config.encode(), plans, kinds, attached)

    def read_attachments(self) -> dict[str, bytes]:
        """What is stored by name in the file that the net was loaded from."""
        return self._source.read_attachments()

    @staticmethod
    @with_budget
    @in_default_mode
    def load(
        source: str | os.PathLike[str] | bytes | bytearray | memoryview,
        *,
        precision: str | None = None,
        denormals: str | None = None,
        activations: str | None = None,
        num_threads: int | None = None,
        shapes: Shapes | None = None,
        max_memory: int | None = None,
        trust_code: bool = False,
        performance: Performance = "latency",
    ) -> CompiledModel:
        """Load a `.irc` file (or its content) for this machine.

        Its plan for this machine and these options (by default those it was compiled with) is
        verified and used; where it has none, the stored graph is compiled again. Machine code in
        the file is left alone and made again from the plan, unless `trust_code`: it then runs
        with your rights, whatever it does. Raises ArtifactError where the file is damaged or of
        another version.
        """
        from ..runtime.artifact.reader import Artifact

        artifact = Artifact(source, max_memory=max_memory)
        with artifact.report_as_file_error("the artefact's options are broken"):
            options, fixed = from_recipe(artifact.options)
        options = options if precision is None else replace(options, precision=precision)
        options = options if denormals is None else replace(options, denormals=denormals)
        options = options if activations is None else replace(options, activations=activations)
        fixed = fixed if shapes is None else shapes
        model_source = ArtifactSource(
            artifact, CompileConfig(options, fixed, num_threads, max_memory, performance)
        )
        entry = model_source.entry
        if entry is None:
            return _compile(model_source)
        return _start_stored(artifact, entry, model_source, trust_code)

    @property
    def has_stored_code(self) -> bool:
        """Whether the file that the net was loaded from holds machine code for this machine."""
        entry = self._source.entry
        return entry is not None and entry.code is not None

    def __repr__(self) -> str:
        state = "closed" if self._session is None else f"{len(self.plan.kernel_steps())} kernels"
        return f"<irc.CompiledModel {self.plan.name!r}: {state}>"


@with_budget
@in_default_mode
def compile_with_options(
    source: Model | Callable[[], Model],
    options: Options,
    num_threads: int | None = None,
    *,
    shapes: Shapes | None = None,
    max_memory: int | None = None,
    performance: Performance = "latency",
    find_entry: Callable[[CompileConfig], ModelEntry | None] | None = None,
) -> CompiledModel:
    """Compile a model for this machine.

    source: a model, which is kept; or how to read one, which is dropped if it came from files: they
    are read again for `graph`, `export` and pickling. find_entry: gives the model's entry in the
    cache, if it may have one (model_cache.py).
    """
    config = CompileConfig(options, shapes or {}, num_threads, max_memory, performance)
    if isinstance(source, Model):
        return _compile(InMemorySource(source, config))
    entry = None if find_entry is None else find_entry(config)
    found = None if entry is None else entry.find()
    if found is not None and (cached := start_found(found, source, config)) is not None:
        return cached
    model = source()
    if model.origin is None:
        return _compile(InMemorySource(model, config), entry)
    from ..runtime.machine.memory_planner import trim_heap

    model_source = FileSource(model, model.origin, config)
    del model
    net = _compile(model_source, entry)
    trim_heap()
    return net


def _compile(source: ModelSource, entry: ModelEntry | None = None) -> CompiledModel:
    """Lower the source's graph and make the program. entry: where it is stored."""
    plan, consume = source.lowering[0], source.owns_graph
    weights = source.take_weights()
    try:
        # An array that has no other owner is dropped when it is packed.
        net = _start(plan, weights, source, consume=consume)
    except VerificationError:
        require_possible_sizes(plan)  # lowering takes any size: what no memory holds is refused
        raise
    if entry is not None:
        entry.store(source, net.program)
    return net


def _start(
    plan: Plan,
    weights: dict[int, StoredArray],
    source: ModelSource,
    **how: Any,
) -> CompiledModel:
    """The model with a program made as `how` says (jit/program.py)."""
    from ..runtime.execution.session import Session
    from ..runtime.jit.disk_cache import default_cache
    from ..runtime.jit.program import build_program
    from ..runtime.machine.detect import host_target

    program = build_program(plan, weights, host_target(), code_cache=default_cache(), **how)
    config = source.config
    threads = 1 if config.performance == "throughput" else config.num_threads
    session = Session(program, num_threads=threads, max_memory=config.max_memory)
    return CompiledModel(plan, program, session, source, config.options)


def _start_stored(
    artifact: Artifact, entry: PlanEntry, source: ModelSource, trust_code: bool = False
) -> CompiledModel:
    """The model of a stored plan, all of which is verified."""
    from ..runtime.artifact.reader import verify_program
    from ..runtime.jit.program import make_constant

    read = artifact.read_plan(entry)
    with artifact.report_as_file_error("a stored plan cannot be used", entry.section):
        constants = read.constants(partial(make_constant, threads=1))
        trusted = artifact.read_code(entry) if trust_code else None
        net = _start(read.plan, {}, source, constants=constants, trusted=trusted)
        verify_program(net.program)
    return net


def start_found(
    found: StoredModel, read: Callable[[], Model], config: CompileConfig
) -> CompiledModel | None:
    """The model of an entry that was found in the cache; None where it cannot be used. read: gives
    the model it was compiled from."""
    from .model_cache import CachedSource

    try:
        with found.program as stored:
            source, constants = CachedSource(found, read, config), stored.read_constants()
        return _start(found.plan, {}, source, constants=constants, prepared=stored.prepared)
    except (ArtifactError, MemoryLimitError, OSError):
        found.entry.remove()
        return None


def _unpickle(
    data: Any, num_threads: int | None, max_memory: int | None, performance: Performance
) -> CompiledModel:
    content = data if isinstance(data, bytes) else memoryview(data)
    return CompiledModel.load(
        content, num_threads=num_threads, max_memory=max_memory, performance=performance
    )
