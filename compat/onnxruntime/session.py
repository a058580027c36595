"""InferenceSession: a model ready to run, with onnxruntime's methods."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ...api import CompiledModel, Model, compile_model, read_model
from ...api.model_cache import identify_once, recall_json, remember_json
from ...ir.dtype import DType
from ...ir.errors import (
    Error,
    ExecutionError,
    InputError,
    ModelFormatError,
    ShapeError,
    UnsupportedOperationError,
    UsageError,
)
from ...ir.types import TensorType
from ..freed_memory import keep_freed_memory
from ..nearest import NamesNearest
from ..stand_ins import find_engine, record_session
from ..warn import caller_level, warn_once
from .binding import IOBinding
from .delegation import delegate
from .devices import OrtMemoryInfo
from .errors import (
    LOADING,
    RUNNING,
    Fail,
    InvalidArgument,
    InvalidProtobuf,
    NoSuchFile,
    join_error,
    raise_as,
)
from .settings import CPU, RunOptions, SessionOptions, check_providers
from .types import ModelMetadata, NodeArg, describe_input, describe_model, describe_output
from .values import OrtValue

# What the cache calls the text of a warning that a model gives each time.
_CONTRADICTION: Final = "declared shapes"


def _despite_declared(load: Callable[..., Any], source: Any, **options: Any) -> Any:
    """Load a model. Shapes that it declares against inference give a warning, as in onnxruntime;
    other element types are an error there, too."""
    known = recall_json(source, _CONTRADICTION)
    if known is None:
        try:
            return load(source, **options)
        except ShapeError as error:
            element = {str(type_).partition("[")[0] for type_ in (error.got, error.expected)}
            if not error.fix or "declared_shapes" not in error.fix or len(element) > 1:
                raise
            text = f"declared {error.got}, inferred {error.expected}, which is used"
            text = f"irc: {error.where}: {text}"
            known = remember_json(source, _CONTRADICTION, lambda: text)
    warnings.warn(str(known), UserWarning, stacklevel=caller_level())
    return load(source, declared_shapes="ignore", **options)


class InferenceSession(NamesNearest):
    """A model ready to run: of a path (.onnx; also .xml and .irc), or the bytes of an ONNX model.

    `net` is the irc.CompiledModel behind it.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **more: Any,
    ) -> None:
        options = _require(sess_options, SessionOptions, "sess_options")
        check_providers(providers, provider_options)
        options.warn_of_unheeded()
        for name, value in more.items():
            # There is one provider, so there is nothing to fall back to.
            if name != "enable_fallback" and value:
                warn_once(f"InferenceSession's argument {name!r}", "irc has no such option")
        self._options = options
        source = _require_model(path_or_bytes)
        # insightface and optimum-onnx read these of onnxruntime's private attributes.
        self._providers, self._provider_options = [CPU], {CPU: {}}
        self._model_path = os.fspath(source) if isinstance(source, str | os.PathLike) else None
        with identify_once():
            self._load(source, options)

    def _load(self, source: Any, options: SessionOptions) -> None:
        """Compile the model; where irc lacks an operation of it, become a session of the engine."""
        try:
            self.net = _compile(source, options)
        except UnsupportedOperationError as error:
            engine = find_engine("onnxruntime")
            if engine is None:
                raise
            record_session(_name_of(source), "onnxruntime", str(error))
            delegate(self, InferenceSession, engine, source)
            return
        record_session(_name_of(source), "irc")
        keep_freed_memory()  # the program's arrays have their pages next to the engine, too
        names = _read_size_names(source, options.overrides)
        self._inputs = [describe_input(p, names.get(p.name)) for p in self.net.inputs]
        self._input_names = {p.name for p in self._inputs}
        self._outputs = [describe_output(p, names.get(p.name)) for p in self.net.outputs]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs with these names (None or none: all), in that order."""
        if isinstance(output_names, str):
            error = InputError(
                "output_names must be a list", got=repr(output_names), fix=f"[{output_names!r}]"
            )
            raise join_error(error, InvalidArgument, TypeError)
        try:
            made = self.call(input_feed, run_options)
            return [made[n] for n in output_names] if output_names else list(made)
        except Error as error:  # `raise_as` takes as long as the call of a small model
            with raise_as(RUNNING):
                raise error

    def call(
        self, feed: Mapping[str, Any], run_options: RunOptions | None = None, out: Any = None
    ) -> Any:
        """Run; irc's Outputs. irc's errors, and Fail where the options say to terminate."""
        if run_options is None and type(feed) is dict and feed.keys() == self._input_names:
            for value in feed.values():
                if type(value) is not np.ndarray:
                    break
            else:
                return self.net(feed, out=out)
        if not isinstance(feed, Mapping):
            error = InputError(
                "input_feed must be a dict", got=type(feed).__name__, expected="{name: array}"
            )
            raise join_error(error, InvalidArgument, TypeError)
        _raise_if_terminated(_require(run_options, RunOptions, "run_options"))
        missing = [p.name for p in self._inputs if p.name not in feed]
        if missing := [n for n in missing if not self._arg(n).type.startswith("optional")]:
            error = InputError(
                f"input {missing[0]!r} is missing",
                got=", ".join(feed) or "no inputs",
                expected=", ".join(f"{p.name}: {p.type}" for p in self._inputs),
            )
            raise join_error(error, InvalidArgument, ValueError)
        made = self.net({n: self._as_array(n, v) for n, v in feed.items()}, out=out)
        _raise_if_terminated(run_options)
        return made

    def _arg(self, name: str) -> NodeArg:
        return next(p for p in self._inputs if p.name == name)

    def _as_array(self, name: str, value: Any) -> Any:
        """Lists and numbers of a tensor input as an array of its element type."""
        if isinstance(value, OrtValue):
            return value.get_value()
        if not isinstance(value, list | tuple | int | float | str):
            return value
        port = next((p for p in self.net.plan.inputs if p.name == name), None)
        if port is None or not isinstance(port.type, TensorType):
            return value
        dtype = port.type.dtype
        try:
            return np.asarray(value, None if dtype is DType.dynamic else dtype.numpy)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"input {name!r} is not an array", got=f"{value!r:.80}", expected=str(port.type)
            ) from error

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """`run`, with OrtValues in and out."""
        names = output_names or [p.name for p in self._outputs]
        types = {p.name: p.type for p in self._outputs}
        made = self.run(names, input_dict_ort_values, run_options)
        return [OrtValue(v, types.get(n)) for n, v in zip(names, made, strict=True)]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: Any = None,
    ) -> None:
        """`run_with_ort_values`; the results replace the elements of `fetches`."""
        named = dict(zip(feed_names, feeds, strict=True))
        fetches[:] = self.run_with_ort_values(list(fetch_names), named, run_options)

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, *device: Any, **more: Any
    ) -> OrtValue:
        """`OrtValue.ortvalue_from_shape_and_type`."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, *device, **more)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[Any, Any, str], Any],
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in another thread, which calls `callback(results, user_data, error text)`."""

        def work() -> None:
            try:
                found, text = self.run(output_names, input_feed, run_options), ""
            except Error as error:
                found, text = [], str(error)
            callback(found, user_data, text)

        threading.Thread(target=work, name="irc-run-async", daemon=True).start()

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in order."""
        return list(self._outputs)

    def has_unknown_rank(self, output: str) -> bool:
        """Whether the number of an output's axes is unknown before a run."""
        return any(p.name == output and p.shape is None for p in self.net.outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """None: initializers are constants."""
        return []

    def get_providers(self) -> list[str]:
        """The CPU."""
        return [CPU]

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """The session stays on the CPU."""
        check_providers(providers, provider_options)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The CPU has none."""
        return {CPU: {}}

    def enable_fallback(self) -> None:
        """There is nothing to fall back from."""

    def disable_fallback(self) -> None:
        """There is nothing to fall back to."""

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """The CPU's memory, for each input."""
        return [OrtMemoryInfo("Cpu") for _ in self._inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """The CPU's memory, for each output."""
        return [OrtMemoryInfo("Cpu") for _ in self._outputs]

    def get_input_epdevices(self) -> list[Any]:
        """None: there are no devices to choose among."""
        return []

    def get_provider_graph_assignment_info(self) -> list[Any]:
        """None: `session.net.report()` says how the model runs."""
        return []

    def get_tuning_results(self) -> list[Any]:
        """None: irc keeps no measurements with a session."""
        return []

    def set_tuning_results(self, results: Any, *, error_on_invalid: bool = False) -> None:
        """Without effect, with a warning where there are any."""
        if results:
            warn_once("set_tuning_results", "irc chooses kernels by the sizes")

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Without effect, with a warning for each."""
        for key in options:
            warn_once(f"the dynamic option {key!r}", "irc's CPU has no options")

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Nothing to release."""

    def get_session_options(self) -> SessionOptions:
        """As given."""
        return self._options

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        return describe_model(self.net.plan.name, self.net.metadata, self.net.rt_info)

    def end_profiling(self) -> str:
        """ "": no file is written (SessionOptions.enable_profiling warns)."""
        return ""

    def get_profiling_start_time_ns(self) -> int:
        """0: no profile is taken."""
        return 0

    def io_binding(self) -> IOBinding:
        """Inputs and outputs bound by name."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run on what is bound."""
        iobinding.run(run_options)


def _compile(source: Any, options: SessionOptions) -> CompiledModel:
    """The model with the sizes and threads that the options fix."""
    with raise_as(LOADING), _name_unreadable():
        model, shapes = source, None
        if options.overrides:
            model = _despite_declared(read_model, source)
            shapes = _with_sizes(model, options.overrides)
        threads = options.intra_op_num_threads or None
        return _despite_declared(
            compile_model,
            model,
            num_threads=threads,
            shapes=shapes,
            denormals=options.denormals,
        )


def _read_size_names(source: Any, overrides: Mapping[str, int]) -> dict[str, list[str]]:
    """The names that an ONNX model gives to the sizes of its inputs and outputs, "" for a size
    without one. onnxruntime says these where inference finds another name; of an input also where
    it finds a number."""
    is_path = isinstance(source, str | os.PathLike)
    name = str(os.fspath(source)).lower() if is_path else ""
    if name.endswith((".xml", ".irc")) or (not is_path and bytes(source[:1]) == b"<"):
        return {}

    def read() -> dict[str, list[str]]:
        from ...compiler.frontends.onnx.files.model_file import load_model

        graph = load_model(source).proto.graph
        return {
            port.name: [d.dim_param for d in port.type.tensor_type.shape.dim]
            for port in (*graph.input, *graph.output)
        }

    found = remember_json(source, "names of sizes", read)
    return {port: ["" if n in overrides else n for n in names] for port, names in found.items()}


def _name_of(source: Any) -> str:
    is_path = isinstance(source, str | os.PathLike)
    return str(source) if is_path else f"{len(source)} bytes"


def _require(given: Any, kind: type[Any], name: str) -> Any:
    """Options, or new ones where none are given. TypeError."""
    if given is not None and not isinstance(given, kind):
        expected = f"irc_compiler.compat.onnxruntime.{kind.__name__}()"
        error = UsageError(f"{name} is wrong", got=type(given).__name__, expected=expected)
        raise join_error(error, InvalidArgument, TypeError)
    return kind() if given is None else given


def _require_model(given: Any) -> Any:
    """The source of a session. TypeError, NoSuchFile."""
    if isinstance(given, str | os.PathLike):
        if not os.path.lexists(given):
            error = ModelFormatError(
                "the model's file does not exist", where=repr(os.fspath(given)), expected="a file"
            )
            raise join_error(error, NoSuchFile)
        return given
    if not isinstance(given, bytes | bytearray | memoryview):
        error = UsageError(
            "a session needs a model", got=type(given).__name__, expected="a path, or bytes"
        )
        raise join_error(error, InvalidArgument, TypeError)
    return given


@contextmanager
def _name_unreadable() -> Iterator[None]:
    """A file without any part of a model is an InvalidProtobuf, a model with faults is not."""
    try:
        yield
    except ModelFormatError as error:
        names_file = error.where is not None and ": " not in error.where
        raise (join_error(error, InvalidProtobuf) if names_file else error) from error


def _with_sizes(model: Model, sizes: Mapping[str, int]) -> dict[str, list[int | None]]:
    """Shapes that fix sizes by name, for the inputs that have one of them."""
    fixed: dict[str, list[int | None]] = {}
    seen: set[str] = set()
    for port in model.inputs:
        shape = list(port.shape or ())
        if found := {d for d in shape if isinstance(d, str) and d in sizes}:
            seen |= found
            fixed[port.name] = [d if isinstance(d, int) else sizes.get(d) for d in shape]
    for name in sizes.keys() - seen:
        reason = f"no input has a size {name!r}"
        warn_once(f"SessionOptions.add_free_dimension_override_by_name({name!r})", reason)
    return fixed


def _raise_if_terminated(options: RunOptions | None) -> None:
    """Fail where `terminate` is set: a run goes on to its end, and then returns nothing."""
    if options is not None and options.terminate:
        error = ExecutionError(
            "the run ends because RunOptions.terminate is set", fix="set it to False before a run"
        )
        raise join_error(error, Fail)
