"""How much of what a program frees stays in the process, as it does next to the engines."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

# A block of 32 MiB with the C library's own bytes, whose pages are not touched.
_LARGEST_COUNTED_BYTES: Final = (32 << 20) - (64 << 10)


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep up to 64 MiB of what the program frees, for later.

    glibc gives back what lies free at the end of its heap once that exceeds twice the largest block
    that was freed, of blocks up to 32 MiB. A program that makes large arrays for each call gets
    their pages anew each time where no such block was freed before.
    """
    np.empty(_LARGEST_COUNTED_BYTES, np.uint8)
