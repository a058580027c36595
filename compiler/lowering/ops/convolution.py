"""Convolutions with the elementwise chain behind them: a ConvSpec, or a product of matrices where
the window is a single pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....ir.dims import Dim, maximum, product
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Array, Op
from ....ir.ops import (
    ConvInteger,
    Convolution,
    ConvolutionBackpropData,
    GroupConvInteger,
    GroupConvolution,
    GroupConvolutionBackpropData,
)
from ....ir.ops.nn.pooling_window import Windows
from ....ir.scalar.builder import Builder
from ....ir.scalar.program import Program
from ....plan.packing.layouts import PackedConv
from ....plan.packing.panel_params import BYTES, cell_depth, conv_cells, conv_panel, packed_layout
from ....plan.specs.convolution import ConvSpec, express_as_product
from ....plan.specs.gemm import GemmSpec
from ...legality import rounds_factors, window_of
from ...strided_view import View, are_equal, coalesce, permute, take
from ..build.region_builder import SizeCollector
from ..build.region_lowering import Operands, RegionLowering
from ..schedule.bf16x3 import multiplies_bf16x3
from ..schedule.conv_algorithm import byte_tile
from .matmul import accumulator, rounded_factors
from .spatial.channel_slices import slice_channels, sum_slices
from .spatial.dilated_rows import WindowOperands, split_dilated_rows

Convolutions = Convolution | GroupConvolution | ConvInteger | GroupConvInteger
Transposed = ConvolutionBackpropData | GroupConvolutionBackpropData

# Data of so few channels is read in its layout: a transposed copy would cost more than it saves.
_MAX_PLANAR_CHANNELS = 8


def refuse_convolution(graph: Graph, node: int, op: Convolutions | Transposed) -> str | None:
    """Why no kernel computes this convolution, or None."""
    dtype, filters = graph.tensor(graph.input(node, 0)).dtype, graph.op(graph.input(node, 1).node)
    if not dtype.is_float and not isinstance(op, ConvInteger | GroupConvInteger):
        return f"no kernel convolves {dtype}"
    if filters.kind != "Constant":
        return "the filters are known at run time only"
    shape = graph.shape(graph.input(node, 1))
    if any(d == 0 for d in shape):
        return "the filters are empty"
    if isinstance(op, ConvInteger | GroupConvInteger):
        zeros = graph.inputs(node)[3:]
        if any(v is not None and graph.op(v.node).kind != "Constant" for v in zeros):
            return "the filters' zero points are known at run time only"
        windows = op.windows(shape[-(len(shape) - 2 - op.grouped) :])
        if not window_of(windows).copyable:
            return "windows reach too far to be copied"
    return refuse_pads(op)


def byte_ports(graph: Graph, node: int, op: Op) -> tuple[int, ...]:
    """What a convolution of bytes reads at run time: the data, and their zero point."""
    zero = graph.inputs(node)[2:3]
    return (0, 2) if zero and zero[0] is not None else (0,)


def refuse_pads(op: object) -> str | None:
    """Why no kernel slides windows with these paddings, or None."""
    pads: list[int] = [*getattr(op, "pads_begin", ()), *getattr(op, "pads_end", ())]
    return "negative paddings" if any(p < 0 for p in pads) else None


def paddings(windows: Windows, sizes: Sequence[Dim], out: Sequence[Dim]) -> tuple[Dim, ...]:
    """The paddings at the beginning of each axis."""
    if not windows.is_same_padded:
        return windows.pads_begin
    found: list[Dim] = []
    for i, (size, count) in enumerate(zip(sizes, out, strict=True)):
        total = maximum((count - 1) * windows.strides[i] + windows.extent(i) - size, 0)
        less = total // 2
        found.append(less if windows.auto_pad == "same_upper" else total - less)
    return tuple(found)


def channels_last(lowering: RegionLowering, dtype: DType, shape: Sequence[Dim], name: str) -> View:
    """Fresh memory in which the channels of a pixel are adjacent."""
    rank = len(shape)
    turned = lowering.region.allocate(dtype, (shape[0], *shape[2:], shape[1]), name)
    return permute(turned, [0, rank - 1, *range(1, rank - 1)])


def to_channels_last(lowering: RegionLowering, view: View, name: str) -> View:
    """The view with neighbouring channels: itself, or a copy."""
    if are_equal(view.strides[1], 1) or are_equal(view.shape[1], 1):
        return view
    copy = channels_last(lowering, view.dtype, view.shape, name)
    lowering.copy(view, copy, name, (name,))
    return copy


def copy_strided_rows(
    lowering: RegionLowering, view: View, strides: Sequence[int], shape: Sequence[Dim], name: str
) -> View:
    """A copy of the pixels that windows of one pixel read: rows of a plain product."""
    for i, stride in enumerate(strides):
        view = take(view, 2 + i, 0, shape[2 + i], stride)
    copy = channels_last(lowering, view.dtype, view.shape, name)
    lowering.copy(view, copy, name, (name,))
    return copy


def lower_convolution(lowering: RegionLowering, node: int, op: Convolutions) -> None:
    """Emit the step of a convolution and of the elementwise chain behind it."""
    data_value, filters = lowering.graph.input(node, 0), lowering.graph.input(node, 1)
    dtype, acc = lowering.tensor(data_value).dtype, accumulator(lowering.tensor(data_value).dtype)
    shape = lowering.shape(Value(node))

    operands, builder = Operands(shape, base=1), Builder()
    ref = builder.cast(builder.input(0, acc), lowering.tensor(Value(node)).dtype)
    stored, ref = lowering.chain(builder, node, ref, operands)
    out = lowering.result(stored)
    epilogue = builder.finish(builder.cast_stored(ref, out.dtype))
    target = out
    if not are_equal(out.strides[1], 1) and not are_equal(out.shape[1], 1):
        target = channels_last(lowering, out.dtype, out.shape, lowering.name(stored.node))

    data = lowering.view(data_value)
    windows, kernel = (
        op.windows(lowering.shape(filters)[-(len(shape) - 2) :]),
        lowering.shape(filters),
    )
    pads = paddings(windows, data.shape[2:], shape[2:])
    single = all(are_equal(k, 1) for k in windows.kernel)
    job = ConvolutionJob(lowering, node, stored, operands, epilogue, dtype, acc)
    padded = any(p != 0 for p in (*pads, *windows.pads_end))
    if dtype in BYTES:
        job.zero_point(lowering.graph.inputs(node)[2:])
    if single and not padded and not op.grouped and dtype not in BYTES:
        if any(s != 1 for s in windows.strides):
            data = copy_strided_rows(
                lowering, data, windows.strides, shape, lowering.name(data_value.node)
            )
        job.point(data, filters, target)
    else:
        groups, outputs, channels = (
            int(str(d)) for d in (kernel[:3] if op.grouped else (1, *kernel[:2]))
        )
        depthwise = groups > 1 and channels == outputs == 1
        if depthwise or channels > _MAX_PLANAR_CHANNELS:
            data = to_channels_last(lowering, data, lowering.name(data_value.node))
        tile = 0
        if job.filters is not None and not op.grouped:
            tile = job.byte_tile(windows, shape)
        elif not op.grouped:
            tile = lowering.schedule.winograd_tiles.get(node, 0)
        if tile:
            job.compute_dtype = None
        layout = job.layout(windows, outputs, op.grouped, depthwise, tile)
        layout = layout.with_tails(channels, window_of(windows).kernel)
        if tile:
            data = to_channels_last(lowering, data, lowering.name(data_value.node))
        whole = WindowOperands(data, (*operands.views, target), window_of(windows), pads)
        copies = layout.kr > 1 and not tile and not depthwise
        for part in split_dilated_rows(whole) if copies else [whole]:
            job.convolve(part, filters, layout, (groups, channels, outputs))
    if target != out:
        lowering.copy(target, out, lowering.name(stored.node), lowering.sources(stored.node))
        # Consumers in this region read it as it was computed.
        lowering.views[stored] = target


def conv_factors(lowering: RegionLowering, node: int, dtype: DType) -> DType | None:
    """The type that a convolution's factors are rounded to: bf16 if the caller requests it, or if
    they are bf16 anyway."""
    if dtype is DType.bf16:
        return dtype
    rounds = rounds_factors(lowering.graph, node)
    return rounded_factors(lowering.options, dtype) if rounds else None


class ConvolutionJob:
    """One convolution being lowered: what both of its forms need."""

    def __init__(
        self,
        lowering: RegionLowering,
        node: int,
        stored: Value,
        operands: Operands,
        epilogue: Program,
        dtype: DType,
        acc: DType,
    ) -> None:
        self.lowering, self.node, self.stored, self.extras = lowering, node, stored, operands.views
        self.epilogue, self.dtype, self.acc = epilogue, dtype, acc
        self.compute_dtype = conv_factors(lowering, node, dtype)
        self.zero: View | None = None
        # What filters of bytes are stored as, without their zero points.
        self.weights: DType | None = None
        self.filters: Array | None = None
        # Filters of some channels, by the first: steps for several numbers of rows share them.
        self.slices: dict[int, Array] = {}
        self.sources = lowering.sources(node, *dict.fromkeys(operands.nodes))

    def zero_point(self, zeros: Sequence[Value | None]) -> None:
        """Take in the zero points of data and filters that are bytes."""
        lowering = self.lowering
        x_zero, w_zero = (*zeros, None, None)[:2]
        if x_zero is not None and lowering.scalar(x_zero) != 0:
            self.zero = lowering.view(x_zero)
        filters = lowering.constant_op(lowering.graph.input(self.node, 1))
        zero = None if w_zero is None else lowering.constant_op(w_zero)
        assert filters is not None
        wide = filters.data.astype(np.int16)
        if zero is not None:
            wide = wide - zero.data.astype(np.int16)
        narrow = bool(wide.min() >= -128 and wide.max() <= 127)
        self.weights = DType.i8 if narrow else DType.i16
        self.filters = filters.data if wide.dtype == filters.data.dtype else wide
        if narrow:
            plain = zero is None and filters.dtype is DType.i8
            self.filters = filters.data if plain else wide.astype(np.int8)

    def byte_tile(self, windows: Windows, shape: Sequence[Dim]) -> int:
        """The tiles of Winograd's transform of bytes; its filters have 16 bits."""
        assert self.filters is not None
        reach = 128 if self.dtype is DType.i8 and self.zero is None else 255
        options, target = self.lowering.options, self.lowering.target
        tile = byte_tile(options, target, windows, self.filters, reach, shape)
        if tile:
            self.weights, self.filters = DType.i16, self.filters.astype(np.int16)
        return tile

    def layout(
        self, windows: Windows, outputs: int, grouped: bool, depthwise: bool, winograd: int = 0
    ) -> PackedConv:
        """How the filters are packed. Windows that reach too far for copies keep their factors."""
        target, bits = self.lowering.target, self.acc.bits
        nr = target.lanes(bits) if depthwise else conv_panel(outputs, target, bits)
        if self.compute_dtype and not window_of(windows).copyable:
            self.compute_dtype = None
        if self.weights in (DType.i8, DType.i16):
            kr, sums = conv_cells(target, self.weights, None)
        else:
            kr, sums = cell_depth(target, self.compute_dtype), False
        if depthwise:
            kr, sums = 1, False
        elif winograd:
            kr, sums = (1 if self.weights is None else 2), False
        runs = kr > 1 and not winograd and windows.dilations[-1] == 1
        return PackedConv(nr, grouped, depthwise, winograd, kr, runs, sums)

    def emit(
        self,
        spec: GemmSpec | ConvSpec,
        sizes: SizeCollector,
        views: Sequence[View],
        terms: Sequence[Dim],
    ) -> None:
        lowering = self.lowering
        work = product(terms) // max(1, lowering.target.vector_bits // self.acc.bits) + 1
        lowering.region.kernel(
            spec, sizes, views, work, lowering.name(self.stored.node), self.sources
        )

    def point(self, data: View, filters: Value, out: View) -> None:
        """A window of one pixel: each pixel's channels times a matrix."""
        lowering, extras = self.lowering, self.extras
        n, k = lowering.shape(filters)[:2]
        assert isinstance(n, int) and isinstance(k, int)
        walked = [data, *extras, out]
        order = [0, *range(2, out.rank)]
        axes, rows = coalesce(
            [out.shape[i] for i in order], [[v.strides[i] for i in order] for v in walked]
        )
        if not axes:
            axes, rows = (1,), [(0,) for _ in walked]
        *batch, m = axes
        sizes = SizeCollector()
        zeros = (0,) * len(batch)
        packed = None
        if n > 1:
            packed = packed_layout(k, n, self.dtype, lowering.target, self.compute_dtype)
            assert packed is not None
            layout = PackedConv(packed.nr, kr=packed.kr)
            weights = lowering.constant(filters, layout, rounded=self.compute_dtype)
            b_strides: tuple[Dim, ...] = (0, 0)
        else:
            weights, b_strides = lowering.constant(filters), (1, k)
        assert weights is not None
        ends = [v.strides[1] for v in walked]
        operands = [sizes.operand(v, (*r, c)) for v, r, c in zip(walked, rows, ends, strict=True)]
        spec = GemmSpec(
            batch=sizes.all(batch),
            m=sizes(m),
            n=n,
            k=k,
            a=operands[0],
            b=sizes.operand(weights, (*zeros, *b_strides)),
            out=operands[-1],
            acc=self.acc,
            packed=packed,
            epilogue=self.epilogue,
            epilogue_operands=tuple(operands[1:-1]),
            compute_dtype=self.compute_dtype,
            bf16x3=self.compute_dtype is None and self.takes_less_time_on_tiles((m, n, k)),
        )
        self.emit(spec, sizes, [data, weights, *extras, out], [*axes, n, k])

    def convolve(
        self,
        whole: WindowOperands,
        filters: Value,
        layout: PackedConv,
        counts: tuple[int, int, int],
    ) -> None:
        """Any other window, of all channels or of slices of them, one after the other."""
        _, channels, outputs = counts
        slices = slice_channels(self.lowering.target, layout, channels, self.factors)
        if len(slices) == 1:
            self.window(whole, self.pack(filters, layout), layout, counts, self.epilogue)
            return
        *operands, result = whole.walked
        epilogues = sum_slices(self.epilogue, self.acc, [v.dtype for v in operands], len(slices))
        start, name, sums = 0, self.lowering.name(self.stored.node), list[View]()
        for i, (count, epilogue) in enumerate(zip(slices, epilogues, strict=True)):
            weights = self.pack(filters, layout, slice(start, start + count))
            walked = (*sums, *operands, result)
            if i + 1 < len(slices):
                walked = (*sums, channels_last(self.lowering, self.acc, result.shape, name))
            data = take(whole.data, 1, start, count)
            part = replace(whole, data=data, walked=walked)
            self.window(part, weights, layout, (1, count, outputs), epilogue)
            start, sums = start + count, [walked[-1]]

    @property
    def factors(self) -> DType | None:
        """The type of the factors that a unit multiplies; None for numbers of the accumulator's."""
        return DType.i8 if self.weights is DType.i8 else self.compute_dtype

    def pack(self, filters: Value, layout: PackedConv, channels: slice | None = None) -> View:
        """The filters, or those of some channels, as they are stored."""
        lowering, data = self.lowering, self.filters
        if data is None and channels is None:
            weights = lowering.constant(filters, layout, rounded=self.compute_dtype)
            assert weights is not None
            return weights
        stored, rounds = self.weights, False
        if data is None:
            source = lowering.constant_op(filters)
            assert source is not None
            data, stored = source.data, self.compute_dtype or self.dtype
            rounds = stored is not self.dtype
        if channels is not None:
            if channels.start not in self.slices:
                self.slices[channels.start] = np.ascontiguousarray(data[:, channels])
            data = self.slices[channels.start]
        assert stored is not None
        return lowering.array(data, stored, layout, lowering.name(filters.node), rounds=rounds)

    def window(
        self,
        operands: WindowOperands,
        weights: View,
        layout: PackedConv,
        counts: tuple[int, int, int],
        epilogue: Program,
    ) -> None:
        """One step: windows over data, and the epilogue of their sums."""
        sizes = SizeCollector()
        data, (*extras, out), slides = operands.data, operands.walked, operands.window
        zeros = [] if self.zero is None else [self.zero]
        groups, channels, outputs = counts
        spec = ConvSpec(
            batch=sizes(out.shape[0]),
            groups=groups,
            channels=channels,
            outputs=outputs,
            in_sizes=sizes.all(data.shape[2:]),
            out_sizes=sizes.all(out.shape[2:]),
            window=replace(slides, pads=sizes.all(operands.pads)),
            data=sizes.operand(data, data.strides),
            weights=sizes.operand(weights, (1,)),
            out=sizes.operand(out, out.strides),
            acc=self.acc,
            packed=layout,
            epilogue=epilogue,
            epilogue_operands=tuple(sizes.operand(v, v.strides) for v in extras),
            compute_dtype=self.compute_dtype,
            zero_point=sizes.operand(self.zero, (0,)) if self.zero is not None else None,
        )
        spec = self.multiply_on_tiles(spec)
        terms = [*out.shape, *slides.kernel, channels]
        self.emit(spec, sizes, [data, weights, *zeros, *extras, out], terms)

    def multiply_on_tiles(self, spec: ConvSpec) -> ConvSpec:
        """The same on tiles of AMX, as a product of f32, where that takes less time."""
        product_sizes = None if self.compute_dtype else express_as_product(spec)
        if product_sizes is None or not isinstance(product_sizes.m, int):
            return spec
        sizes = (product_sizes.m, spec.outputs, spec.matrices[1])
        return replace(spec, bf16x3=self.takes_less_time_on_tiles(sizes))

    def takes_less_time_on_tiles(self, sizes: tuple[Dim, Dim, Dim]) -> bool:
        """Whether a product of (M, N, K) takes less time on tiles of AMX, of f32."""
        lowering = self.lowering
        filters = lowering.constant_op(lowering.graph.input(self.node, 1))
        return multiplies_bf16x3(lowering.target, lowering.options, filters, self.dtype, sizes)
