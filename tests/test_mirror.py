"""tests/ mirrors the package: where the test of each module is.

A module of more than 40 lines, say compiler/passes/fuse/gelu.py, has tests/compiler/passes/fuse/
test_gelu.py, or the table below names the file that tests it together with others. A kernel family
has one stem: tests/runtime/kernels/FOLDER/test_STEM.py is also the test of plan/specs/STEM.py and
compiler/lowering/ops/FOLDER/STEM.py.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest
from support.packages import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
LINES = 40
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if path.name != "__init__.py"
    and not path.name.endswith("_pb2.py")  # generated
    and len(path.read_text("utf-8").splitlines()) > LINES
)

ONNX = "compiler/frontends/onnx"
XML = "compiler/frontends/xml"
KERNELS = "runtime/kernels"
# Modules (patterns, the first that matches counts) -> the file in tests/ that tests them.
TESTED_IN = {
    "ir/row_codes.py": "runtime/kernels/rows/test_row_codes.py",
    "ir/extensions.py": "api/test_extensions.py",
    "api/ports.py": "api/test_compiled_model.py",
    "api/progress.py": "cli/test_speech.py",
    "builder/tensor.py": "builder/test_functions.py",
    "cli/commands/chat.py": "cli/commands/test_generate.py",
    "llm/language_model.py": "llm/test_llm.py",
    "llm/model_reader.py": "llm/test_llm.py",
    "llm/batching/generation_task.py": "llm/batching/test_engine.py",
    "llm/result.py": "llm/test_llm.py",
    "llm/generation.py": "llm/test_llm.py",
    "cli/drawing/*.py": "cli/drawing/test_page.py",
    "cli/commands/graph.py": "cli/drawing/test_page.py",
    "cli/arguments.py": "cli/test_limits.py",
    "cli/commands/compare.py": "cli/test_layers.py",
    "cli/logging.py": "cli/test_speech.py",
    "cli/reference_engines.py": "cli/commands/test_bench.py",
    "cli/commands/serve/*.py": "serve/test_server.py",
    "cli/commands/doctor.py": "cli/test_measuring.py",
    "cli/commands/cache.py": "cli/test_measuring.py",
    "cli/commands/profile.py": "cli/test_measuring.py",
    "cli/*.py": "cli/test_cli.py",
    "compat/nearest.py": "compat/test_onnxruntime_settings.py",
    "compat/onnxruntime/settings.py": "compat/test_onnxruntime_settings.py",
    "compat/onnxruntime/*.py": "compat/test_onnxruntime_values.py",
    "compat/openvino/*.py": "compat/test_openvino_surface.py",
    "compat/openvino_genai/*.py": "compat/openvino_genai/test_pipeline.py",
    "compiler/compressed_weights.py": "compiler/lowering/ops/test_weight_only_quant.py",
    "compiler/decompositions/quantized.py": "compiler/export/test_decompose.py",
    "compiler/export/expand_attention.py": "compiler/export/test_decompose.py",
    "compiler/export/scalar_programs.py": "compiler/export/test_decompose.py",
    "compiler/export/onnx/ops/*.py": "compiler/export/onnx/test_round_trips.py",
    "compiler/export/onnx/*.py": "compiler/export/onnx/test_model_writer.py",
    "compiler/export/*.py": "compiler/export/test_xml.py",
    f"{ONNX}/graph_io.py": f"{ONNX}/test_functions.py",
    f"{ONNX}/import*.py": f"{ONNX}/test_functions.py",
    f"{ONNX}/body.py": f"{ONNX}/test_functions.py",
    f"{ONNX}/names.py": f"{ONNX}/test_functions.py",
    f"{ONNX}/scopes.py": f"{ONNX}/test_functions.py",
    f"{ONNX}/order.py": f"{ONNX}/test_functions.py",
    f"{ONNX}/files/initializers.py": f"{ONNX}/files/test_external_data.py",
    f"{ONNX}/files/model_file.py": f"{ONNX}/files/test_external_data.py",
    f"{ONNX}/files/wire.py": f"{ONNX}/files/test_content.py",
    f"{ONNX}/files/zero_copy_weights.py": f"{ONNX}/test_reader.py",
    f"{ONNX}/ops/ai_onnx_ml/scores.py": f"{ONNX}/ops/ai_onnx_ml/test_trees.py",
    f"{ONNX}/ops/ai_onnx_ml/*.py": f"{ONNX}/ops/ai_onnx_ml/test_ml_models.py",
    f"{ONNX}/ops/com_microsoft/*.py": f"{ONNX}/ops/com_microsoft/test_elementary.py",
    f"{ONNX}/ops/control_flow/sequences.py": f"{ONNX}/ops/test_sequences.py",
    f"{ONNX}/ops/control_flow/*.py": "models/test_control_flow.py",
    f"{ONNX}/ops/*.py": f"{ONNX}/test_backend_nodes.py",
    f"{ONNX}/*.py": f"{ONNX}/test_bad_input.py",
    f"{XML}/source.py": f"{XML}/test_file_parts.py",
    f"{XML}/subbyte.py": f"{XML}/test_weights.py",
    f"{XML}/v10_io.py": f"{XML}/test_names.py",
    f"{XML}/order.py": f"{XML}/test_reader.py",
    f"{XML}/*.py": f"{XML}/test_bad_input.py",
    "compiler/inspect/expose_tensors.py": "cli/test_layers.py",
    "compiler/inspect/*.py": "cli/test_cli.py",
    "compiler/metadata.py": "api/test_metadata.py",
    "compiler/user_extensions.py": "api/test_extensions.py",
    "compiler/legality.py": "compiler/passes/quantize/test_recognize_qdq.py",
    "runtime/kernels/gemm/bf16x3/f32_*.py": "runtime/kernels/gemm/test_f32_amx.py",
    "runtime/kernels/gemm/bf16x3/*.py": "runtime/kernels/gemm/test_bf16x3.py",
    "runtime/kernels/gemm/int8_amx/*.py": "runtime/kernels/gemm/test_int8_amx.py",
    "compiler/lowering/build/gemm_axes.py": "compiler/lowering/ops/test_matmul.py",
    "compiler/lowering/build/runtime_checks.py": "compiler/lowering/test_runtime_checks.py",
    "compiler/lowering/build/loop_in_place.py": "models/test_listed_loops.py",
    "compiler/lowering/build/output_placement.py": (
        "compiler/lowering/build/test_concat_in_place.py"
    ),
    "compiler/lowering/build/*.py": "compiler/lowering/test_lower.py",
    "compiler/lowering/control/*.py": "models/test_control_flow.py",
    "compiler/lowering/op_table.py": "compiler/lowering/test_lower.py",
    "compiler/lowering/ops/attention.py": "models/test_attention.py",
    "compiler/lowering/ops/deconvolution.py": "compiler/lowering/ops/test_convolution.py",
    "compiler/lowering/ops/spatial/pooling.py": "compiler/lowering/ops/test_convolution.py",
    "compiler/lowering/ops/depth_to_space.py": "compiler/lowering/ops/test_resample.py",
    "compiler/lowering/ops/indexing/gather_scatter_topk.py": "models/test_picks.py",
    "compiler/lowering/ops/group_norm.py": "models/test_group_norms.py",
    "compiler/lowering/ops/recurrent_step.py": "compiler/lowering/ops/test_recurrent.py",
    "compiler/lowering/ops/*.py": "compiler/lowering/test_lower.py",
    "compiler/lowering/schedule/*.py": "compiler/lowering/test_plans.py",
    "compiler/model.py": "api/test_errors.py",
    "compiler/options.py": "api/test_bad_arguments.py",
    "compiler/report.py": "cli/test_names.py",
    "compiler/passes/attention/*.py": "compiler/passes/attention/test_match_scores.py",
    "compiler/passes/canonicalize/*.py": "compiler/passes/canonicalize/test_fold_constants.py",
    "compiler/passes/decompose/grid_sample.py": "compiler/lowering/test_decomposed_ops.py",
    "compiler/passes/decompose/maxpool_indices.py": "compiler/lowering/test_decomposed_ops.py",
    "compiler/passes/decompose/*.py": "models/test_recurrent_cells.py",
    "compiler/passes/layout/*.py": "compiler/passes/layout/test_fold_transposes.py",
    "compiler/passes/match/*.py": "compiler/passes/fuse/test_gelu.py",
    "compiler/passes/quantize/*.py": "compiler/passes/quantize/test_recognize_qdq.py",
    "compiler/passes/raise_loops/*.py": "models/test_listed_loops.py",
    "compiler/rewrite/subgraphs.py": "compiler/passes/canonicalize/test_simplify_subgraphs.py",
    "compiler/rewrite/*.py": "compiler/test_pipeline.py",
    "compiler/shape_analysis/infeasible_branches.py": (
        "compiler/passes/canonicalize/test_prune_infeasible_branches.py"
    ),
    "compiler/shape_analysis/*.py": "api/test_sizes.py",
    "ir/dims/constraints.py": "compiler/lowering/test_runtime_checks.py",
    "ir/dims/*.py": "ir/dims/test_properties.py",
    "ir/errors.py": "api/test_errors.py",
    "ir/escape.py": "cli/test_console.py",
    "ir/input_check.py": "api/test_compiled_model.py",
    "ir/interpret.py": "interop/test_onnx_backend_cases.py",
    "ir/limits/interruptible.py": "api/test_interrupted_calls.py",
    "ir/limits/string_moves.py": "api/test_interrupted_calls.py",
    "ir/limits/*.py": "reliability/test_memory_limit.py",
    "ir/op.py": "ir/ops/test_ops_lookup.py",
    "ir/ops/control_flow/sequences.py": f"{ONNX}/ops/test_sequences.py",
    "ir/ops/control_flow/optionals.py": f"{ONNX}/ops/test_sequences.py",
    "ir/ops/control_flow/variables.py": "api/test_infer_request.py",
    "ir/ops/control_flow/onnx_node.py": f"{ONNX}/ops/test_reference.py",
    "ir/ops/control_flow/*.py": "ir/ops/test_control_flow.py",
    "ir/ops/math/random_values.py": f"{ONNX}/ops/test_random_values.py",
    "ir/random_seed.py": f"{ONNX}/ops/test_random_values.py",
    "ir/ops/ml/*.py": f"{ONNX}/ops/ai_onnx_ml/test_ml_models.py",
    "ir/ops/quantization/*.py": "ir/ops/test_quantization.py",
    "ir/ops/*.py": "ir/ops/test_against_openvino.py",
    "ir/provenance.py": "api/test_memory.py",
    "ir/scalar/*.py": f"{KERNELS}/emit/test_scalar_program.py",
    "ir/text/value_text.py": "ir/text/test_graph_text.py",
    "plan/packing/*.py": f"{KERNELS}/gemm/packing/test_weight_packing.py",
    "plan/plan.py": "plan/verify/test_plan.py",
    "plan/processors.py": f"{KERNELS}/test_processors.py",
    "quantization/html_report.py": "quantization/test_accuracy.py",
    "quantization/timing.py": "quantization/test_accuracy.py",
    "quantization/gptq.py": "quantization/test_weight_only.py",
    "quantization/input_scales.py": "quantization/test_weight_only.py",
    "quantization/weights.py": "quantization/test_weight_only.py",
    "quantization/onnx_*.py": "quantization/test_onnx_form.py",
    "quantization/layers.py": "quantization/test_onnx_form.py",
    "quantization/*.py": "quantization/test_post_training.py",
    "plan/serialization.py": "runtime/artifact/test_artifact_forged.py",
    "plan/text.py": "compiler/lowering/test_plans.py",
    "plan/specs/attention.py": f"{KERNELS}/attention/test_block.py",
    "plan/specs/convolution.py": f"{KERNELS}/conv/test_direct.py",
    "plan/specs/gather_scatter.py": f"{KERNELS}/indexing/test_gather_scatter_nd.py",
    "plan/specs/scan_topk.py": f"{KERNELS}/indexing/test_gather_scatter_nd.py",
    "plan/specs/gemm.py": f"{KERNELS}/gemm/test_kernel.py",
    "plan/specs/pooling.py": f"{KERNELS}/spatial/test_pool.py",
    "plan/specs/recurrent.py": f"{KERNELS}/recurrent/test_kernel.py",
    "plan/specs/rows.py": f"{KERNELS}/rows/test_reduce.py",
    "plan/specs/*.py": "plan/verify/test_plan.py",
    "plan/verify/written_*.py": "runtime/execution/test_written_coverage.py",
    "plan/verify/variables.py": "api/test_infer_request.py",
    "plan/verify/runtime_checks.py": "compiler/lowering/test_runtime_checks.py",
    "plan/verify/*.py": "plan/verify/test_plan.py",
    "llm/template_sandbox.py": "llm/test_chat_template.py",
    "llm/architectures/*.py": "llm/architectures/test_build_decoder.py",
    "llm/formats/gguf_tokenizer.py": "llm/test_tokenizer.py",
    "llm/formats/gguf*.py": "llm/formats/test_gguf_file.py",
    "llm/formats/*.py": "llm/formats/test_folders.py",
    "runtime/artifact/*.py": "runtime/artifact/test_reader.py",
    "runtime/driver/codegen_control.py": "models/test_control_flow.py",
    "runtime/driver/loop_tables.py": "models/test_control_flow.py",
    "runtime/driver/codegen_polling.py": "runtime/driver/test_signal_polling.py",
    "runtime/driver/*.py": "runtime/driver/test_codegen_run.py",
    "runtime/execution/bound_call.py": "api/test_compiled_model.py",
    "runtime/execution/fused_tensor_sizes.py": "reliability/test_memory_limit.py",
    "runtime/execution/profile.py": "cli/test_measuring.py",
    "runtime/execution/variables.py": "api/test_infer_request.py",
    "runtime/execution/input_check.py": "runtime/execution/test_array_interop.py",
    "runtime/execution/*.py": "runtime/execution/test_session.py",
    "runtime/jit/fork_guard.py": "api/test_forked_calls.py",
    "runtime/jit/llvm*.py": "runtime/llvmir/test_builder.py",
    "runtime/jit/*.py": "runtime/jit/test_code_image.py",
    f"{KERNELS}/kernel_table.py": f"{KERNELS}/test_processors.py",
    f"{KERNELS}/attention/*.py": f"{KERNELS}/attention/test_block.py",
    f"{KERNELS}/conv/winograd*.py": f"{KERNELS}/conv/test_winograd_guard.py",
    f"{KERNELS}/conv/amx*.py": f"{KERNELS}/conv/test_im2col_amx.py",
    f"{KERNELS}/conv/*.py": f"{KERNELS}/conv/test_direct.py",
    f"{KERNELS}/elementwise/transpose.py": f"{KERNELS}/elementwise/test_kernel.py",
    f"{KERNELS}/emit/amx_registers.py": f"{KERNELS}/gemm/test_amx.py",
    f"{KERNELS}/emit/amx_groups.py": f"{KERNELS}/gemm/test_int8_amx.py",
    f"{KERNELS}/emit/dot_units.py": f"{KERNELS}/gemm/test_int8.py",
    f"{KERNELS}/emit/byte_dots.py": f"{KERNELS}/gemm/test_int8_micro_kernel.py",
    f"{KERNELS}/emit/register_tile.py": f"{KERNELS}/gemm/test_kernel.py",
    f"{KERNELS}/emit/casts.py": "runtime/llvmir/test_half_conversions.py",
    f"{KERNELS}/emit/*.py": f"{KERNELS}/elementwise/test_kernel.py",
    f"{KERNELS}/gemm/packing/dequant_panels.py": f"{KERNELS}/gemm/packing/test_dequant.py",
    f"{KERNELS}/gemm/packing/quantize_rows.py": f"{KERNELS}/gemm/test_int8_micro_kernel.py",
    f"{KERNELS}/gemm/amx_tiling.py": f"{KERNELS}/gemm/test_amx.py",
    f"{KERNELS}/gemm/operand_packing.py": f"{KERNELS}/gemm/test_tiling.py",
    f"{KERNELS}/gemm/epilogue_overlap.py": f"{KERNELS}/gemm/test_amx.py",
    f"{KERNELS}/gemm/zero_point_*.py": f"{KERNELS}/gemm/test_int8.py",
    f"{KERNELS}/gemm/bf16_rounding.py": f"{KERNELS}/gemm/test_bf16.py",
    f"{KERNELS}/gemm/loops/m_partition.py": f"{KERNELS}/gemm/loops/test_work_partition.py",
    f"{KERNELS}/gemm/*.py": f"{KERNELS}/gemm/test_kernel.py",
    f"{KERNELS}/indexing/chains.py": f"{KERNELS}/indexing/test_topk.py",
    f"{KERNELS}/recurrent/state_products.py": f"{KERNELS}/recurrent/test_kernel.py",
    f"{KERNELS}/rows/row_sweeps.py": f"{KERNELS}/rows/test_softmax.py",
    f"{KERNELS}/spatial/*.py": f"{KERNELS}/spatial/test_resample.py",
    "runtime/llvmir/*.py": "runtime/llvmir/test_builder.py",
    "runtime/machine/platforms/platform_interface.py": ("runtime/machine/platforms/test_linux.py"),
    "runtime/machine/detect.py": "runtime/jit/test_host_features.py",
    "runtime/machine/roofline.py": "benchmarks/test_bars.py",
    "runtime/vecmath/*.py": "runtime/vecmath/test_functions.py",
    "serve/model_config.py": "serve/test_repository.py",
    "serve/statistics.py": "serve/test_metrics.py",
    "serve/logs.py": "serve/test_server.py",
    "serve/settings.py": "serve/test_batch_equality.py",
    "serve/rest/connection.py": "serve/hostile/test_connections.py",
    "serve/rest/*.py": "serve/rest/test_app.py",
    "serve/openai/*.py": "serve/openai/test_endpoints.py",
    "serve/rpc/*.py": "serve/rpc/test_service.py",
    "serve/*.py": "serve/test_inference.py",
}


def pattern_of(module: str) -> str | None:
    """The pattern of the table for a module without a file of its own. None: it has one."""
    folder, _, name = module.rpartition("/")
    if (ROOT / "tests" / folder / f"test_{name}").exists():
        return None
    is_family = folder.startswith(("plan/specs", "compiler/lowering/ops"))
    if is_family and any((ROOT / "tests" / KERNELS).rglob(f"test_{name}")):
        return None
    return next((p for p in TESTED_IN if fnmatch(module, p)), "")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_its_test_file(module: str) -> None:
    assert pattern_of(module) != "", (
        f"add tests/{module.rpartition('/')[0]}/test_{Path(module).name}, or name the file that "
        f"tests {module} in TESTED_IN"
    )


def test_the_table_names_files_that_exist_and_modules_that_need_it() -> None:
    missing = {path for path in TESTED_IN.values() if not (ROOT / "tests" / path).is_file()}
    assert not missing
    assert set(TESTED_IN) == {p for m in MODULES if (p := pattern_of(m))}
