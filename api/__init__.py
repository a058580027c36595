"""The public face: read, save and compile models; call what was compiled.

compiled_model.py is where compiler and runtime meet; ports.py orders inputs and names outputs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..compiler import model as models
from ..compiler.model import Model, PortInfo, Source
from ..compiler.options import (
    ACTIVATIONS,
    CONV_ALGORITHMS,
    DENORMALS,
    PRECISIONS,
    Options,
    Shapes,
)
from ..ir.errors import UsageError, memory_errors
from ..ir.random_seed import set_seed
from .compiled_model import CompiledModel, compile_with_options
from .model_source import Performance
from .ports import Outputs
from .progress import show_progress

__all__ = [
    "BoundCall",
    "CallPool",
    "CompiledModel",
    "InferRequest",
    "Model",
    "Outputs",
    "PortInfo",
    "compile_model",
    "read_model",
    "save_model",
    "set_seed",
]

if TYPE_CHECKING:
    from ..runtime.execution.bound_call import BoundCall
    from .call_pool import CallPool
    from .infer_request import InferRequest


# More than any machine has cores: each thread takes memory for its stack and its scratch.
MAX_THREADS = 4096


def compile_model(
    source: Model | Source,
    *,
    precision: str | None = None,
    num_threads: int | None = None,
    shapes: Shapes | None = None,
    max_memory: int | None = None,
    declared_shapes: Literal["check", "ignore"] = "check",
    conv_algorithm: Literal["auto", "direct"] = "auto",
    denormals: Literal["auto", "flush", "keep"] | None = None,
    performance: Performance = "latency",
    activations: Literal["f32", "int8"] | None = None,
    verify: bool | None = None,
    extensions: Sequence[Any] = (),
    trust_code: bool = False,
    progress: bool | None = None,
) -> CompiledModel:
    """Compile a model for this machine.

    source: a path (.onnx, .xml, .irc), bytes, an onnx.ModelProto, an openvino.Model or a Model.
    precision: "f32" (the default), "bf16" (matrix products and convolutions take bf16 operands), or
    "f16" (matrix products take f16 operands).
    num_threads: None for the CPUs this process may use. shapes: fixed sizes by input name.
    max_memory: bytes for any tensor or arena. conv_algorithm: "direct" keeps 3x3 convolutions from
    using Winograd's transform. denormals: "flush" takes floating-point numbers below the smallest
    normal one for zeros, "keep" computes with them, "auto" (the default) flushes them unless the
    model holds such a number as a constant (docs/numerics.md). performance: "latency" (the default)
    computes each call with all threads, "throughput" with one: `pool` and `infer_async` then make
    as many calls at the same time. activations: "int8" quantizes what is multiplied by compressed
    weights while the model runs; "f32" (the default) does not. verify: check the graph after every
    pass (default: IRC_VERIFY=1). A .irc keeps the precision, denormals, activations and shapes that
    it was compiled with where none are given here. extensions: as of read_model; of a .irc, the
    operations that it was made with. trust_code: run the machine code that a .irc may hold: only
    for files from those whose programs you would run.
    progress: whether stderr, if it is a terminal, shows after one second what is done (default:
    yes, unless IRC_PROGRESS=0).
    Raises an irc.Error that says what is wrong, where, and what to do.
    """
    if precision not in (None, *PRECISIONS):
        raise UsageError("unknown precision", got=precision, expected=" or ".join(PRECISIONS))
    if declared_shapes not in ("check", "ignore"):
        raise UsageError("unknown declared_shapes", got=declared_shapes, expected="check or ignore")
    if conv_algorithm not in CONV_ALGORITHMS:
        expected = " or ".join(CONV_ALGORITHMS)
        raise UsageError("unknown conv_algorithm", got=conv_algorithm, expected=expected)
    if denormals not in (None, *DENORMALS):
        raise UsageError("unknown denormals", got=denormals, expected=" or ".join(DENORMALS))
    if performance not in (modes := get_args(Performance)):
        raise UsageError("unknown performance", got=performance, expected=" or ".join(modes))
    if activations not in (None, *ACTIVATIONS):
        raise UsageError("unknown activations", got=activations, expected=" or ".join(ACTIVATIONS))
    _require_count("num_threads", num_threads, MAX_THREADS)
    _require_count("max_memory", max_memory)
    with memory_errors(), show_progress(f"compiling {_name_of(source)}", progress):
        if not isinstance(source, Model) and _is_artifact(source):
            if extensions:
                from ..compiler.user_extensions import register_extensions

                if register_extensions(extensions):
                    raise UsageError(
                        "a .irc is compiled: passes cannot change it",
                        got="a pass",
                        expected="operations; passes go to read_model and compile_model",
                    )
            return CompiledModel.load(
                source,
                precision=precision,
                denormals=denormals,
                activations=activations,
                num_threads=num_threads,
                max_memory=max_memory,
                shapes=shapes,
                trust_code=trust_code,
                performance=performance,
            )

        def read() -> Model:
            return models.read_model(
                source,
                declared_shapes=declared_shapes,
                max_memory=max_memory,
                extensions=extensions,
            )

        from .model_cache import find_entry

        model = source if isinstance(source, Model) else read
        checked = os.environ.get("IRC_VERIFY") == "1" if verify is None else verify
        how = Options(
            precision=precision or "f32",
            verify=checked,
            conv_algorithm=conv_algorithm,
            denormals=denormals or "auto",
            activations=activations or "f32",
        )
        return compile_with_options(
            model,
            how,
            num_threads,
            shapes=shapes,
            max_memory=max_memory,
            performance=performance,
            find_entry=None
            if extensions
            else lambda config: find_entry(source, config, declared_shapes),
        )


def read_model(
    source: Source,
    weights: str | os.PathLike[str] | bytes | None = None,
    *,
    declared_shapes: Literal["check", "ignore"] = "check",
    max_memory: int | None = None,
    extensions: Sequence[Any] = (),
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    progress: bool | None = None,
) -> Model:
    """Read a model: a path (.onnx, .xml), the bytes of either, an onnx.ModelProto or an
    openvino.Model.

    weights: the .bin of an XML file that is not next to it. declared_shapes "ignore" accepts
    a model whose declared shapes or types contradict inference. max_memory: bytes for any file and
    any constant. extensions: operations, classes as irc.extensions describes, and passes, functions
    (graph, node) -> Patch that are applied to what was read. inputs and outputs cut and reshape the
    model: names of tensors, of inputs with sizes and an element type ("x[1,3,?]{u8}").
    progress: as of compile_model.
    Raises ModelFormatError, ShapeError, MemoryLimitError or UnsupportedOperationError.
    """
    with show_progress(f"reading {_name_of(source)}", progress):
        return models.read_model(
            source,
            weights,
            declared_shapes=declared_shapes,
            max_memory=max_memory,
            extensions=extensions,
            inputs=inputs,
            outputs=outputs,
        )


def save_model(
    model: Model | Source,
    path: str | os.PathLike[str],
    *,
    compress_to_fp16: bool = False,
    dialect: bool = False,
    opset: int | None = None,
    progress: bool | None = None,
) -> tuple[Path, ...]:
    """Write IR version 11 (`path` and the .bin next to it) or ONNX, by the ending of `path`, in
    standard operations.

    dialect (of IR) keeps irc's own operations as they are, which irc reads and OpenVINO does not: a
    model that the standard sets cannot express is kept so. compress_to_fp16 stores f32 weights as
    f16 with a decompressing conversion. opset: ONNX's operator set, 13 or later (default: 21);
    constants above 2 GB are in `path` + ".data". Returns the files, which appear whole or not at
    all. progress: as of compile_model. UsageError for a path that ends in neither .xml nor .onnx,
    UnsupportedOperationError naming the operation that the format cannot express.
    """
    with show_progress(f"writing {os.fspath(path)}", progress):
        return models.save_model(
            model, path, compress_to_fp16=compress_to_fp16, dialect=dialect, opset=opset
        )


def _name_of(source: Any) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else "a model"


def _require_count(name: str, value: Any, most: int | None = None) -> None:
    """UsageError for anything but None and integers from 1 to `most`."""
    is_integer = hasattr(value, "__index__") and not isinstance(value, bool)
    if value is not None and not (is_integer and value >= 1):
        raise UsageError(f"{name} must be at least 1", got=repr(value), expected="an integer")
    if value is not None and most is not None and value > most:
        raise UsageError(f"{name} is too large", got=value, expected=f"at most {most}")


def _is_artifact(source: Any) -> bool:
    if isinstance(source, bytes | bytearray | memoryview):
        from ..runtime.artifact.container_format import MAGIC

        return bytes(source[: len(MAGIC)]) == MAGIC
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".irc"


def __getattr__(name: str) -> Any:
    # The runtime is loaded when a model is compiled, not by `import irc`.
    if name == "BoundCall":
        from ..runtime.execution.bound_call import BoundCall

        return BoundCall
    if name == "CallPool":
        from .call_pool import CallPool

        return CallPool
    if name == "InferRequest":
        from .infer_request import InferRequest

        return InferRequest
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
