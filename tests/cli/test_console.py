"""Everything printed is escaped: a model whose every name is hostile goes through every verb."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler.api.progress import show_progress
from irc_compiler.cli.console import EscapingStream, escape_output, to_json
from irc_compiler.cli.main import COMMANDS, main
from irc_compiler.ir.escape import escape_text, join_lines
from onnx import TensorProto, helper

CLI = Path(irc.__file__).parent / "cli"
Captured = pytest.CaptureFixture[str]
# ESC, BEL, CR, a line that looks like irc's, C1's CSI, DEL, bidirectional marks, separators, BOM.
HOSTILE = (
    "\x1b[2J\x07\r\nirc: error: forged\t\x9b1m\x7f\x85\u202e\u2066\u2069\u2028\u2029\ufeff\"'<"
)
SHOWN = r"\x1b[2J\x07\r\nirc: error: forged\t\x9b1m\x7f\x85\u202e\u2066\u2069\u2028\u2029\ufeff"


def hostile_proto(
    op_type: str = "Add",
    domain: str = "",
    attributes: dict[str, Any] | None = None,
    size: str = "N",
) -> onnx.ModelProto:
    x = helper.make_tensor_value_info(f"x{HOSTILE}", TensorProto.FLOAT, [size, 4])
    y = helper.make_tensor_value_info(f"y{HOSTILE}", TensorProto.FLOAT, ["M", 4])
    w = helper.make_tensor(f"w{HOSTILE}", TensorProto.FLOAT, [4, 4], np.eye(4).ravel())
    nodes = [
        helper.make_node("MatMul", [x.name, w.name], [f"p{HOSTILE}"], f"product{HOSTILE}"),
        helper.make_node("Relu", [f"p{HOSTILE}"], [f"r{HOSTILE}"], f"relu{HOSTILE}"),
        # Runs in Python, so that reports name it.
        helper.make_node("NonZero", [f"r{HOSTILE}"], [f"z{HOSTILE}"], f"zero{HOSTILE}"),
        helper.make_node("Cast", [f"z{HOSTILE}"], [f"c{HOSTILE}"], f"cast{HOSTILE}", to=1),
        helper.make_node("ReduceSum", [f"c{HOSTILE}"], [f"s{HOSTILE}"], f"s{HOSTILE}", keepdims=0),
        helper.make_node(
            op_type, [f"r{HOSTILE}", f"s{HOSTILE}"], [y.name], f"last{HOSTILE}", domain=domain,
            **(attributes or {}),
        ),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, f"graph{HOSTILE}", [x], [y], [w], doc_string=HOSTILE)
    sets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=sets, producer_name=HOSTILE, ir_version=8)
    helper.set_model_props(model, {f"key{HOSTILE}": f"value{HOSTILE}"})
    return model


@pytest.fixture
def hostile(here: Path) -> str:
    """A model whose names, and the name of whose file, are hostile."""
    name = f"m{HOSTILE}.onnx".replace("/", "")
    Path(name).write_bytes(hostile_proto().SerializeToString())
    return name


def raw_characters(text: str) -> set[str]:
    """The characters of a text that no terminal may see raw."""
    categories = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {c for c in text if unicodedata.category(c) in categories} - {"\n"}


def run_escaped(words: list[str], capsys: Captured, code: int = 0) -> str:
    """What a command prints; asserts its exit code and that every character is harmless."""
    assert main(words) == code, capsys.readouterr().err
    done = capsys.readouterr()
    assert not raw_characters(done.out) and not raw_characters(done.err), words
    lines = (done.out + done.err).split("\n")
    assert not [line for line in lines if line.startswith("irc: error: forged")]
    return done.out + done.err


GOOD: dict[str, list[str]] = {
    "inspect": [],
    "convert": [],
    "compile": ["-vv"],
    "run": ["-v"],
    "bench": ["--seconds", "0.01", "--against", "onnxruntime"],
    "compare": ["--layers", "--bisect"],
    "profile": ["--runs", "1", "--trace", "trace.json", "--xml", "profile.xml"],
    "graph": ["--profile"],
    "quantize": ["--weights", "int4"],
}
WITHOUT_A_MODEL = {"demo", "doctor", "cache", "completion", "serve", "shim"} | {"generate", "chat"}


def test_every_verb_is_there() -> None:
    assert set(GOOD) | WITHOUT_A_MODEL == set(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("verb", GOOD)
@pytest.mark.parametrize("form", ["text", "json"])
def test_hostile_names(verb: str, form: str, hostile: str, capsys: Captured) -> None:
    np.savez("in.npz", **{f"x{HOSTILE}": np.ones((2, 4), np.float32)})
    words = [verb, hostile, *GOOD[verb]]
    if verb not in ("inspect", "convert", "compile", "quantize"):
        words += ["--input", "in.npz"]
    if form == "json":
        said = run_escaped(
            [*words, "--json", *(["-q"] if "-vv" not in words and "-v" not in words else [])],
            capsys,
        )
        json.loads(next(line for line in said.split("\n") if line.startswith("{")))
    else:
        said = run_escaped(words, capsys)
        assert verb == "bench" or SHOWN[:20] in said


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["inspect", "run", "profile", "bench"])
def test_hostile_names_in_an_artifact(verb: str, here: Path, capsys: Captured) -> None:
    path = f"{HOSTILE}.irc"
    irc.compile_model(hostile_proto()).export(path, code=True)
    np.savez("in.npz", **{f"x{HOSTILE}": np.ones((2, 4), np.float32)})
    more = {"profile": ["--runs", "1", "-v"], "bench": ["--seconds", "0.01"], "run": ["-v"]}
    inputs = [] if verb == "inspect" else ["--input", "in.npz"]
    run_escaped([verb, path, *inputs, *more.get(verb, [])], capsys)
    if verb == "run":
        assert SHOWN[:20] in run_escaped([verb, path], capsys, 5)  # the input is missing
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) // 2])
    assert SHOWN[:20] in run_escaped([verb, path, *inputs], capsys, 3)


FAULTS: dict[str, Callable[[], onnx.ModelProto]] = {
    "operation": lambda: hostile_proto(f"Add{HOSTILE}"),
    "domain": lambda: hostile_proto("Add", f"domain{HOSTILE}"),
    "attribute": lambda: hostile_proto(attributes={f"a{HOSTILE}": HOSTILE}),
    "size": lambda: hostile_proto(size=f"N{HOSTILE}"),
    "undefined name": lambda: with_input(f"nothing{HOSTILE}"),
    "duplicate name": lambda: with_output(f"p{HOSTILE}"),
}


def with_input(name: str) -> onnx.ModelProto:
    model = hostile_proto()
    model.graph.node[-1].input[1] = name
    return model


def with_output(name: str) -> onnx.ModelProto:
    model = hostile_proto()
    model.graph.node[1].output[0] = name
    return model


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("verb", GOOD)
def test_hostile_names_in_errors(fault: str, verb: str, here: Path, capsys: Captured) -> None:
    name = f"m{HOSTILE}.onnx"
    Path(name).write_bytes(FAULTS[fault]().SerializeToString())
    code = main([verb, name])
    done = capsys.readouterr()
    assert code in (3, 4) and not raw_characters(done.out + done.err), done.err
    assert "\\x1b" in done.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["inspect", f"none{HOSTILE}.onnx"], 3),
        (["inspect", "m.onnx", f"--{HOSTILE}"], 2),
        ([HOSTILE], 2),
        (["run", "{}", "--input", f"x={HOSTILE}.npy"], 3),
        (["run", "{}", "--input", HOSTILE], 3),
        (["run", "{}", "--shape", f"x={HOSTILE}"], 2),
        (["run", "{}", "--shape", f"{HOSTILE}=1"], 5),
        (["profile", "{}", "--runs", HOSTILE], 2),
        (["graph", "{}", "--stage", HOSTILE, "-o", "g.svg"], 2),
        (["convert", "{}", "-o", HOSTILE], 2),
        (["bench", "{}", "--against", HOSTILE], 2),
    ],
)
def test_hostile_arguments(words: list[str], code: int, hostile: str, capsys: Captured) -> None:
    got = main([w.format(hostile) if w == "{}" else w for w in words])
    done = capsys.readouterr()
    assert got in (code, 2, 3, 5) and not raw_characters(done.out + done.err)
    assert not [x for x in done.err.split("\n") if x.startswith("irc: error: forged")]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["doctor", "cache"])
def test_hostile_environment(
    verb: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"cache{HOSTILE}"
    monkeypatch.setenv("IRC_CACHE_DIR", str(folder))
    monkeypatch.setenv("IRC_PROGRESS", HOSTILE)
    assert SHOWN[:20] in run_escaped([verb], capsys)
    run_escaped([verb, "--json"], capsys)
    monkeypatch.setenv("IRC_CACHE_BYTES", HOSTILE)
    run_escaped([verb], capsys, 2)


@pytest.mark.parametrize("kind", ["html", "svg", "dot"])
def test_drawings(kind: str, hostile: str, capsys: Captured) -> None:
    run_escaped(["graph", hostile, "-o", f"g.{kind}"], capsys)
    text = Path(f"g.{kind}").read_text(encoding="utf-8")
    assert not raw_characters(text) and "relu" in text
    assert "<'" not in text if kind != "dot" else True


def test_the_trace_is_strict_json(hostile: str, capsys: Captured) -> None:
    assert main(["profile", hostile, "--runs", "1", "--trace", "trace.json"]) == 0
    text = Path("trace.json").read_bytes().decode("ascii")
    assert text.isprintable()
    found = json.loads(text, parse_constant=pytest.fail)
    shown = [source for e in found["traceEvents"] for source in e["args"].get("sources", ())]
    assert f"product{HOSTILE}" in shown  # a viewer's JSON parser reads the names as they are


@pytest.mark.slow
def test_tracebacks(here: Path) -> None:
    code = "import irc_compiler.cli.main as m, irc_compiler.cli.entry as e\n" \
           "def fail(words): raise ValueError(words[0])\n" \
           "m._dispatch = fail\ne.entry()"  # fmt: skip
    env = {**os.environ, "IRC_TRACEBACK": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, HOSTILE], capture_output=True, env=env, check=False
    )
    said = done.stderr.decode("utf-8")
    assert done.returncode == 1 and "Traceback" in said and not raw_characters(said)


def test_progress_and_traces(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    seen = Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setattr("irc_compiler.api.progress.FIRST_REPORT_SECONDS", 0.0)
    with escape_output(), show_progress(f"compiling {HOSTILE}"):
        while "compiling" not in seen.getvalue():
            pass
    shown = seen.getvalue().split("\r")[1]
    assert not raw_characters(shown) and shown.startswith("compiling \\x1b")
    monkeypatch.setenv("IRC_TRACE", "1")
    monkeypatch.setattr(sys, "stderr", told := io.StringIO())
    irc.compile_model(hostile_proto())
    assert "applied" in told.getvalue() and not raw_characters(told.getvalue())


def test_errors_and_reports_of_the_api(here: Path) -> None:
    with pytest.raises(irc.Error) as caught:
        irc.read_model(hostile_proto(f"Add{HOSTILE}"))
    assert not raw_characters(str(caught.value))
    assert not raw_characters(irc.compile_model(hostile_proto()).report())
    error = irc.UsageError(HOSTILE, where=HOSTILE, got=HOSTILE, expected=[HOSTILE], fix=HOSTILE)
    assert not raw_characters(str(error)) and error.where == HOSTILE
    assert str(error).count("\n") == 4


@pytest.mark.slow
def test_escapes_are_readable() -> None:
    assert escape_text("a\x1b\u202e\ud800\n\U000e0001") == r"a\x1b\u202e\ud800\n\U000e0001"
    assert escape_text("Größe 寸法 \u3000 😀 \\x1b") == "Größe 寸法 \u3000 😀 \\x1b"
    assert join_lines(["a\nb", "c"]) == "a\\nb\nc"
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert not raw_characters(escape_text(every)) and escape_text(
        escape_text(every)
    ) == escape_text(every)


def test_a_stream_of_another_encoding() -> None:
    raw = io.BytesIO()
    stream = EscapingStream(io.TextIOWrapper(raw, "ascii"))
    print("é\u202e😀\n\ud800", file=stream)
    stream.flush()
    assert raw.getvalue() == b"\\xe9\\u202e\\U0001f600\n\\ud800\n"


def test_json_has_nothing_raw() -> None:
    text = to_json({"\x7f\ud800": [HOSTILE, float("nan"), "\udfff\U0001f600"]})
    assert text.isprintable() and text.isascii()
    assert json.loads(text) == {"\x7f\\ud800": [HOSTILE, "nan", "\\udfff\U0001f600"]}


@pytest.mark.parametrize("path", sorted(CLI.rglob("*.py")), ids=lambda p: str(p.relative_to(CLI)))
def test_nothing_bypasses_the_console(path: Path) -> None:
    """No print, no write to sys.stdout or sys.stderr outside console.py, but of constants."""
    if path.name == "console.py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        told = called == "print" or called.startswith(("sys.stdout.write", "sys.stderr.write"))
        assert not told or isinstance(node.args[0], ast.Constant), f"{path}:{node.lineno}"
        joined = called in ("'\\n'.join", "sys.__stdout__.write", "sys.__stderr__.write")
        assert not joined or path.name in ("completion.py", "dot.py", "svg.py"), (
            f"{path}:{node.lineno}: print lines, which are escaped one by one"
        )
