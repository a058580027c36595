"""Arrays of other packages as NumPy arrays: through DLPack, the array interface or the buffer
protocol, without a copy where the package allows one to read its memory.

No package is imported for this: torch tensors, JAX arrays, pandas columns, `array.array` and
memoryviews all come through these protocols.
"""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dtype import DType
from ...ir.errors import InputError
from ...ir.types import TensorType
from ...plan.plan import PlanPort

# The protocols through which a class offers its memory, or a copy of it.
_INTERFACES = ("__array_interface__", "__array_struct__", "__array__")


def import_array(
    ports: Sequence[PlanPort], values: Sequence[Any], *, live: bool = False
) -> Sequence[Any]:
    """The values with every tensor input as a plain ndarray; `values` itself where they are.

    What no protocol can read stays as it is: the checks of the inputs refuse it. live: refuse what
    could only be copied, since a bound call reads what an array holds at the time of the call.
    InputError names the input, what it got and what it expects.
    """
    if all(type(v) is np.ndarray for v in values):
        return values
    found = list(values)
    for n, (port, value) in enumerate(zip(ports, values, strict=False)):
        if type(value) is not np.ndarray and isinstance(port.type, TensorType):
            found[n] = as_array(port.name, port.type, value, live=live)
    return found


def as_array(name: str, wanted: TensorType, value: Any, *, live: bool = False) -> Any:
    """One value as an ndarray, or unchanged where it is none of the arrays we can read."""
    if isinstance(value, np.ma.MaskedArray):
        raise _refusal(name, wanted, "a masked array", "pass .filled(value), or .data and a mask")
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            return _through_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError, AssertionError) as error:
            # What can't be exported may still be converted, unless it is on another device.
            if not any(hasattr(value, i) for i in _INTERFACES) or _is_elsewhere(value):
                raise _unreadable_error(name, wanted, value, error) from error
    if any(hasattr(value, i) for i in _INTERFACES):
        if live and not hasattr(value, "__array_interface__"):
            raise _refusal(
                name, wanted, _type_name(value), "bind numpy.asarray(value), which you keep"
            )
        try:
            return np.asarray(value)
        except Exception as error:  # whatever the other package raises
            raise _unreadable_error(name, wanted, value, error) from error
    if isinstance(value, memoryview | array.array):
        return np.asarray(value)
    return value


def _through_dlpack(value: Any) -> npt.NDArray[Any]:
    """Zero-copy. bfloat16, which NumPy's DLPack does not know, comes through as 16-bit integers
    where the tensor can be viewed so (torch: `view(torch.int16)`)."""
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        import sys

        bits = np.from_dlpack(value.view(sys.modules["torch"].int16))
        return bits.view(DType.bf16.numpy)
    return np.from_dlpack(value)


def _is_elsewhere(value: Any) -> bool:
    """Whether the array's memory is not the CPU's (DLPack's device 1)."""
    try:
        return int(value.__dlpack_device__()[0]) != 1
    except Exception:  # the protocol's own errors: then conversion says what is wrong
        return False


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _unreadable_error(name: str, wanted: TensorType, value: Any, error: Exception) -> InputError:
    text = " ".join(str(error).split())[:200]
    return _refusal(
        name,
        wanted,
        f"{_type_name(value)}: {text}",
        "pass a detached, dense array in the CPU's memory",
    )


def _refusal(name: str, wanted: TensorType, got: str, fix: str) -> InputError:
    return InputError(f"input {name!r} can't be read", got=got, expected=str(wanted), fix=fix)


def is_plain(values: npt.NDArray[Any]) -> bool:
    """Can kernels read the array in place?"""
    flags = values.flags
    return flags.c_contiguous and flags.aligned and values.dtype.isnative
