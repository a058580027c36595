"""optimum-intel's OVModelForCausalLM on irc: change the import, and `generate` runs on irc.

    from irc_compiler.compat.optimum_intel import OVModelForCausalLM

optimum-intel reads, exports and saves models as before, by OpenVINO; what it would compile with
OpenVINO is compiled with irc. Needs optimum-intel, openvino and torch.
"""

from __future__ import annotations

from typing import Any

from optimum.intel import (  # pyright: ignore[reportMissingImports]
    OVModelForCausalLM as _OVModelForCausalLM,
)

from .openvino import Core

__all__ = ["OVModelForCausalLM"]


class OVModelForCausalLM(_OVModelForCausalLM):
    """A causal language model of optimum-intel whose requests are irc's.

    `ov_config` has OpenVINO's properties, as compat.openvino reads them.
    """

    def compile(self) -> None:
        """Compile the model with irc, unless it is compiled."""
        if self.request is None:
            device, properties = str(self._device).upper(), dict(self.ov_config or {})
            compiled = Core().compile_model(self.model, device, properties)
            self.request: Any = compiled.create_infer_request()
