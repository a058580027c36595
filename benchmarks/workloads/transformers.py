"""Transformers as PyTorch modules with random weights, written the way exporters meet them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head attention with separate Q, K, V products and a mask that is added."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, self.size).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) / self.size**0.5
        if mask is not None:
            scores = scores + mask
        found = scores.softmax(-1) @ v
        return self.out(found.transpose(1, 2).reshape(x.shape))


class EncoderLayer(nn.Module):
    """BERT's layer: normalisation after each residual sum, gelu by erf."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.first, self.second = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.first(x + self.attention(x, mask))
        return self.second(x + self.down(nn.functional.gelu(self.up(x))))


class Encoder(nn.Module):
    """BERT: token, position and segment embeddings, layers, a pooled output."""

    def __init__(self, width: int, heads: int, layers: int, words: int = 30522) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.pool = nn.Linear(width, width)

    def forward(self, ids: Tensor, attention_mask: Tensor, types: Tensor) -> tuple[Tensor, Tensor]:
        mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * -10000.0
        places = torch.arange(ids.shape[1])[None]
        x = self.norm(self.words(ids) + self.places(places) + self.segments(types))
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pool(x[:, 0]))


class DecoderLayer(nn.Module):
    """GPT-2's layer: normalisation first, one product for Q, K and V, gelu by tanh."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self, x: Tensor, mask: Tensor, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).split(width, dim=2)
        q, k, v = (p.view(batch, length, self.heads, self.size).transpose(1, 2) for p in parts)
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        scores = q @ k.transpose(-1, -2) / self.size**0.5
        lowest = torch.full((), torch.finfo(torch.float32).min)
        scores = torch.where(mask, scores, lowest)
        found = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(found)
        return x + self.down(nn.functional.gelu(self.up(self.second(x)), approximate="tanh")), k, v


class Decoder(nn.Module):
    """GPT-2, with or without its keys and values of earlier calls as inputs and outputs."""

    def __init__(
        self, width: int = 768, heads: int = 12, layers: int = 12, words: int = 50257
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids: Tensor, *past: Tensor) -> Any:
        before = past[0].shape[2] if past else 0
        length = ids.shape[1]
        places = torch.arange(before, before + length)
        x = self.words(ids) + self.places(places)[None]
        mask = torch.ones(before + length, before + length, dtype=torch.bool).tril()
        mask = mask[None, None, before:, :]
        kept: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            given = (past[2 * i], past[2 * i + 1]) if past else None
            x, k, v = layer(x, mask, given)
            kept += [k, v]
        found = self.head(self.norm(x))
        return (found, *kept) if past else found


class Vision(nn.Module):
    """ViT: patches by a convolution, a class token, pre-normalised layers."""

    def __init__(self, width: int = 192, heads: int = 3, layers: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.layers = nn.ModuleList(VisionLayer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


class VisionLayer(nn.Module):
    """timm's block: one product for Q, K and V, PyTorch's own attention function."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.first(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        found = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))
