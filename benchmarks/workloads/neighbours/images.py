"""Classifiers of images besides ResNet and MobileNetV2."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .parts import Branches, Excite, Residual, conv, head


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    cin = 3
    for cout, count in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(count):
            layers.append(conv(cin, cout, norm=False))
            cin = cout
        layers.append(nn.MaxPool2d(2))
    last = [nn.Linear(512 * 49, 1024), nn.ReLU(), nn.Linear(1024, 1000)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *last)


def squeezenet() -> nn.Module:
    def fire(cin: int, inner: int, cout: int) -> nn.Module:
        wide = Branches(conv(inner, cout, 1, norm=False), conv(inner, cout, 3, norm=False))
        return nn.Sequential(conv(cin, inner, 1, norm=False), wide)

    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool,
        fire(64, 16, 64), fire(128, 16, 64), pool, fire(128, 32, 128), fire(256, 32, 128), pool,
        fire(256, 48, 192), fire(384, 48, 192), fire(384, 64, 256), fire(512, 64, 256),
        nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


def inception() -> nn.Module:
    """Inception-v3's blocks: windows of 1 x 7 and 7 x 1, means that leave paddings out."""

    def mean(cin: int, cout: int) -> nn.Module:
        pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        return nn.Sequential(pool, conv(cin, cout, 1))

    def first(cin: int, cout: int) -> nn.Module:
        five = nn.Sequential(conv(cin, 48, 1), conv(48, 64, 5))
        three = nn.Sequential(conv(cin, 64, 1), conv(64, 96, 3), conv(96, 96, 3))
        return Branches(conv(cin, 64, 1), five, three, mean(cin, cout))

    def second(inner: int) -> nn.Module:
        a = [conv(768, inner, 1), conv(inner, inner, (1, 7)), conv(inner, 192, (7, 1))]
        b = [conv(768, inner, 1), conv(inner, inner, (7, 1)), conv(inner, inner, (1, 7))]
        b += [conv(inner, inner, (7, 1)), conv(inner, 192, (1, 7))]
        return Branches(conv(768, 192, 1), nn.Sequential(*a), nn.Sequential(*b), mean(768, 192))

    def third(cin: int) -> nn.Module:
        def pair() -> nn.Module:
            return Branches(conv(384, 384, (1, 3)), conv(384, 384, (3, 1)))

        a = nn.Sequential(conv(cin, 384, 1), pair())
        b = nn.Sequential(conv(cin, 448, 1), conv(448, 384, 3), pair())
        return Branches(conv(cin, 320, 1), a, b, mean(cin, 192))

    pool = nn.MaxPool2d(3, 2)
    stem = [conv(3, 32, 3, 2), conv(32, 32), conv(32, 64), pool, conv(64, 80, 1), conv(80, 192)]
    shrink = Branches(conv(288, 384, 3, 2), nn.Sequential(nn.ZeroPad2d(1), pool))
    return nn.Sequential(
        *stem, pool, first(192, 32), first(256, 64), first(288, 64), shrink,
        conv(672, 768, 1), second(128), second(160), second(192), pool,
        conv(768, 1280, 1), third(1280), third(2048), *head(2048),
    )  # fmt: skip


class Dense(nn.Module):
    """DenseNet's layer: norm and activation before the convolution, then joined to its input."""

    def __init__(self, cin: int, grow: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(cin), nn.ReLU(), conv(cin, 4 * grow, 1),
            nn.Conv2d(4 * grow, grow, 3, 1, 1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    cin = 64
    for stage, count in enumerate((6, 12, 24, 16)):
        if stage:
            layers += [nn.BatchNorm2d(cin), nn.ReLU(), nn.Conv2d(cin, cin // 2, 1, bias=False)]
            layers.append(nn.AvgPool2d(2))
            cin //= 2
        for _ in range(count):
            layers.append(Dense(cin, 32))
            cin += 32
    return nn.Sequential(*layers, nn.BatchNorm2d(cin), nn.ReLU(), *head(cin))


class Shuffle(nn.Module):
    """ShuffleNetV2's block: halves of the channels, one convolved, and all of them interleaved."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        half, inner = cout // 2, cin // 2 if stride == 1 else cin
        self.split = stride == 1
        self.body = nn.Sequential(
            conv(inner, half, 1), conv(half, half, 3, stride, half, act=None), conv(half, half, 1)
        )
        side = nn.Sequential(conv(cin, cin, 3, stride, cin, act=None), conv(cin, half, 1))
        self.side = nn.Identity() if self.split else side

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, 1) if self.split else (x, x)
        y = torch.cat([self.side(a), self.body(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    cin = 24
    for cout, count in ((116, 4), (232, 8), (464, 4)):
        for i in range(count):
            layers.append(Shuffle(cin, cout, 1 if i else 2))
            cin = cout
    return nn.Sequential(*layers, conv(cin, 1024, 1), *head(1024))


def mobilenet_v1() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 32, 3, 2, act=nn.ReLU6)]
    cin = 32
    stages = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5)
    for cout, stride in (*stages, (1024, 2), (1024, 1)):
        layers += [conv(cin, cin, 3, stride, cin, act=nn.ReLU6), conv(cin, cout, 1, act=nn.ReLU6)]
        cin = cout
    return nn.Sequential(*layers, *head(cin))


def inverted(cin: int, inner: int, cout: int, size: int, stride: int, act: type, se: int, gate):  # type: ignore[no-untyped-def]
    body: list[nn.Module] = [] if inner == cin else [conv(cin, inner, 1, act=act)]
    body.append(conv(inner, inner, size, stride, inner, act=act))
    if se:
        body.append(Excite(inner, se, nn.ReLU if gate is nn.Hardsigmoid else act, gate))
    whole = nn.Sequential(*body, conv(inner, cout, 1, act=None))
    return Residual(whole) if stride == 1 and cin == cout else whole


def mobilenet_v3() -> nn.Module:
    rows = (
        (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2),
        (5, 120, 40, 1, 0, 1), (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1),
        (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1),
        (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1),
        (5, 960, 160, 1, 1, 1),
    )  # fmt: skip
    layers: list[nn.Module] = [conv(3, 16, 3, 2, act=nn.Hardswish)]
    cin = 16
    for size, inner, cout, se, swish, stride in rows:
        act = nn.Hardswish if swish else nn.ReLU
        layers.append(
            inverted(cin, inner, cout, size, stride, act, se * inner // 4, nn.Hardsigmoid)
        )
        cin = cout
    layers += [conv(cin, 960, 1, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000))


def efficientnet() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 32, 3, 2, act=nn.SiLU)]
    cin = 32
    stages = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3))
    for widen, cout, count, stride, size in (
        *stages, (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
    ):  # fmt: skip
        for i in range(count):
            step = 1 if i else stride
            se = max(1, cin // 4)
            layers.append(inverted(cin, cin * widen, cout, size, step, nn.SiLU, se, nn.Sigmoid))
            cin = cout
    return nn.Sequential(*layers, conv(cin, 1280, 1, act=nn.SiLU), *head(1280))


def grouped(stages: tuple[tuple[int, int, int], ...], width: int, wide: float, se: bool):  # type: ignore[no-untyped-def]
    """ResNeXt and RegNet: bottlenecks with groups of `width` channels."""
    layers: list[nn.Module] = [conv(3, 32, 3, 2), nn.MaxPool2d(3, 2, 1)]
    cin = 32
    for cout, count, step in stages:
        inner = int(cout * wide)
        for i in range(count):
            stride = 1 if i else step
            body = [conv(cin, inner, 1), conv(inner, inner, 3, stride, inner // width)]
            if se:
                body.append(Excite(inner, cin // 4))
            side = None if stride == 1 and cin == cout else conv(cin, cout, 1, stride, act=None)
            whole = nn.Sequential(*body, conv(inner, cout, 1, act=None))
            layers.append(Residual(whole, side, nn.ReLU))
            cin = cout
    return nn.Sequential(*layers, *head(cin))


def resnext() -> nn.Module:
    return grouped(((256, 3, 1), (512, 4, 2), (1024, 6, 2), (2048, 3, 2)), 4, 0.5, False)


def regnet() -> nn.Module:
    return grouped(((48, 1, 1), (104, 3, 2), (208, 6, 2), (440, 6, 2)), 8, 1.0, True)


class Last(nn.Module):
    """LayerNorm of the channels of [N, C, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels, 1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Next(nn.Module):
    """ConvNeXt's block: 7 x 7 depthwise, norm and two linear layers on channels last."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(channels, channels, 7, 1, 3, groups=channels)
        self.norm = nn.LayerNorm(channels, 1e-6)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.rand(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 4, 4), Last(64)]
    cin = 64
    for cout, count in ((64, 2), (128, 2), (256, 6), (512, 2)):
        if cout != cin:
            layers += [Last(cin), nn.Conv2d(cin, cout, 2, 2)]
        layers += [Next(cout) for _ in range(count)]
        cin = cout
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(cin), nn.Linear(cin, 1000)]
    return nn.Sequential(*layers, *last)


class Res2(nn.Module):
    """Res2Net's block: slices of the channels, each convolved with the result before it."""

    def __init__(self, channels: int, width: int, scale: int = 4) -> None:
        super().__init__()
        self.first = conv(channels, width * scale, 1)
        self.parts = nn.ModuleList(conv(width, width) for _ in range(scale - 1))
        self.last = conv(width * scale, channels, 1, act=None)

    def forward(self, x: Tensor) -> Tensor:
        pieces = self.first(x).chunk(len(self.parts) + 1, 1)
        made = [pieces[0]]
        for i, part in enumerate(self.parts):
            made.append(part(pieces[i + 1] + made[-1] if i else pieces[1]))
        return F.relu(x + self.last(torch.cat(made, 1)))


def res2net() -> nn.Module:
    stem = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), Res2(64, 16), Res2(64, 16)]
    down = [conv(64, 256, 1, 2), Res2(256, 26), Res2(256, 26)]
    return nn.Sequential(*stem, *down, *head(256))


class Ghost(nn.Module):
    """GhostNet's unit: half of the channels are cheap depthwise copies of the other half."""

    def __init__(self, cin: int, cout: int, act: type | None) -> None:
        super().__init__()
        half = cout // 2
        self.main = conv(cin, half, 1, act=act)
        self.cheap = conv(half, half, 3, groups=half, act=act)

    def forward(self, x: Tensor) -> Tensor:
        y = self.main(x)
        return torch.cat([y, self.cheap(y)], 1)


def ghostnet() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 16, 3, 2)]
    cin = 16
    for inner, cout, stride in ((48, 24, 2), (72, 24, 1), (120, 40, 2), (240, 80, 2), (200, 80, 1)):
        body = [Ghost(cin, inner, nn.ReLU)]
        if stride == 2:
            body.append(conv(inner, inner, 3, 2, inner, act=None))
        body += [Excite(inner, inner // 4, gate=nn.Hardsigmoid), Ghost(inner, cout, None)]
        side = [conv(cin, cin, 3, stride, cin, act=None), conv(cin, cout, 1, act=None)]
        same = stride == 1 and cin == cout
        layers.append(Residual(nn.Sequential(*body), None if same else nn.Sequential(*side)))
        cin = cout
    return nn.Sequential(*layers, conv(cin, 480, 1), *head(480))


class Standard(nn.Conv2d):
    """A convolution whose filters are standardised: NFNet's, computed from the weights."""

    def forward(self, x: Tensor) -> Tensor:
        w = self.weight
        mean, var = w.mean((1, 2, 3), keepdim=True), w.var((1, 2, 3), keepdim=True)
        w = (w - mean) * torch.rsqrt(torch.clamp(var * w[0].numel(), min=1e-4))
        return F.conv2d(x, w, self.bias, self.stride, self.padding, 1, self.groups)


def nfnet() -> nn.Module:
    def block(c: int) -> nn.Module:
        a, b = Standard(c, c // 2, 1), Standard(c // 2, c // 2, 3, 1, 1, groups=c // 32)
        return Residual(
            nn.Sequential(nn.GELU(), a, nn.GELU(), b, nn.GELU(), Standard(c // 2, c, 1))
        )

    stem = [Standard(3, 32, 3, 2, 1), nn.GELU(), Standard(32, 128, 3, 2, 1)]
    down = [nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False), Standard(128, 256, 1)]
    return nn.Sequential(*stem, block(128), *down, block(256), block(256), *head(256))


def groupnorm() -> nn.Module:
    """A ResNet whose norms are those of groups of channels."""

    def norm(c: int) -> nn.Module:
        return nn.GroupNorm(32, c)

    layers: list[nn.Module] = [conv(3, 64, 7, 2, norm=norm), nn.MaxPool2d(3, 2, 1)]
    cin = 64
    for cout in (64, 128, 256):
        stride = 1 if cin == cout else 2
        body = [conv(cin, cout, 3, stride, norm=norm), conv(cout, cout, norm=norm, act=None)]
        side = None if stride == 1 else conv(cin, cout, 1, stride, norm=norm, act=None)
        layers.append(Residual(nn.Sequential(*body), side, nn.ReLU))
        cin = cout
    return nn.Sequential(*layers, *head(cin))


class SplitAttention(nn.Module):
    """ResNeSt's: two groups of channels, each scaled by what the sum of both says."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.groups = conv(c, 2 * c, groups=2)
        self.gates = nn.Sequential(conv(c, c // 2, 1), nn.Conv2d(c // 2, 2 * c, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.groups(x).unflatten(1, (2, -1))
        gates = self.gates(y.sum(1).mean((2, 3), keepdim=True)).unflatten(1, (2, -1)).softmax(1)
        return (y * gates).sum(1)


def resnest() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    cin = 64
    for cout in (128, 256, 512):
        down = [] if cin == 64 else [nn.AvgPool2d(3, 2, 1)]
        first = [conv(cin, cout // 2, 1), SplitAttention(cout // 2), *down]
        side = [nn.AvgPool2d(2)] if down else []
        body = nn.Sequential(*first, conv(cout // 2, cout, 1, act=None))
        layers.append(Residual(body, nn.Sequential(*side, conv(cin, cout, 1, act=None)), nn.ReLU))
        cin = cout
    return nn.Sequential(*layers, *head(cin))


def odd() -> nn.Module:
    """Channels that fill no register: dense and depthwise layers, a residual sum."""
    layers = [conv(3, 19, 5, 2), conv(19, 37), conv(37, 37, groups=37), conv(37, 61, 1, 2)]
    return nn.Sequential(*layers, Residual(conv(61, 61, act=None), None, nn.ReLU), *head(61, 10))
