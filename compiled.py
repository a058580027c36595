"""A compiled model, where the two halves meet: the compiler makes a plan for the Target that the
runtime reports, the runtime turns the plan into a program, and a CompiledModel owns all three.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, SupportsIndex

from .calls import Outputs, PortTable, outputs_type
from .compiler.model import Model, PortInfo, describe_port
from .compiler.options import Options, Shapes, from_recipe, to_recipe
from .ir.errors import ExecutionError

if TYPE_CHECKING:
    import numpy as np

    from .compiler.trace import Trace
    from .ir.graph import Graph
    from .ir.plan import Plan, PlanPort
    from .runtime.artifact import Artifact, PlanEntry
    from .runtime.bound import BoundCall
    from .runtime.profile import StepTime
    from .runtime.program import Program
    from .runtime.session import Session, Stats


class CompiledModel:
    """A model ready to run on this machine; call it like a function.

    Calls are thread-safe. `inputs` and `outputs` describe the ports, `plan` what runs, `trace`
    what the passes did, `report()` how it runs.
    """

    def __init__(
        self,
        model: Model,
        options: Options,
        num_threads: int | None = None,
        *,
        shapes: Shapes | None = None,
        max_memory: int | None = None,
    ) -> None:
        from .compiler.lowering import lower
        from .runtime.machine import host_target

        self.options, self._shapes = options, shapes or {}
        self._model: Model | None = model
        # Where the net was loaded from, and the plan there that it uses.
        self._stored: Artifact | None = None
        self._entry: PlanEntry | None = None
        self.trace: Trace | None = None
        plan, self._weights = lower(self.graph, host_target(), options)
        self._start(plan, self._weights, num_threads, max_memory)

    def _start(
        self,
        plan: Plan,
        weights: Mapping[int, np.ndarray[Any, Any]],
        num_threads: int | None,
        max_memory: int | None,
        constants: Sequence[np.ndarray[Any, Any]] | None = None,
    ) -> None:
        from .runtime.cache import default_cache
        from .runtime.machine import host_target
        from .runtime.program import build_program
        from .runtime.session import Session

        self.plan: Plan = plan
        self.program: Program = build_program(
            plan, weights, host_target(), code_cache=default_cache(), constants=constants
        )
        self.session = Session(self.program, num_threads=num_threads, max_memory=max_memory)
        self._inputs = {n: i for i, p in enumerate(plan.inputs) for n in (p.name, *p.names)}
        self._outputs = {n: i for i, p in enumerate(plan.outputs) for n in (p.name, *p.names)}
        self._run = self.session.run
        self._count = len(plan.inputs)

    @property
    def model(self) -> Model:
        """The model that was compiled; of an artefact, its portable graph, read when asked for."""
        if self._model is None:
            assert self._stored is not None
            self._model = _stored_model(self._stored)
        return self._model

    @cached_property
    def graph(self) -> Graph:
        """The optimised graph."""
        from .compiler.pipeline import optimise
        from .compiler.shapes import fix_shapes

        graph = fix_shapes(self.model.graph.copy(), self._shapes)
        self.trace = optimise(graph, self.options)
        return graph

    @property
    def inputs(self) -> tuple[PortInfo, ...]:
        """The inputs in order."""
        return tuple(self._info(p) for p in self.plan.inputs)

    @property
    def outputs(self) -> tuple[PortInfo, ...]:
        """The outputs in order."""
        return tuple(self._info(p) for p in self.plan.outputs)

    @staticmethod
    def _info(port: PlanPort) -> PortInfo:
        return describe_port(port.name, port.names, port.type)

    def __call__(self, inputs: Any = None, /, **named: Any) -> Outputs:
        """Run. `inputs`: one array, a list in order, or a mapping by name; or keyword arguments.

        Returns fresh arrays. Raises InputError for a missing, unknown or unfitting input.
        """
        return Outputs(self._run(self._ordered(inputs, named)), self._outputs)

    def bind(self, inputs: Any = None, /, **named: Any) -> BoundCall:
        """Fix the input arrays and output buffers; the result is called without arguments."""
        return BoundCall(self.session.bind(self._ordered(inputs, named)), self._outputs)

    def _ordered(self, inputs: Any, named: Mapping[str, Any]) -> list[Any]:
        if isinstance(inputs, Mapping):
            named = {**inputs, **named} if named else inputs
        elif inputs is not None:
            listed = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
            if named or len(listed) != self._count:
                raise InputError(
                    "the number of inputs is wrong",
                    got=len(listed) + len(named),
                    expected=f"{self._count}: {', '.join(p.name for p in self.plan.inputs)}",
                )
            return listed
        values: list[Any] = [None] * self._count
        for name, value in named.items():
            at = self._inputs.get(name)
            if at is None:
                raise InputError("unknown input", got=name, expected=self._input_names())
            values[at] = value
        for value, port in zip(values, self.plan.inputs, strict=True):
            if value is None and not isinstance(port.type, OptionalType):
                raise InputError("an input is missing", where=port.name, expected=str(port.type))
        return values

    def _input_names(self) -> str:
        return ", ".join(p.name for p in self.plan.inputs) or "no inputs"

    def report(self) -> str:
        """How the model runs: steps, kernels, precision, and every step outside native code."""
        from .compiler.report import report

        return report(self.plan, self.trace)

    def export(self, path: str | os.PathLike[str], *, also: Sequence[CompiledModel] = ()) -> None:
        """Write the compiled model as one `.irc` file, whole or not at all.

        It holds the model's portable graph, its weights once, and this net's plan. also: nets of
        the same model with other options, whose plans are stored with it.
        """
        from .compiler.export.files import replacing
        from .compiler.export.xml import write_net
        from .runtime.artifact_writer import StoredPlan, stored_plan, write_artifact
        from .runtime.machine import host_target

        stored = self._stored
        with replacing(Path(path)) as (stream,):
            if stored is not None and self._entry is not None and not also:
                stored.copy_to(stream)
                return
            plans = [
                StoredPlan(n._recipe, host_target(), n.plan, n._arrays()) for n in (self, *also)
            ]
            known = [(p.options, p.target) for p in plans]
            if stored is not None:  # plans for other machines and options stay with the model
                for entry in stored.plans:
                    if (entry.options, entry.target) not in known:
                        plans.append(stored_plan(stored, entry))

            def write_graph(to: BinaryIO) -> tuple[str, Any]:
                text, weights = write_net(self.model.graph, to, dialect=True)
                return text, weights.find

            write_artifact(stream, write_graph, self._recipe, plans)

    @property
    def _recipe(self) -> dict[str, Any]:
        return to_recipe(self.options, self._shapes)

    def _arrays(self) -> Mapping[int, np.ndarray[Any, Any]]:
        """The arrays behind the plan's constants."""
        if self._stored is not None and self._entry is not None:
            return self._stored.read_plan(self._entry).arrays()
        return self._weights

    @classmethod
    def load(
        cls,
        source: str | os.PathLike[str] | bytes,
        *,
        precision: str | None = None,
        num_threads: int | None = None,
        shapes: Shapes | None = None,
        max_memory: int | None = None,
    ) -> CompiledModel:
        """Load a `.irc` file (or its content) for this machine.

        Its plan for this machine and these options (by default those it was compiled with) is
        verified and used; where it has none, the stored graph is compiled again. Raises
        ArtifactError where it is damaged or of another version.
        """
        from .runtime.artifact import Artifact, verify_program
        from .runtime.machine import host_target
        from .runtime.program import make_constant

        stored = Artifact(source, max_memory=max_memory)
        with stored.blamed("the artefact's options are broken"):
            options, fixed = from_recipe(stored.options)
        options = options if precision is None else replace(options, precision=precision)
        fixed = fixed if shapes is None else shapes
        entry = stored.find(to_recipe(options, fixed), host_target())
        if entry is None:
            model = _stored_model(stored)
            net = cls(model, options, num_threads, shapes=fixed, max_memory=max_memory)
            net._stored = stored
            return net
        net = cls.__new__(cls)
        net.options, net._shapes, net.trace = options, fixed, None
        net._model, net._stored, net._entry = None, stored, entry
        read = stored.read_plan(entry)
        with stored.blamed("a stored plan cannot be used", entry.section):
            constants = read.constants(partial(make_constant, threads=1))
            net._start(read.plan, {}, num_threads, max_memory, constants)
            verify_program(net.program)
        return net

    def __repr__(self) -> str:
        return f"<irc.CompiledModel {self.plan.name!r}: {len(self.plan.kernel_steps())} kernels>"


def _is_artifact(source: Any) -> bool:
    if isinstance(source, bytes | bytearray | memoryview):
        from .runtime.container import MAGIC

        return bytes(source[: len(MAGIC)]) == MAGIC
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".irc"


def _stored_model(stored: Artifact) -> Model:
    """The portable graph of an artefact."""
    from .compiler.frontends.xml.reader import read_xml

    text, weights = stored.read_graph()
    with stored.blamed("the artefact's graph is broken"):
        return Model(read_xml(text, weights))
