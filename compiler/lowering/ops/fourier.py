"""Fourier transforms of known lengths as products with constant matrices of cosines and sines.

An axis of n values is one product, whose work grows with n. A longer one that has two factors, n =
p * q, is two (Cooley and Tukey, 1965): the values j = q * a + b of each b are transformed along a,
and for each of the p values that this gives, one product along b has the rotations between the two
in its matrix. The frames of STFT are rows that overlap in memory.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from ....ir.dims import product
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.op import Array
from ....ir.ops import DFT, IDFT, IRDFT, RDFT, STFT, Constant
from ....ir.ops.nn.signal import MAX_DFT_MATMUL_SIZE, pad_window, rotations, waves
from ....ir.scalar.builder import Builder, cast_array
from ....ir.types import normalize_axis
from ....plan.packing.layouts import PackedLayout
from ....plan.packing.panel_params import packed_layout
from ....plan.specs.base import Operand
from ....plan.specs.gemm import GemmSpec
from ...strided_view import Part, View, broadcast_to, coalesce, merged_axes, permute, take
from ..build.region_builder import SizeCollector
from ..build.region_lowering import RegionLowering, insert_axis
from .data_movement import known_ints
from .matmul import product_work

# What NumPy transforms in less time on one thread is not native: its work grows with the logarithm
# of an axis, and it reads no matrices (docs/dev/tuning/fourier-products.md).
_MAX_ELEMENTS_OF_ONE_MATRIX: Final = 2**18
# Longer axes are two products where their factors are short.
_MAX_SIZE_OF_ONE_PRODUCT: Final = 80
_MAX_SIZE_OF_TWO_PRODUCTS: Final = 2048  # of complex values; half of it where one side is real
_MAX_SUM_OF_FACTORS: Final = 128


# Frames ------------------------------------------------------------------------------------------


def refuse_frames(graph: Graph, node: int, op: STFT) -> str | None:
    """Why no product transforms these frames, or None."""
    dtype = graph.tensor(graph.input(node, 0)).dtype
    if dtype not in (DType.f32, DType.f64):
        return f"no kernel for STFT of {dtype}"
    if not isinstance(graph.op(graph.input(node, 1).node), Constant):
        return "the window is known at run time only"
    size = known_ints(graph, node, 2)
    if size is None or known_ints(graph, node, 3) is None:
        return "the frames are known at run time only"
    if size[0] > MAX_DFT_MATMUL_SIZE:
        return (
            f"frames of more than {MAX_DFT_MATMUL_SIZE} samples: NumPy transforms them in less time"
        )
    return None


def lower_frames(lowering: RegionLowering, node: int, op: STFT) -> None:
    """One product: [frames, frame size] whose rows overlap, times [frame size, bins * 2]."""
    x = lowering.view(lowering.graph.input(node, 0))
    ((size,), (step,)) = (known_ints(lowering.graph, node, port) or [1] for port in (2, 3))
    out = lowering.result(Value(node))
    if op.transpose_frames:
        out = permute(out, [*range(out.rank - 3), out.rank - 2, out.rank - 3, out.rank - 1])
    window = lowering.constant_op(lowering.graph.input(node, 1))
    assert window is not None
    matrix = cast_array(pad_window(window.data, size)[:, None] * waves(size), x.dtype)
    shape, strides = (*out.shape[:-2], size, 1), (*x.strides[:-1], x.strides[-1] * step)
    frames = View(x.buffer, x.dtype, shape, (*strides, x.strides[-1], 1), x.offset)
    _multiply(lowering, node, frames, out, matrix)


# Axes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Axis:
    """One axis of a transform: how many values are read and made of a transform of `size`. Real
    values on either side have no axis of parts."""

    axis: int
    taken: int
    size: int
    made: int
    inverse: bool
    real_in: bool = False
    real_out: bool = False

    @property
    def elements(self) -> int:
        """Numbers in the matrix of one product."""
        return self.taken * (2 - self.real_in) * self.made * (2 - self.real_out)

    @property
    def factors(self) -> tuple[int, int] | None:
        """The factors of the size that two products transform, the smaller one first, where they
        take less time than one."""
        n = self.size
        longest = _MAX_SIZE_OF_TWO_PRODUCTS // (2 if self.real_in or self.real_out else 1)
        if not _MAX_SIZE_OF_ONE_PRODUCT < n <= longest:
            return None
        p = max(f for f in range(1, math.isqrt(n) + 1) if n % f == 0)
        return (p, n // p) if p + n // p <= min(n // 2, _MAX_SUM_OF_FACTORS) else None


def refuse_transform(graph: Graph, node: int, op: DFT | IDFT | RDFT | IRDFT) -> str | None:
    """Why no products transform these axes, or None."""
    data = graph.tensor(graph.input(node, 0))
    if data.dtype not in (DType.f32, DType.f64):
        return f"no kernel for {op.kind} of {data.dtype}"
    axes = _axes_of(graph, node)
    if not axes:
        return "the axes or their sizes are known at run time only"
    for axis in axes:
        if axis.factors is None and axis.elements > _MAX_ELEMENTS_OF_ONE_MATRIX:
            return f"an axis of {axis.size} values: NumPy transforms it in less time"
        if axis.real_out and axis.made == 1:
            return "an axis of one value"
    return None


def _axes_of(graph: Graph, node: int) -> list[_Axis]:
    """The axes in the order in which they are transformed; none where a size is not known."""
    op, data, out = graph.op(node), graph.tensor(graph.input(node, 0)), graph.tensor(Value(node))
    axes = known_ints(graph, node, 1)
    given = len(graph.inputs(node)) > 2 and graph.inputs(node)[2] is not None
    sizes = known_ints(graph, node, 2) if given else None
    if axes is None or data.shape is None or out.shape is None or (given and sizes is None):
        return []
    rank = len(data.shape) - isinstance(op, DFT | IDFT | IRDFT)
    found = list[_Axis]()
    for i, axis in enumerate(normalize_axis(a, rank) for a in axes):
        have, made = data.shape[axis], out.shape[axis]
        if not isinstance(have, int) or not isinstance(made, int) or have < 1 or made < 1:
            return []
        last, wanted = i == len(axes) - 1, -1 if sizes is None else sizes[i]
        real_in, real_out = last and isinstance(op, RDFT), last and isinstance(op, IRDFT)
        size = wanted if wanted != -1 else made if real_out else have
        taken = min(have, size // 2 + 1 if real_out else size)
        inverse = isinstance(op, IDFT | IRDFT)
        found.append(_Axis(axis, taken, size, made, inverse, real_in, real_out))
    return found[::-1] if isinstance(op, RDFT) else found


def lower_transform(lowering: RegionLowering, node: int, op: DFT | IDFT | RDFT | IRDFT) -> None:
    """A product or two for each axis."""
    axes = _axes_of(lowering.graph, node)
    x = lowering.view(lowering.graph.input(node, 0))
    for axis in axes:
        if axis is axes[-1]:
            out = lowering.result(Value(node))
        else:
            shape = [*x.shape[: axis.axis], axis.made, *x.shape[axis.axis + 1 :]]
            shape += [2] if axis.real_in else []
            out = lowering.region.allocate(x.dtype, shape, lowering.name(node))
        source = _move_last(take(x, axis.axis, 0, axis.taken), axis.axis, axis.real_in)
        target = _move_last(out, axis.axis, axis.real_out)
        transform = _multiply_once if axis.factors is None else _multiply_twice
        transform(lowering, node, axis, source, target)
        x = out


def _move_last(view: View, axis: int, real: bool) -> View:
    """The view with a transformed axis behind all others but that of parts; real values get one of
    size 1."""
    if real:
        view = insert_axis(view, view.rank)
    return permute(view, [*(i for i in range(view.rank - 1) if i != axis), axis, view.rank - 1])


def _multiply_once(lowering: RegionLowering, node: int, axis: _Axis, x: View, out: View) -> None:
    """One product. Values that are not in a run are copied, and parts then lie apart."""
    name, sources = lowering.name(node), lowering.sources(node)
    apart_in = len(_merge(x, -2)) > 1
    if apart_in:
        copied = lowering.region.allocate(x.dtype, _swap(x).shape, name)
        lowering.copy(_swap(x), copied, name, sources)
        x = copied
    apart_out = _merge(out, -2)[-1][1] != 1 or len(_merge(out, -2)) > 1
    made = lowering.region.allocate(out.dtype, _swap(out).shape, name) if apart_out else out
    _multiply(lowering, node, x, made, _matrix(axis, apart_in, apart_out, x.dtype))
    if apart_out:
        lowering.copy(_swap(made), out, name, sources)


def _swap(view: View) -> View:
    """The view with its last two axes exchanged."""
    return permute(view, [*range(view.rank - 2), view.rank - 1, view.rank - 2])


def _multiply_twice(lowering: RegionLowering, node: int, axis: _Axis, x: View, out: View) -> None:
    """Transform n = p * q values: those of every q-th place first, then what they give. Between the
    products matrices are turned, so that products read and write runs of values."""
    assert axis.factors is not None
    (p, q), name, sources = axis.factors, lowering.name(node), lowering.sources(node)
    allocate, dtype = lowering.region.allocate, x.dtype
    *rows, _, parts = x.shape
    taken, made = -(-axis.taken // q), -(-axis.made // p)
    r = len(rows)
    columns = allocate(dtype, (*rows, q, parts, taken), name)
    _copy_columns(lowering, node, axis, x, permute(columns, [*range(r), r + 2, r, r + 1]))
    first = allocate(dtype, (*rows, q, 2, p), name)
    _multiply(lowering, node, columns, first, _first_matrix(axis, taken, p, dtype))
    turned = allocate(dtype, (p, *rows, q, 2), name)
    lowering.copy(permute(first, [r + 2, *range(r + 2)]), turned, name, sources)
    second = allocate(dtype, (*rows, p, out.shape[-1], made), name)
    target = permute(second, [r, *range(r), r + 1, r + 2])
    _multiply(lowering, node, turned, target, _second_matrices(axis, q, made, dtype))
    found = permute(second, [*range(r), r + 2, r, r + 1])
    for given, of_found in zip(_blocks(out, p), _blocks_of(found, axis.made), strict=True):
        lowering.copy(of_found, given, name, sources)


def _copy_columns(lowering: RegionLowering, node: int, axis: _Axis, x: View, columns: View) -> None:
    """Values in rows of [values, q, parts], and zeros behind them; of half a spectrum, those twice
    that the other half has as well."""
    name, sources, q = lowering.name(node), lowering.sources(node), columns.shape[-2]
    assert isinstance(q, int)
    read, written = _blocks(x, q), _blocks_of(columns, axis.taken)
    if axis.real_out:
        array = cast_array(_count_conjugates(axis)[:, None], x.dtype)
        constant = lowering.array(array, x.dtype, None, name)
        counts = _blocks(broadcast_to(constant, x.shape), q)
        builder = Builder()
        twice = builder.op("mul", *(builder.input(i, x.dtype) for i in range(2)))
        program = builder.finish(twice)
        for value, count, target in zip(read, counts, written, strict=True):
            lowering.elementwise(program, [value, count], [target], name, sources)
    else:
        for value, target in zip(read, written, strict=True):
            lowering.copy(value, target, name, sources)
    if left := -axis.taken % q:
        last = take(columns, columns.rank - 3, axis.taken // q, 1)
        rest = take(last, columns.rank - 2, q - left, left)
        zero = lowering.array(cast_array(np.zeros(1), x.dtype), x.dtype, None, name)
        lowering.copy(broadcast_to(zero, rest.shape), rest, name, sources)


def _blocks(view: View, size: int) -> list[View]:
    """[rows..., values, parts] as [rows..., blocks, size, parts]: the whole blocks, and the values
    behind them."""
    *shape, count, parts = view.shape
    *steps, step, part = view.strides
    assert isinstance(count, int)
    strides, whole = (*steps, step * size, step, part), count // size
    blocks = replace(view, shape=(*shape, whole, size, parts), strides=strides)
    rest = replace(blocks, shape=(*shape, 1, count % size, parts))
    rest = replace(rest, offset=view.offset + whole * size * step)
    return [v for v in (blocks, rest) if 0 not in v.shape[-3:]]


def _blocks_of(blocks: View, count: int) -> list[View]:
    """The same of blocks [rows..., blocks, size, parts], of which so many values count."""
    axis, size = blocks.rank - 3, blocks.shape[-2]
    assert isinstance(size, int)
    last = take(take(blocks, axis, count // size, 1), axis + 1, 0, count % size)
    found = [take(blocks, axis, 0, count // size), last]
    return [v for v in found if 0 not in v.shape[-3:]]


def _count_conjugates(axis: _Axis) -> Array:
    """How often each value of half a spectrum is in the whole one, itself or its conjugate."""
    found: Array = np.where(2 * np.arange(axis.taken) % axis.size == 0, 1.0, 2.0)
    return found


def _multiply(lowering: RegionLowering, node: int, x: View, out: View, matrix: Array) -> None:
    """out[rows..., n, parts] = x[rows..., k, parts] @ matrix, of three axes where each index of the
    first axis of rows has a matrix of its own."""
    k, n = matrix.shape[-2:]
    own, inner = matrix.ndim - 2, [_merge(v, -2) for v in (x, out)]
    axes, walked = coalesce(x.shape[own:-2], [v.strides[own:-2] for v in (x, out)])
    kept = max(0, len(axes) - 2)  # the last two are rows, by one stride or two
    rows = [_merge(View(0, x.dtype, axes, strides), kept) for strides in walked]
    batch = (*x.shape[:own], *axes[:kept])
    sizes, builder = SizeCollector(), Builder()

    def walk(i: int, view: View) -> Operand:
        steps = (s for _, s in (*rows[i], *inner[i]))
        return sizes.operand(view, (*view.strides[:own], *walked[i][:kept], *steps))

    layout = packed_layout(k, n, x.dtype, lowering.target)
    assert layout is not None
    b = lowering.array(matrix, x.dtype, layout, lowering.name(node))
    panels = PackedLayout.of(layout, k, n).size
    m = product(axes[kept:])
    spec = GemmSpec(
        batch=sizes.all(batch),
        m=sizes(m),
        n=n,
        k=k,
        a=walk(0, x),
        b=sizes.operand(b, (*([panels] * own), *([0] * kept), 0, 0)),
        out=walk(1, out),
        acc=x.dtype,
        packed=layout,
        epilogue=builder.finish(builder.cast_stored(builder.input(0, x.dtype), out.dtype)),
        a_m_split=sizes.add_split(rows[0]),
        a_k_split=sizes.add_split(inner[0]),
        out_m_split=sizes.add_split(rows[1]),
        out_n_split=sizes.add_split(inner[1]),
    )
    work = product_work(lowering, batch, m, n, k, x.dtype.bits)
    lowering.region.kernel(
        spec, sizes, [x, b, out], work, lowering.name(node), lowering.sources(node)
    )


def _merge(view: View, first: int) -> list[Part]:
    """Sizes and strides of the axes from `first` on, merged where one stride walks both."""
    found = replace(view, shape=view.shape[first:], strides=view.strides[first:])
    return merged_axes(found) or [(1, 0)]


# Matrices ----------------------------------------------------------------------------------------

# Those that plans hold: axes of one size share theirs.
_matrices: weakref.WeakValueDictionary[tuple[object, ...], Array] = weakref.WeakValueDictionary()


def _matrix(axis: _Axis, apart_in: bool, apart_out: bool, dtype: DType) -> Array:
    """[values taken * parts, values made * parts], or parts * values where they lie apart."""

    def make() -> Array:
        turns = np.outer(np.arange(axis.taken), np.arange(axis.made))
        found = rotations(turns, axis.size, inverse=axis.inverse)
        if axis.real_out:
            found = found[..., :1] * _count_conjugates(axis)[:, None, None, None]
        found = _scale(axis, found[:, :1] if axis.real_in else found)
        return _order_parts(found, apart_in, apart_out)

    key = ("one", replace(axis, axis=0), apart_in, apart_out, dtype)
    return _share_matrix(key, dtype, make)


def _first_matrix(axis: _Axis, taken: int, p: int, dtype: DType) -> Array:
    """[parts * values taken, 2 * p]."""

    def make() -> Array:
        found = rotations(np.outer(np.arange(taken), np.arange(p)), p, inverse=axis.inverse)
        return _order_parts(found[:, :1] if axis.real_in else found, True, True)

    return _share_matrix(("first", taken, p, axis.inverse, axis.real_in, dtype), dtype, make)


def _second_matrices(axis: _Axis, q: int, made: int, dtype: DType) -> Array:
    """[p, q * 2, parts * values made]."""
    p = axis.size // q

    def make() -> Array:
        given = np.arange(p)[:, None, None] + p * np.arange(made)
        turns = np.arange(q)[:, None] * given
        found = _scale(axis, rotations(turns, p * q, inverse=axis.inverse))
        return _order_parts(found[..., :1] if axis.real_out else found, False, True)

    return _share_matrix(("second", p, q, made, axis.inverse, axis.real_out, dtype), dtype, make)


def _order_parts(blocks: Array, apart_in: bool, apart_out: bool) -> Array:
    """Matrices of blocks [..., values, parts, values, parts], parts before values where they lie
    apart."""
    *outer, j, a, k, b = blocks.shape
    blocks = np.swapaxes(blocks, -4, -3) if apart_in else blocks
    blocks = np.swapaxes(blocks, -2, -1) if apart_out else blocks
    return blocks.reshape(*outer, j * a, k * b)


def _scale(axis: _Axis, found: Array) -> Array:
    return found / axis.size if axis.inverse else found


def _share_matrix(key: tuple[object, ...], dtype: DType, make: Callable[[], Array]) -> Array:
    """The matrix of a key that some plan holds, or a new one."""
    found = _matrices.get(key)
    if found is None:
        found = _matrices[key] = cast_array(make(), dtype)
    return found
