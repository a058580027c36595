"""Taking artefacts apart and putting them together again, without a line of the code under test."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.runtime.artifact.code import pack_images

HEADER = struct.Struct("<8sIIQQQ32s56x")


class Parts:
    """An artefact's bytes as manifest, body and plan, to be changed and sealed again."""

    def __init__(self, data: bytes) -> None:
        self.magic, self.version, _, _, offset, size, _ = HEADER.unpack_from(data)
        self.body = bytearray(data[:offset])
        self.manifest: dict[str, Any] = json.loads(data[offset : offset + size])

    def section(self, kind: str) -> bytes:
        """The content of the first section of that kind."""
        _, offset, size = next(s for s in self.manifest["sections"] if s[0] == kind)
        return bytes(self.body[offset : offset + size])

    def replace(self, kind: str, content: bytes) -> None:
        """Give the first section of that kind other content; the sections behind it move."""
        sections = self.manifest["sections"]
        n = next(i for i, s in enumerate(sections) if s[0] == kind)
        parts = [bytes(self.body[o : o + size]) for _, o, size in sections]
        parts[n] = content
        del self.body[sections[n][1] :]
        for entry, part in zip(sections[n:], parts[n:], strict=True):
            self.body += bytes(-len(self.body) % 64)
            entry[1:] = [len(self.body), len(part)]
            self.body += part

    def seal(self, text: bytes | None = None) -> bytes:
        """The file, all digests right. `text`: the manifest, as it shall stand."""
        if text is None:
            body = self.body[128:]
            chunks = [body[i : i + (4 << 20)] for i in range(0, len(body), 4 << 20)]
            self.manifest["chunks"] = [[len(c), hashlib.sha256(c).hexdigest()] for c in chunks]
            text = json.dumps(self.manifest).encode()
        size = len(self.body) + len(text)
        digest = hashlib.sha256(text).digest()
        head = HEADER.pack(self.magic, self.version, 0, size, len(self.body), len(text), digest)
        return head + bytes(self.body[128:]) + text


# A net small enough for every length of its artefact to be tried, and what goes in.
X = np.array([[1, -2, 3], [0, 1, 2]], np.float32)
# IRC_FUZZ=100 runs a hundred times as many mutations.
MORE = int(os.environ.get("IRC_FUZZ", "1"))
ENCODER: dict[str, Any] = {
    "layers": 1,
    "hidden": 16,
    "heads": 2,
    "intermediate": 24,
    "vocab": 20,
    "positions": 12,
}


def load(data: bytes) -> irc.CompiledModel:
    return irc.CompiledModel.load(data)


def uses_stored_plan(net: irc.CompiledModel) -> bool:
    return net._source.entry is not None


def alike(a: Any, b: Any) -> bool:
    """Equal types, shapes and bits."""
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in zip(a, b, strict=True)
    )


def refused(data: bytes, *words: str) -> irc.ArtifactError:
    """The error that loading gives, which says all of these words."""
    with pytest.raises(irc.ArtifactError) as caught:
        load(data)
    for word in words:
        assert word in str(caught.value)
    return caught.value


def kernels(data: bytes) -> list[Any]:
    """The table of the code that is stored with the first plan."""
    return Parts(data).manifest["plans"][0]["kernels"]


def with_other_code(data: bytes, change: Any, *, digests: bool = True) -> bytes:
    """The artefact with changed code, and (if so) with right digests of it."""
    parts = Parts(data)
    table, content = parts.manifest["plans"][0]["kernels"], parts.section("code")
    images, at = {}, 0
    for key, size, _ in table:
        images[key] = change(content[at : at + size])
        at += size
    entries, packed = pack_images(images)
    parts.replace("code", packed)
    if digests:
        parts.manifest["plans"][0]["kernels"] = entries
    return parts.seal()
