"""The fixture of the tests of LLVM text: each instruction set that this machine runs."""

from __future__ import annotations

import pytest
from irc_compiler.plan.target import Target
from irc_compiler.runtime.jit import host_features as host
from irc_compiler.runtime.machine.detect import host_target


@pytest.fixture(params=["avx512", "avx2", "neon", "plain"])
def target(request: pytest.FixtureRequest) -> Target:
    if request.param not in host.available_isas():
        pytest.skip(f"not run: this machine has no {request.param}")
    return host_target(request.param)
