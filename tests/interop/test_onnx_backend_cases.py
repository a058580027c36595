"""ONNX's own backend tests, run by ONNX's own runner on irc.onnx_backend: a fixed part of them.

The part is every name with one of FAMILIES in it and one in SHARE of the others: conftest.py takes
the rest away, unless `--exhaustive` asks for it. What is refused stands in REFUSED with the reason,
and a test asserts that it is refused, so that the list stays true.
"""

from __future__ import annotations

import re
import unittest
import warnings
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import irc_compiler as irc
import onnx
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ONNX overflows on purpose while it makes its cases
    from onnx.backend.test import BackendTest
    from onnx.backend.test.loader import load_model_tests

SHARE = 8
FAMILIES = re.compile(
    "matmul|gemm|sequence|optional|_opt|if_|loop|scan|string|strnorm|regex|tfidf|quantizelinear"
)
# Names of cases -> why irc does not run them.
REFUSED = {
    r"gradient_of": "training: differentiating a graph",
}
# Names of cases -> why they can't agree.
DIFFERENT = {
    r"bernoulli": "the values are random, with NumPy's generator",
    r"loop16_seq_none": "ONNX's runner takes the length of scalars in a sequence",
    r"attention_4d_causal_fp16_expanded": "f16 scores are rounded once, when they are stored",
}
if find_spec("PIL") is None:
    DIFFERENT[r"image_decoder"] = "not run: Pillow is not installed"


def _matches(name: str, patterns: dict[str, str]) -> bool:
    return any(re.search(p, name) for p in patterns)


def in_ci(name: str) -> bool:
    """Whether a case of ONNX is of the part that CI runs."""
    return bool(FAMILIES.search(name)) or zlib.crc32(name.encode()) % SHARE == 0


def _cases() -> dict[str, type[unittest.TestCase]]:
    """The runner's test classes without what is refused or can't agree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = BackendTest(irc.onnx_backend, __name__)
    classes: dict[str, type[unittest.TestCase]] = {}
    for label, case in runner.test_cases.items():
        for name in [n for n in dir(case) if n.startswith("test_")]:
            plain = name.removesuffix("_cpu")
            out = "RealModel" in label or name.endswith("_cuda")
            if out or _matches(plain, REFUSED) or _matches(plain, DIFFERENT):
                delattr(case, name)
        if any(n.startswith("test_") for n in dir(case)):
            classes[label] = case
    return classes


globals().update(_cases())


def _refused_cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [c for kind in ("node", "simple") for c in load_model_tests(kind=kind)]
    return [c for c in found if _matches(c.name, REFUSED)]


@pytest.mark.parametrize("case", _refused_cases(), ids=lambda c: c.name)
def test_what_is_refused_is_refused_clearly(case: Any) -> None:
    model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
    with pytest.raises(irc.UnsupportedOperationError):
        irc.onnx_backend.prepare(model)
