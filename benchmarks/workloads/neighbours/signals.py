"""Convolutional networks over time and over volumes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .parts import Residual, conv


def c3d() -> nn.Module:
    layers: list[nn.Module] = []
    cin = 3
    for cout, pool in ((32, (1, 2, 2)), (64, 2), (128, 2), (128, 2)):
        layers += [conv(cin, cout, dims=3, norm=False), nn.MaxPool3d(pool)]
        cin = cout
    return nn.Sequential(*layers, nn.AvgPool3d(2), nn.Flatten(), nn.Linear(512, 101))


def r3d() -> nn.Module:
    """Residual blocks over time, height and width, each window in two parts."""

    def unit(cin: int, cout: int, stride: int = 1) -> list[nn.Module]:
        plane = conv(cin, cout, (1, 3, 3), (1, stride, stride), dims=3)
        return [plane, conv(cout, cout, (3, 1, 1), (stride, 1, 1), dims=3)]

    layers: list[nn.Module] = [conv(3, 32, (3, 7, 7), (1, 2, 2), dims=3)]
    cin = 32
    for cout in (32, 64, 128):
        stride = 1 if cin == cout else 2
        body = [*unit(cin, cout, stride), conv(cout, cout, 3, dims=3, act=None)]
        side = None if stride == 1 else conv(cin, cout, 1, stride, dims=3, act=None)
        layers.append(Residual(nn.Sequential(*body), side, nn.ReLU))
        cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(cin, 400))


class Last1d(nn.Module):
    """LayerNorm of the channels of [N, C, T]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


def wav2vec() -> nn.Module:
    """The front of wav2vec 2.0: samples to features, one channel to many."""
    layers: list[nn.Module] = [
        nn.Conv1d(1, 256, 10, 5, bias=False),
        nn.GroupNorm(256, 256),
        nn.GELU(),
    ]
    for size in (3, 3, 3, 3, 2, 2):
        layers += [nn.Conv1d(256, 256, size, 2, bias=False), Last1d(256), nn.GELU()]
    position = nn.Sequential(nn.Conv1d(256, 256, 31, 1, 15, groups=16), nn.GELU())
    return nn.Sequential(*layers, Residual(position))


class Causal(nn.Module):
    """Two dilated convolutions that look back only, and the sum with their input."""

    def __init__(self, cin: int, cout: int, rate: int) -> None:
        super().__init__()
        self.pad = 2 * rate
        self.a, self.b = (
            nn.Conv1d(cin, cout, 3, dilation=rate),
            nn.Conv1d(cout, cout, 3, dilation=rate),
        )
        self.side = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.a(F.pad(x, (self.pad, 0))))
        y = F.relu(self.b(F.pad(y, (self.pad, 0))))
        return F.relu(y + self.side(x))


def tcn() -> nn.Module:
    return nn.Sequential(Causal(16, 64, 1), *[Causal(64, 64, 1 << i) for i in range(1, 6)])


class ConvTasNet(nn.Module):
    """Separation of sources: an encoder, dilated depthwise blocks with global norms, masks."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Conv1d(1, 256, 16, 8, bias=False)
        self.first = nn.Sequential(nn.GroupNorm(1, 256), nn.Conv1d(256, 128, 1))
        self.blocks = nn.ModuleList(self.block(1 << i) for i in range(6))
        self.skips = nn.ModuleList(nn.Conv1d(256, 128, 1) for _ in range(6))
        self.outs = nn.ModuleList(nn.Conv1d(256, 128, 1) for _ in range(6))
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(128, 512, 1), nn.Sigmoid())
        self.decode = nn.ConvTranspose1d(256, 1, 16, 8, bias=False)

    @staticmethod
    def block(rate: int) -> nn.Module:
        depth = nn.Conv1d(256, 256, 3, 1, rate, rate, groups=256)
        first = [nn.Conv1d(128, 256, 1), nn.PReLU(), nn.GroupNorm(1, 256)]
        return nn.Sequential(*first, depth, nn.PReLU(), nn.GroupNorm(1, 256))

    def forward(self, x: Tensor) -> Tensor:
        wave = F.relu(self.encode(x))
        y = self.first(wave)
        total: Tensor | float = 0.0
        for block, skip, out in zip(self.blocks, self.skips, self.outs, strict=True):
            z = block(y)
            y, total = y + out(z), total + skip(z)
        masks = self.mask(total).view(x.shape[0], 2, 256, -1)
        made = (masks * wave[:, None]).flatten(0, 1)
        return self.decode(made).view(x.shape[0], 2, -1)


class Quartz(nn.Module):
    """QuartzNet's blocks for speech: long depthwise windows and 1 x 1 ones, squeezed over time."""

    def __init__(self) -> None:
        super().__init__()
        self.first = conv(64, 128, 33, 2, dims=1)

        def unit(act: type | None) -> list[nn.Module]:
            return [
                nn.Conv1d(128, 128, 39, 1, 19, groups=128, bias=False),
                conv(128, 128, 1, dims=1, act=act),
            ]

        self.body = Residual(
            nn.Sequential(*unit(nn.ReLU), *unit(nn.ReLU), *unit(None)), act=nn.ReLU
        )
        self.last = nn.Conv1d(128, 29, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.first(x))
        y = y * torch.sigmoid(y.mean(2, keepdim=True))
        return F.log_softmax(self.last(y).transpose(1, 2), -1)


def vocoder() -> nn.Module:
    """HiFi-GAN's generator: frames to samples, fewer channels from stage to stage."""

    def unit(c: int, size: int, rate: int) -> nn.Module:
        wide = conv(c, c, size, dilation=rate, act=None, norm=False, dims=1)
        return Residual(nn.Sequential(nn.LeakyReLU(0.1), wide))

    layers: list[nn.Module] = [conv(80, 256, 7, act=None, norm=False, dims=1)]
    for c, rate in ((128, 8), (64, 8), (32, 2)):
        layers += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(2 * c, c, 2 * rate, rate, rate // 2)]
        layers += [unit(c, size, n) for size, n in ((3, 1), (7, 3), (11, 5))]
    return nn.Sequential(*layers, conv(32, 1, 7, act=nn.Tanh, norm=False, dims=1))
