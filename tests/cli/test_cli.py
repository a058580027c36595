"""The command line: results, messages, exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.cli.formatting import format_bytes
from irc_compiler.cli.main import COMMANDS, main, make_parser
from irc_compiler.plan.text import print_plan
from support.models import small
from support.models.control_flow import control_flow
from support.models.oracles import run_onnxruntime

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "samples" / "digits"


def irc_command(
    *words: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "irc_compiler", *words],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "model.onnx")
    images = np.load(DIGITS / "held_out.npz")["images"]
    np.save(tmp_path / "batch.npy", (images[:9].reshape(9, 64) / 16).astype(np.float32))
    return tmp_path


def test_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "97.78% of 360 images" in out and "same digits" in out
    assert "says 7, is 3" in out
    plan = out.split("the fused plan\n")[1].splitlines()
    assert [line.split()[1] for line in plan] == ["gemm"] * 4 + ["softmax"]


@pytest.mark.slow
def test_convert_compile_run(folder: Path) -> None:
    assert irc_command("convert", "model.onnx", "-o", "m.xml", cwd=folder).returncode == 0
    compiled = irc_command("compile", "m.xml", "-o", "m.irc", cwd=folder)
    assert compiled.returncode == 0
    assert "precision  f32" in compiled.stdout and "0 in Python" in compiled.stdout
    x = np.load(folder / "batch.npy")
    wanted = run_onnxruntime(DIGITS / "digits.onnx", {"image": x})["probabilities"]
    for model in ("model.onnx", "m.xml", "m.irc"):
        done = irc_command("run", model, "--input", "image=batch.npy", "-o", "y.npz", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("probabilities  float32[9, 10]")
        got = np.load(folder / "y.npz")["probabilities"]
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        (folder / "y.npz").unlink()


def test_what_standard_sets_cannot_say_is_kept_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    x, w, r = (rng.standard_normal(s).astype(np.float32) for s in ((4, 1, 3), (1, 8, 3), (1, 8, 2)))
    inputs = {"x": (x.shape, np.float32), "w": w, "r": r}
    model = small.op_model("LSTM", inputs, hidden_size=2, input_forget=1)
    source, target = tmp_path / "m.onnx", tmp_path / "m.xml"
    source.write_bytes(model.SerializeToString())
    assert main(["convert", str(source), "-o", str(target)]) == 4
    assert "irc convert --dialect" in capsys.readouterr().err
    assert not target.exists()
    assert main(["convert", str(source), "--dialect", "-o", str(target)]) == 0
    first, again = (irc.compile_model(path)(x)[0] for path in (source, target))
    np.testing.assert_array_equal(first, again)


def test_inspect_says_what_a_model_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(DIGITS / "digits.onnx"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert found["inputs"] == [{"name": "image", "dtype": "f32", "shape": ["N", 64]}]
    layers = [(64, 64), (64, 64), (64, 32), (32, 10)]
    assert found["parameters"] == sum(k * n + n for k, n in layers)
    products = sum(2 * k * n for k, n in layers)
    # Per row: the products, one addition of a bias and one Relu per element.
    assert found["flops"].endswith("*N") and int(found["flops"][:-2]) >= products
    assert found["operations_after"] == {"Gemm": 4, "Softmax": 1}
    assert found["parameter_bytes"] == 4 * found["parameters"]
    # Two layers are a MatMul and an Add, three end in a Relu.
    assert found["rewrites"] == {"take_activation": 3, "take_addend": 2}
    assert main(["inspect", str(DIGITS / "digits.onnx")]) == 0
    told = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert told["input"] == "image  f32[N, 64]" and told["output"].endswith("  f32[N, 10]")
    assert told["parameters"].startswith(f"{found['parameters']:,} (")
    assert told["arithmetic"] == f"{found['flops']} FLOP a call"
    assert told["parameters"].endswith(f" ({format_bytes(found['parameter_bytes'])})")
    assert told["rewrites"] == "3 take_activation, 2 take_addend"
    assert told["afterwards"] == "4 Gemm, 1 Softmax"
    assert all(f"{n} {kind}" in told["operations"] for kind, n in found["operations"].items())


def test_inspect_prints_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(DIGITS / "digits.onnx")
    assert main(["inspect", "--plan", model]) == 0
    text = capsys.readouterr().out
    assert text.splitlines() == print_plan(irc.compile_model(model).plan).splitlines()
    assert "region 0" in text and " softmax [N, 10]" in text
    assert main(["inspect", "--plan", "--json", model]) == 0
    assert json.loads(capsys.readouterr().out)["plan"] == text.splitlines()


def test_inspect_looks_into_bodies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loop.onnx"
    path.write_bytes(control_flow("rnn_loop").SerializeToString())
    assert main(["inspect", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ((way, kinds),) = found["bodies"].items()
    assert way.startswith("Loop ") and kinds["MatMul"] == 1
    assert main(["inspect", str(path)]) == 0
    (told,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("body "))
    assert way in told and "1 MatMul" in told


BAD = {
    "no verb": ([], 2, "usage: irc VERB"),
    "unknown verb": (["fly"], 2, "unknown verb 'fly'"),
    "unknown option": (["inspect", "model.onnx", "--fast"], 2, "--fast"),
    "missing file": (["inspect", "none.onnx"], 3, "none.onnx"),
    "unknown kind": (["inspect", "batch.npy"], 3, ".onnx or .xml"),
    "wrong output": (["convert", "model.onnx", "-o", "m.txt"], 2, "*.xml"),
    "unknown input": (["run", "model.onnx", "--input", "z=batch.npy"], 5, "image"),
    "missing input": (["run", "model.onnx"], 5, "image"),
    "pickled input": (["run", "model.onnx", "--input", "image=objects.npy"], 3, "objects.npy"),
    "unreadable shape": (["run", "model.onnx", "--shape", "image=1;2"], 2, "1;2"),
    "wrong size": (["compile", "model.onnx", "-o", "m.irc", "--shape", "image=4,63"], 2, "63"),
    "unsupported": (["inspect", "strange.onnx"], 4, "Strange"),
    "a folder": (["inspect", "."], 3, "a folder"),
    "input twice": (["run", "model.onnx", *["--input", "image=batch.npy"] * 2], 2, "twice"),
    "no such input": (["bench", "model.onnx", "--input", "z=batch.npy"], 5, "image"),
    "no folder": (
        ["run", "model.onnx", "--input", "image=batch.npy", "-o", "no/y.npz"],
        5,
        "no/y.npz",
    ),
    "no folder for a trace": (["profile", "model.onnx", "--trace", "no/t.json"], 5, "no/t.json"),
    "no runs": (["profile", "model.onnx", "--runs", "0"], 2, "--runs"),
    "no threads": (["bench", "model.onnx", "--threads", "1,0"], 2, "--threads"),
    "negative time": (["bench", "model.onnx", "--seconds", "-1"], 2, "--seconds"),
    "tolerance": (["compare", "model.onnx", "--rtol", "nan"], 2, "--rtol"),
    "seed": (["compare", "model.onnx", "--seed", "-5"], 2, "--seed"),
    "garbage": (["inspect", "garbage.onnx"], 3, "garbage.onnx"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_usage(
    name: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from onnx import TensorProto, helper, save

    np.save(folder / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    (folder / "garbage.onnx").write_bytes(b"\xff" * 100)
    node = helper.make_node("Strange", ["x"], ["y"], domain="nobody")
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
    graph = helper.make_graph([node], "g", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("nobody", 1)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "strange.onnx")

    words, code, text = BAD[name]
    before = sorted(p.name for p in folder.iterdir())
    monkeypatch.chdir(folder)
    assert main(words) == code
    done = capsys.readouterr()
    assert text in done.err
    assert "internal error" not in done.err and done.out == ""
    assert sorted(p.name for p in folder.iterdir()) == before


def test_every_verb_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for name, verb in COMMANDS.items():
        assert main([name, "--help"]) == 0
        told = capsys.readouterr().out
        assert told.splitlines()[-1] == f"example: {verb.example}"
        assert verb.example.split("irc ")[1].startswith(name)
        assert main(["help", name]) == 0
        assert capsys.readouterr().out == told
        assert all(action.help for action in make_parser(name)._actions)


OWN_TESTS = {"serve", "shim", "generate", "chat"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OWN_TESTS))
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are printed, in a folder that holds what they name. A server, a program that runs
    under another name and language models have tests of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copy(DIGITS / "digits.onnx", "model.onnx")
    irc.save_model(irc.read_model("model.onnx"), "model.xml")
    irc.compile_model("model.onnx").export("model.irc")
    np.save("batch.npy", np.zeros((2, 64), np.float32))
    np.savez("samples.npz", image=np.random.default_rng(0).random((16, 64), np.float32))
    example = COMMANDS[name].example.removeprefix('eval "$(').removesuffix(')"')
    # The example names its input x; this model's is called image.
    words = example.replace("x=batch", "image=batch").split()[1:]
    assert main([*words, *(["--seconds", "0"] if name == "bench" else [])]) == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"irc {irc.__version__}\n"


def test_a_fault_of_irc_itself_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def faulty(arguments: list[str]) -> int:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("irc_compiler.cli.main._dispatch", faulty)
    assert main(["demo"]) == 5
    assert "internal error: ZeroDivisionError: division by zero\n" in capsys.readouterr().err
    monkeypatch.setenv("IRC_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["demo"])
