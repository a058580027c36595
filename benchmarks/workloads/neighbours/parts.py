"""What the convolutional neighbours are made of: a convolution with its norm and activation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

CONVOLUTIONS = (None, nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (None, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def conv(
    cin: int,
    cout: int,
    size: Any = 3,
    stride: Any = 1,
    groups: int = 1,
    dilation: int = 1,
    act: Any = nn.ReLU,
    norm: Any = None,
    dims: int = 2,
) -> nn.Sequential:
    """Convolution that keeps the size at stride 1, norm, activation. `norm`: a module of the
    channels; None: batch normalisation; False: none."""
    sizes = size if isinstance(size, tuple) else (size,) * dims
    pads = tuple(dilation * (n - 1) // 2 for n in sizes)
    kind, batch = CONVOLUTIONS[dims], NORMS[dims]
    assert kind is not None and batch is not None
    made: list[nn.Module] = [kind(cin, cout, sizes, stride, pads, dilation, groups, norm is False)]
    if norm is not False:
        made.append((norm or batch)(cout))
    return nn.Sequential(*made, *([act()] if act else []))


class Residual(nn.Module):
    """x + body(x), or side(x) + body(x), and what comes behind the sum."""

    def __init__(self, body: nn.Module, side: nn.Module | None = None, act: Any = None) -> None:
        super().__init__()
        self.body, self.side = body, side or nn.Identity()
        self.act = act() if act else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.side(x) + self.body(x))


class Branches(nn.Module):
    """The results of all parts, each of the same input, joined along the channels."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([part(x) for part in self.parts], 1)


class Excite(nn.Module):
    """Squeeze and excitation: channels scaled by what their means say."""

    def __init__(self, channels: int, inner: int, act: Any = nn.ReLU, gate: Any = nn.Sigmoid):
        super().__init__()
        self.body = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), act(),
            nn.Conv2d(inner, channels, 1), gate(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x * self.body(x)


def head(channels: int, classes: int = 1000) -> list[nn.Module]:
    """Mean over the image and a linear layer."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def lively(module: nn.Module) -> nn.Module:
    """Weights that keep values alive through any depth, and statistics that are not trivial."""
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear):
                nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
            elif isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
                assert part.running_mean is not None and part.running_var is not None
                part.running_mean.normal_(0, 0.1)
                part.running_var.uniform_(0.8, 1.2)
                part.bias.normal_(0, 0.1)
    return module
