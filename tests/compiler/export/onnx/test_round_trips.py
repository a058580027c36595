"""Models to ONNX and back: onnxruntime computes from what irc wrote what it computed before.

REFUSED lists what has no form in ONNX's operators; each is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import openvino as ov
import pytest
from irc_compiler.compiler.export.onnx.model_writer import to_onnx_model
from irc_compiler.compiler.export.xml import write_xml
from irc_compiler.compiler.frontends.onnx.reader import read_onnx
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.dims import bounds
from irc_compiler.ir.errors import Error, UnsupportedOperationError
from irc_compiler.ir.graph import Graph
from irc_compiler.ir.interpret import interpret
from support.frontends.ir_text import DATA
from support.frontends.onnx_cases import as_array, same
from support.frontends.onnx_cases import node_cases as backend_cases
from support.models import convnets, families
from support.models.encoders import bert_inputs
from support.models.exact_int8 import create_session
from support.models.oracles import random_inputs, run_onnxruntime
from support.openvino_operations import k, model_of
from support.opset_models import node_cases

ROOT = Path(__file__).resolve().parents[4]
FILES = [
    *sorted(DATA.glob("*.onnx")),
    *sorted((ROOT / "tests" / "support" / "models").glob("encoder_*.onnx")),
    ROOT / "samples" / "digits" / "digits.onnx",
]
BUILT: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet": convnets.resnet,
    "mobilenet": convnets.mobilenet,
    "excited": convnets.excited,
    "inception": convnets.inception,
    "gpt2": families.gpt2,
    "vit": families.vit,
    "yolo": families.yolo,
    **{kind: lambda kind=kind: families.recurrent(kind) for kind in ("LSTM", "GRU", "RNN")},
}
# OpenVINO's operations of node_cases that ONNX's operators do not compute.
REFUSED = """
    prior_box prior_box_fixed prior_box_clustered detection_output detection_output_1 proposal
    generate_proposals psroi_pooling deformable_psroi_pooling roi_align_rotated matrix_nms
    multiclass_nms nms_rotated segment_max gather_tree ctc_greedy_decoder
    ctc_greedy_decoder_seq_len ctc_loss istft inverse
""".split()
# Those whose decomposition needs fixed sizes.
REFUSED_IF_DYNAMIC = """
    region_yolo reorg_yolo embedding_bag_packed extract_image_patches deformable_convolution
    search_sorted slice_scatter
""".split()

# Node cases of ONNX's backend tests that are refused: a signal_size or an axis is not constant, or
# a window begins in the padding before operator set 22.
UNWRITTEN = {"test_dft_irfft", "test_maxpool_2d_ceil_output_size_reduce_by_one"}
# Random values; casts to float8 that lose the sign of NaN and of zero; a second output of attention
# whose masked scores are -infinity on one side only; types that onnxruntime has no kernel for.
UNEQUAL = {
    *(f"test_bernoulli{kind}{form}" for kind in ("", "_double", "_seed")
      for form in ("", "_expanded")),
    *(f"test_cast_no_saturate_{kind}_to_FLOAT8E4M3FN" for kind in ("FLOAT", "FLOAT16")),
    *(f"test_attention_4d_with_past_and_present_qk_matmul_bias_{rank}_mask_causal"
      for rank in ("3d", "4d")),
    "test_onehot_without_axis",
}  # fmt: skip


def compare(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape
        scale = max(1.0, float(np.abs(value).max(initial=0))) if value.dtype.kind == "f" else 1
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4 * scale)


def go_round(model: onnx.ModelProto, inputs: dict[str, Any], folder: Path) -> None:
    """ONNX to IR to ONNX, and ONNX to ONNX."""
    wanted = run_onnxruntime(model, inputs)
    graph = read_onnx(model)
    compare(run_onnxruntime(to_onnx_model(graph), inputs), wanted)
    write_xml(graph, folder / "m.xml")
    again = to_onnx_model(read_xml(folder / "m.xml"))
    compare(run_onnxruntime(again, inputs), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files(path: Path, tmp_path: Path) -> None:
    model = onnx.load(path)
    symbols = {d.dim_param for p in model.graph.input for d in p.type.tensor_type.shape.dim}
    if "encoder" in path.stem:
        inputs = dict(bert_inputs(2, 5, 50))
    else:
        inputs = dict(random_inputs(model, **dict.fromkeys(symbols - {""}, 3)))
    go_round(model, inputs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_models_of_families(name: str, tmp_path: Path) -> None:
    model = BUILT[name]()
    symbols = {d.dim_param for p in model.graph.input for d in p.type.tensor_type.shape.dim}
    go_round(model, dict(random_inputs(model, **dict.fromkeys(symbols - {""}, 3))), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "tests/support/models/sklearn").glob("*.onnx")),
    ids=lambda path: path.stem,
)
def test_classical_models(path: Path) -> None:
    """Trees, scalers, linear models and their maps of scikit-learn, by way of irc's graph."""
    graph = read_onnx(path)
    if path.stem.startswith("svc"):
        with pytest.raises(UnsupportedOperationError, match="SupportVotes cannot be written"):
            to_onnx_model(graph)
        return
    model = onnx.load(path)
    port = model.graph.input[0]
    width = port.type.tensor_type.shape.dim[1].dim_value
    x = np.random.default_rng(0).standard_normal((7, width)).astype(np.float32)
    wanted = create_session(model).run(None, {port.name: x})
    found = create_session(to_onnx_model(graph)).run(None, {port.name: x})
    for ours, theirs in zip(found, wanted, strict=True):
        if isinstance(theirs, list):  # maps
            ours, theirs = ([list(row.values()) for row in rows] for rows in (ours, theirs))
        if np.asarray(theirs).dtype == object:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def irs() -> list[Path]:
    """All that there are but the one with nf4, see below."""
    kept = [path for path in sorted(DATA.glob("*.xml")) if path.stem != "consts"]
    return [*kept, *sorted((ROOT / "samples").glob("**/*.xml"))]


@pytest.mark.parametrize("path", irs(), ids=lambda path: path.stem)
def test_sample_irs(path: Path) -> None:
    graph = read_xml(path)
    proto = to_onnx_model(graph)
    sizes = {name: max(2, low) for name, low in _least_sizes(graph).items()}
    inputs = random_inputs(proto, **dict.fromkeys(_symbols(proto), 2) | sizes)
    found = run_onnxruntime(proto, inputs)
    wanted = interpret(graph, list(inputs.values()))
    compare(found, dict(zip(found, map(np.asarray, wanted), strict=True)))


def test_a_selection_of_booleans_runs_in_onnxruntime() -> None:
    """A causal mask of GPT-2's export is one: onnxruntime has no Where for booleans."""
    x = irc.ops.parameter("x", [3, 4])
    model = irc.ops.model(
        {"y": irc.ops.where(irc.ops.greater(x, 0.0), irc.ops.equal(x, 1.0), irc.ops.less(x, -1.0))}
    )
    values = np.array([[1, 2, -1, -2]] * 3, np.float32)
    found = run_onnxruntime(to_onnx_model(model.graph), {"x": values})
    np.testing.assert_array_equal(found["y"], [[True, False, False, True]] * 3)


def _least_sizes(graph: Graph) -> dict[str, int]:
    """The declared minimum of each symbolic size, which ONNX cannot express."""
    shapes = [graph.node(p).types[0].shape or () for p in graph.parameters]
    return {str(d): bounds(d)[0] or 0 for s in shapes for d in s if not isinstance(d, int)}


def _symbols(proto: onnx.ModelProto) -> set[str]:
    return {d.dim_param for p in proto.graph.input for d in p.type.tensor_type.shape.dim} - {""}


def test_an_element_type_that_onnx_lacks_is_named() -> None:
    with pytest.raises(UnsupportedOperationError, match="ONNX has no element type nf4"):
        to_onnx_model(read_xml(DATA / "consts.xml"))


def _operation(name: str, folder: Path, *, dynamic: bool) -> tuple[Graph, list[Any]]:
    build, inputs = node_cases(np.float32)[name]
    ov.serialize(model_of(build, inputs, dynamic=dynamic), folder / "m.xml")
    return read_xml(folder / "m.xml"), [x for x in inputs if not isinstance(x, k)]


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("name", node_cases(np.float32))
def test_operations_of_openvino(name: str, dynamic: bool, tmp_path: Path) -> None:
    graph, given = _operation(name, tmp_path, dynamic=dynamic)
    if name in REFUSED or (dynamic and name in REFUSED_IF_DYNAMIC):
        with pytest.raises(UnsupportedOperationError, match="cannot be written as ONNX"):
            to_onnx_model(graph)
        return
    proto = to_onnx_model(graph)
    found = run_onnxruntime(
        proto, dict(zip((p.name for p in proto.graph.input), given, strict=True))
    )
    wanted = interpret(graph, given)
    compare(found, dict(zip(found, map(np.asarray, wanted), strict=True)))


def _run(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    return create_session(proto).run(None, feeds)


def _write(graph: Graph) -> onnx.ModelProto:
    """Of operator set 21, or of the newest where an operator or a type is younger."""
    try:
        return to_onnx_model(graph)
    except UnsupportedOperationError as error:
        if "or later" not in str(error.expected):
            raise
        return to_onnx_model(graph, opset=onnx.defs.onnx_opset_version())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_cases_of_the_onnx_backend(part: int) -> None:
    """Every node case that irc reads and onnxruntime runs: onnxruntime computes the same from what
    irc wrote, but for UNWRITTEN (refused) and UNEQUAL."""
    failed: list[str] = []
    for case in backend_cases()[part::8]:
        try:
            graph = read_onnx(case.model)
        except Error:
            continue
        for inputs, _ in case.data_sets:
            ports = case.model.graph.input
            feeds = {p.name: as_array(v) for p, v in zip(ports, inputs, strict=False)}
            try:
                wanted = _run(case.model, feeds)
            except Exception:  # onnxruntime does not have everything
                continue
            try:
                for ours, theirs in zip(_run(_write(graph), feeds), wanted, strict=True):
                    same(ours, theirs, max(case.rtol, 1e-3), max(case.atol, 1e-4))
            except Exception as error:
                if case.name not in UNWRITTEN | UNEQUAL:
                    failed.append(f"{case.name}: {type(error).__name__}: {str(error)[:200]}")
                continue
            if case.name in UNWRITTEN:
                failed.append(f"{case.name} is written")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("stem", ["if", "loop", "scan"])
def test_control_flow_is_written(stem: str, tmp_path: Path) -> None:
    model = onnx.load(DATA / f"{stem}.onnx")
    inputs = random_inputs(model, **dict.fromkeys(_symbols(model), 3))
    go_round(model, dict(inputs), tmp_path)
