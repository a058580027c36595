"""`onnxruntime.capi._pybind_state`: another name of onnxruntime_pybind11_state."""

from ...nearest import module_attributes
from . import onnxruntime_pybind11_state
from .onnxruntime_pybind11_state import *  # noqa: F403

__getattr__ = module_attributes(__name__, vars(onnxruntime_pybind11_state))
