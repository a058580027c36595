"""Recurrent networks around their loops, and models of tables."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Words(nn.Module):
    """A language model: two layers of LSTM between a table and a head, states in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(8000, 256), nn.Linear(256, 8000)
        self.loop = nn.LSTM(256, 256, 2)

    def forward(self, ids: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.loop(self.words(ids), (h, c))
        return self.head(y), h, c


class Packed(nn.Module):
    """Sequences of several lengths, packed and padded again."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = nn.LSTM(64, 128, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(256, 16)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        y, _ = self.loop(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        return self.head(padded)


class Attending(nn.Module):
    """A translator of GRUs: each step looks back at all of the source."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(2000, width), nn.Embedding(2000, width)
        self.encode = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.step = nn.GRUCell(3 * width, 2 * width)
        self.both, self.one = nn.Linear(4 * width, width), nn.Linear(width, 1, bias=False)
        self.head = nn.Linear(2 * width, 2000)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, _ = self.encode(self.source(source))
        state, words = memory[:, -1], self.target(target)
        found: list[Tensor] = []
        for at in range(target.shape[1]):
            asked = state[:, None].expand(-1, memory.shape[1], -1)
            scores = self.one(torch.tanh(self.both(torch.cat((asked, memory), -1))))
            seen = (scores.softmax(1) * memory).sum(1)
            state = self.step(torch.cat((words[:, at], seen), -1), state)
            found.append(self.head(state))
        return torch.stack(found, 1)


class Reader(nn.Module):
    """CRNN: convolutions make columns, LSTMs read them."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        cin = 1
        for cout, pool in ((64, (2, 2)), (128, (2, 2)), (256, (2, 1)), (512, (2, 1))):
            norm = nn.BatchNorm2d(cout)
            layers += [nn.Conv2d(cin, cout, 3, 1, 1), norm, nn.ReLU(), nn.MaxPool2d(pool)]
            cin = cout
        self.columns = nn.Sequential(*layers, nn.Conv2d(512, 512, 2), nn.ReLU())
        self.loop = nn.LSTM(512, 256, 2, bidirectional=True)
        self.head = nn.Linear(512, 37)

    def forward(self, image: Tensor) -> Tensor:
        y, _ = self.loop(self.columns(image).squeeze(2).permute(2, 0, 1))
        return self.head(y).log_softmax(2)


class Messages(nn.Module):
    """A graph network: messages along edges, added up where they end."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 8)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        def spread(x: Tensor) -> Tensor:
            return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])

        return self.second(spread(F.relu(spread(self.first(x)))))


class Clicks(nn.Module):
    """A recommender: tables of categories, products of pairs, a deep part and a wide one."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, 16) for _ in range(8))
        self.wide = nn.Embedding(8000, 1)
        self.dense = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.deep = nn.Sequential(nn.Linear(52, 64), nn.ReLU(), nn.Linear(64, 1))
        self.pairs = [(i, j) for i in range(9) for j in range(i)]

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        x = self.dense(x)
        rows = torch.stack([x, *(t(ids[:, n]) for n, t in enumerate(self.tables))], 1)
        i, j = torch.tensor(self.pairs).T
        products = (rows @ rows.transpose(1, 2))[:, i, j]
        wide = self.wide(ids + torch.arange(8) * 1000).sum(1)
        return torch.sigmoid(wide + self.deep(torch.cat((x, products), 1)))
