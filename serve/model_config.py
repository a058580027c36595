"""The schema of a model's optional config.json.

    {"shapes": {"x": [1, 3, 224, 224]}, "precision": "bf16", "threads": 4, "instances": 2,
     "batching": {"max_size": 32, "max_delay_us": 500, "preferred_sizes": [8, 16]},
     "queue_size": 64, "version_policy": {"latest": 2}}

Every field is optional; an unknown one is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from .errors import ModelLoadError
from .settings import Batching, Settings

Count = Annotated[int, Meta(ge=1, le=4096)]
Size = Annotated[int, Meta(ge=0, le=1 << 40)]


class BatchingConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Dynamic batching of one model; Batching in settings.py has the meaning of each field."""

    max_size: Count = 32
    max_delay_us: Annotated[int, Meta(ge=0, le=10_000_000)] = 500
    preferred_sizes: Annotated[tuple[Count, ...], Meta(max_length=64)] = ()


class VersionPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """Which versions are served: the `latest` N (1 unless given), `all`, or a list."""

    latest: Count | None = None
    all: bool = False
    specific: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(max_length=64)] | None = None

    def __post_init__(self) -> None:
        if (self.latest is not None) + self.all + (self.specific is not None) > 1:
            raise ValueError("version_policy takes one of latest, all and specific")

    def choose(self, versions: Sequence[int]) -> list[int]:
        """The versions of those in the repository that are served."""
        if self.all:
            return sorted(versions)
        if self.specific is not None:
            return sorted(set(versions) & set(self.specific))
        return sorted(versions)[-(self.latest or 1) :]


class ModelConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """config.json. None means the server's setting."""

    shapes: dict[str, list[Size | None]] = {}
    precision: Literal["f32", "bf16", "f16"] | None = None
    threads: Count | None = None
    instances: Annotated[int, Meta(ge=1, le=64)] | None = None
    batching: BatchingConfig | Literal[False] | None = None
    queue_size: Annotated[int, Meta(ge=1, le=1 << 20)] | None = None
    version_policy: VersionPolicy = VersionPolicy()

    def batching_or(self, settings: Settings) -> Batching | None:
        """Batching of this model: its own, or the server's."""
        if self.batching is None:
            return settings.batching
        if self.batching is False:
            return None
        own = self.batching
        return Batching(own.max_size, own.max_delay_us, own.preferred_sizes)


_DECODER = msgspec.json.Decoder(ModelConfig)
MAX_CONFIG_BYTES = 1 << 20


def parse_config(text: bytes, where: str) -> ModelConfig:
    """The content of a config.json. ModelLoadError that names the field."""
    if len(text) > MAX_CONFIG_BYTES:
        got, expected = f"{len(text)} bytes", f"at most {MAX_CONFIG_BYTES}"
        raise ModelLoadError("config.json is too large", where=where, got=got, expected=expected)
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ModelLoadError("config.json is not valid", where=where, got=str(error)) from None
