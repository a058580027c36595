"""ImageDecoder: formats, channels, and inputs that are not images or decode to too many bytes."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from onnx import TensorProto, helper

try:
    from PIL import Image
except ImportError:
    pytest.skip("not run: Pillow is not installed", allow_module_level=True)


def model(pixel_format: str = "RGB") -> Any:
    node = helper.make_node("ImageDecoder", ["data"], ["image"], pixel_format=pixel_format)
    ports = [helper.make_tensor_value_info("data", TensorProto.UINT8, [None])]
    ends = [helper.make_tensor_value_info("image", TensorProto.UINT8, [None, None, None])]
    graph = helper.make_graph([node], "g", ports, ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def encode(pixels: Any, kind: str, **how: Any) -> Any:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **how)
    return np.frombuffer(stream.getvalue(), np.uint8)


PIXELS = np.random.default_rng(2).integers(0, 256, (5, 7, 3)).astype(np.uint8)


@pytest.mark.parametrize("kind", ["BMP", "PNG", "TIFF", "PPM"])
def test_formats_without_loss_give_the_pixels(kind: str) -> None:
    data = encode(PIXELS, kind)
    assert (irc.compile_model(model())({"data": data})[0] == PIXELS).all()
    assert (irc.compile_model(model("BGR"))({"data": data})[0] == PIXELS[..., ::-1]).all()


@pytest.mark.parametrize(("kind", "how"), [("JPEG", {}), ("WEBP", {"lossless": True})])
def test_other_formats_are_decoded_as_pillow_decodes_them(kind: str, how: dict[str, Any]) -> None:
    data = encode(PIXELS, kind, **how)
    want = np.asarray(Image.open(io.BytesIO(data.tobytes())).convert("RGB"))
    assert (irc.compile_model(model())({"data": data})[0] == want).all()


def test_gray_images_have_channels() -> None:
    data = encode(PIXELS[..., 0], "PNG")
    gray = irc.compile_model(model("Grayscale"))({"data": data})[0]
    assert gray.shape == (5, 7, 1) and (gray[..., 0] == PIXELS[..., 0]).all()
    assert (irc.compile_model(model())({"data": data})[0] == PIXELS[..., :1]).all()


def test_the_size_is_charged_before_the_image_is_decoded() -> None:
    header = struct.pack(">IIBBBBB", 12_000, 12_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", len(header)) + b"IHDR" + header
    chunk += struct.pack(">I", zlib.crc32(b"IHDR" + header))
    end = struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    data = np.frombuffer(b"\x89PNG\r\n\x1a\n" + chunk + end, np.uint8)
    net = irc.compile_model(model(), max_memory=1 << 28)
    with pytest.warns(Image.DecompressionBombWarning), pytest.raises(irc.MemoryLimitError):
        net({"data": data})


@pytest.mark.parametrize("length", [0, 3, 60])
def test_bytes_that_are_not_an_image_are_refused(length: int) -> None:
    data = encode(PIXELS, "PNG")[:length].copy()
    with pytest.raises(irc.ExecutionError, match="not an image that Pillow reads"):
        irc.compile_model(model())({"data": data})


def test_a_missing_pillow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(PIXELS, "PNG")
    for name in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(irc.ExecutionError, match="pip install pillow"):
        irc.compile_model(model())({"data": data})


def test_an_unknown_pixel_format_is_refused() -> None:
    with pytest.raises(irc.ExecutionError, match="pixel_format"):
        irc.compile_model(model("CMYK"))({"data": encode(PIXELS, "PNG")})
