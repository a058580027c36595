"""Where a file of weights holds a tensor."""

from __future__ import annotations

from ...ir.lazy_dataclass import dataclass


@dataclass(frozen=True)
class StoredTensor:
    """kind: the file's name of the element type; shape: outermost axis first, as NumPy has it;
    first, last: the tensor's bytes in the file."""

    name: str
    kind: str
    shape: tuple[int, ...]
    first: int
    last: int
