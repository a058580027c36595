"""The build backend of irc (PEP 517): that of setuptools, but for systems without llvmlite.

pip would try to build llvmlite, and with it LLVM, there, and end in an error that names neither the
cause nor what to do.
"""

from __future__ import annotations

import sysconfig
from typing import Any

from setuptools import build_meta

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_WITHOUT_LLVMLITE = """irc-compiler cannot be installed on this system
  where: a Python for musl ({abi}), as Alpine Linux has it
  got: no wheel of llvmlite, which irc compiles with, for musl
  expected: a Python for glibc 2.28 or later
  fix: use an image with glibc, such as python:3.11-slim (Debian); see docs/platforms.md"""


def _require_llvmlite() -> None:
    abi = str(sysconfig.get_config_var("SOABI") or sysconfig.get_platform())
    if "musl" in abi:
        raise SystemExit(_WITHOUT_LLVMLITE.format(abi=abi))


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """pip's first question."""
    _require_llvmlite()
    return build_meta.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """pip's first question of an editable install."""
    _require_llvmlite()
    return build_meta.get_requires_for_build_editable(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """Its first question without build isolation."""
    _require_llvmlite()
    return build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Any = None
) -> str:
    """The same of an editable install."""
    _require_llvmlite()
    return build_meta.prepare_metadata_for_build_editable(metadata_directory, config_settings)


build_editable = build_meta.build_editable
build_sdist = build_meta.build_sdist
build_wheel = build_meta.build_wheel
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
