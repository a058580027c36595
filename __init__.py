"""irc: a graph compiler for inference on CPUs.

    import irc_compiler as irc
    net = irc.compile_model("model.onnx")      # .onnx, .xml or .irc
    y = net({"x": x})

`irc.ops` builds graphs in Python, `irc.extensions` holds what operations of one's own are made
of, `irc.onnx_backend` is ONNX's Backend interface; they are loaded at their first use. Importing
irc loads neither onnx nor LLVM.
"""

from __future__ import annotations

import os
import sys

# As typing names it, which is not loaded for this: the command `irc` begins here.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from . import builder as ops
    from .api import (
        BoundCall,
        CallPool,
        CompiledModel,
        Model,
        Outputs,
        PortInfo,
        compile_model,
        read_model,
        save_model,
        set_seed,
    )
    from .api import extensions as extensions
    from .api.predictor import Predictor as Predictor
    from .api.torch_models import from_torch as from_torch
    from .compat import onnx_backend as onnx_backend
    from .ir.errors import (
        ArtifactError,
        Error,
        ExecutionError,
        InputError,
        MemoryLimitError,
        ModelFormatError,
        ShapeError,
        UnsupportedOperationError,
        UsageError,
        VerificationError,
    )
    from .llm.llm import LLM as LLM
    from .quantization import QuantizedModel as QuantizedModel
    from .quantization import quantize as quantize

__version__ = "0.1.0"


def _check_interpreter() -> None:
    """ImportError in a subinterpreter: NumPy and the thread pool have one state per process."""
    try:
        import _interpreters as interpreters  # pyright: ignore[reportMissingImports]
    except ImportError:
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            return
    current, main = interpreters.get_current(), interpreters.get_main()
    if current != main:
        raise ImportError(
            "irc_compiler cannot be imported in a subinterpreter, because NumPy and the thread "
            "pool of irc have one state per process: import it in the main interpreter, or start "
            "a process for each (multiprocessing)"
        )


_check_interpreter()

__all__ = [
    "ArtifactError",
    "BoundCall",
    "CallPool",
    "CompiledModel",
    "Error",
    "ExecutionError",
    "InputError",
    "LLM",
    "MemoryLimitError",
    "Model",
    "ModelFormatError",
    "Outputs",
    "PortInfo",
    "Predictor",
    "QuantizedModel",
    "ShapeError",
    "UnsupportedOperationError",
    "UsageError",
    "VerificationError",
    "compile_model",
    "extensions",
    "from_torch",
    "onnx_backend",
    "ops",
    "quantize",
    "read_model",
    "save_model",
    "set_seed",
]


_MODULES = {
    **{
        name: f".{name}" for name in "api builder compat compiler ir llm plan runtime serve".split()
    },
    "extensions": ".api.extensions",
    "quantization": ".quantization",
    "onnx_backend": ".compat.onnx_backend",
    "ops": ".builder",
}


# Where names are defined that neither errors nor the API's root hold.
_HOMES = {
    "LLM": (".llm.llm",),
    "Predictor": (".api.predictor",),
    "QuantizedModel": (".quantization",),
    "from_torch": (".api.torch_models",),
    "quantize": (".quantization",),
}


def __getattr__(name: str) -> object:
    """Load the module of a name at its first use; later uses do not call this."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(_MODULES[name], __name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in _HOMES.get(name, (".ir.errors", ".api")):
        loaded = importlib.import_module(module, __name__)
        if hasattr(loaded, name):
            globals()[name] = getattr(loaded, name)
            break
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# A program loads what its calls take now, not at its first call. The command (also `python -m
# irc_compiler`) does when it is ready for Ctrl-C: cli/entry.py.
if os.path.basename((getattr(sys, "argv", None) or [""])[0]) not in ("irc", "-m"):
    from .api import BoundCall as BoundCall  # and with it the runtime
