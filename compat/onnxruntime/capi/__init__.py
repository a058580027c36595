"""`onnxruntime.capi`: where scripts find the error classes."""

from . import _pybind_state, onnxruntime_pybind11_state

__all__ = ["_pybind_state", "onnxruntime_pybind11_state"]
