"""The quantised neighbours: models of the zoo and one of odd sizes, in the forms of static
quantisation."""

from __future__ import annotations

from dataclasses import replace

from ..zoo import ZOO, Entry, noise
from .convolutions import builder

_ODD = Entry("odd", "images", builder("images.odd"), noise(x=(1, 3, 97, 97)))

# OpenVINO reads no models of the form "operators": there onnxruntime is the only peer.
QUANTISED = tuple(
    replace(entry, name=f"{entry.name}-{how}", family="quantized", quantized=how)
    for entry, how in (
        (ZOO["resnet-18"], "s8"),
        (ZOO["resnet-18"], "operators"),
        (ZOO["resnet-50"], "u8"),
        (ZOO["mobilenet-v2"], "u8"),
        (ZOO["mobilenet-v2"], "operators"),
        (_ODD, "u8"),
        (_ODD, "s8"),
        (_ODD, "operators"),
    )
)
