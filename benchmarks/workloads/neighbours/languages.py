"""Transformers over words as they are written today, and what routes and mixes in other ways."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .parts import Residual


class Rms(nn.Module):
    """RMS normalisation in primitive operations."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def turned(x: Tensor, places: Tensor) -> Tensor:
    """Rotary positions of halves: x is [batch, heads, length, size]."""
    half = x.shape[-1] // 2
    steps = 10000.0 ** (-torch.arange(half) / half)
    angles = places[:, None].to(torch.float32) * steps
    cos, sin = (torch.cat((t, t), -1) for t in (angles.cos(), angles.sin()))
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class RotaryLayer(nn.Module):
    """Llama's layer: RMS norms, rotary positions, shared heads, a gated feed-forward."""

    def __init__(self, width: int, heads: int, shared: int, window: int = 0) -> None:
        super().__init__()
        self.heads, self.shared, self.size, self.window = heads, shared, width // heads, window
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, shared * self.size, bias=False) for _ in range(2))
        self.o = nn.Linear(width, width, bias=False)
        self.first, self.second = Rms(width), Rms(width)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        n = self.first(x)

        def split(x: Tensor, heads: int) -> Tensor:
            return x.view(batch, length, heads, self.size).transpose(1, 2)

        places = torch.arange(length)
        q = turned(split(self.q(n), self.heads), places)
        k = turned(split(self.k(n), self.shared), places)
        k, v = (
            t.repeat_interleave(self.heads // self.shared, 1)
            for t in (k, split(self.v(n), self.shared))
        )
        seen = places[:, None] >= places
        if self.window:
            seen = seen & (places[:, None] - places < self.window)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, width))
        n = self.second(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Causal(nn.Module):
    """Words, layers, and the words' table again as the head."""

    def __init__(self, layers: list[nn.Module], width: int, words: int = 8000) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers, self.norm = nn.ModuleList(layers), Rms(width)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.words.weight.T


def llama() -> nn.Module:
    return Causal([RotaryLayer(512, 8, 2) for _ in range(4)], 512)


def mistral() -> nn.Module:
    return Causal([RotaryLayer(512, 8, 2, window=16) for _ in range(4)], 512)


class Experts(nn.Module):
    """The two best of four feed-forwards for each word, by their shares."""

    def __init__(self, width: int, count: int = 4) -> None:
        super().__init__()
        self.router, self.count = nn.Linear(width, count, bias=False), count
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 3 * width), nn.SiLU(), nn.Linear(3 * width, width))
            for _ in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        best, where = self.router(x).topk(2, -1)
        shares = F.one_hot(where, self.count).to(x.dtype) * best.softmax(-1)[..., None]
        mixed = [e(x) * shares.sum(-2)[..., i : i + 1] for i, e in enumerate(self.experts)]
        return x + torch.stack(mixed).sum(0)


def experts() -> nn.Module:
    return Causal([m for _ in range(2) for m in (RotaryLayer(256, 4, 2), Experts(256))], 256)


class Relative(nn.Module):
    """Transformer-XL's attention: products over letters, positions shifted row by row."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv, self.place = (nn.Linear(width, n * width, bias=False) for n in (3, 1))
        self.out, self.norm = nn.Linear(width, width, bias=False), nn.LayerNorm(width)
        self.u, self.v = (nn.Parameter(torch.randn(heads, self.size)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, self.size).unbind(2)
        steps = 10000.0 ** (-torch.arange(0, width, 2) / width)
        angles = torch.arange(length - 1, -1, -1)[:, None] * steps
        r = self.place(torch.cat((angles.sin(), angles.cos()), -1))
        r = r.view(length, self.heads, self.size)
        found = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        moved = F.pad(torch.einsum("bihd,jhd->bhij", q + self.v, r), (1, 0))
        moved = moved.view(batch, self.heads, length + 1, length)[:, :, 1:].reshape(found.shape)
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = ((found + moved) / self.size**0.5).masked_fill(hidden, float("-inf"))
        mixed = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)
        return self.norm(x + self.out(mixed.reshape(x.shape)))


def transformer_xl() -> nn.Module:
    return nn.Sequential(*[Relative() for _ in range(3)])


class Gated(nn.Module):
    """gMLP's block: places mixed by a product along time."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(width), nn.LayerNorm(2 * width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)
        self.places = nn.Conv1d(length, length, 1)

    def forward(self, x: Tensor) -> Tensor:
        u, v = F.gelu(self.up(self.norm(x))).chunk(2, -1)
        return x + self.down(u * self.places(self.gate(v)))


def gmlp() -> nn.Module:
    return nn.Sequential(*[Gated(128, 256) for _ in range(4)])


class Fourier(nn.Module):
    """FNet's mixer: the real parts of a transform along time and channels."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fftn(x, dim=(1, 2)).real / x.shape[1] ** 0.5


def fnet() -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [Residual(Fourier()), nn.LayerNorm(384)]
        layers += [Residual(nn.Sequential(nn.Linear(384, 1536), nn.GELU(), nn.Linear(1536, 384)))]
        layers += [nn.LayerNorm(384)]
    return nn.Sequential(*layers)
