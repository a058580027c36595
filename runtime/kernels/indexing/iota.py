"""Kernels that write numbers which follow from sizes. They are short, so one element at a time."""

from __future__ import annotations

from ....plan.specs.iota import IotaSpec
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import WRITE, open_kernel, share
from ...llvmir.values import ELEMENT
from ..emit.contract import Kernel
from ..emit.strided_loops import RuntimeSizes, base_pointer


def generate(spec: IotaSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of an iota spec."""
    module = Module(target)
    k = open_kernel(module, symbol, [WRITE], spec.runtime_dims)
    f, sizes = k.function, RuntimeSizes(k.function, k.dims)
    base = base_pointer(f, sizes, k.buffers[0], spec.out)
    element, stride = ELEMENT[spec.out.dtype.value], sizes.value(spec.out.strides[0])
    start, step = sizes.value(spec.start), sizes.value(spec.step)
    lo, hi = share(f, sizes.value(spec.count), k.worker, k.workers, 16)
    with f.range(lo, hi) as i:
        value = f.cast(f.add(start, f.mul(i, step)), element)
        f.store(value, f.at(base, f.mul(i, stride), element))
    f.ret(0)
    return Kernel(symbol, module.text())
