"""Thin drop-ins: scripts written for other engines run on irc by changing one import.

    import irc_compiler.compat.openvino as ov             # for `import openvino as ov`
    import irc_compiler.compat.onnxruntime as ort         # for `import onnxruntime as ort`

They hold what inference scripts call, with the same names and results. Errors are irc.Errors.
`install("onnxruntime")` and `install("openvino")` make these imports mean irc in a process, without
any change.
"""

from .stand_ins import install, uninstall

__all__ = ["install", "uninstall"]
