"""The standard `onnx.backend.base` interface: `prepare`, `run_model`, `run_node`.

    from irc_compiler import onnx_backend
    outputs = onnx_backend.prepare(model).run([x])

Loading this module loads the onnx package.
"""

from __future__ import annotations

from ..api import compile_model
from ..compiler.frontends.onnx.backend import make_backend

IrcBackend = make_backend(compile_model)

is_compatible = IrcBackend.is_compatible
prepare = IrcBackend.prepare
run_model = IrcBackend.run_model
run_node = IrcBackend.run_node
supports_device = IrcBackend.supports_device
