"""OrtValue: a tensor, sequence or map on the CPU; and arrays over memory given by its address."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtype import DType
from ...ir.errors import InputError, MemoryLimitError, UnsupportedOperationError
from ..nearest import NamesNearest
from .errors import InvalidArgument, NotImplemented, join_error, wrong_argument
from .types import element_number, element_type, tensor_type

_MAX_ELEMENTS = 1 << 47


def require_cpu(device_type: Any, where: str | None = None) -> None:
    """InvalidArgument (a RuntimeError) for a device that is not the CPU."""
    if str(device_type).lower() != "cpu":
        raise wrong_argument("irc runs on CPUs", where=where, got=device_type, expected="cpu")


def array_at(address: Any, given_type: Any, shape: Any, where: str) -> np.ndarray[Any, Any]:
    """The array at an address, whose memory the caller keeps. InvalidArgument (a RuntimeError)."""
    dtype, sizes = _element(given_type, where), _shape(shape, where)
    if not hasattr(address, "__index__") or isinstance(address, bool) or int(address) < 0:
        raise wrong_argument(
            "a buffer's address is wrong",
            where=where,
            got=repr(address)[:80],
            expected="an integer",
        )
    if dtype is DType.string or dtype.bits < 8:
        raise wrong_argument(
            "elements of this type have no address",
            where=where,
            got=dtype,
            expected="elements of whole bytes",
        )
    count = math.prod(sizes)
    if not int(address) and count:
        raise wrong_argument("a buffer's address is null", where=where, expected=f"{dtype}{sizes}")
    if not count:
        return np.empty(sizes, dtype.numpy)
    memory: Any = (ctypes.c_byte * (count * dtype.numpy.itemsize)).from_address(int(address))
    return np.frombuffer(memory, np.uint8).view(dtype.numpy).reshape(sizes)


def _element(given: Any, where: str | None) -> DType:
    try:
        return element_type(given, where)
    except InputError as error:
        raise join_error(error, InvalidArgument, RuntimeError) from error


def _shape(shape: Any, where: str | None) -> list[int]:
    sizes: list[Any] = list(shape) if isinstance(shape, Sequence | np.ndarray) else [None]
    are_sizes = all(hasattr(s, "__index__") and int(s) >= 0 for s in sizes)
    if not are_sizes or math.prod(int(s) for s in sizes) > _MAX_ELEMENTS:
        raise wrong_argument(
            "a shape is wrong", where=where, got=repr(shape)[:80], expected="sizes >= 0"
        )
    return [int(s) for s in sizes]


class OrtValue(NamesNearest):
    """A value on the CPU. A tensor made of a NumPy array shares its memory."""

    def __init__(self, value: Any, type_name: str | None = None) -> None:
        self._value, self._type = value, type_name

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Any, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Of an array, which is copied only where it is not contiguous."""
        require_cpu(device_type)
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "OUST":
            raise wrong_argument(
                "an OrtValue is made of an array of numbers or booleans",
                got=getattr(numpy_obj, "dtype", type(numpy_obj).__name__),
                expected="numpy.ndarray",
            )
        native = numpy_obj.astype(numpy_obj.dtype.newbyteorder("="), copy=False)
        _element(native.dtype, None)
        return cls(native if native.flags.c_contiguous else native.copy())

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(
        cls, data: np.ndarray[Any, Any], /, onnx_element_type: int
    ) -> OrtValue:
        """Of an array whose bytes are elements of another type of the same size."""
        dtype = _element(onnx_element_type, None).numpy
        if not isinstance(data, np.ndarray) or data.dtype.itemsize != dtype.itemsize:
            got = getattr(data, "dtype", type(data).__name__)
            raise wrong_argument(
                "the element types differ in size", got=got, expected=f"{dtype.itemsize} bytes"
            )
        return cls(data.view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: Any = None,
    ) -> OrtValue:
        """A tensor of zeros."""
        require_cpu(device_type)
        dtype, sizes = _element(element_type, None), _shape(shape, None)
        if dtype is DType.string:
            raise wrong_argument("an OrtValue of text", got=dtype, expected="numbers or booleans")
        try:
            return cls(np.zeros(sizes, dtype.numpy))
        except MemoryError as error:
            raise MemoryLimitError("no memory for an OrtValue", got=f"{dtype}{sizes}") from error

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """Of an object with `__dlpack__`, whose memory it shares."""
        return cls.ortvalue_from_numpy(np.from_dlpack(data))

    def numpy(self) -> np.ndarray[Any, Any]:
        """The array of a tensor. It shares the value's memory."""
        if not self.is_tensor():
            raise wrong_argument(
                "only a tensor is an array", got=self.data_type(), expected="a tensor"
            )
        return self._value

    def get_value(self) -> Any:
        """The array, list or dict."""
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        found = np.asarray(self.numpy(), dtype)
        return found.copy() if copy and found is self._value else found

    def __dlpack__(self, **how: Any) -> Any:
        return self.numpy().__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.numpy().ctypes.data

    def device_name(self) -> str:
        """Always "cpu"."""
        return "cpu"

    def shape(self) -> list[int]:
        """The sizes of a tensor."""
        return list(self.numpy().shape)

    def _dtype(self) -> DType:
        return _element(self.numpy().dtype, None)

    def data_type(self) -> str:
        """As "tensor(float)"."""
        if self._type is not None:
            return self._type
        if isinstance(self._value, np.ndarray):
            return tensor_type(self._dtype())
        return "seq" if isinstance(self._value, list) else "map"

    def element_type(self) -> int:
        """The number of a tensor's element type in onnx.TensorProto.DataType."""
        return element_number(self._dtype())

    def tensor_size_in_bytes(self) -> int:
        """A tensor's bytes."""
        return self.numpy().nbytes

    def has_value(self) -> bool:
        """Whether an optional value holds one."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Never."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return isinstance(self._value, list) and (
            self._type is None or self._type.startswith("seq(tensor")
        )

    def update_inplace(self, data: Any) -> None:
        """Copy an array or OrtValue of the same element type and number of elements into it."""
        source = data.numpy() if isinstance(data, OrtValue) else data
        mine = self.numpy()
        if not isinstance(source, np.ndarray):
            error = InputError(
                "only an array can be copied into an OrtValue",
                got=type(data).__name__,
                expected="numpy.ndarray or OrtValue",
            )
            raise join_error(error, InvalidArgument, TypeError)
        if source.dtype.newbyteorder("=") != mine.dtype or source.size != mine.size:
            raise wrong_argument(
                "the array does not fit into the OrtValue",
                got=f"{source.dtype}{list(source.shape)}",
                expected=f"{mine.dtype}{list(mine.shape)}",
            )
        mine[...] = source.reshape(mine.shape)

    def as_sparse_tensor(self) -> Any:
        """Refused."""
        return self.ort_value_from_sparse_tensor(None)

    @staticmethod
    def ort_value_from_sparse_tensor(sparse_tensor: Any) -> OrtValue:
        """Refused."""
        error = UnsupportedOperationError("irc has no sparse tensors", fix="pass a dense array")
        raise join_error(error, NotImplemented)


class OrtDevice:
    """A device: the CPU."""

    def __init__(self, device_type: str = "cpu", device_id: int = 0) -> None:
        require_cpu(device_type)
        self._id = device_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device of this name. InvalidArgument for another one than the CPU."""
        return OrtDevice(ort_device_name, device_id)

    def device_id(self) -> int:
        """As given."""
        return self._id

    def device_type(self) -> int:
        """The CPU's number."""
        return 0

    def device_mem_type(self) -> int:
        """The default memory."""
        return 0

    def device_vendor_id(self) -> int:
        """None."""
        return 0
