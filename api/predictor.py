"""A model as a function over batches, as Ray Data, Spark and Dask want one.

    dataset.map_batches(irc.Predictor, fn_constructor_args=("model.irc",), ...)  # Ray Data
    predict_batch_udf(lambda: irc.Predictor("model.irc"), ...)                   # Spark
    frame.map_partitions(irc.Predictor("model.irc"), meta=...)                   # Dask

Made on the driver, pickled as its path and options, it loads the model once in each process that
calls it, whatever the number of Predictors, calls and threads there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import numpy as np

from ..compiler.model import PortInfo
from ..ir.dtype import DType
from ..ir.errors import InputError, UsageError
from . import compile_model
from .compiled_model import CompiledModel
from .ports import Outputs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Frame(Protocol):
    """A data frame: pandas', or one with the same methods."""

    @property
    def columns(self) -> Any: ...

    def to_numpy(self) -> Any: ...


F = TypeVar("F", bound=Frame)
_loaded: dict[tuple[str, str], CompiledModel] = {}
_lock = threading.Lock()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()  # a forked child may have copied a locked one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


class Predictor:
    """Calls a model on batches; picklable, and cheap to pickle.

    path: a .irc, .onnx or .xml that every worker can read. options: those of compile_model;
    num_threads is 1 unless given, since such systems run one process per CPU. cast: convert
    columns to the element types that the model wants, where NumPy calls that "same kind" (f64 to
    f32); without it another type is refused.

    A batch is
    - a mapping of arrays by input name; it returns a dict of arrays by output name;
    - a DataFrame: columns named as the inputs (rows of arrays are stacked), or, for a model with
      one input of rank 2, its columns as features. It returns a DataFrame with the same index and
      a column per output, one array per row where an output has more than one axis;
    - one array per input: it returns an array, or a dict where there are several outputs.
    """

    def __init__(self, path: str | os.PathLike[str], *, cast: bool = False, **options: Any) -> None:
        self.path = str(Path(path).absolute())
        self.cast = cast
        self.options: dict[str, Any] = {"num_threads": 1, **options}
        if not Path(self.path).is_file():
            raise UsageError(
                "the model of a Predictor is not there",
                where=self.path,
                expected="a .onnx, .xml or .irc file that every worker can read",
            )

    @property
    def net(self) -> CompiledModel:
        """The model, loaded at the first use in this process."""
        key = (self.path, repr(sorted(self.options.items())))
        found = _loaded.get(key)
        if found is None:
            with _lock:
                found = _loaded.get(key)
                if found is None:
                    found = _loaded[key] = compile_model(self.path, **self.options)
        return found

    @overload
    def __call__(self, batch: Mapping[str, Any], /) -> dict[str, NDArray[Any]]: ...

    @overload
    def __call__(self, batch: F, /) -> F: ...

    @overload
    def __call__(self, *batch: ArrayLike) -> NDArray[Any] | dict[str, NDArray[Any]]: ...

    def __call__(self, *batch: Any) -> object:
        """Run one batch."""
        net = self.net
        if len(batch) == 1 and hasattr(batch[0], "columns"):
            return self._frame(net, batch[0])
        if len(batch) == 1 and isinstance(batch[0], Mapping):
            given: Mapping[str, Any] = batch[0]
            known = {n for p in net.inputs for n in (p.name, *p.names)}
            chosen = {n: v for n, v in given.items() if n in known}  # a batch has other columns
            arrays = {n: self._array(port_of(net, n), v) for n, v in chosen.items()}
            return by_name(net, net(arrays))
        ports = net.inputs
        if len(batch) != len(ports):
            names = ", ".join(p.name for p in ports)
            raise InputError("the number of inputs is wrong", got=len(batch), expected=names)
        outputs = net([self._array(p, a) for p, a in zip(ports, batch, strict=True)])
        return outputs[0] if len(outputs) == 1 else by_name(net, outputs)

    def _frame(self, net: CompiledModel, frame: Any) -> Any:
        ports, columns = net.inputs, list(frame.columns)
        missing = [p.name for p in ports if p.name not in columns]
        if not missing:
            values = {p.name: self._column(p, frame[p.name]) for p in ports}
        elif len(ports) == 1 and ports[0].shape is not None and len(ports[0].shape) == 2:
            values = {ports[0].name: self._array(ports[0], frame.to_numpy())}
        else:
            raise InputError("a column is missing", got=columns, expected=", ".join(missing))
        made: dict[str, Any] = {}
        for name, array in by_name(net, net(values)).items():
            made[name] = array if array.ndim == 1 else list(array)
        return type(frame)(made, index=frame.index)

    def _column(self, port: PortInfo, column: Any) -> Any:
        array = np.asarray(column)
        if array.dtype == object:
            rest = [d if isinstance(d, int) else 1 for d in (port.shape or ())[1:]]
            array = np.stack(list(array)) if len(array) else np.empty((0, *rest), np.float32)
            if not len(array):
                return array.astype(DType(port.dtype).numpy)
        return self._array(port, array)

    def _array(self, port: PortInfo, value: Any) -> Any:
        if not self.cast:
            return value
        wanted, array = DType(port.dtype).numpy, np.asarray(value)
        if array.dtype == wanted or array.dtype.kind not in "biuf":
            return array
        if not np.can_cast(array.dtype, wanted, "same_kind"):
            what = f"input {port.name!r} has an element type that no cast makes right"
            raise InputError(what, got=str(array.dtype), expected=wanted.name)
        return array.astype(wanted)

    def __repr__(self) -> str:
        return f"irc.Predictor({self.path!r})"


def by_name(net: CompiledModel, outputs: Outputs) -> dict[str, NDArray[Any]]:
    """The outputs as a dict; one without a name has its number."""
    names = [p.name or str(n) for n, p in enumerate(net.outputs)]
    return dict(zip(names, outputs, strict=True))


def port_of(net: CompiledModel, name: str) -> PortInfo:
    """The input with that name."""
    return next(p for p in net.inputs if name == p.name or name in p.names)
