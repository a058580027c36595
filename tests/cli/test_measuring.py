"""bench, profile, compare, doctor and cache."""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.cli.arguments import load_array
from irc_compiler.cli.commands import profile
from irc_compiler.cli.commands.doctor import KNOBS
from irc_compiler.cli.main import main
from irc_compiler.compiler import pipeline
from irc_compiler.runtime.execution.profile import StepTime
from lxml import etree

from tests.cli.test_layers import WRONG

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ir", "plan", "compiler", "runtime", "api", "builder", "cli", "compat")
DIGITS = str(ROOT / "samples" / "digits" / "digits.onnx")
Captured = pytest.CaptureFixture[str]


@pytest.mark.slow
def test_bench_against_reference_engines(capsys: Captured) -> None:
    words = ["bench", DIGITS, "--threads", "1,2", "--seconds", "0.05", "--json"]
    assert main([*words, "--against", "onnxruntime,openvino"]) == 0
    found = json.loads(capsys.readouterr().out)
    engines = [(r["engine"], r["threads"]) for r in found["rows"]]
    assert engines == [(e, t) for t in (1, 2) for e in ("irc", "onnxruntime", "openvino")]
    assert found["sizes_made_up"] == ["N=1"]
    for row in found["rows"]:
        assert 0 < row["min_us"] <= row["median_us"] <= row["p90_us"] <= row["p99_us"]
        assert row["error"] < 1e-5 and row["calls"] > 0


def test_bench_with_parallel_requests(capsys: Captured) -> None:
    assert main(["bench", DIGITS, "--requests", "3", "--seconds", "0.05", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["requests"] == 3 and row["calls"] >= 3


def test_profile_names_the_layers_and_writes_a_trace(tmp_path: Path, capsys: Captured) -> None:
    trace = tmp_path / "trace.json"
    assert main(["profile", DIGITS, "--runs", "2", "--trace", str(trace), "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [s["kind"] for s in steps] == ["gemm"] * 4 + ["softmax"]
    assert steps[0]["sources"] == ["MatMul_product1", "Add_sum1", "Relu_hidden1"]
    assert sum(s["share"] for s in steps) == pytest.approx(1)
    assert steps[0]["bytes"] > 64 * 64 * 4 and 0 < steps[0]["share_of_peak"] < 1.5
    # Two operations per multiply-add of the 64 x 64 weights, a bias and a maximum per output.
    done = steps[0]["gflops"] * steps[0]["time_us"] * 1e3
    assert done == pytest.approx(2 * 64 * 64 + 2 * 64) and steps[4]["gflops"] is None
    check_trace(json.loads(trace.read_text()))
    events = json.loads(trace.read_text())["traceEvents"]
    assert [(e["name"], e["args"]["name"]) for e in events[:2]] == [
        ("process_name", "irc"), ("thread_name", "steps, one after another")
    ]  # fmt: skip
    events = events[2:]
    assert len(events) == 5 and events[1]["ts"] == pytest.approx(events[0]["dur"])
    assert main(["profile", DIGITS, "--runs", "1"]) == 0
    assert "MatMul_product1 + Add_sum1 + Relu_hidden1" in capsys.readouterr().out


def check_trace(trace: dict[str, Any]) -> None:
    """By the Trace Event Format, as Perfetto and chrome://tracing read it: an object with complete
    events, which do not overlap on a thread, and metadata that names each process and thread."""
    assert trace["displayTimeUnit"] in ("ms", "ns")
    names: dict[str, set[tuple[int, ...]]] = {"process_name": set(), "thread_name": set()}
    ends: dict[tuple[int, int], float] = {}
    for event in trace["traceEvents"]:
        where = (event["pid"], event["tid"])
        assert all(type(n) is int for n in where) and isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert isinstance(event["args"]["name"], str) and event["args"]["name"]
            names[event["name"]].add(where[:1] if event["name"] == "process_name" else where)
            continue
        assert event["ph"] == "X" and isinstance(event["name"], str) and event["cat"]
        assert event["ts"] >= ends.get(where, 0.0) - 1e-9 and event["dur"] >= 0
        ends[where] = event["ts"] + event["dur"]
        assert where in names["thread_name"] and where[:1] in names["process_name"]
    assert ends


def test_profile_takes_medians_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known times: a figure for each column, the slowest step first."""
    seconds = iter([50e-6, 50e-6, 2e-6, 9e-6, 1e-6])  # two runs to warm up

    def run(inputs: object) -> list[StepTime]:
        given = {"region": 0, "native": True}
        product = {"sources": ("x", "y"), "operations": 8000, "nbytes": 2048}
        return [
            StepTime(step=0, name="a", kind="gemm", seconds=next(seconds), **given, **product),
            StepTime(step=1, name="b", kind="norm", sources=(), seconds=4e-6, nbytes=100, **given),
        ]

    monkeypatch.setattr(profile, "measured_peak", lambda unit: 4e9)
    session = SimpleNamespace(profile=run, num_threads=2)
    steps = profile.measure(cast("Any", SimpleNamespace(inputs=(), session=session)), {}, 3)
    assert [s["time_us"] for s in steps] == pytest.approx([2, 4])
    assert steps[0]["gflops"] == pytest.approx(4) and steps[0]["share_of_peak"] == 0.5
    text = profile.as_text(steps, ["N=1"])
    assert text[0].startswith("sizes: N=1, chosen by irc")
    assert [line.split() for line in text[1:4]] == [
        ["kind", "steps", "time", "share"], ["norm", "1", "4.00", "us", "66.7%"],
        ["gemm", "1", "2.00", "us", "33.3%"],
    ]  # fmt: skip
    assert text[5].split() == "time share GFLOP/s of peak memory kind computes".split()
    assert text[6].split() == ["4.00", "us", "66.7%", "100", "bytes", "norm", "b"]
    wanted = ["2.00", "us", "33.3%", "4.0", "50.0%", "2", "KiB", "gemm", "x", "+", "y"]
    assert text[7].split() == wanted
    assert text[6].index("norm") == text[7].index("gemm") == text[5].index("kind")


def test_profile_writes_the_graph_that_runs(tmp_path: Path) -> None:
    """OpenVINO's viewers look for these attributes; every value comes from the layer before."""
    path = tmp_path / "run.xml"
    assert main(["profile", DIGITS, "--runs", "1", "--xml", str(path)]) == 0
    root = etree.parse(path).getroot()
    layers = root.findall("layers/layer")
    assert [x.get("type") for x in layers] == ["Input", *["gemm"] * 4, "softmax", "Output"]
    first = layers[1].find("data")
    assert first is not None and float(str(first.get("execTimeMcs"))) > 0
    assert first.get("originalLayersNames") == "MatMul_product1,Add_sum1,Relu_hidden1"
    edges = [(e.get("from-layer"), e.get("to-layer")) for e in root.findall("edges/edge")]
    assert edges == [(str(i), str(i + 1)) for i in range(6)]
    # A layer counts its ports through, outputs after inputs; every edge joins two that there are.
    ports = [[[p.get("id") for p in x.findall(f"{s}/port")] for s in ("input", "output")]
             for x in layers]  # fmt: skip
    assert ports == [[[], ["0"]], *[[["0"], ["1"]]] * 5, [["0"], []]]
    joined = [(e.get("from-port"), e.get("to-port")) for e in root.findall("edges/edge")]
    assert joined == [("0", "0"), *[("1", "0")] * 5]


@pytest.mark.slow
def test_doctor_measures_the_machine(capsys: Captured) -> None:
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    measured, bits = found["measured"], found["machine"]["vector_bits"]
    assert {"peak_f32_gflops", "peak_f64_gflops", "read_l1_gb_per_s"} <= measured.keys()
    assert all(figure > 0 for figure in measured.values())
    # In their units: no machine is slower, or faster, than this.
    assert 2 <= measured["peak_f32_gflops"] <= 6 * bits / 32 * 4
    assert 0.5 < measured["read_memory_gb_per_s"] < 500
    assert measured["read_l1_gb_per_s"] >= 0.7 * measured["read_memory_gb_per_s"]


@pytest.mark.parametrize("against", ["reference", "onnxruntime", "openvino"])
def test_compare_agrees(against: str, capsys: Captured) -> None:
    assert main(["compare", DIGITS, "--against", against, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["equal"] and found["tensors"][0]["relative"] < 1e-6


def test_compare_finds_the_layer_and_the_rewrite(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A wrong rewrite of the second layer's Relu is found by tensor, by pass and by number."""
    monkeypatch.setattr(pipeline, "PASSES", (WRONG, *pipeline.PASSES))
    assert main(["compare", DIGITS, "--layers", "--bisect", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["equal"] and found["first_different"] == "Relu_hidden2"
    assert "break_relu" in found["passes_that_touched_it"]
    assert re.match(r"rewrite 1 of \d+: break_it of pass break_relu", found["bisect"])
    good = [t["name"] for t in found["tensors"] if t["out_of_tolerance"] == 0]
    assert good == ["Relu_hidden1", "Gemm_sum2"]


@pytest.mark.slow
def test_doctor_lists_every_knob(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRC_CACHE_BYTES", "12345")
    monkeypatch.delenv("IRC_VERIFY", raising=False)
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    knobs = {k["name"]: k for k in found["knobs"]}
    assert knobs["IRC_CACHE_BYTES"]["value"] == "12345"
    assert knobs["IRC_CACHE_BYTES"]["source"] == "environment"
    assert knobs["IRC_CACHE_BYTES"]["default"] == "2 GiB"
    assert knobs["IRC_VERIFY"]["source"] == "default" and knobs["IRC_VERIFY"]["value"] == "0"
    machine, versions = found["machine"], found["versions"]
    assert machine["features"] and machine["usable_cores"] >= 1 and machine["l1_bytes"] > 0
    assert versions["irc"] == irc.__version__ and versions["numpy"] == np.__version__
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out.splitlines()
    for name, knob in knobs.items():
        (at,) = (n for n, line in enumerate(shown) if line.startswith(f"  {name} "))
        value = knob["value"] if knob["source"] == "environment" else "not set"
        assert shown[at].split(None, 1)[1] == f"{value} (default: {knob['default']})"
        assert shown[at + 1].strip() == knob["help"]
    sources = [p for d in PACKAGES for p in (ROOT / d).rglob("*.py")]
    read = {
        name
        for path in (*sources, *ROOT.glob("*.py"))
        for name in re.findall(r"environ[^\n]*?\"(IRC_[A-Z_]+|NO_[A-Z_]+)\"", path.read_text())
    }
    assert read == {k.name for k in KNOBS}


def test_cache_is_shown_and_cleared(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    from irc_compiler.runtime.jit.disk_cache import default_cache

    monkeypatch.setenv("IRC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("IRC_CACHE_BYTES", raising=False)
    cache = default_cache()
    assert cache is not None
    cache.put("ab" * 32, b"code")
    assert main(["cache", "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["entries"], state["size_bytes"], state["folder"]) == (1, 36, str(cache.folder))
    assert main(["cache", "size"]) == 0
    assert "1 entries, 36 bytes of 2 GiB" in capsys.readouterr().out
    assert main(["cache", "list"]) == 0
    assert "abababababababab" in capsys.readouterr().out
    assert main(["cache", "list", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["listed"]
    assert entry["key"] == "ab" * 32 and entry["size_bytes"] == 36
    assert main(["cache", "clear"]) == 0
    assert "removed 1 entries" in capsys.readouterr().out and not cache.entries()


def test_run_takes_npz_and_threads(tmp_path: Path, capsys: Captured) -> None:
    x = np.zeros((2, 64), np.float32)
    np.savez(tmp_path / "in.npz", image=x)
    words = ["run", DIGITS, "--threads", "1", "--input", str(tmp_path / "in.npz")]
    assert main([*words, "-o", str(tmp_path / "y.npy")]) == 0
    assert np.load(tmp_path / "y.npy").shape == (2, 10)
    assert capsys.readouterr().out.startswith("probabilities  float32[2, 10]")


def test_an_npz_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez_compressed(path, image=np.zeros((1000, 64), np.float32))
    assert path.stat().st_size < 10_000
    with pytest.raises(irc.MemoryLimitError, match="holds more than max_memory"):
        load_array(str(path), ["image"], 250_000)
    (loaded,) = load_array(str(path), ["image"], 260_000).values()
    assert loaded.shape == (1000, 64)
    np.save(tmp_path / "in.npy", loaded)
    with pytest.raises(irc.MemoryLimitError, match="holds more than max_memory"):
        load_array(str(tmp_path / "in.npy"), ["image"], 250_000)


def test_a_member_that_is_listed_again_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = io.BytesIO()
    np.save(one, np.zeros((2, 64), np.float32))
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(9):
            made.writestr("image.npy", one.getvalue())
    reads: list[str] = []
    real = zipfile.ZipFile.open

    def opened(file: zipfile.ZipFile, name: str, *rest: Any) -> Any:
        reads.append(name)
        return real(file, name, *rest)

    monkeypatch.setattr(zipfile.ZipFile, "open", opened)
    assert list(load_array(str(tmp_path / "in.npz"), ["image"])) == ["image"]
    assert reads.count("image.npy") == 1


def test_doctor_names_a_knob_that_is_set_wrongly(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("IRC_ISA", "sse9")
    monkeypatch.setenv("IRC_CACHE_BYTES", "a lot")
    assert main(["doctor", "--json"]) == 2
    first, second = json.loads(capsys.readouterr().out)["problems"]
    assert "IRC_ISA" in first and "sse9" in first
    assert "IRC_CACHE_BYTES" in second and "a lot" in second


def test_inspect_reads_what_compile_wrote(tmp_path: Path, capsys: Captured) -> None:
    assert main(["inspect", DIGITS]) == 0
    described = capsys.readouterr().out
    assert main(["compile", DIGITS, "-o", str(tmp_path / "m.irc"), "-q"]) == 0
    assert main(["inspect", str(tmp_path / "m.irc")]) == 0
    assert capsys.readouterr().out == described
