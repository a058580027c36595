"""Makes modules importable by the tests of this folder (import mode importlib adds no path)."""

import sys
from pathlib import Path

import pytest

pytest.register_assert_rewrite("rewriting", "quantized_nets")
sys.path.insert(0, str(Path(__file__).parent))
