"""Quantize a model: calibrate, choose parameters layer by layer, and write what follows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..api import Model, compile_model, read_model, save_model
from ..compiler.model import Source
from ..ir.errors import UnsupportedOperationError, UsageError
from ..ir.graph import Graph
from .accuracy import Evaluation, evaluate, measure_metric
from .calibration import Step
from .graph_form import apply_to_graph
from .layers import Layer, find_layers
from .plan import QuantizationPlan
from .plan_layers import make_plan
from .quantize_options import Metric, QuantizeOptions
from .samples import Data, Samples

if TYPE_CHECKING:
    from onnx import ModelProto

SUFFIXES = (".onnx", ".xml", ".irc")


def quantize(
    model: Model | Source,
    data: Data | None = None,
    *,
    weights: str = "int8",
    group: int = 128,
    algorithm: str = "rtn",
    activations: str | None = None,
    calibrate: str = "minmax",
    smooth: float | None = None,
    keep: Sequence[str] = (),
    metric: Metric | None = None,
    max_drop: float | None = None,
    analyze: bool = False,
    min_samples: int = 8,
    num_threads: int | None = None,
    declared_shapes: Literal["check", "ignore"] = "check",
    max_memory: int | None = None,
    progress: Step | None = None,
) -> QuantizedModel:
    """Quantize a float model.

    model: a path (.onnx, .xml), the bytes of either, an onnx.ModelProto, or a Model (which can be
    saved as IR only). data: calibration batches (see `irc quantize --help`): the path of an .npz
    file or of a folder of them, a list of dictionaries of arrays by input name, or a function that
    returns an iterable of them. Not needed for rounding weights alone.
    weights: "int8"; or "int4" or "nf4", of matrix products only, with a scale for each `group`
    elements. activations: "u8", "i8" or "none"; default u8 with int8 weights, else none.
    The products of the outputs keep int8 weights. algorithm: "rtn" (round to nearest), "awq",
    "gptq" or "awq-gptq", for weights alone. calibrate: how ranges of activations are chosen:
    "minmax", "percentile", "mse" or "entropy". smooth: SmoothQuant's strength, 0 to 1. keep: names
    of layers that stay float.
    metric: a function of a function that runs the model (inputs by name -> outputs); returns a
    number, the larger the better. max_drop: by how much it may fall; the layers with the largest
    errors stay float until it holds. analyze: measure each layer's error and time as well.
    declared_shapes, max_memory: as of read_model.
    progress: is called with the stage, how many of its pieces are done, and of how many (0:
    unknown).
    Raises an irc.Error before the long work where options or the first batch are wrong.
    """
    options = QuantizeOptions(
        weights, group, algorithm, activations, calibrate, smooth, tuple(keep), metric, max_drop,
        min_samples, num_threads,
    )  # fmt: skip
    step = progress or _ignore_step
    source = _Source.read(model, declared_shapes, max_memory)
    graph = source.model.graph
    layers = _choose_layers(graph, options)
    samples = _make_samples(data, source.model, options)
    baseline = None if metric is None else _first_metric(source.model, options, metric)
    plan = make_plan(graph, layers, samples, options, step)
    result = QuantizedModel(source, layers, plan)
    if analyze or max_drop is not None or metric is not None:
        result.evaluation = evaluate(
            graph, layers, plan, samples, options, baseline, step, analyze=analyze
        )
        result.plan = result.evaluation.plan
    return result


def _ignore_step(stage: str, done: int, total: int) -> None:
    """No progress is shown."""


@dataclass
class _Source:
    """A model as irc reads it and, of an ONNX source, the prepared proto that it was read from."""

    model: Model
    proto: ModelProto | None

    @classmethod
    def read(
        cls,
        model: Model | Source,
        declared_shapes: Literal["check", "ignore"],
        max_memory: int | None,
    ) -> _Source:
        if isinstance(model, Model):
            return cls(model, None)
        if isinstance(model, str | os.PathLike) and Path(model).suffix.lower() == ".irc":
            raise UsageError(
                "a compiled model cannot be quantized", got=os.fspath(model),
                expected="the .onnx or .xml file that it was compiled from",
            )  # fmt: skip
        read = partial(read_model, declared_shapes=declared_shapes, max_memory=max_memory)
        loaded = read(model, progress=False)
        if _is_xml(model):
            return cls(loaded, None)
        from .onnx_source import load_source, prepare_source

        proto = load_source(model)
        prepare_source(proto)
        return cls(read(proto, progress=False), proto)


def _is_xml(source: Source) -> bool:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source[:256]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    return isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".xml"


@dataclass
class QuantizedModel:
    """The result: which layers are quantized, and the model in every format that can hold it."""

    _source: _Source
    layers: list[Layer]
    plan: QuantizationPlan
    evaluation: Evaluation | None = None

    @property
    def model(self) -> Model:
        """The quantized model, to compile or to save as IR."""
        return Model(apply_to_graph(self._source.model.graph, self.layers, self.plan))

    @property
    def quantized_layers(self) -> list[str]:
        """Names of the quantized layers, in execution order."""
        return [layer.name for layer in self.layers if layer.name in self.plan.layers]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write .onnx (QuantizeLinear, DequantizeLinear), .xml (FakeQuantize, compressed constants)
        or .irc, whole or not at all."""
        suffix = check_suffix(path)
        if suffix == ".xml":
            save_model(self.model, path, progress=False)
        elif suffix == ".irc":
            compile_model(self.model, progress=False).export(path)
        else:
            from .onnx_form import write_onnx

            write_onnx(self.to_onnx(), path)

    def to_onnx(self) -> ModelProto:
        """The quantized model as an onnx.ModelProto, of a model that came as ONNX."""
        from .onnx_form import apply_to_onnx

        if self._source.proto is None:
            raise UnsupportedOperationError(
                "only a model that was read from ONNX can be written as quantized ONNX",
                expected="an .onnx file, its bytes or an onnx.ModelProto",
                fix="save it as .xml",
            )
        graph = self._source.model.graph
        made, left = apply_to_onnx(self._source.proto, graph, self.layers, self.plan)
        if left:
            raise UnsupportedOperationError(
                "layers have no node of their own in the ONNX model",
                got=", ".join(left[:5]),
                fix="keep them in float (--keep), or save the model as .xml",
            )
        return made


def check_suffix(path: str | os.PathLike[str]) -> str:
    """The ending of an output's name. UsageError for one that no format has."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            "the output's name has the wrong ending",
            got=os.fspath(path),
            expected=" or ".join(SUFFIXES),
        )
    return suffix


def _choose_layers(graph: Graph, options: QuantizeOptions) -> list[Layer]:
    """The layers to quantize: those that can be, but for the ones to keep."""
    found = find_layers(graph)
    if options.activation_dtype is None:
        found = [layer for layer in found if layer.is_matrix_product]
    names = {layer.name for layer in found}
    unknown = [name for name in options.keep if name not in names]
    if unknown:
        raise UsageError(
            "no layer that can be quantized has this name",
            got=", ".join(unknown),
            expected=", ".join(sorted(names)[:20]) or "no layer can be quantized",
        )
    chosen = [layer for layer in found if layer.name not in options.keep]
    if not chosen:
        what = "matrix product" if options.activation_dtype is None else "layer"
        raise UnsupportedOperationError(
            f"the model has no {what} that can be quantized",
            got=f"{len(found)} candidates, {len(options.keep)} kept",
            expected="MatMul, Gemm or convolution in float32 with a constant weight",
            fix="layers in branches and loops, and recurrent ones, stay float: 8 bits do not help",
        )
    return chosen


def _make_samples(data: Data | None, model: Model, options: QuantizeOptions) -> Samples | None:
    """The calibration data, whose first batch is checked; None where none are given or needed."""
    if data is None:
        needed = options.activation_dtype is not None or options.algorithm != "rtn"
        if needed or options.max_drop is not None:
            raise UsageError(
                "calibration data are missing", got="none",
                expected="data= (--data): an .npz file, a folder, a list or a function",
            )  # fmt: skip
        return None
    samples = Samples(data, model.inputs, options.min_samples)
    samples.first()
    return samples


def _first_metric(model: Model, options: QuantizeOptions, metric: Metric) -> float:
    """The float model's metric: a metric that fails does so before the long work."""
    with compile_model(model, num_threads=options.num_threads, progress=False) as net:
        return measure_metric(metric, net)
