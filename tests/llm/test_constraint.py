"""Constrained output of a random model: texts fulfil the schema, or follow the grammar."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from irc_compiler.ir.errors import UsageError
from support.models.byte_decoder import byte_llm

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "kind": {"enum": ["cat", "dog"]},
        "legs": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "kind", "legs"],
    "additionalProperties": False,
}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 3}])
def test_texts_fulfil_a_schema(options: dict[str, Any]) -> None:
    pytest.importorskip("llguidance", reason="not run: llguidance is not installed")
    llm = byte_llm()
    found = llm.generate("a cat: ", max_tokens=200, json_schema=SCHEMA, **options)
    value = json.loads(found.text)
    assert found.finish_reason == "stop" and value.keys() == {"name", "kind", "legs"}
    assert value["kind"] in ("cat", "dog") and 0 <= value["legs"] <= 99
    assert len(value["name"]) <= 8
    with llm.engine() as engine:
        tasks = [
            engine.submit("a cat: ", max_tokens=200, json_schema=json.dumps(SCHEMA), **options),
            engine.submit("other", max_tokens=30, ignore_eos=True),
        ]
        assert tasks[0].result(60).tokens == found.tokens
        wanted = llm.generate("other", max_tokens=30, ignore_eos=True)
        assert tasks[1].result(60).tokens == wanted.tokens


@pytest.mark.slow
def test_texts_follow_a_grammar() -> None:
    pytest.importorskip("llguidance", reason="not run: llguidance is not installed")
    found = byte_llm().generate("x", max_tokens=40, grammar='start: ("ab" | "cd")+ "!"')
    assert re.fullmatch(r"(ab|cd)+!", found.text) or found.finish_reason == "length"
    assert re.fullmatch(r"(ab|cd)*[ac]?!?", found.text)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"json_schema": {"type": "nonsense"}}, "cannot be used"),
        ({"json_schema": "{"}, "cannot be used"),
        ({"grammar": "start: missing"}, "cannot be used"),
        ({"grammar": ""}, "grammar is out of range"),
        ({"json_schema": 3}, "json_schema is out of range"),
        ({"json_schema": "{" * 300_000}, "json_schema is out of range"),
        ({"json_schema": {"a": object()}}, "json_schema is not JSON"),
        ({"json_schema": {}, "grammar": "start: \"a\""}, "exclude one another"),
        ({"json_schema": {}, "num_beams": 2}, "exclude one another"),
        ({"json_schema": {}, "ignore_eos": True}, "exclude one another"),
    ],
)  # fmt: skip
def test_bad_constraints_are_refused(options: dict[str, Any], what: str) -> None:
    pytest.importorskip("llguidance", reason="not run: llguidance is not installed")
    with pytest.raises(UsageError, match=what):
        byte_llm().generate("a", **options)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(UsageError, match=r"irc-compiler\[constrain\]"):
        byte_llm().generate("a", json_schema={})
