"""Ways to break a file: its bytes, the words of its text, the values of its JSON.

All draw from a random.Random, so that a seed names a broken file.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any

from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.program import SCALAR_OPS

# What readers of numbers, lists and words stumble over.
WORDS = (
    "-1 0 1 2 3 7 255 65536 2147483648 9223372036854775807 18446744073709551615 1e400 nan ? ..."
    " 1..2 5.. , , f32 i64 string u1 dynamic opset1 opset8 opset13 irc Const Result Parameter If"
    " Loop Reshape MatMul Concat Gather Softmax true false maybe \u0661 &amp; x 1,2"
).split(" ")
PLAN_WORDS = [*SCALAR_OPS, *(d.value for d in DType), "input", "output", "arena", "constant", "max"]
NUMBERS = [-1, 0, 1, 2, 3, 31, 64, 2**31, 2**62, 2**63, -(2**63), 10**30, 0.5, 1e308]
VALUES: list[Any] = [None, True, [], {}, [0], "", "x", {"$": "RuntimeDim", "index": 9}, *NUMBERS]
_VALUE = re.compile(r'"[^"]*"')


def break_bytes(data: bytes, rng: random.Random) -> bytes:
    """One to four edits of bytes: flipped, cut, doubled, moved, replaced by telling values."""
    text = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not text:
            return bytes(text)
        at = rng.randrange(len(text))
        size = rng.choice([1, 1, 2, 4, 8, 64])
        how = rng.randrange(7)
        if how == 0:
            text[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            text[at : at + size] = rng.randbytes(size)
        elif how == 2:
            del text[at : at + size]
        elif how == 3:
            text[at:at] = text[at : at + size]
        elif how == 4:
            del text[at:]
        elif how == 5:
            other = rng.randrange(len(text))
            text[at : at + size] = text[other : other + size]
        else:
            number = rng.choice([0, 1, 0x7F, 0x80, 0xFF, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1])
            text[at : at + 8] = number.to_bytes(8, rng.choice(["little", "big"]))
    return bytes(text)


def break_text(text: str, rng: random.Random) -> str:
    """One to four edits of XML: bytes, values of attributes, lines."""
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(6)
        if kind == 0 and text:
            at = rng.randrange(len(text))
            text = text[:at] + chr(rng.randrange(1, 256)) + text[at + 1 :]
        elif kind in (1, 2) and (places := list(_VALUE.finditer(text))):
            one = rng.choice(places)
            new = rng.choice(places)[0] if kind == 1 else f'"{rng.choice(WORDS)}"'
            text = text[: one.start()] + new + text[one.end() :]
        elif lines := text.splitlines():
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            if kind == 3:
                del lines[i]
            elif kind == 4:
                lines.insert(i, lines[j])
            else:
                lines[i], lines[j] = lines[j], lines[i]
            text = "\n".join(lines)
    return text


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*at, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*at, key))


def at_path(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def break_json(document: Any, rng: random.Random, within: tuple[Any, ...] = ()) -> None:
    """Change one thing somewhere in a JSON value, or in a part of it, whatever its fields are."""
    listed = [(*within, *p) for p in places(at_path(document, within))]
    if not listed:
        return
    path = rng.choice(listed)
    parent, key = at_path(document, path[:-1]), path[-1]
    old = parent[key]
    how = rng.choice(["near", "near", "near", "any", "other place", "twice", "gone"])
    if how == "near" and isinstance(old, str):
        parent[key] = rng.choice(PLAN_WORDS)
    elif how == "near" and isinstance(old, int):
        parent[key] = rng.choice([old + 1, old - 1, -old, old * 2, not old, rng.choice(NUMBERS)])
    elif how == "other place":
        parent[key] = copy.deepcopy(at_path(document, rng.choice(listed)))
    elif how == "twice" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(old))
    elif how == "gone":
        del parent[key]
    else:
        parent[key] = copy.deepcopy(rng.choice(VALUES))


def break_artifact(parts: Any, rng: random.Random) -> bytes:
    """A forged artefact: something inside changed, and every digest right again (see
    tests/support/artifacts.py for Parts)."""
    how = rng.choice(["plan", "plan", "plan", "specs", "specs", "manifest", "graph", "bytes"])
    if how == "manifest":
        break_json(parts.manifest, rng)
        return parts.seal(json.dumps(parts.manifest).encode())
    kinds = [s[0] for s in parts.manifest["sections"]]
    if how == "bytes":
        kind = rng.choice(kinds)
        parts.replace(kind, break_bytes(parts.section(kind), rng))
        return parts.seal()
    if how == "graph" or "plan" not in kinds:
        parts.manifest["plans"].clear()
        text = parts.section("graph").decode()
        parts.replace("graph", break_text(text, rng).encode("utf-8", "surrogatepass"))
        return parts.seal()
    document = json.loads(parts.section("plan"))
    within = ("plan", "specs") if how == "specs" and document["plan"]["specs"] else ()
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        break_json(document, rng, within)
    parts.replace("plan", json.dumps(document).encode())
    return parts.seal()
