"""-q, -v, colours, --json everywhere, and shells' completion."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.api.progress import show_progress
from irc_compiler.cli.logging import color_text
from irc_compiler.cli.main import COMMANDS, main, make_parser

ROOT = Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "samples" / "digits" / "digits.onnx")
Captured = pytest.CaptureFixture[str]


AS_JSON = {
    "convert": [DIGITS, "-o", "m.xml"],
    "compile": [DIGITS, "-o", "m.irc"],
    "run": [DIGITS, "--input", "image=x.npy"],
    "bench": [DIGITS, "--seconds", "0.02"],
    "compare": [DIGITS],
    "profile": [DIGITS, "--runs", "1"],
    "demo": [],
    "inspect": [DIGITS],
    "quantize": [DIGITS, "--weights", "int4", "-o", "q.onnx"],
    "graph": [DIGITS, "-o", "g.dot"],
    "doctor": [],
    "cache": [],
}
# What has no data to print, or is tested with a model of its own (tests/cli/commands).
WITHOUT_JSON = {"completion", "serve", "shim", "generate", "chat"}


def test_every_verb_is_there() -> None:
    assert set(AS_JSON) | WITHOUT_JSON == set(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("verb", AS_JSON)
@pytest.mark.parametrize("speech", [[], ["-q"], ["-vv"]], ids=["plain", "quiet", "verbose"])
def test_json_is_one_object(verb: str, speech: list[str], here: Path, capsys: Captured) -> None:
    assert main([verb, *AS_JSON[verb], "--json", *speech]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    found = json.loads(lines[0], parse_constant=pytest.fail)  # NaN and Infinity are not JSON
    assert found["schema"] == 1
    check_units(found)


def test_json_of_known_sizes_counts_in_numbers(here: Path, capsys: Captured) -> None:
    """What is text where sizes are symbols."""
    x = ops.parameter("x", [4, 8])
    irc.save_model(ops.model({"y": ops.matmul(x, np.ones((8, 2), np.float32))}), "m.xml")
    assert main(["inspect", "m.xml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["flops"] == 2 * 4 * 8 * 2 and found["inputs"][0]["shape"] == [4, 8]
    check_units(found)


def check_units(found: dict[str, Any]) -> None:
    for path, value in numbers_in(found):
        unit = UNITS.search(path[-1]) or path[-1] in UNITLESS or set(path) & COUNTS
        assert unit, (path, value)


# A number's key ends in its unit, or the number has none: counts and ratios.
UNITS = re.compile(r"(^|_)(us|s|bytes|bits|gflops|gb_per_s|items_per_second)$")
UNITLESS = {
    "schema", "threads", "requests", "calls", "ratio", "error", "share", "share_of_peak", "cores",
    "usable_cores", "entries", "elements", "out_of_tolerance", "largest", "relative", "worst_at",
    "images", "accuracy", "largest_difference", "native_steps", "python_steps", "kernels",
    "regions", "region", "step", "parameters", "shape", "values", "flops", "layers", "metric",
    "float_metric", "speedup", "sqnr_db",
}  # fmt: skip
# Counts by name.
COUNTS = {"operations", "operations_after", "rewrites", "bodies"}


def numbers_in(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers_in(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from numbers_in(inner, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def test_numbers_that_json_has_not_are_text(here: Path, capsys: Captured) -> None:
    x = ops.parameter("x", [4])
    irc.save_model(ops.model({"y": ops.log(x), "z": ops.greater(x, np.float32(0))}), "m.xml")
    np.save("x.npy", np.array([0, -1, 1, np.inf], np.float32))
    assert main(["run", "m.xml", "--input", "x=x.npy", "--json"]) == 0
    y, z = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["outputs"]
    assert y["values"] == ["-inf", "nan", 0, "inf"] and z["values"] == [False, False, True, True]


@pytest.mark.parametrize("verb", COMMANDS)
def test_options_have_one_format(verb: str) -> None:
    """The model first, long options in kebab-case, -o for what is written, -q and -v."""
    actions = make_parser(verb)._actions
    options = [o for a in actions for o in a.option_strings]
    assert all(re.fullmatch(r"-[a-z]|--[a-z0-9]+(-[a-z0-9]+)*", o) for o in options)
    assert {"-h", "-q", "-v", "--quiet", "--verbose"} <= set(options)
    positional = [a.dest for a in actions if not a.option_strings]
    first = {"demo": [], "doctor": []} | {
        name: [argument]
        for name, argument in (("cache", "action"), ("completion", "shell"), ("shim", "program"))
    }
    assert positional[:1] == first.get(verb, ["model"])
    assert ("-o" in options) == (verb in {"convert", "compile", "run", "graph", "quantize"})
    assert ("--json" in options) == (verb not in WITHOUT_JSON - {"generate"})


def test_json_of_written_files(here: Path, capsys: Captured) -> None:
    assert main(["compile", DIGITS, "-o", "m.irc", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["size_bytes"] == Path("m.irc").stat().st_size and found["precision"] == "f32"
    assert found["native_steps"] == 5 and found["python_steps"] == []
    assert main(["run", "m.irc", "--input", "image=x.npy", "--json"]) == 0
    (output,) = json.loads(capsys.readouterr().out)["outputs"]
    assert output["name"] == "probabilities" and output["shape"] == [1, 10]
    assert sum(output["values"]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("verb", ["convert", "compile", "run", "graph"])
def test_quiet(verb: str, here: Path, capsys: Captured) -> None:
    """Verbs that write files say nothing next to them; a run without a file still has a result."""
    to = ["-o", "y.npz"] if verb == "run" else []
    assert main([verb, *AS_JSON[verb], *to, "-q"]) == 0
    done = capsys.readouterr()
    assert done.out == "" and done.err == ""
    if verb == "run":
        assert main([verb, *AS_JSON[verb], "-q"]) == 0
        done = capsys.readouterr()
        assert done.out.startswith("probabilities  float32[1, 10]\n  [[") and done.err == ""


def test_verbose(here: Path, capsys: Captured) -> None:
    words = ["compile", DIGITS, "-o", "m.irc"]
    assert main(words) == 0
    plain = capsys.readouterr()
    assert plain.err == ""
    assert main([*words, "-v"]) == 0
    one = capsys.readouterr()
    assert "pass fuse_matmul_add: " in one.err and "applied" not in one.err
    assert main([*words, "-vv"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told.count("[fuse_activations] take_activation at Relu_hidden1: applied") == 1
    assert main(words) == 0
    assert capsys.readouterr().err == ""
    assert main([*words, "-q", "-v"]) == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert color_text("x", Terminal()) == "\x1b[1;31mx\x1b[0m"
    assert color_text("x", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert color_text("x", Terminal()) == "x"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert color_text("x", Terminal()) == "x"


def test_a_short_wait_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longer is told on a terminal: test_streams.py."""
    monkeypatch.setattr("sys.stderr", quick := Terminal())
    with show_progress("compiling m.onnx"):
        pass
    assert quick.getvalue() == ""
