"""GPTQ (Frantar et al., 2023): round a weight's inputs one after another, and change the later ones
so that they make up for the error of the earlier ones."""

from __future__ import annotations

import numpy as np

from ..ir.op import Array
from .plan import QuantizedWeight
from .range_search import search_ranges
from .weights import CLIP_RATIOS, assemble_rows, decode, encode, fit_group

# The share of the mean of the Hessian's diagonal that is added to it.
_DAMPING = 0.01
# Inputs whose later changes are added in one product.
_BLOCK = 32


def quantize_gptq(
    weight: Array, axis: int, group: int, kind: str, gram: Array, num_threads: int | None = None
) -> QuantizedWeight:
    """A matrix in groups along `axis`, its depth. gram: sums of x x^T of the layer's inputs. Each
    group's range is the share of its own with the least error before compensation. num_threads:
    None for all CPUs."""
    group = fit_group(weight.shape[axis], group)
    # One row for each input: what a step reads and changes is contiguous.
    inputs = np.array(weight if axis == 0 else weight.T, np.float32, order="C")
    depth, count = inputs.shape
    upper = _inverse_factor(gram)
    inputs[np.diag(gram) == 0] = 0
    # An error of an input costs this much after the later ones have made up for it.
    cost = 1 / upper.diagonal() ** 2
    codes = np.zeros((depth, count), np.int8 if kind == "int8" else np.uint8)
    steps = np.zeros((depth // group, count), np.float32)
    zeros = np.zeros_like(steps)
    for first in range(0, depth, _BLOCK):
        last = min(first + _BLOCK, depth)
        errors = np.zeros((last - first, count), np.float32)
        for at in range(first, last):
            number = at // group
            if at % group == 0:
                rows = _apply_errors(inputs, errors, upper, first, at, last, at + group)
                part = cost[at : at + group, None, None]
                found = search_ranges(rows[:, None], kind, part, CLIP_RATIOS, num_threads)
                steps[number], zeros[number] = (each[0] for each in found)
            scale, shift = steps[number], zeros[number]
            codes[at] = encode(inputs[at], kind, scale, shift)
            error = (inputs[at] - decode(codes[at], kind, scale, shift)) / upper[at, at]
            inputs[at + 1 : last] -= upper[at, at + 1 : last, None] * error
            errors[at - first] = error
        inputs[last:] -= upper[first:last, last:].T @ errors
    return assemble_rows(codes.T, steps.T, zeros.T, kind, axis, group)


def _apply_errors(
    inputs: Array, errors: Array, upper: Array, first: int, at: int, last: int, end: int
) -> Array:
    """The rows at..end with the changes that the block's rows before `at` make: a group that
    reaches behind the block has not all of them yet."""
    inside = inputs[at : min(end, last)]
    if end <= last:
        return inside
    behind = inputs[last:end] - upper[first:at, last:end].T @ errors[: at - first]
    return np.concatenate([inside, behind])


def _inverse_factor(gram: Array) -> Array:
    """The upper triangular U with U^T U = the inverse of the damped Hessian, float32."""
    hessian = np.array(gram, np.float64)
    diagonal = np.diag(hessian)
    mean = float(diagonal.mean()) or 1.0
    hessian[np.diag_indices_from(hessian)] += np.where(diagonal == 0, mean, _DAMPING * mean)
    # H = R R^T with an upper R, by the factor of H with both axes reversed; then U = R^-1.
    reverse = np.linalg.cholesky(hessian[::-1, ::-1])[::-1, ::-1]
    return np.triu(np.linalg.inv(reverse)).astype(np.float32)
