"""Machine code in an artefact: packed into one section, and used only where it is trusted.

Code from a file runs with the rights of the process that loads it, and no check can determine what
it does: digests detect damage, not intent. So a load uses it only on request (`trust_code=True`),
or where the user's own private cache holds the very same code already; else LLVM makes it again
from the verified plan. Trusted code stays with the program that was loaded with it: it goes neither
into the cache nor to other programs of the process.

A kernel is named by its key (runtime/jit/program.py): a digest of its spec, the Target with its CPU
features, the text of the generators and LLVM's version. Code for another CPU or of another irc has
other keys and is never found.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...ir.serialization.dataclass_json import decode, invalid_data_error

CODE: Final = "code"
_KEY: Final = re.compile(r"[0-9a-f]{64}")

# Payloads of the code cache by key: scratch bytes, then an image of the code
# (runtime/jit/code_image.py).
Images = Mapping[str, bytes]


def pack_images(images: Images) -> tuple[list[list[Any]], bytes]:
    """(entries [key, size, SHA-256] for the manifest, the section's content)."""
    listed = sorted(images.items())
    table = [[key, len(data), hashlib.sha256(data).hexdigest()] for key, data in listed]
    return table, b"".join(data for _, data in listed)


def unpack_images(table: Any, content: bytes) -> dict[str, bytes]:
    """What pack_images packed, each digest checked. VerificationError for anything else."""
    entries: Sequence[tuple[str, int, str]] = decode(tuple[tuple[str, int, str], ...], table)
    found: dict[str, bytes] = {}
    at = 0
    for key, size, digest in entries:
        if _KEY.fullmatch(key) is None or key in found or size < 0:
            raise invalid_data_error([key, size], "a kernel's key, once, and its size")
        data = content[at : at + size]
        if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
            raise invalid_data_error(key, f"{size} bytes of SHA-256 {digest[:80]}")
        found[key] = data
        at += size
    if at != len(content):
        raise invalid_data_error(at, f"code of {len(content)} bytes in all")
    return found
