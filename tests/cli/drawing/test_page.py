"""`irc graph`: the files it writes, and the page in a browser without a network."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import irc_compiler as irc
import pytest
from irc_compiler import ops
from irc_compiler.cli.drawing.plan_picture import draw_plan
from irc_compiler.cli.main import main
from irc_compiler.ir.ops import NonZero
from irc_compiler.plan.text import print_plan
from lxml import etree
from support.chromium import BROWSER

ROOT = Path(__file__).resolve().parents[3]
DIGITS = str(ROOT / "samples" / "digits" / "digits.onnx")
ENCODER = str(ROOT / "tests" / "support" / "models" / "encoder_torch_dynamo.onnx")
SVG = "{http://www.w3.org/2000/svg}"


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "digits.html"
    assert main(["graph", DIGITS, "-o", str(path), "--profile"]) == 0
    return path.read_text()


def test_the_page_needs_no_network(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert not [t for t, _ in tags.seen if t in ("link", "img", "iframe", "base")]
    for _, attributes in tags.seen:
        assert not {"src", "href", "srcset", "onload", "onclick"} & set(attributes)
    without_namespaces = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(
        r"https?:|url\((?!#)|@import|fetch\(|XMLHttp|WebSocket", without_namespaces
    )


def test_the_page_shows_each_pass(page: str) -> None:
    stages = data_of(page)["stages"]
    assert stages[0]["name"] == "as read" and not stages[0]["same"]
    by_name = {s["name"]: s for s in stages if not s["same"]}
    assert list(by_name) == ["as read", "fuse_matmul_add", "fuse_activations"]
    kinds = [b["title"] for b in by_name["fuse_activations"]["boxes"]]
    assert kinds == ["Parameter", "Gemm", "Gemm", "Gemm", "Gemm", "Softmax", "Result"]
    gemm = by_name["fuse_activations"]["boxes"][1]
    details = dict(map(tuple, gemm["details"]))
    assert (
        details["output 0"].startswith("f32[N, 64]")
        and 'activation="relu"' in details["attributes"]
    )
    assert details["computes"] == "MatMul_product1, Add_sum1, Relu_hidden1"
    assert gemm["time"].endswith("of the run") and 0 < gemm["share"] <= 1
    assert (
        "fuse_activations" in str(by_name["fuse_activations"]["changes"])
        or (by_name["fuse_activations"]["changes"])
    )
    drawn = re.findall(r'<template id="stage-(\d+)">', page)
    assert drawn == [str(n) for n, s in enumerate(stages) if not s["same"]]
    assert page.count('class="box product fresh"') == 5  # 2 new sums, then 3 activations


@pytest.mark.slow
def test_svg(tmp_path: Path) -> None:
    path = tmp_path / "encoder.svg"
    assert main(["graph", ENCODER, "-o", str(path)]) == 0
    root = etree.parse(path).getroot()
    width, height = map(float, root.get("viewBox").split()[2:])
    boxes = [g for g in root.iter(f"{SVG}g") if g.get("data-box")]
    frames = []
    for box in boxes:
        x, y = map(float, re.findall(r"-?[\d.]+", box.get("transform")))
        frame = box.find(f"{SVG}rect")
        w, h = float(frame.get("width")), float(frame.get("height"))
        frames.append((x, y, x + w, y + h))
        for text in box.iter(f"{SVG}text"):  # 11 px of a monospaced face: 6.63 px a character
            assert len(text.text) * 6.63 <= w and 8 < float(text.get("y")) < h
    for n, a in enumerate(frames):
        assert 0 <= a[0] and a[2] <= width and 0 <= a[1] and a[3] <= height
        for b in frames[n + 1 :]:
            assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    assert len(frames) > 40 and len(list(root.iter(f"{SVG}path"))) > len(frames)


def test_dot_and_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.dot"
    for stage, gemms in (("as read", 2), ("0", 2), ("fuse_activations", 4)):
        assert main(["graph", DIGITS, "-o", str(path), "--stage", stage]) == 0
        text = path.read_text()
        assert text.startswith("digraph ") and text.rstrip().endswith("}")
        assert text.count('"Gemm\\n') == gemms and ' -> n1 [label="f32[N, 64]"]' in text
    assert main(["graph", DIGITS, "-o", str(path), "--stage", "fly"]) == 2
    assert "fuse_matmul_add" in capsys.readouterr().err
    assert main(["graph", DIGITS, "-o", str(tmp_path / "x.png")]) == 2


def test_the_plan_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.html"
    assert main(["graph", DIGITS, "-o", str(path), "--plan"]) == 0
    stage = data_of(path.read_text())["stages"][-1]
    titles = [b["title"] for b in stage["boxes"]]
    assert stage["name"] == "plan"
    assert titles == ["Parameter", *["gemm"] * 4, "softmax", "Result"]
    details = dict(map(tuple, stage["boxes"][1]["details"]))
    plan = print_plan(irc.compile_model(DIGITS).plan)
    assert f"  {details['step']}\n" in plan
    for name, text in details.items():
        assert not name.startswith("b") or f"  {name} {text}\n" in plan
    for more in (["--plan"], ["--stage", "plan"]):
        assert main(["graph", DIGITS, "-o", str(tmp_path / "p.dot"), *more]) == 0
        text = (tmp_path / "p.dot").read_text()
        assert text.count(" -> ") == 6 and text.count('"gemm\\n') == 4


def test_the_plan_of_several_regions_is_drawn(tmp_path: Path) -> None:
    data = ROOT / "tests" / "data" / "ir"
    assert main(["graph", str(data / "loop.onnx"), "-o", str(tmp_path / "l.dot"), "--plan"]) == 0
    assert '"Loop\\n' in (tmp_path / "l.dot").read_text()
    x = ops.parameter("x", ("N",))
    where = ops.apply(NonZero(), x)
    model = irc.compile_model(ops.model({"y": ops.relu(ops.convert(where, "f32"))}))
    picture = draw_plan(model.plan, "plan")
    titles = [b.title for b in picture.boxes]
    assert titles == ["Parameter", "NonZero", "elementwise", "Result"]
    assert [(a, b) for a, b, _ in picture.edges] == [(0, 1), (1, 2), (2, 3)]


def test_bodies_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = str(ROOT / "tests" / "data" / "ir" / "loop.onnx")
    path = tmp_path / "loop.html"
    assert main(["graph", loop, "-o", str(path)]) == 0
    stages = {s["name"]: s for s in data_of(path.read_text())["stages"]}
    inside = stages["inside Loop 'y', as read"]
    assert [b["title"] for b in inside["boxes"]].count("Identity") == 2
    assert "inside Loop 'y', at the end" in stages
    outer = next(b for b in stages["as read"]["boxes"] if b["title"] == "Loop")
    assert "nodes: see" in dict(map(tuple, outer["details"]))["bodies"]
    for stage, drawn in ((None, "Loop"), ("inside Loop 'y', as read", "Identity")):
        chosen = ["--stage", stage] if stage else []
        assert main(["graph", loop, "-o", str(tmp_path / "l.dot"), *chosen]) == 0
        assert f'"{drawn}\\n' in (tmp_path / "l.dot").read_text()
    capsys.readouterr()
    assert main(["inspect", loop, "--json"]) == 0
    bodies = json.loads(capsys.readouterr().out)["bodies"]
    assert bodies == {"Loop 'y'": {"Identity": 2, "Add": 1, "Unsqueeze": 1}}


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>\"'&<!--\x07"
    x = ops.parameter(evil, ["N"])
    model = ops.model({evil: x + x})
    irc.save_model(model, tmp_path / "evil.xml")
    for suffix in (".html", ".svg", ".dot"):
        path = tmp_path / f"out{suffix}"
        assert main(["graph", str(tmp_path / "evil.xml"), "-o", str(path)]) == 0
        text = path.read_text()
        assert "<script>alert" not in text and "\x07" not in text
        if suffix == ".svg":
            etree.fromstring(text.encode())
        if suffix == ".html":
            assert text.count("<script") == 2


def in_browser(path: Path, wish: str, *words: str) -> str:
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"]
    done = subprocess.run(
        [*command, "--virtual-time-budget=5000", *words, f"file://{path}#{wish}"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


@pytest.mark.skipif(not BROWSER, reason="not run: no Chromium (apt install chromium)")
class TestInChromium:
    @pytest.mark.slow
    def test_stage_search_and_box(self, page: str, tmp_path: Path) -> None:
        path = tmp_path / "page.html"
        path.write_text(page)
        names = [s["name"] for s in data_of(page)["stages"]]
        last = names.index("fuse_activations")
        shown = in_browser(path, f"stage={last}&find=hidden2", "--dump-dom")
        assert 'data-ready="yes"' in shown
        assert '<span id="found" role="status">1 of 1</span>' in shown
        assert re.search(r'class="box product fresh hit on" data-box="2"', shown)
        panel = shown.split('<aside id="panel">')[1].split("</aside>")[0]
        assert "Gemm_sum2, Relu_hidden2" in panel and "<dt>time</dt>" in panel

    @pytest.mark.slow
    def test_texts_fit_their_boxes(self, tmp_path: Path) -> None:
        """As the browser measures them, not as we think they are."""
        path = tmp_path / "page.html"
        assert main(["graph", ENCODER, "-o", str(path)]) == 0
        probe = (
            "<script>const wide=[...document.querySelectorAll('#scene .box')].filter(b=>"
            "[...b.querySelectorAll('text')].some(t=>t.getComputedTextLength()>"
            "b.querySelector('rect').getBBox().width-4)).length;"
            "const all=document.querySelectorAll('#scene .box').length;"
            "document.body.dataset.wide=wide+' of '+all;</script></body>"
        )
        path.write_text(path.read_text().replace("</body>", probe))
        assert re.search(r'data-wide="0 of 9\d"', in_browser(path, "stage=0", "--dump-dom"))
