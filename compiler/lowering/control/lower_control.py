"""Native control flow: bodies become steps between the control steps of their region.

A body reads what is outside where it lies. A sliced input is read and a joined output written
through a buffer that moves with the loop; a carried value has memory of its own, into which each
iteration brings its result, in place where nothing reads the old value any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....ir.dims import bounds, maximum
from ....ir.graph import Graph, Value
from ....ir.ops import If, Loop, TensorIterator
from ....ir.ops.control_flow.conditional import failure
from ....ir.ops.control_flow.loops import BodyInput, BodyOutput
from ....ir.types import normalize_axis
from ....plan.plan import BRANCH, JUMP, LOOP, LOOP_END, ControlStep, SizeCheck
from ...strided_view import View, are_equal, is_contiguous
from ..build.loop_in_place import write_in_place
from ..build.output_placement import propagate_output_buffers
from ..build.region_lowering import RegionLowering
from ..build.runtime_checks import checks_inside
from ..op_table import lower_node
from ..schedule.role import Trips
from ..schedule.schedule import Schedule
from .eligibility import index_parameter, slice_bounds

Iterating = Loop | TensorIterator


def lower_native(lowering: RegionLowering, node: int) -> None:
    """The steps of a native node; of what an anchor takes along, at the end of its chain."""
    if node in lowering.fusion.skipped or node in lowering.fusion.absorbed:
        return
    node = lowering.fusion.anchor_of.get(node, node)
    op = lowering.graph.op(node)
    if isinstance(op, If):
        _lower_if(lowering, node, op)
    elif isinstance(op, Iterating):
        _lower_loop(lowering, node, op)
    else:
        lower_node(lowering, node)


def _lower_body(inner: RegionLowering) -> None:
    roles = inner.schedule.roles
    propagate_output_buffers(inner, tuple(roles), roles)
    for node in roles:
        lower_native(inner, node)


def _unsplit_buffer(lowering: RegionLowering, value: Value) -> int:
    """A buffer that holds a value and nothing else."""
    view = lowering.view(value)
    found = lowering.region.whole_buffer(view)
    return _copy_view(lowering, view, lowering.name(value.node)).buffer if found is None else found


def _copy_view(lowering: RegionLowering, view: View, name: str) -> View:
    copy = lowering.region.allocate(view.dtype, view.shape, name)
    lowering.copy(view, copy, name, (name,))
    return copy


def _lower_if(lowering: RegionLowering, node: int, op: If) -> None:
    region = lowering.region
    name, sources = lowering.name(node), lowering.sources(node)
    condition = _unsplit_buffer(lowering, lowering.graph.input(node, 0))
    outs = [lowering.result(value) for value in lowering.graph.values(node)]
    # What a branch reads exists before it; a view that is made inside belongs to the branch alone.
    fed = [None if value is None else lowering.view(value) for value in lowering.graph.inputs(node)]
    branch = region.control(ControlStep(BRANCH, 0, condition=condition, name=name, sources=sources))
    first, second = zip(op.bodies(), lowering.schedule.bodies[node], strict=True)
    taken = _lower_branch(
        lowering, node, *first, [fed[i] for i in op.then_inputs], op.then_outputs, outs
    )
    skip = region.control(ControlStep(JUMP, 0, name=name, sources=sources))
    region.lead(branch, skip + 1)
    other = _lower_branch(
        lowering, node, *second, [fed[i] for i in op.else_inputs], op.else_outputs, outs
    )
    region.lead(skip, len(region.steps))
    for check, end in ((taken, skip), (other, len(region.steps))):
        if check is not None:
            region.lead(check, end)


def _lower_branch(
    lowering: RegionLowering,
    node: int,
    body: Graph,
    schedule: Schedule | None,
    fed: Sequence[View | None],
    given: Sequence[int],
    outs: Sequence[View],
) -> int | None:
    """The steps of a branch; its CHECK, if it has one."""
    if schedule is None:
        why = failure(body) or ""
        never = SizeCheck(lowering.region.dim(0), lowering.region.dim(1), why, lowering.name(node))
        return lowering.region.add_check([never], lowering.name(node))
    inner = lowering.enter_body(schedule)
    for parameter, view in zip(body.parameters, fed, strict=True):
        assert view is not None
        inner.views[Value(parameter)] = view
    values = [body.input(body.results[k], 0) for k in given]
    for value, out in zip(values, outs, strict=True):
        if value.node in inner.schedule.roles:
            inner.placed.setdefault(value, out)
    check = lowering.region.add_check(checks_inside(inner), lowering.name(node))
    _lower_body(inner)
    for value, out in zip(values, outs, strict=True):
        if (view := inner.view(value)) != out:
            inner.copy(view, out, inner.name(value.node), inner.sources(value.node))
    return check


def _lower_loop(lowering: RegionLowering, node: int, op: Iterating) -> None:  # noqa: C901 - the parts of a loop in the order of its plan
    region, inputs = lowering.region, lowering.graph.inputs(node)
    control, (schedule,) = lowering.schedule.roles[node].control, lowering.schedule.bodies[node]
    assert control is not None and control.trips is not None and schedule is not None
    trips, body, name = control.trips, op.body, lowering.name(node)
    inner = lowering.enter_body(schedule)
    step = ControlStep(
        LOOP, 0, trips=region.dim(trips.most), name=name, sources=lowering.sources(node)
    )
    if trips.count is not None:
        step = replace(step, count=_unsplit_buffer(lowering, trips.count))
    if trips.first is not None:
        step = replace(step, condition=_unsplit_buffer(lowering, trips.first))
    states: dict[int, View] = {}
    outer: dict[int, View] = {}
    for i, port in enumerate(op.ports):
        if port.mode != "iteration":
            value = inputs[port.port]
            assert value is not None
            outer[i] = lowering.view(value)
        if port.mode == "sliced" and (bounds(outer[i].strides[port.axis])[0] or 0) < 0:
            outer[i] = _copy_view(lowering, outer[i], name)
        if port.mode == "carried":
            states[i] = _state(lowering, node, op, port)
            lowering.copy(outer[i], states[i], name, lowering.sources(node))
    joined = {
        k: lowering.result(Value(node, k)) for k, o in enumerate(op.results) if o.mode == "joined"
    }
    kept = _last_iteration_outputs(lowering, node, op)
    index = index_parameter(op)
    if index is not None:
        view = region.allocate(inner.tensor(Value(index)).dtype, inner.shape(Value(index)), name)
        inner.views[Value(index)] = view
        step = replace(step, index=view.buffer)
    begin = region.control(step)

    for i, port in enumerate(op.ports):
        parameter = Value(body.parameters[i])
        if port.mode == "carried":
            inner.views[parameter] = states[i]
        elif port.mode == "sliced" and body.has_uses(parameter.node):
            inner.views[parameter] = _part(lowering, outer[i], port, begin, trips)
        elif port.mode == "invariant":
            inner.views[parameter] = outer[i]
    parts = [
        (body.input(body.results[o.result], 0), _place(lowering, joined[k], o, inner, begin, trips))
        for k, o in enumerate(op.results)
        if k in joined
    ]
    parts += [(body.input(body.results[op.results[k].result], 0), v) for k, v in kept.items()]
    for value, target in parts:
        if value.node in inner.schedule.roles:
            inner.placed.setdefault(value, target)
    check = region.add_check(checks_inside(inner), name)
    _lower_body(inner)
    for value, target in parts:
        if (view := inner.view(value)) != target:
            inner.copy(view, target, inner.name(value.node), inner.sources(value.node))
    go = None if trips.again is None else _unsplit_buffer(inner, trips.again)
    go = _hand_over(inner, op, states, begin, go)
    again = region.control(ControlStep(LOOP_END, begin, condition=go, index=step.index, name=name))
    region.lead(begin, again)
    if check is not None:
        region.lead(check, again)

    for k, output in enumerate(op.results):
        if output.mode != "last" or k in kept:
            continue
        state = next(s for i, s in states.items() if op.ports[i].back == output.result)
        value = Value(node, k)
        if value not in lowering.placed:
            lowering.views[value] = state
        elif lowering.placed[value] != state:
            lowering.copy(state, lowering.result(value), name, lowering.sources(node))
        else:
            lowering.views[value] = state


def _state(lowering: RegionLowering, node: int, op: Iterating, port: BodyInput) -> View:
    """Memory of a carried value: that of the output it ends in, if it has all of that."""
    fellows = [i for i, p in enumerate(op.ports) if p.mode == "carried" and p.back == port.back]
    for k, output in enumerate(op.results):
        target = lowering.placed.get(Value(node, k))
        first = op.ports[fellows[0]] is port
        if output.mode == "last" and output.result == port.back and first and target is not None:
            if is_contiguous(target):
                return target
    value = lowering.graph.inputs(node)[port.port]
    assert value is not None
    return lowering.region.allocate(
        lowering.tensor(value).dtype, lowering.shape(value), lowering.name(node)
    )


def _last_iteration_outputs(lowering: RegionLowering, node: int, op: Iterating) -> dict[int, View]:
    """Outputs of the last iteration that are not carried value: every iteration writes them."""
    backs = {p.back for p in op.ports if p.mode == "carried"}
    return {
        k: lowering.result(Value(node, k))
        for k, o in enumerate(op.results)
        if o.mode == "last" and o.result not in backs
    }


def _part(lowering: RegionLowering, view: View, port: BodyInput, loop: int, trips: Trips) -> View:
    """What the current iteration sees of a sliced input."""
    axis = normalize_axis(port.axis, view.rank)
    step, back = view.strides[axis], port.stride < 0
    first, _ = slice_bounds(port, view.shape[axis])
    begin = first - port.part_size if back else first
    shape = (*view.shape[:axis], port.part_size, *view.shape[axis + 1 :])
    offset = view.offset + begin * step
    if are_equal(step, 0):
        return replace(view, shape=shape, offset=offset)
    stride = abs(port.stride) * step
    moved = lowering.region.add_moving_alias(view.buffer, loop, trips.most, stride, back=back)
    if back:
        # The buffer itself begins where the last iteration reads.
        offset = offset - (maximum(trips.most, 1) - 1) * stride
    return replace(view, buffer=moved, shape=shape, offset=offset)


def _place(
    lowering: RegionLowering,
    out: View,
    output: BodyOutput,
    inner: RegionLowering,
    loop: int,
    trips: Trips,
) -> View:
    """Where the current iteration writes its part of a joined output."""
    value = inner.graph.input(inner.graph.results[output.result], 0)
    shape = inner.shape(value)
    axis = normalize_axis(output.axis, len(shape))
    stride = shape[axis] * out.strides[axis]
    moved = lowering.region.add_moving_alias(
        out.buffer, loop, trips.most, stride, back=output.stride < 0
    )
    return replace(out, buffer=moved, shape=shape)


def _hand_over(
    inner: RegionLowering, op: Iterating, states: Mapping[int, View], begin: int, go: int | None
) -> int | None:
    """Bring each iteration's results into the memory of what is carried. Returns the buffer of
    the condition."""
    body, region = inner.graph, inner.region
    old = {state.buffer for state in states.values()}
    pending: list[tuple[View, View, str]] = []
    # Old values that are passed to the next iteration are read before any is overwritten.
    if go in old:
        assert go is not None
        base = region.buffers[go]
        view = next(s for s in states.values() if s.buffer == go)
        go = _copy_view(inner, replace(view, dtype=base.dtype), "condition").buffer
    for i, state in states.items():
        value = body.input(body.results[op.ports[i].back], 0)
        view, name = inner.view(value), inner.name(value.node)
        if view != state:
            source = _copy_view(inner, view, name) if view.buffer in old else view
            pending.append((source, state, name))
    left: list[tuple[View, View, str]] = []
    for n, (source, state, name) in enumerate(pending):
        if source.buffer in old or not write_in_place(region, begin, source, state):
            left.append((source, state, name))
            continue
        was = source.buffer
        go = state.buffer if go == was else go
        for m in range(n + 1, len(pending)):
            other, target, named = pending[m]
            if other.buffer == was:
                pending[m] = replace(other, buffer=state.buffer), target, named
        left = [
            (replace(s, buffer=state.buffer) if s.buffer == was else s, t, named)
            for s, t, named in left
        ]
    for source, state, name in left:
        inner.copy(source, state, name, (name,))
    return go
