"""Input values as OpenVINO's Python API takes them: arrays of other element types are cast.

Measured on openvino 2026.4: an array (also what has `__array__`) is cast as `numpy.astype` does, a
Tensor must have the port's element type. A bf16 port takes bfloat16 and the bits of bf16 numbers in
arrays of another 16-bit type. Lists and Python numbers, which OpenVINO takes only where NumPy
happens to give them the port's type, get that type. irc refuses what NumPy would cast with a loss
of meaning: complex numbers and text.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ...ir.dtype import DType
from ...ir.errors import InputError
from .ports import ConstOutput


class HasData(Protocol):
    """A Tensor, as far as its element type is checked."""

    @property
    def data(self) -> npt.NDArray[Any]: ...


_BITS_OF_BF16 = ("int16", "uint16", "float16")


def convert_input(port: ConstOutput, value: Any) -> Any:
    """A value for a port, of the port's element type where a cast has a meaning; what has none is
    returned as it is, and refused by the checks of a run. InputError for what is not an array."""
    dtype = port.element_dtype
    if dtype is None or isinstance(value, str | bytes | dict) or value is None:
        return value
    if isinstance(value, np.generic):  # np.float64 is a float, too
        value = np.asarray(value)
    if isinstance(value, list | tuple | range | bool | int | float):
        return _from_python(port, dtype, value)
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        return value
    if not value.ndim:
        value = value.reshape((1,) * len(port.partial_shape))
    return _cast(dtype, value)


def check_tensor_type(port: ConstOutput, tensor: HasData) -> None:
    """InputError where a Tensor has another element type than the port: it is never cast."""
    if port.element_dtype is not None and tensor.data.dtype != port.element_dtype.numpy:
        raise InputError(
            "a Tensor has another element type than its port",
            where=port.describe(),
            got=tensor.data.dtype,
            expected=port.element_dtype.numpy,
            fix="pass an array, which is cast, or make the Tensor of the port's type",
        )


def _from_python(port: ConstOutput, dtype: DType, value: Any) -> Any:
    if isinstance(value, bool | int | float) and len(port.partial_shape) == 0:
        value = np.asarray(value)
    try:
        return np.asarray(list(value) if isinstance(value, range) else value, dtype.numpy)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            "a list is not an array of the port's type",
            where=port.describe(),
            got=f"{value!r:.80} ({error})",
            expected=f"numbers of {dtype}",
        ) from error


def _cast(dtype: DType, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wanted = dtype.numpy
    if dtype is DType.string or value.dtype.newbyteorder("=") == wanted:
        return value
    if dtype is DType.bf16:
        return value.view(wanted) if value.dtype.name in _BITS_OF_BF16 else value
    if value.dtype.kind in "cSUTmM":
        return value
    # Numbers outside the range of the port's type become what NumPy makes of them.
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            return value.astype(wanted)
    except (TypeError, ValueError, OverflowError):  # an array of objects that are not numbers
        return value
