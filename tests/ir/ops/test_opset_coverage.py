"""Every operation of OpenVINO's operation sets 1 to 16 is read, under each of its versions."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest
from irc_compiler.ir.ops import find

OPSETS = range(1, 17)
# Factories that build a node without a factory of the set: what each is in an IR.
_DIRECT = {
    "assign": "Assign",
    "constant": "Constant",
    "if_op": "If",
    "loop": "Loop",
    "parameter": "Parameter",
    "read_value": "ReadValue",
    "result": "Result",
    "tensor_iterator": "TensorIterator",
}
_CREATE = re.compile(r"_get_node_factory_opset(\d+)\(\)\.create\(\s*[\"'](\w+)[\"']")
# Not covered, with the reason.
MISSING: dict[tuple[str, int], str] = {}
# Members of OpenVINO's tables of the sets without a factory in Python, and not known to irc.
WITHOUT_FACTORY = (("LSTMSequence", 1), ("MOE", 16), ("SparseConv", 1))


def operations_of(opset: int) -> set[tuple[str, int]]:
    """Kind and version of each factory in openvino.opsetN, from its source."""
    found: set[tuple[str, int]] = set()
    module: Any = importlib.import_module(f"openvino.opset{opset}")
    for name, member in inspect.getmembers(module, callable):
        if name in _DIRECT:
            found.add((_DIRECT[name], opset))
            continue
        matches = _CREATE.findall(inspect.getsource(inspect.unwrap(member)))
        assert matches, f"openvino.opset{opset}.{name} makes no node that this test can see"
        found |= {(kind, int(version)) for version, kind in matches}
    return found


@pytest.mark.slow
def test_every_operation_is_known() -> None:
    listed = set().union(*map(operations_of, OPSETS))
    assert len(listed) > 200
    missing = {(kind, version) for kind, version in listed if find(kind, version) is None}
    assert missing == set(MISSING)


def test_operations_without_a_factory() -> None:
    for kind, version in WITHOUT_FACTORY:
        assert find(kind, version) is None, f"{kind} {version} is there: take it off the list"
