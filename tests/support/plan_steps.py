"""The kernel steps of a plan, as tests compare them."""

from __future__ import annotations

from irc_compiler.plan.plan import Plan
from irc_compiler.plan.specs.gemm import GemmSpec


def step_families(plan: Plan) -> list[str]:
    """The family of each kernel step, in order."""
    return [step.spec.family for step in plan.kernel_steps()]


def gemm_specs(plan: Plan) -> list[GemmSpec]:
    """The spec of each matrix product, in order."""
    return [step.spec for step in plan.kernel_steps() if isinstance(step.spec, GemmSpec)]
