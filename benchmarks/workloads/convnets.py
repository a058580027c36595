"""Convolutional networks as PyTorch modules with random weights; torchvision is not needed."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def unit(cin: int, cout: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Convolution and batch normalisation with statistics that are not trivial."""
    norm = nn.BatchNorm2d(cout)
    with torch.no_grad():
        assert norm.running_mean is not None and norm.running_var is not None
        norm.running_mean.normal_(0, 0.1)
        norm.running_var.uniform_(0.8, 1.2)
    return [nn.Conv2d(cin, cout, size, stride, size // 2, groups=groups, bias=False), norm]


class Basic(nn.Module):
    """ResNet's block of two 3x3 convolutions."""

    grow = 1

    def __init__(self, cin: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*unit(cin, width, 3, stride), nn.ReLU(), *unit(width, width, 3))
        same = stride == 1 and cin == width
        self.side = nn.Identity() if same else nn.Sequential(*unit(cin, width, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.side(x))


class Bottleneck(nn.Module):
    """ResNet's block of 1x1, 3x3, 1x1 convolutions."""

    grow = 4

    def __init__(self, cin: int, width: int, stride: int) -> None:
        super().__init__()
        cout = 4 * width
        self.body = nn.Sequential(
            *unit(cin, width, 1),
            nn.ReLU(),
            *unit(width, width, 3, stride),
            nn.ReLU(),
            *unit(width, cout, 1),
        )
        same = stride == 1 and cin == cout
        self.side = nn.Identity() if same else nn.Sequential(*unit(cin, cout, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.side(x))


def resnet(block: type[Basic] | type[Bottleneck], counts: tuple[int, ...]) -> nn.Module:
    layers: list[nn.Module] = [*unit(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    cin = 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        for i in range(count):
            layers.append(block(cin, width, 2 if i == 0 and stage > 0 else 1))
            cin = width * block.grow
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, 1000))


class Inverted(nn.Module):
    """MobileNetV2's block: widen, depthwise, narrow."""

    def __init__(self, cin: int, cout: int, stride: int, widen: int) -> None:
        super().__init__()
        inner = cin * widen
        first = [*unit(cin, inner, 1), nn.ReLU6()] if widen != 1 else []
        depthwise = [*unit(inner, inner, 3, stride, inner), nn.ReLU6()]
        self.body = nn.Sequential(*first, *depthwise, *unit(inner, cout, 1))
        self.adds = stride == 1 and cin == cout

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet() -> nn.Module:
    layers: list[nn.Module] = [*unit(3, 32, 3, 2), nn.ReLU6()]
    cin = 32
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2))
    for widen, cout, count, stride in (*stages, (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            layers.append(Inverted(cin, cout, stride if i == 0 else 1, widen))
            cin = cout
    layers += [*unit(cin, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, 1000))
