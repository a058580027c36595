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
from ..compiler.model import Model, Origin, PortInfo, RtInfo, describe_port
from ..compiler.options import Options, Shapes, from_recipe, to_compile_config
from ..ir.errors import ExecutionError, VerificationError, memory_errors
from ..ir.limits.memory_budget import with_budget
from ..plan.verify.spec_ranges import require_possible_sizes
from ..runtime.driver.loader import in_default_mode
from .ports import Outputs, PortTable, outputs_type

if TYPE_CHECKING:
    import numpy as np

    from ..compiler.rewrite.trace import Trace
    from ..ir.graph import Graph
    from ..plan.plan import Plan
    from ..runtime.artifact.reader import Artifact, PlanEntry
    from ..runtime.execution.bound_call import BoundCall
    from ..runtime.execution.profile import StepTime
    from ..runtime.execution.session import Session
    from ..runtime.execution.stats import Stats
    from ..runtime.jit.program import CompiledPlan
    from .infer_request import InferRequest


class CompiledModel(HasMetadata):
    """A model ready to run on this machine; call it like a function.

    Calls are thread-safe, work in forked children, and neither keep nor write their inputs.
    `inputs` and `outputs` describe the ports, `plan` what runs, `trace` what the passes did,
    `report()` how it runs. Pickled, it is its artefact: code is made (or found in the cache) and
    threads counted where it is unpickled. `close()` (the end of a `with` block) gives memory back.
    """

    @with_budget
    @in_default_mode
    def __init__(
        self,
        source: Model | Callable[[], Model],
        options: Options,
        num_threads: int | None = None,
        *,
        shapes: Shapes | None = None,
        max_memory: int | None = None,
    ) -> None:
        """source: a model, which is kept; or how to read one, which is dropped if it came from
        files: they are read again for `graph`, `export` and pickling."""
        from ..compiler.lowering import lower
        from ..runtime.machine.detect import host_target

        self.options, self._shapes = options, shapes or {}
        self._model: Model | None = source if isinstance(source, Model) else source()
        # Where the net was loaded from, and the plan there that it uses.
        self._stored: Artifact | None = None
        self.rt_info = self._model.graph.rt_info
        self._origin: Origin | None = None
        self._entry: PlanEntry | None = None
        self.trace: Trace | None = None
        origin = None if isinstance(source, Model) else self.model.origin
        if origin is not None:  # the graph has no other owner, so it need not be copied
            self.graph = self._optimize(self.model.graph)
        plan, weights = lower(self.graph, host_target(), options)
        self._weights: Mapping[int, np.ndarray[Any, Any]] = weights
        if origin is None:
            self._start(plan, weights, num_threads, max_memory)
            return
        from ..runtime.machine.memory_planner import trim_heap

        # The weights have no other owner either: each is released when it is packed.
        self.model.graph.clear()
        self.graph.clear()
        self._origin, self._model, self._weights = origin, None, {}
        del self.graph
        self._start(plan, weights, num_threads, max_memory, consume=True)
        del plan, weights
        trim_heap()

    def _start(
        self,
        plan: Plan,
        weights: dict[int, np.ndarray[Any, Any]],
        num_threads: int | None,
        max_memory: int | None,
        constants: Sequence[np.ndarray[Any, Any]] | None = None,
        trusted: Mapping[str, bytes] | None = None,
        consume: bool = False,
    ) -> None:
        from ..runtime.execution.session import Session
        from ..runtime.jit.disk_cache import default_cache
        from ..runtime.jit.program import build_program
        from ..runtime.machine.detect import host_target

        self.plan: Plan = plan
        try:
            program = build_program(
                plan,
                weights,
                host_target(),
                code_cache=default_cache(),
                constants=constants,
                trusted=trusted,
                consume=consume,
            )
        except VerificationError:
            if self._stored is None:  # lowering takes any size: what no memory holds is refused
                require_possible_sizes(plan)
            raise
        session = Session(program, num_threads=num_threads, max_memory=max_memory)
        self._session: Session | None = session
        self._limits = (num_threads, max_memory)
        inputs, self._given = PortTable(plan.inputs, "input"), PortTable(plan.outputs, "output")
        self._run, self._ordered = session.run, inputs.inputs
        self._show = outputs_type(self._given.names)

    @property
    def session(self) -> Session:
        """The runtime's side. ExecutionError once the model is closed."""
        if self._session is None:
            raise ExecutionError("the model is closed", fix="compile or load it again")
        return self._session

    @property
    def program(self) -> CompiledPlan:
        """Machine code and constants. ExecutionError once the model is closed."""
        return self.session.program

    @property
    def model(self) -> Model:
        """The model that was compiled; of an artefact, its portable graph, read when asked for."""
        if self._model is None:
            if self._stored is not None:
                self._model = _stored_model(self._stored)
            elif self._origin is not None:
                self._model = self._origin.reload()
            else:
                raise ExecutionError("the model is closed", fix="compile or load it again")
        return self._model

    @cached_property
    def graph(self) -> Graph:
        """The optimised graph."""
        return self._optimize(self.model.graph.copy())

    def _optimize(self, graph: Graph) -> Graph:
        from ..compiler.pipeline import optimize
        from ..compiler.rewrite.trace import Trace
        from ..compiler.shape_analysis.grow_caches import grow_caches
        from ..compiler.shape_analysis.override_inputs import fix_shapes
        from ..compiler.shape_analysis.unify_dims import unify_sizes

        graph = unify_sizes(grow_caches(fix_shapes(graph, self._shapes)))
        # The passes run again where the graph was given back: their messages were shown the first
        # time.
        trace = Trace(self.options.stop_after, aloud=self.trace is None)
        self.trace = optimize(graph, self.options, trace)
        return graph

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
        byte order, or one that speaks DLPack, the array interface or the buffer protocol (torch
        tensors, for one). Returns fresh arrays, or those given as `out` (one array, a list in
        order or a mapping by name; None for a fresh one), which may be inputs, too. (An input that
        is called "out" goes into a mapping.) InputError for a missing, unknown or unfitting array.
        """
        if out is None:
            return self._show(self._run(self._ordered(inputs, named)))
        values = self._ordered(inputs, named)
        return self._show(self.session.run_into(values, self._given.order_inputs(out)))

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
        self._session.close()
        self._session = self._model = self._stored = self._entry = self._origin = None
        self._weights = {}
        self._run = self._run_closed
        self.__dict__.pop("graph", None)

    def _run_closed(self, inputs: Sequence[Any]) -> list[Any]:
        return self.session.run(inputs)

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
        return _unpickle, (data, *self._limits)

    def report(self) -> str:
        """How the model runs: steps, kernels, precision, and every step outside native code."""
        from ..compiler.report import report
        from ..runtime.jit.host_features import without_tiles

        lines = [report(self.plan, self.trace)]
        linked = self._session.program.count_linked if self._session is not None else 0
        if linked:
            lines.append(f"linked     {linked} kernels by LLVM")
        if reason := without_tiles():
            lines.append(f"tiles      none: AMX is there, but {reason}")
        return "\n".join(lines)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        also: Sequence[CompiledModel] = (),
        code: bool = False,
    ) -> None:
        """Write the compiled model as one `.irc` file, whole or not at all.

        It holds the model's portable graph, its weights once, and this net's plan. also: nets of
        the same model with other options, whose plans are stored with it. code: store the machine
        code, too, for those who load it with `trust_code`.
        """
        from ..compiler.export.files import replace_files

        _ = self.session  # a closed model has nothing to write
        with replace_files(Path(path)) as (stream,):
            self._write(stream, also, code)

    def _write(
        self, stream: BinaryIO, also: Sequence[CompiledModel] = (), code: bool = False
    ) -> None:
        """The artefact onto a seekable stream."""
        from ..compiler.export.xml import write_net
        from ..runtime.artifact.writer import StoredPlan, stored_plan, write_artifact
        from ..runtime.machine.detect import host_target

        stored = self._stored
        if stored is not None and self._entry is not None and not (also or code):
            stored.copy_to(stream)
            return
        target = host_target()
        plans = [
            StoredPlan(n._recipe, target, n.plan, n._arrays(), n._code() if code else None)
            for n in (self, *also)
        ]
        known = [(p.options, p.target) for p in plans]
        if stored is not None:  # plans for other machines and options stay with the model
            more = [e for e in stored.plans if (e.options, e.target) not in known]
            plans += [stored_plan(stored, e) for e in more]

        def write_graph(to: BinaryIO) -> tuple[str, Any]:
            text, weights = write_net(self.model.graph, to, dialect=True)
            return text, weights.find

        write_artifact(stream, write_graph, self._recipe, plans)

    def _code(self) -> dict[str, bytes]:
        from ..runtime.jit.disk_cache import default_cache
        from ..runtime.jit.program import code_of
        from ..runtime.machine.detect import host_target

        return code_of(self.plan, host_target(), default_cache())

    @property
    def _recipe(self) -> dict[str, Any]:
        return to_compile_config(self.options, self._shapes)

    def _arrays(self) -> Mapping[int, np.ndarray[Any, Any]]:
        """The arrays behind the plan's constants."""
        if self._stored is not None and self._entry is not None:
            return self._stored.read_plan(self._entry).arrays()
        if self._origin is not None and not self._weights:
            from ..compiler.lowering import lower
            from ..runtime.machine.detect import host_target

            # Lowering is a function of graph, Target and options: the plan is the one that runs.
            _, self._weights = lower(self.graph, host_target(), self.options)
        return self._weights

    @classmethod
    @with_budget
    @in_default_mode
    def load(
        cls,
        source: str | os.PathLike[str] | bytes | bytearray | memoryview,
        *,
        precision: str | None = None,
        denormals: str | None = None,
        num_threads: int | None = None,
        shapes: Shapes | None = None,
        max_memory: int | None = None,
        trust_code: bool = False,
    ) -> CompiledModel:
        """Load a `.irc` file (or its content) for this machine.

        Its plan for this machine and these options (by default those it was compiled with) is
        verified and used; where it has none, the stored graph is compiled again. Machine code in
        the file is left alone and made again from the plan, unless `trust_code`: it then runs
        with your rights, whatever it does. Raises ArtifactError where the file is damaged or of
        another version.
        """
        from ..runtime.artifact.reader import Artifact, verify_program
        from ..runtime.jit.program import make_constant
        from ..runtime.machine.detect import host_target

        stored = Artifact(source, max_memory=max_memory)
        with stored.report_as_file_error("the artefact's options are broken"):
            options, fixed = from_recipe(stored.options)
        options = options if precision is None else replace(options, precision=precision)
        options = options if denormals is None else replace(options, denormals=denormals)
        fixed = fixed if shapes is None else shapes
        entry = stored.find(to_compile_config(options, fixed), host_target())
        if entry is None:
            model = _stored_model(stored)
            net = cls(model, options, num_threads, shapes=fixed, max_memory=max_memory)
            net._stored = stored
            return net
        net = cls.__new__(cls)
        net.options, net._shapes, net.trace = options, fixed, None
        net._model, net._stored, net._entry, net._origin = None, stored, entry, None
        read = stored.read_plan(entry)
        with stored.report_as_file_error("a stored plan cannot be used", entry.section):
            constants = read.constants(partial(make_constant, threads=1))
            trusted = stored.read_code(entry) if trust_code else None
            net._start(read.plan, {}, num_threads, max_memory, constants, trusted)
            verify_program(net.program)
        return net

    @property
    def has_stored_code(self) -> bool:
        """Whether the file that the net was loaded from holds machine code for this machine."""
        return self._entry is not None and self._entry.code is not None

    def __repr__(self) -> str:
        state = "closed" if self._session is None else f"{len(self.plan.kernel_steps())} kernels"
        return f"<irc.CompiledModel {self.plan.name!r}: {state}>"


def _unpickle(data: Any, num_threads: int | None, max_memory: int | None) -> CompiledModel:
    content = data if isinstance(data, bytes) else memoryview(data)
    return CompiledModel.load(content, num_threads=num_threads, max_memory=max_memory)


def _stored_model(stored: Artifact) -> Model:
    """The portable graph of an artefact."""
    from ..compiler.frontends.xml.reader import read_xml

    text, weights = stored.read_graph()
    with stored.report_as_file_error("the artefact's graph is broken"):
        return Model(read_xml(text, weights))
