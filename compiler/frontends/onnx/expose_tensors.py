"""An ONNX model that delivers tensors inside it as well, for other engines to compute them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path


def deliver_inner(path: Path, names: Collection[str]) -> bytes:
    """The model with more outputs behind its own: those of the named tensors that its nodes
    compute. External data is in it; 2 GiB are the most that a protobuf holds."""
    import onnx

    model = onnx.load(path)  # pyright: ignore[reportUnknownMemberType]
    own = {output.name for output in model.graph.output}
    computed = {name for node in model.graph.node for name in node.output}
    for name in names:
        if name in computed - own:
            model.graph.output.add().name = name
    return model.SerializeToString()
