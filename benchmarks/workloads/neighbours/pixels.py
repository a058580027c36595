"""Networks whose results are images, maps or boxes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .parts import Branches, Residual, conv


class UNet(nn.Module):
    """Down, and up again by transposed convolutions or bilinear resizing, joined on each level."""

    def __init__(self, widths: tuple[int, ...], resize: bool) -> None:
        super().__init__()
        self.resize = resize
        self.down, self.up, self.merge = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        cin = 3
        for w in widths:
            self.down.append(nn.Sequential(conv(cin, w), conv(w, w)))
            cin = w
        for w in reversed(widths[:-1]):
            self.up.append(conv(cin, w, 1) if resize else nn.ConvTranspose2d(cin, w, 2, 2))
            self.merge.append(nn.Sequential(conv(2 * w, w), conv(w, w)))
            cin = w
        self.last = nn.Conv2d(cin, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for i, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, merge, other in zip(self.up, self.merge, reversed(kept[:-1]), strict=True):
            x = up(x)
            if self.resize:
                x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
            x = merge(torch.cat([other, x], 1))
        return self.last(x)


def unet() -> nn.Module:
    return UNet((32, 64, 128, 256), False)


def unet_bilinear() -> nn.Module:
    return UNet((16, 32, 64, 128), True)


def backbone(stride: int = 2, dilation: int = 1) -> nn.ModuleList:
    """Levels at an 8th, 16th and 32nd of the image, or at an 8th with dilations."""
    stem = nn.Sequential(conv(3, 32, 3, 2), conv(32, 64, 3, 2), conv(64, 128, 3, 2))

    def stage(cin: int, cout: int, rate: int) -> nn.Module:
        body = nn.Sequential(conv(cout, cout, dilation=rate), conv(cout, cout, act=None))
        return nn.Sequential(conv(cin, cout, 3, stride), Residual(body, act=nn.ReLU))

    return nn.ModuleList([stem, stage(128, 256, dilation), stage(256, 256, 2 * dilation)])


class DeepLab(nn.Module):
    """Atrous convolutions, their pyramid with the image's mean, resized to the image."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = backbone(1, 2)
        self.pyramid = Branches(
            conv(256, 64, 1), *[conv(256, 64, 3, dilation=d) for d in (6, 12, 18)]
        )
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(256, 64, 1))
        self.last = nn.Sequential(conv(320, 64, 1), nn.Conv2d(64, 21, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for level in self.levels:
            y = level(y)
        mean = F.interpolate(self.mean(y), size=y.shape[-2:], mode="bilinear", align_corners=False)
        y = self.last(torch.cat([self.pyramid(y), mean], 1))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


class Pyramid(nn.Module):
    """A feature pyramid: levels summed from coarse to fine, heads shared by all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = backbone()
        self.sides = nn.ModuleList(nn.Conv2d(c, 96, 1) for c in (128, 256, 256))
        self.smooth = nn.ModuleList(nn.Conv2d(96, 96, 3, 1, 1) for _ in range(3))
        self.head = nn.Sequential(conv(96, 96, norm=False), nn.Conv2d(96, 36, 3, 1, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        kept: list[Tensor] = []
        for level, side in zip(self.levels, self.sides, strict=True):
            x = level(x)
            kept.append(side(x))
        for i in (1, 0):
            kept[i] = kept[i] + F.interpolate(kept[i + 1], scale_factor=2.0, mode="nearest")
        made = [self.head(s(k)) for s, k in zip(self.smooth, kept, strict=True)]
        rows = [m.permute(0, 2, 3, 1).reshape(m.shape[0], -1, 4) for m in made]
        return torch.cat(rows, 1), F.max_pool2d(kept[2], 1, 2)


class Cross(nn.Module):
    """YOLO's stage: halves, a chain of bottlenecks, all of it joined."""

    def __init__(self, cin: int, cout: int, count: int) -> None:
        super().__init__()
        half = cout // 2
        self.first, self.last = conv(cin, cout, 1, act=nn.SiLU), None
        self.chain = nn.ModuleList(
            Residual(nn.Sequential(conv(half, half, act=nn.SiLU), conv(half, half, act=nn.SiLU)))
            for _ in range(count)
        )
        self.last = conv((2 + count) * half, cout, 1, act=nn.SiLU)

    def forward(self, x: Tensor) -> Tensor:
        made = list(self.first(x).chunk(2, 1))
        for part in self.chain:
            made.append(part(made[-1]))
        return self.last(torch.cat(made, 1))


class Sppf(nn.Module):
    """Maxima over growing windows, one pool after another."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.first = conv(channels, half, 1, act=nn.SiLU)
        self.last = conv(4 * half, channels, 1, act=nn.SiLU)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        made = [self.first(x)]
        for _ in range(3):
            made.append(self.pool(made[-1]))
        return self.last(torch.cat(made, 1))


class Yolo(nn.Module):
    """YOLOv8's shape: stages, a path up and down again, boxes as expected distances."""

    def __init__(self, classes: int = 80, bins: int = 16) -> None:
        super().__init__()
        act, self.classes, self.bins = nn.SiLU, classes, bins
        self.stem = nn.Sequential(
            conv(3, 16, 3, 2, act=act), conv(16, 32, 3, 2, act=act), Cross(32, 32, 1)
        )
        self.p3 = nn.Sequential(conv(32, 64, 3, 2, act=act), Cross(64, 64, 2))
        self.p4 = nn.Sequential(conv(64, 128, 3, 2, act=act), Cross(128, 128, 2))
        self.p5 = nn.Sequential(conv(128, 256, 3, 2, act=act), Cross(256, 256, 1), Sppf(256))
        self.up4, self.up3 = Cross(384, 128, 1), Cross(192, 64, 1)
        self.to4, self.down4 = conv(64, 64, 3, 2, act=act), Cross(192, 128, 1)
        self.to5, self.down5 = conv(128, 128, 3, 2, act=act), Cross(384, 256, 1)
        self.boxes = nn.ModuleList(self.head(c, 64, 4 * bins) for c in (64, 128, 256))
        self.scores = nn.ModuleList(self.head(c, 80, classes) for c in (64, 128, 256))
        self.register_buffer("steps", torch.arange(bins, dtype=torch.float32).view(1, bins, 1, 1))

    @staticmethod
    def head(cin: int, inner: int, cout: int) -> nn.Module:
        first = conv(cin, inner, act=nn.SiLU)
        return nn.Sequential(first, conv(inner, inner, act=nn.SiLU), nn.Conv2d(inner, cout, 1))

    def forward(self, x: Tensor) -> Tensor:
        p3 = self.p3(self.stem(x))
        p4 = self.p4(p3)
        p5 = self.p5(p4)
        n4 = self.up4(torch.cat([F.interpolate(p5, scale_factor=2.0, mode="nearest"), p4], 1))
        n3 = self.up3(torch.cat([F.interpolate(n4, scale_factor=2.0, mode="nearest"), p3], 1))
        n4 = self.down4(torch.cat([self.to4(n3), n4], 1))
        n5 = self.down5(torch.cat([self.to5(n4), p5], 1))
        rows, centres, strides = [], [], []
        for i, level in enumerate((n3, n4, n5)):
            both = torch.cat([self.boxes[i](level), self.scores[i](level)], 1)
            h, w = level.shape[2:]
            rows.append(both.flatten(2))
            ys, xs = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            centres.append(torch.stack([xs, ys]).flatten(1))
            strides.append(torch.full((1, h * w), float(8 << i)))
        box, score = torch.cat(rows, 2).split([4 * self.bins, self.classes], 1)
        n, _, count = box.shape
        parts = box.view(n, 4, self.bins, count).transpose(1, 2).softmax(1)
        near, far = (parts * self.steps).sum(1).chunk(2, 1)
        centre, stride = torch.cat(centres, 1), torch.cat(strides, 1)
        low, high = centre - near, centre + far
        box = torch.cat([(low + high) / 2, high - low], 1) * stride
        return torch.cat([box, score.sigmoid()], 1)


def espcn() -> nn.Module:
    layers = [nn.Conv2d(1, 64, 5, 1, 2), nn.Tanh(), nn.Conv2d(64, 32, 3, 1, 1), nn.Tanh()]
    return nn.Sequential(*layers, nn.Conv2d(32, 9, 3, 1, 1), nn.PixelShuffle(3))


def edsr() -> nn.Module:
    def block() -> nn.Module:
        return Residual(nn.Sequential(conv(32, 32, norm=False), conv(32, 32, norm=False, act=None)))

    body = Residual(nn.Sequential(*[block() for _ in range(6)], conv(32, 32, norm=False, act=None)))
    up = [nn.Conv2d(32, 128, 3, 1, 1), nn.PixelShuffle(2), nn.PReLU(32), nn.Conv2d(32, 3, 3, 1, 1)]
    return nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1), body, *up)


def dcgan() -> nn.Module:
    layers: list[nn.Module] = []
    cin = 100
    for cout, stride, pad in ((512, 1, 0), (256, 2, 1), (128, 2, 1), (64, 2, 1)):
        layers += [nn.ConvTranspose2d(cin, cout, 4, stride, pad, bias=False), nn.BatchNorm2d(cout)]
        layers.append(nn.ReLU())
        cin = cout
    return nn.Sequential(*layers, nn.ConvTranspose2d(cin, 3, 4, 2, 1), nn.Tanh())


def discriminator() -> nn.Module:
    """Leaky activations and a final window over everything."""

    def leaky() -> nn.Module:
        return nn.LeakyReLU(0.2)

    layers = [conv(3, 64, 4, 2, act=leaky, norm=False), conv(64, 128, 4, 2, act=leaky)]
    layers += [conv(128, 256, 4, 2, act=leaky), conv(256, 512, 4, 2, act=leaky)]
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(4), nn.Conv2d(512, 1, 4), nn.Sigmoid())


def style() -> nn.Module:
    """Style transfer: reflected borders, instance norms, nearest resizing."""

    def unit(cin: int, cout: int, size: int, stride: int = 1, up: int = 1) -> nn.Sequential:
        layers: list[nn.Module] = [nn.Upsample(scale_factor=2.0)] if up > 1 else []
        layers += [nn.ReflectionPad2d(size // 2), nn.Conv2d(cin, cout, size, stride)]
        return nn.Sequential(*layers, nn.InstanceNorm2d(cout, affine=True), nn.ReLU())

    def block() -> nn.Module:
        return Residual(nn.Sequential(unit(64, 64, 3), *list(unit(64, 64, 3))[:-1]))

    first = [unit(3, 16, 9), unit(16, 32, 3, 2), unit(32, 64, 3, 2), block(), block()]
    last = [nn.ReflectionPad2d(4), nn.Conv2d(16, 3, 9)]
    return nn.Sequential(*first, unit(64, 32, 3, up=2), unit(32, 16, 3, up=2), *last)


class SegNet(nn.Module):
    """Max pools with their Indices output, and max unpooling."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([conv(3, 32), conv(32, 64), conv(64, 128)])
        self.up = nn.ModuleList([conv(128, 64), conv(64, 32), conv(32, 12, act=None)])
        self.pool, self.unpool = nn.MaxPool2d(2, 2, return_indices=True), nn.MaxUnpool2d(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        places: list[Tensor] = []
        for down in self.down:
            x, place = self.pool(down(x))
            places.append(place)
        for up, place in zip(self.up, reversed(places), strict=True):
            x = up(self.unpool(x, place))
        return x


class Scene(nn.Module):
    """PSPNet's pyramid: adaptive pools, means and maxima, resized and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = backbone()
        self.parts = nn.ModuleList(conv(256, 64, 1) for _ in range(4))
        self.last = nn.Sequential(conv(512, 64), nn.Conv2d(64, 12, 1))

    def forward(self, x: Tensor) -> Tensor:
        for level in self.levels:
            x = level(x)
        made = [x]
        for count, part in zip((1, 2, 4, 8), self.parts, strict=True):
            pool = F.adaptive_max_pool2d if count == 4 else F.adaptive_avg_pool2d
            y = part(pool(x, count))
            made.append(F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False))
        return self.last(torch.cat(made, 1))
