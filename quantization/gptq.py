"""GPTQ (Frantar et al., 2023): round a weight's inputs one after another, and change the later ones
so that they make up for the error of the earlier ones."""

from __future__ import annotations

import numpy as np

from ..ir.op import Array
from .plan import QuantizedWeight
from .weights import assemble_rows, decode, encode, fit_group, group_parameters

# The share of the mean of the Hessian's diagonal that is added to it.
_DAMPING = 0.01
# Inputs whose later changes are added in one product.
_BLOCK = 128


def quantize_gptq(weight: Array, axis: int, group: int, kind: str, gram: Array) -> QuantizedWeight:
    """A matrix in groups along `axis`, its depth. gram: sums of x x^T of the layer's inputs."""
    group = fit_group(weight.shape[axis], group)
    rows = np.array(weight if axis == 1 else weight.T, np.float32)
    count, depth = rows.shape
    upper = _inverse_factor(gram)
    dead = np.diag(gram) == 0
    rows[:, dead] = 0
    codes = np.zeros((count, depth), np.int16)
    steps = np.zeros((count, depth // group), np.float32)
    zeros = np.zeros_like(steps)
    for first in range(0, depth, _BLOCK):
        last = min(first + _BLOCK, depth)
        errors = np.zeros((count, last - first), np.float32)
        for at in range(first, last):
            number = at // group
            if at % group == 0:
                # The part of a group behind the block has not its changes yet: add them first.
                wide = _apply_errors(rows, errors, upper, first, at, last, at + group)
                step, zero = group_parameters(wide, kind)
                steps[:, number], zeros[:, number] = step[:, 0], zero[:, 0]
            scale, shift = steps[:, number], zeros[:, number]
            code = encode(rows[:, at], kind, scale, shift)
            codes[:, at] = code
            error = (rows[:, at] - decode(code, kind, scale, shift)) / upper[at, at]
            rows[:, at + 1 : last] -= np.outer(error, upper[at, at + 1 : last])
            errors[:, at - first] = error
        rows[:, last:] -= errors @ upper[first:last, last:]
    return assemble_rows(
        codes.astype(np.int8 if kind == "int8" else np.uint8), steps, zeros, kind, axis, group
    )


def _apply_errors(
    rows: Array, errors: Array, upper: Array, first: int, at: int, last: int, end: int
) -> Array:
    """The columns at..end with the changes that the block's columns before `at` make."""
    inside = rows[:, at : min(end, last)]
    if end <= last:
        return inside
    behind = rows[:, last:end] - errors[:, : at - first] @ upper[first:at, last:end]
    return np.concatenate([inside, behind], axis=1)


def _inverse_factor(gram: Array) -> Array:
    """The upper Cholesky factor of the inverse of the damped Hessian, float32."""
    hessian = np.array(gram, np.float64)
    diagonal = np.diag(hessian)
    mean = float(diagonal.mean()) or 1.0
    hessian[np.diag_indices_from(hessian)] += np.where(diagonal == 0, mean, _DAMPING * mean)
    inverse = np.linalg.inv(hessian)
    inverse = (inverse + inverse.T) / 2
    return np.linalg.cholesky(inverse).T.astype(np.float32)
