"""The neighbours over sequences and tables: which module, which inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..zoo import Entry, Inputs
from .convolutions import builder

# An input: its shape, and below which number its integers lie (0: normal noise).
_Given = tuple[tuple[int, ...], int]

# Name, "file.builder", inputs by name, symbolic axes, whether PyTorch's older exporter writes it.
_ROWS: tuple[tuple[str, str, dict[str, _Given], tuple[tuple[str, int, str], ...], bool], ...] = (
    ("llama", "languages.llama", {"ids": ((1, 64), 8000)}, (), False),
    ("llama-lengths", "languages.llama", {"ids": ((1, 40), 8000)}, (("ids", 1, "length"),), False),
    ("mistral", "languages.mistral", {"ids": ((1, 64), 8000)}, (), False),
    ("experts", "languages.experts", {"ids": ((1, 32), 8000)}, (), True),
    ("transformer-xl", "languages.transformer_xl", {"x": ((1, 64, 256), 0)}, (), False),
    ("fnet", "languages.fnet", {"x": ((1, 64, 384), 0)}, (), False),
    ("gmlp", "languages.gmlp", {"x": ((1, 128, 256), 0)}, (), False),
    (
        "lstm-words",
        "recurrences.Words",
        {"ids": ((35, 1), 8000), "h": ((2, 1, 256), 0), "c": ((2, 1, 256), 0)},
        (("ids", 0, "length"),),
        True,
    ),
    (
        "packed",
        "recurrences.Packed",
        {"x": ((4, 20, 64), 0), "lengths": ((4,), 21)},
        (("x", 0, "batch"), ("lengths", 0, "batch")),
        True,
    ),
    (
        "gru-attention",
        "recurrences.Attending",
        {"source": ((1, 24), 2000), "target": ((1, 8), 2000)},
        (),
        False,
    ),
    ("crnn", "recurrences.Reader", {"image": ((1, 1, 32, 100), 0)}, (), False),
    ("messages", "recurrences.Messages", {"x": ((50, 32), 0), "edges": ((2, 200), 50)}, (), False),
    ("clicks", "recurrences.Clicks", {"x": ((16, 13), 0), "ids": ((16, 8), 1000)}, (), False),
)


def _inputs(given: dict[str, _Given]) -> Callable[[np.random.Generator], Inputs]:
    def make(rng: np.random.Generator) -> Inputs:
        return {
            name: rng.integers(1, below, shape)
            if below
            else rng.standard_normal(shape).astype(np.float32)
            for name, (shape, below) in given.items()
        }

    return make


SEQUENCES = tuple(
    Entry(name, place.split(".")[0], builder(place), _inputs(given), symbols=symbols, legacy=legacy)
    for name, place, given, symbols, legacy in _ROWS
)
