"""Compiling a graph with or without the passes."""

from __future__ import annotations

from collections.abc import Callable

import irc_compiler as irc
import pytest
from irc_compiler.compiler.options import Options
from irc_compiler.ir.graph import Graph


@pytest.fixture
def compile_graph() -> Callable[..., irc.CompiledModel]:
    def compile_(
        graph: Graph, optimised: bool, threads: int, precision: str = "f32"
    ) -> irc.CompiledModel:
        options = Options(precision, verify=True, stop_after=None if optimised else 0)
        return irc.CompiledModel(irc.Model(graph), options, threads)

    return compile_
