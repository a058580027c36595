"""Decode an encoded image (ONNX's ImageDecoder) with Pillow, which irc does not require.

The header is read first: the decoded size is charged to the call's memory budget before Pillow
allocates it. Only the formats that ONNX lists are tried.
"""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any, Final

import numpy as np

from ..errors import ExecutionError
from ..limits.memory_budget import charge_array
from ..op import Array

_FORMATS: Final = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
# ONNX's pixel formats -> Pillow's mode and the number of channels.
_MODES: Final = {"RGB": ("RGB", 3), "BGR": ("RGB", 3), "Grayscale": ("L", 1)}
# Pillow's image, its decoder's buffer, and the array.
_COPIES: Final = 3


def decode_image(encoded: Array, pixel_format: str) -> Array:
    """A u8 image [height, width, channels] of the bytes of a file, a u8 vector.

    ExecutionError where Pillow is missing or cannot read the bytes, MemoryLimitError where the
    decoded image is larger than `max_memory` allows.
    """
    if pixel_format not in _MODES:
        raise ExecutionError(
            "ImageDecoder has an unknown pixel_format",
            got=pixel_format[:40],
            expected=", ".join(_MODES),
        )
    mode, channels = _MODES[pixel_format]
    image = _open(encoded.tobytes())
    width, height = image.size
    charge_array((height, width, max(channels, 4)), np.dtype(np.uint8), _COPIES)
    try:
        pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except Exception as error:  # Pillow's decoders raise errors of many types
        raise _decode_error(error) from error
    pixels = pixels.reshape(height, width, channels)
    return np.ascontiguousarray(pixels[..., ::-1] if pixel_format == "BGR" else pixels)


def _open(data: bytes) -> Any:
    """Pillow's image of a file whose header was read."""
    try:
        pillow: Any = import_module("PIL.Image")
    except ImportError as error:
        raise ExecutionError(
            "ImageDecoder needs the package Pillow", fix="install it (pip install pillow)"
        ) from error
    try:
        return pillow.open(io.BytesIO(data), formats=_FORMATS)
    except Exception as error:
        raise _decode_error(error) from error


def _decode_error(error: Exception) -> ExecutionError:
    return ExecutionError(
        "the input of ImageDecoder is not an image that Pillow reads",
        got=f"{type(error).__name__}: {error}"[:200],
        expected=", ".join(_FORMATS),
    )
