"""The convolutional neighbours: which module, which inputs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..zoo import Entry, noise

# Name, "file.builder", the input's shape, symbolic axes as (axis, symbol).
_ROWS: tuple[tuple[Any, ...], ...] = (
    ("vgg-11", "images.vgg", (1, 3, 224, 224)),
    ("squeezenet", "images.squeezenet", (1, 3, 224, 224)),
    ("inception-v3", "images.inception", (1, 3, 299, 299)),
    ("densenet-121", "images.densenet", (1, 3, 224, 224)),
    ("shufflenet-v2", "images.shufflenet", (1, 3, 224, 224)),
    ("mobilenet-v1", "images.mobilenet_v1", (1, 3, 224, 224)),
    ("mobilenet-v3", "images.mobilenet_v3", (1, 3, 224, 224)),
    ("efficientnet-b0", "images.efficientnet", (1, 3, 224, 224)),
    ("resnext-50", "images.resnext", (1, 3, 224, 224)),
    ("regnet-y", "images.regnet", (1, 3, 224, 224)),
    ("convnext", "images.convnext", (1, 3, 224, 224)),
    ("res2net", "images.res2net", (1, 3, 224, 224)),
    ("ghostnet", "images.ghostnet", (1, 3, 224, 224)),
    ("nfnet", "images.nfnet", (1, 3, 192, 192)),
    ("resnet-groupnorm", "images.groupnorm", (1, 3, 224, 224)),
    ("resnest", "images.resnest", (1, 3, 224, 224)),
    ("unet", "pixels.unet", (1, 3, 128, 128)),
    ("unet-bilinear", "pixels.unet_bilinear", (1, 3, 128, 128)),
    ("deeplab", "pixels.DeepLab", (1, 3, 225, 225)),
    ("pyramid", "pixels.Pyramid", (1, 3, 256, 256)),
    ("yolo", "pixels.Yolo", (1, 3, 320, 320)),
    ("espcn", "pixels.espcn", (1, 1, 128, 128)),
    ("edsr", "pixels.edsr", (1, 3, 96, 96)),
    ("dcgan", "pixels.dcgan", (1, 100, 1, 1)),
    ("discriminator", "pixels.discriminator", (1, 3, 128, 128)),
    ("style", "pixels.style", (1, 3, 128, 128)),
    ("segnet", "pixels.SegNet", (1, 3, 128, 128)),
    ("scene", "pixels.Scene", (1, 3, 256, 256)),
    ("c3d", "signals.c3d", (1, 3, 16, 64, 64)),
    ("r3d", "signals.r3d", (1, 3, 8, 64, 64)),
    ("wav2vec", "signals.wav2vec", (1, 1, 16000)),
    ("tcn", "signals.tcn", (1, 16, 400)),
    ("conv-tasnet", "signals.ConvTasNet", (1, 1, 4000)),
    ("quartznet", "signals.Quartz", (1, 64, 300)),
    ("vocoder", "signals.vocoder", (1, 80, 60)),
    ("resnext-batches", "images.resnext", (2, 3, 128, 128), (0, "batch")),
    ("deeplab-batches", "pixels.DeepLab", (2, 3, 128, 128), (0, "batch")),
    ("unet-sizes", "pixels.unet", (1, 3, 96, 128), (2, "height"), (3, "width")),
)


def builder(place: str) -> Callable[[], Any]:
    def build() -> Any:
        from .parts import lively

        file, name = place.split(".")
        return lively(getattr(import_module(f"{__package__}.{file}"), name)())

    return build


CONVOLUTIONS = tuple(
    Entry(
        name,
        place.split(".")[0],
        builder(place),
        noise(x=shape),
        symbols=tuple(("x", axis, symbol) for axis, symbol in symbols),
        # The newer exporter takes no sizes that have to be multiples of something.
        legacy=any(axis > 1 for axis, _ in symbols),
    )
    for name, place, shape, *symbols in _ROWS
)
