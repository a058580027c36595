"""Variants of the zoo's models: structures that no benchmark was tuned for, measured in the same
way.

`python -m benchmarks.models --zoo neighbours`. A file holds one family's modules; its table here
names builder, shapes of the inputs and symbolic axes. `-legacy` names what PyTorch's older exporter
wrote of the same module.
"""

from __future__ import annotations

from ..zoo import Entry
from .convolutions import CONVOLUTIONS
from .quantised import QUANTISED
from .sequences import SEQUENCES

NEIGHBOURS: dict[str, Entry] = {e.name: e for e in (*CONVOLUTIONS, *SEQUENCES, *QUANTISED)}
