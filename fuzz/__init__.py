"""Fuzzing of models, files and stored plans against oracles: `python -m fuzz --help`."""

import sys
from pathlib import Path

# Builders of models and artifacts are those of the tests: tests/support.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
