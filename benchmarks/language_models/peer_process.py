"""Peers of benchmarks.llm as processes, which wait while another engine is measured."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WORKER = Path(__file__).with_name("peer_worker.py")


@dataclass(frozen=True)
class Measurement:
    """Tokens per second of prefill and decode, and the tokens that were generated."""

    prefill: float
    decode: float
    tokens: list[int]


class PeerError(Exception):
    """Why a peer does not take part."""


class PeerProcess:
    """A peer in an environment of its own. PeerError where it cannot run the model.

    python: the interpreter of an environment that has the peer.
    """

    def __init__(self, python: str, peer: str, path: str, threads: int, context: int) -> None:
        words = [python, str(_WORKER), peer, path, str(threads), str(context)]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        first = self._read()
        if "error" in first:
            self.close()
            raise PeerError(first["error"])
        self.version = str(first["ready"])

    def __call__(self, prompt: Sequence[int], count: int) -> Measurement:
        """Read a prompt, then generate `count` tokens greedily."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"prompt": list(prompt), "count": count}) + "\n")
        self._process.stdin.flush()
        found = self._read()
        return Measurement(found["prefill"], found["decode"], found["tokens"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise PeerError(f"the process of the peer ended with exit code {code}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
