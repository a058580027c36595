"""The graph that really runs, as IR XML for viewers: a layer per step, with its time and sources.

The attributes are those of the runtime models that OpenVINO writes: execOrder, execTimeMcs,
originalLayersNames, primitiveType, runtimePrecision. It is for looking at: it holds no weights and
is not read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...plan.plan import (
    CONSTANT,
    INPUT,
    OUTPUT,
    ControlStep,
    HostStep,
    KernelStep,
    Plan,
    Region,
    Step,
)
from .attribute_format import escape

ValueKey = tuple[int, int]


@dataclass
class _Layer:
    """A layer of the net; `reads` and `writes` are the keys of its values."""

    name: str
    type: str
    data: dict[str, str]
    reads: list[ValueKey] = field(default_factory=list[ValueKey])
    writes: list[ValueKey] = field(default_factory=list[ValueKey])


def runtime_graph(plan: Plan, microseconds: Mapping[tuple[int, int], float]) -> str:
    """The text of the .xml. microseconds: by (region, step); a region's terminal is step -1."""
    layers: list[_Layer] = []
    for slot in (p.slot for p in plan.inputs):
        name = next(p.name for p in plan.inputs if p.slot == slot)
        layers.append(_Layer(name, "Input", {}, writes=[(-1, slot)]))
    for number, region in enumerate(plan.regions):
        layers += _region_layers(number, region, microseconds, len(layers))
    for port in plan.outputs:
        layers.append(_Layer(port.name, "Output", {}, reads=[(-1, port.slot)]))
    return _as_xml(plan.name, layers)


def _region_layers(
    number: int, region: Region, microseconds: Mapping[tuple[int, int], float], order: int
) -> list[_Layer]:
    def key_of(b: int) -> ValueKey:
        """The slot that an input or output is, else the buffer; parts are their wholes."""
        while (inside := region.buffers[b].alias_of) is not None:
            b = inside
        buffer = region.buffers[b]
        if buffer.kind == INPUT:
            return -1, region.inputs[buffer.index]
        return (-1, region.outputs[buffer.index]) if buffer.kind == OUTPUT else (number, b)

    layers: list[_Layer] = []
    for n, step in enumerate(region.steps):
        inputs, outputs = _buffers(step)
        layer = _Layer(
            step.name, _step_kind(step), _step_data(step, order + n, microseconds.get((number, n)))
        )
        known = [b for b in inputs if region.buffers[b].kind != CONSTANT]
        layer.reads = list(dict.fromkeys(key_of(b) for b in known))
        layer.writes = list(dict.fromkeys(key_of(b) for b in outputs))
        layers.append(layer)
    if region.terminal is not None:
        end = region.terminal
        time = microseconds.get((number, -1))
        layer = _Layer(
            end.name, end.op.kind, _runtime_info(order + len(layers), time, "Python", ())
        )
        layer.reads = [(-1, s) for s in end.inputs if s is not None]
        layer.writes = [(-1, s) for s in end.outputs]
        layers.append(layer)
    return layers


def _buffers(step: Step) -> tuple[list[int], list[int]]:
    if isinstance(step, HostStep):
        return [b for b in step.inputs if b is not None], list(step.outputs)
    if isinstance(step, ControlStep):
        return list(step.buffers), []
    last = len(step.buffers) - step.spec.output_count()
    return list(step.buffers[:last]), list(step.buffers[last:])


def _step_kind(step: Step) -> str:
    if isinstance(step, ControlStep):
        return step.kind
    return step.op.kind if isinstance(step, HostStep) else step.spec.family


def _step_data(step: Step, order: int, time: float | None) -> dict[str, str]:
    how = "Python" if isinstance(step, HostStep) else "native"
    info = _runtime_info(order, time, how, step.sources)
    if isinstance(step, KernelStep):
        info["runtimePrecision"] = str(step.spec.operands()[0].dtype)
    return info


def _runtime_info(
    order: int, time: float | None, how: str, sources: tuple[str, ...]
) -> dict[str, str]:
    shown = "not_executed" if time is None else f"{time:.1f}"
    return {
        "execOrder": str(order),
        "execTimeMcs": shown,
        "originalLayersNames": ",".join(sources),
        "primitiveType": how,
    }


def _as_xml(name: str, layers: list[_Layer]) -> str:
    """Layers in order; a value goes from the last layer before that wrote it."""
    lines = ['<?xml version="1.0"?>', f'<net name="{escape(name)}" version="11">', "\t<layers>"]
    edges: list[str] = []
    written: dict[ValueKey, tuple[int, int]] = {}
    for i, layer in enumerate(layers):
        found = [(p, written[p]) for p in layer.reads if p in written]
        lines.append(
            f'\t\t<layer id="{i}" name="{escape(layer.name)}" type="{escape(layer.type)}" '
            'version="irc">'
        )
        data = "".join(f' {k}="{escape(v)}"' for k, v in layer.data.items())
        lines += [f"\t\t\t<data{data} />"] if data else []
        for tag, count, start in (
            ("input", len(found), 0),
            ("output", len(layer.writes), len(found)),
        ):
            if count:
                ports = "".join(f'<port id="{start + n}" />' for n in range(count))
                lines.append(f"\t\t\t<{tag}>{ports}</{tag}>")
        lines.append("\t\t</layer>")
        for port, (_, (source, out)) in enumerate(found):
            edges.append(
                f'\t\t<edge from-layer="{source}" from-port="{out}" to-layer="{i}" '
                f'to-port="{port}" />'
            )
        for n, p in enumerate(layer.writes):
            written[p] = (i, len(found) + n)
    lines += ["\t</layers>", "\t<edges>", *edges, "\t</edges>", "</net>", ""]
    return "\n".join(lines)
