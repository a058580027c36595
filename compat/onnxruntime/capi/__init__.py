"""`onnxruntime.capi`: where scripts find the error classes."""

from . import onnxruntime_pybind11_state

__all__ = ["onnxruntime_pybind11_state"]
