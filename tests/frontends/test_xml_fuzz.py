"""Mutated files: whatever happens to a model's text or weights, the reader answers with a graph or
with one of irc's errors. `IRC_FUZZ_SECONDS=600` goes on for ten minutes."""

from __future__ import annotations

import os
import random
import re
import time

import pytest
from ir_text import DATA
from irc.compiler.export.xml import to_xml_text
from irc.compiler.frontends.xml.reader import read_xml
from irc.ir.errors import Error

SECONDS = float(os.environ.get("IRC_FUZZ_SECONDS", "0"))
TRIES = 120
NAMES = sorted(path.stem for path in DATA.glob("*.xml"))
WORDS = (
    "-1 0 1 2 3 7 255 65536 2147483648 9223372036854775807 18446744073709551615 1e400 nan ? ..."
    " 1..2 5.. , , f32 i64 string u1 dynamic opset1 opset8 opset13 Const Result"
    " Parameter If Loop Reshape MatMul Concat Gather Softmax true false maybe \u0661 &amp; x 1,2"
).split(" ")
_VALUE = re.compile(r'"[^"]*"')


def mutate(text: str, rng: random.Random) -> str:
    """One to four edits: bytes, values of attributes, lines."""
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(6)
        if kind == 0:
            at = rng.randrange(len(text))
            text = text[:at] + chr(rng.randrange(1, 256)) + text[at + 1 :]
        elif kind in (1, 2):
            places = list(_VALUE.finditer(text))
            one = rng.choice(places)
            new = rng.choice(places)[0] if kind == 1 else f'"{rng.choice(WORDS)}"'
            text = text[: one.start()] + new + text[one.end() :]
        else:
            lines = text.splitlines()
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            if kind == 3:
                del lines[i]
            elif kind == 4:
                lines.insert(i, lines[j])
            else:
                lines[i], lines[j] = lines[j], lines[i]
            text = "\n".join(lines)
    return text


@pytest.mark.parametrize("name", NAMES)
def test_mutations_end_in_a_graph_or_an_error(name: str) -> None:
    text, weights = (DATA / f"{name}.xml").read_text(), (DATA / f"{name}.bin").read_bytes()
    # A changed file that is fine is written again without an accident, too.
    end, seed = time.monotonic() + SECONDS / len(NAMES), 0
    while seed < TRIES or time.monotonic() < end:
        rng = random.Random(f"{name} {seed}")
        broken = mutate(text, rng)
        data = weights if rng.random() < 0.8 else weights[: rng.randrange(len(weights) + 1)]
        started = time.monotonic()
        try:
            graph = read_xml(broken.encode("utf-8", "surrogatepass"), data)
            to_xml_text(graph)
        except Error as error:
            assert error.what and len(str(error)) < 20_000, seed
        except Exception as error:
            error.add_note(f"seed {seed} of {name}")
            raise
        assert time.monotonic() - started < 5, seed
        seed += 1
