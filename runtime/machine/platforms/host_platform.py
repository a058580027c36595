"""The platform of this process."""

from __future__ import annotations

import functools
import sys

from ....ir.errors import UsageError
from .platform_interface import Platform


@functools.cache
def host_platform() -> Platform:
    """The operating system that this process runs on. UsageError for one that irc does not know."""
    if sys.platform.startswith("linux"):
        from .linux import LinuxPlatform

        return LinuxPlatform()
    if sys.platform == "darwin":
        from .macos import MacPlatform

        return MacPlatform()
    if sys.platform == "win32":
        from .windows import WindowsPlatform

        return WindowsPlatform()
    raise UsageError(
        "this operating system is not supported",
        got=sys.platform,
        expected="Linux (macOS and Windows are prepared)",
        fix="reading, converting and inspecting models works here; compiling does not",
    )
