"""Run the float model on calibration data and show its activations to observers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..api import Model, compile_model
from ..ir.graph import Graph, Value
from ..ir.infer import infer_node
from ..ir.op import Array
from ..ir.ops import Result
from .samples import Samples

Observe = Callable[[Array], None]
# Takes a stage, how many of its pieces are done, and of how many (0: unknown).
Step = Callable[[str, int, int], None]


def calibrate(
    graph: Graph,
    samples: Samples,
    observers: Mapping[Value, Sequence[Observe]],
    num_threads: int | None,
    step: Step,
) -> None:
    """Run irc's compiled model, with the observed values as further results, batch by batch. Only
    one batch's values are held at a time. `step` is called after each batch."""
    part = graph.copy()
    for node in list(part.results):
        part.remove(node)
    for value in observers:
        infer_node(part, part.add(Result(), [value], name=f"observed {value.node}:{value.port}"))
    with compile_model(Model(part), num_threads=num_threads, progress=False) as net:
        names = [port.name for port in net.inputs]
        for number, batch in enumerate(samples):
            found = list(net([batch[name] for name in names]))
            for listed in observers.values():
                array = found.pop(0)
                for observe in listed:
                    observe(array)
            step("calibrating", number + 1, 0)
