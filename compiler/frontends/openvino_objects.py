"""Reads models that the openvino package holds in memory, or reads itself from other formats.

The model is serialized to IR in a directory of the memory file system where there is one, and read
from there: what OpenVINO's frontends read (TensorFlow, TensorFlow Lite, PaddlePaddle, JAX, torch)
becomes a model of irc. Nothing here imports openvino unless a caller passes such an object or file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...ir.errors import ModelFormatError, UnsupportedOperationError

_MEMORY = "/dev/shm"


def is_openvino_model(source: Any) -> bool:
    """Whether an object is an openvino.Model. Does not import openvino."""
    package = sys.modules.get("openvino")
    kind = getattr(package, "Model", None)
    # Where the stand-in is installed as `openvino`, its Model is not one of OpenVINO's.
    native = type(source).__module__.partition(".")[0] == "openvino"
    return native and isinstance(kind, type) and isinstance(source, kind)


@contextmanager
def serialize_model(model: Any) -> Generator[Path]:
    """The .xml (with the .bin next to it) of an openvino.Model, removed afterwards: files that are
    mapped stay readable."""
    import tempfile

    import openvino

    in_memory = os.path.isdir(_MEMORY) and os.access(_MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(dir=_MEMORY if in_memory else None) as folder:
        path = Path(folder) / "model.xml"
        openvino.serialize(model, str(path))
        yield path


def read_with_openvino(path: str | os.PathLike[str]) -> Any:
    """The openvino.Model of a file whose format irc does not read itself. ModelFormatError."""
    try:
        import openvino
    except ImportError as error:
        raise UnsupportedOperationError(
            "irc reads this format with the openvino package, which is not installed",
            where=os.fspath(path),
            expected="*.onnx or *.xml",
            fix="pip install openvino, or convert the model to ONNX",
        ) from error
    core: Any = openvino.Core()
    try:
        return core.read_model(path)
    except RuntimeError as error:
        raise ModelFormatError(
            "OpenVINO cannot read the model",
            where=os.fspath(path),
            got=str(error),
            expected="a file that one of its frontends reads",
        ) from error
