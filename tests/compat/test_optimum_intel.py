"""optimum-intel's class compiles with irc what it would compile with OpenVINO."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino
import pytest
from irc_compiler.compat import openvino as stand_in
from support.models.tiny_decoder import decoder_model

TOKENS = [[3, 1, 4], [9, 2, 6]]


class _Base:
    """What the class of optimum-intel has before it compiles."""

    def __init__(self, model: Any, ov_config: Any = None) -> None:
        self.model, self._device, self.ov_config, self.request = model, "cpu", ov_config, None


@pytest.fixture
def model_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    optimum, intel = ModuleType("optimum"), ModuleType("optimum.intel")
    intel.OVModelForCausalLM = _Base  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "optimum", optimum)
    monkeypatch.setitem(sys.modules, "optimum.intel", intel)
    name = "irc_compiler.compat.optimum_intel"
    yield importlib.import_module(name).OVModelForCausalLM
    sys.modules.pop(name)


def run(request: Any) -> np.ndarray[Any, Any]:
    """Two runs as optimum-intel makes them: the rows change places in between."""
    found = []
    for step, order in enumerate(([0, 1], [1, 0])):
        inputs = {
            "input_ids": np.array(TOKENS, np.int64),
            "attention_mask": np.ones((2, 3 * (step + 1)), np.int64),
            "position_ids": np.arange(3 * step, 3 * step + 3)[None].repeat(2, 0),
            "beam_idx": np.array(order, np.int32),
        }
        request.start_async(inputs, share_inputs=True)
        request.wait()
        found.append(np.array(request.get_tensor("logits").data))
    return np.concatenate(found, axis=1)


@pytest.mark.slow
def test_a_model_of_openvino_runs_on_irc(model_class: Any, tmp_path: Any) -> None:
    irc.save_model(decoder_model(), tmp_path / "model.xml")
    real = openvino.Core().read_model(tmp_path / "model.xml")
    made = model_class(real, {"INFERENCE_NUM_THREADS": "1"})
    made.compile()
    request = made.request
    assert isinstance(request, stand_in.InferRequest)
    made.compile()
    assert made.request is request, "a compiled model is compiled once"
    read = stand_in.Core().read_model(tmp_path / "model.xml")
    wanted = run(stand_in.Core().compile_model(read, "CPU").create_infer_request())
    found = run(request)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert np.abs(wanted).max() > 1
    request.reset_state()
    np.testing.assert_array_equal(run(request), found)
