"""The compile report: what runs, in which precision, and what stays outside native code."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..ir.dtype import DType
from ..ir.escape import join_lines
from ..ir.limits.format_bytes import format_size
from ..plan.packing.panel_params import BF16_PRODUCTS, BYTES, cell_depth, has_tiles
from ..plan.plan import BRANCH, LOOP, KernelStep, Plan
from ..plan.specs.attention import AttentionSpec
from ..plan.specs.base import Spec
from ..plan.specs.gemm import MAX_FEW_ROWS, MAX_VECTOR_INT8_ROWS, GemmSpec
from ..plan.target import Target

if TYPE_CHECKING:
    from .rewrite.trace import Trace


_MAX_LISTED_VARIABLES: Final = 4


def report(plan: Plan, trace: Trace | None = None) -> str:
    """A few lines of text about a plan; every step outside native code is named."""
    kernels, hosts = plan.kernel_steps(), plan.host_steps()
    families = Counter(s.spec.family for s in kernels)
    reason = plan.denormals.reason or "by default"
    lines = [
        f"model      {plan.name or '(no name)'}",
        f"precision  {_precision(plan)}",
        f"denormals  {'flushed to zero' if plan.denormals.flush else 'kept'}: {reason}",
        f"steps      {len(kernels)} native ({_format_counts(families)}), {len(hosts)} in Python",
        f"kernels    {len(plan.specs())} distinct",
        f"regions    {len(plan.regions)}",
    ]
    integers = _integers(plan)
    if integers:
        lines.append(f"integers   {integers}")
    if compressed := _describe_compressed(plan):
        activations = describe_activations(plan)
        by = "" if activations == "f32" else f", by {activations}"
        lines.append(f"compressed {compressed}{by}")
    if plan.variables:
        lines.append(f"variables  {len(plan.variables)}: {_list_variables(plan)}")
        if cache := _describe_cache(plan):
            lines.append(f"cache      {cache}")
    loops = Counter(s.kind for s in plan.control_steps() if s.kind in (LOOP, BRANCH))
    if loops:
        lines.append(f"control    {_format_counts(loops)}, native")
    if trace is not None:
        lines.append(f"rewrites   {_format_counts(trace.hits_everywhere()) or 'none'}")
    names = distinguish_names([f"{step.op.kind} {step.name!r}" for step in hosts])
    lines += [f"in Python  {n}: {s.reason}" for n, s in zip(names, hosts, strict=True)]
    return join_lines(lines)


def distinguish_names(names: Sequence[str]) -> list[str]:
    """Names of which each is there once: a model may give two layers one name."""
    taken, used, found = set(names), Counter[str](), list[str]()
    for name in names:
        used[name] += 1
        shown = name
        while used[name] > 1 and (shown := f"{name} ({used[name]})") in taken:
            used[name] += 1
        taken.add(shown)
        found.append(shown)
    return found


def _describe_compressed(plan: Plan) -> str:
    """The weights that products expand as they read them, and their bytes, by type."""
    read = {
        region.buffers[step.buffers[operand]].index
        for region in plan.all_regions()
        for step in region.steps
        if isinstance(step, KernelStep)
        for operand in step.spec.compressed_operands()
    }
    sizes: dict[DType, list[int]] = {}
    for constant in (plan.constants[i] for i in sorted(read)):
        size = constant.dtype.nbytes(math.prod(constant.shape))
        sizes.setdefault(constant.dtype, []).append(size)
    return ", ".join(f"{len(s)} {d} weights ({format_size(sum(s))})" for d, s in sizes.items())


def _list_variables(plan: Plan) -> str:
    """The first variables and their types."""
    first = plan.variables[:_MAX_LISTED_VARIABLES]
    named = ", ".join(f"{v.name} {plan.slots[v.slot]}" for v in first)
    more = len(plan.variables) - len(first)
    return f"{named}, and {more} more" if more else named


def _describe_cache(plan: Plan) -> str:
    """In which forms attention of a model with variables reads keys and values."""
    found = count_cache_reads(plan)
    return ", ".join(f"{form} in {n} reads of keys or values" for form, n in found.items())


def count_cache_reads(plan: Plan) -> Counter[str]:
    """How many operands attention reads as keys or values of each form: a type, or u8 or u4 for
    codes of so many bits."""
    specs = [s.spec for s in plan.kernel_steps()]
    found = Counter[str]()
    for spec in specs:
        if isinstance(spec, AttentionSpec):
            codes = f"u{spec.row_bits}" if spec.row_bits else ""
            found.update(codes or str(o.dtype) for o in (spec.key, spec.value))
    return found


def describe_activations(plan: Plan) -> str:
    """What compressed weights are multiplied by, and in how many products."""
    specs = [s.spec for s in plan.kernel_steps()]
    found = [s for s in specs if isinstance(s, GemmSpec) and s.compressed]
    quantized = sum(s.compute_unit() == "int8" for s in found)
    rounded = sum(s.compute_dtype is not None for s in found)
    if quantized:
        return f"int8 activations in {quantized} of {len(found)} products"
    if rounded:
        rows = f"more than {MAX_FEW_ROWS} rows"
        return f"{plan.precision} factors in {rounded} of {len(found)} products, of {rows}"
    return "f32"


def describe_int8_tiles(plan: Plan, target: Target) -> str:
    """Which products by int8 activations run on tiles of AMX; nothing where none does."""
    specs = [s.spec for s in plan.kernel_steps() if isinstance(s.spec, GemmSpec)]
    found = [s for s in specs if s.compressed is not None and s.compressed.uses_int8]
    most = MAX_VECTOR_INT8_ROWS
    count = sum(not isinstance(s.m, int) or s.m > most for s in found)
    if not count or not has_tiles(target, DType.i8, cell_depth(target, DType.i8)):
        return ""
    return f"AMX: int8 activations of more than {most} rows in {count} of {len(found)} products"


def describe_bf16x3(plan: Plan) -> str:
    """Which products run on tiles of AMX in f32; nothing where none does."""
    found: list[str] = []
    for name, products in _products(plan):
        count = sum(s.compute_unit() in BF16_PRODUCTS for s in products)
        if count:
            found.append(f"{count} of {len(products)} {name}")
    how = "f32 factors as sums of three bf16 numbers"
    return f"AMX: {how} in {', '.join(found)}" if found else ""


def _products(plan: Plan) -> list[tuple[str, list[Spec]]]:
    """The name and the steps of each family that multiplies matrices, in the order of the plan."""
    found: dict[str, list[Spec]] = {}
    for step in plan.kernel_steps():
        if step.spec.product_name:
            found.setdefault(step.spec.product_name, []).append(step.spec)
    return list(found.items())


def _precision(plan: Plan) -> str:
    """The plan's precision and, if products round their factors, how many of them do."""
    if plan.precision == "f32":
        return plan.precision
    found: list[str] = []
    for name, products in _products(plan):
        rounded = sum(s.compute_unit() == plan.precision for s in products)
        found.append(f"{rounded} of {len(products)} {name}")
    return f"{plan.precision} ({', '.join(found) or 'no products'} have {plan.precision} factors)"


def _integers(plan: Plan) -> str:
    """How many products multiply the bytes of quantised values; nothing where none does."""
    found: list[str] = []
    for name, products in _products(plan):
        count = sum(s.factor_dtypes()[:1] in [(b,) for b in BYTES] for s in products)
        if count:
            found.append(f"{count} of {len(products)} {name}")
    attentions = [s.spec for s in plan.kernel_steps() if isinstance(s.spec, AttentionSpec)]
    if count := sum(s.quantization is not None for s in attentions):
        found.append(f"scores of {count} of {len(attentions)} attentions")
    return f"{', '.join(found)} multiply bytes" if found else ""


def _format_counts(counter: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counter.most_common())
