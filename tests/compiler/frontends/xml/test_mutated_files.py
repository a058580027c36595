"""Mutated files: whatever happens to a model's text or weights, the reader answers with a graph or
with one of irc's errors. `IRC_FUZZ_SECONDS=600` goes on for ten minutes."""

from __future__ import annotations

import os
import random
import time

import pytest
from irc_compiler.compiler.export.xml import to_xml_text
from irc_compiler.compiler.frontends.xml.reader import read_xml
from irc_compiler.ir.errors import Error
from support.frontends.ir_text import DATA

from fuzz.mutations import break_text

SECONDS = float(os.environ.get("IRC_FUZZ_SECONDS", "0"))
TRIES = 120
NAMES = sorted(path.stem for path in DATA.glob("*.xml"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_mutations_end_in_a_graph_or_an_error(name: str) -> None:
    text, weights = (DATA / f"{name}.xml").read_text(), (DATA / f"{name}.bin").read_bytes()
    # A changed file that is fine is written again without an accident, too.
    end, seed = time.monotonic() + SECONDS / len(NAMES), 0
    while seed < TRIES or time.monotonic() < end:
        rng = random.Random(f"{name} {seed}")
        broken = break_text(text, rng)
        data = weights if rng.random() < 0.8 else weights[: rng.randrange(len(weights) + 1)]
        started = time.process_time()
        try:
            graph = read_xml(broken.encode("utf-8", "surrogatepass"), data)
            to_xml_text(graph)
        except Error as error:
            assert error.what and len(str(error)) < 20_000, seed
        except Exception as error:
            error.add_note(f"seed {seed} of {name}")
            raise
        assert time.process_time() - started < 5, seed
        seed += 1
