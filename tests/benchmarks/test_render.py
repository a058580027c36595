"""benchmarks.render: the page and the charts of docs/ are those of the result files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def render(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import render

    return render


def results(render: Any, date: str, cpu: str, *rows: Any) -> Any:
    from benchmarks.measurement.result_files import Bar, Machine, Results

    machine = Machine(cpu, 2, ("avx2",), None, None)
    bars = (Bar("models", "f32", 1.2, 1.0),)
    return Results(date, "measured", machine, {"python": "3.11"}, bars, rows)


def rows(name: str, mine: float, *others: float, threads: int = 1) -> list[Any]:
    from benchmarks.measurement.result_files import engine_rows

    names = ("irc", "onnxruntime", "openvino", "openvino defaults")
    medians = dict(zip(names, (mine, *others), strict=False))
    return engine_rows("models", name, threads, "f32", medians=medians, minima={}, error=0.0)


@pytest.mark.slow
def test_docs_equal_what_result_files_render(render: Any) -> None:
    assert render.main(["--check"]) == 0, "run python -m benchmarks.render"


def test_page_holds_a_table_of_each_machine_in_four_pages(render: Any) -> None:
    page = render.PAGE.read_text(encoding="utf-8")
    compiling = render.COMPILE_PAGE.read_text(encoding="utf-8")
    assert len(page.splitlines()) <= 210 and len(compiling.splitlines()) <= 70
    held = render.HELD_PAGE.read_text(encoding="utf-8")
    limits = render.LIMITS_PAGE.read_text(encoding="utf-8")
    for name in render.tables(render.all_results()):
        holder = compiling if name.startswith("compile-") else held if "-held-to-" in name else page
        holder = limits if name.startswith("limits-") else holder
        assert f"<!-- table: {name} -->" in holder, name


def test_fastest_engine_counts_and_defaults_do_not(render: Any) -> None:
    assert render.best_ratio(rows("lstm", 1.0, 3.0, 1.5, 0.5)) == 1.5
    assert render.best_ratio(rows("lstm", 1.0)) is None


def test_limits_are_shown_of_models_that_are_little_faster(render: Any) -> None:
    from benchmarks.measurement.result_files import engine_rows

    def row(suite: str, name: str, seconds: float, shares: dict[str, float]) -> list[Any]:
        medians = {"irc": 1.0, "onnxruntime": 2.0, "openvino": seconds}
        return engine_rows(
            suite, name, 2, "f32", medians=medians, minima={}, error=0.0, measures=shares
        )

    near = {"peak_share": 0.97, "bandwidth_share": 0.031}
    found = results(
        render, "2026-01-01", "A",
        *row("models", "lstm", 1.14, near), *row("neighbours", "c3d", 1.15, near),
        *row("neighbours", "r3d", 1.05, near), *row("models", "gpt2", 1.1, {}),
    )  # fmt: skip
    assert render.tables([found])["limits-a"].splitlines()[2:] == [
        "| model | precision | threads | ratio | peak | memory |",
        "| --- | --- | --- | --- | --- | --- |",
        "| r3d | f32 | 2 | 1.05 | 0.97 | 0.03 |",
        "| two-layer bidirectional LSTM | f32 | 2 | 1.14 | 0.97 | 0.03 |",
    ]
    without = results(render, "2026-01-01", "B", *row("models", "gpt2", 1.1, {}))
    assert "limits-b" not in render.tables([without])


def test_newest_file_of_a_machine_counts_and_others_are_apart(render: Any) -> None:
    old = results(render, "2026-01-01", "A", *rows("lstm", 1.0, 2.0), *rows("gpt2", 1e-3, 2e-3))
    new = results(render, "2026-01-02", "A", *rows("lstm", 1.0, 0.5))
    other = results(render, "2026-01-03", "B", *rows("lstm", 1.0, 4.0))
    made = render.tables([old, other, new])
    assert "| 0.50 |" in made["models-a"] and "| 1 | 2 |  | 2.00 |" in made["models-a"]
    assert "geometric mean 1.00 (bar 1.2), least 0.50 (bar 1.0): not met" in made["models-a"]
    assert "| 4.00 |" in made["models-b"] and "| 0.50 |" not in made["models-b"]
    assert made["losses"].splitlines()[2:] == [
        "| A | models: two-layer bidirectional LSTM | f32 | 1 | 0.50 |"
    ]


def test_compile_times_have_a_table_of_their_own(render: Any) -> None:
    from benchmarks.measurement.result_files import Row

    def row(kind: str, engine: str, seconds: float, ratio: float | None = None) -> Row:
        measures = {"cpu_seconds": 2 * seconds}
        suite = f"compile {kind}"
        return Row(suite, "lstm", engine, 2, "f32", None, seconds, ratio, None, measures)

    mine = [row("cold", "irc", 2.0), row("warm", "irc", 0.5)]
    peers = [
        row(kind, engine, 1.0, ratio)
        for kind, ratio in (("cold", 0.5), ("warm", 2.0))
        for engine in ("onnxruntime", "openvino")
    ]
    made = render.tables([results(render, "2026-01-01", "A", *mine, *peers)])
    assert set(made) == {"losses", "compile-a"} and len(made["losses"].splitlines()) == 2
    title = "two-layer bidirectional LSTM"
    cells = "2.00 | 0.50 | 1.00 | 1.00 | 0.50 | 2.00 | 4.00 | 2.00"
    assert f"| {title} | {cells} |" in made["compile-a"]
    assert "| geometric mean |  |  |  |  | 0.50 | 2.00 |" in made["compile-a"]
    # They date no table of run times, and say nothing of its packages.
    runs = results(render, "2026-01-01", "A", *rows("lstm", 1.0, 2.0))
    compiles = results(render, "2026-01-02", "A", *mine, *peers)
    of_runs = render.tables([runs])
    assert render.tables([runs, compiles])["models-a"] == of_runs["models-a"]


def test_page_keeps_its_prose(render: Any) -> None:
    page = "a\n<!-- table: losses -->\nold\n<!-- end -->\nb\n"
    made = render.render_page(page, [results(render, "2026-01-01", "A")])
    assert made.startswith("a\n<!-- table: losses -->\n\n| machine") and "old" not in made
    assert made.endswith("<!-- end -->\nb\n")
    with pytest.raises(KeyError):
        render.render_page(page.replace("losses", "other"), [])


def test_result_file_reads_what_was_written(render: Any, tmp_path: Path) -> None:
    from benchmarks.measurement.result_files import print_results, read_results

    made = results(render, "2026-01-01", "A", *rows("lstm", 1.0, 2.0), *rows("gpt2", 3.0))
    path = tmp_path / "file.json"
    path.write_text(print_results(made))
    assert read_results(path) == made
    data = json.loads(path.read_text())
    for wrong in (
        data | {"schema": 0},
        data | {"other": 1},
        data | {"rows": [data["rows"][0] | {"median": -1.0}]},
        data | {"rows": [data["rows"][0] | {"ratio": 1.0}]},
        data | {"rows": [data["rows"][0]] * 2},
        data | {"rows": [{"suite": "models"}]},
    ):
        path.write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=r"file\.json"):
            read_results(path)


def test_added_rows_replace_those_of_the_same_key(render: Any, tmp_path: Path) -> None:
    from benchmarks.measurement.result_files import add_rows, print_results, read_results

    path = tmp_path / "file.json"
    add_rows(path, [*rows("lstm", 1.0, 2.0), *rows("gpt2", 1.0)])
    add_rows(path, rows("lstm", 4.0, 2.0))
    found = {(r.name, r.engine): r.median for r in read_results(path).rows}
    assert found == {("lstm", "irc"): 4, ("lstm", "onnxruntime"): 2, ("gpt2", "irc"): 1}
    elsewhere = dataclasses.replace(read_results(path), packages={"python": "2"})
    path.write_text(print_results(elsewhere))
    with pytest.raises(SystemExit, match="other packages"):
        add_rows(path, [])


def test_result_files_in_the_tree_state_machine_and_source(render: Any) -> None:
    for path in sorted(render.FOLDER.glob("*.json")):
        file = render.read_results(path)
        assert path.name.startswith(f"{file.date}-{render.slug(file.machine.cpu)}"), path
        assert file.source == "measured" or file.source.startswith("converted from docs/"), path
        assert {"python", "onnxruntime", "openvino"} <= file.packages.keys(), path


def test_chart_has_a_bar_per_row_and_count_of_threads(render: Any) -> None:
    from benchmarks.chart import chart

    text = chart({("f32 2x2x2", 1): 1.2, ("f32 2x2x2", 2): 0.9, ("f64 <3", 1): 9.0})
    assert text.startswith("<svg") and text.count('height="11"') == 3 and "f64 &lt;3" in text


def test_machines_that_are_held_to_an_instruction_set_are_in_no_chart(render: Any) -> None:
    from benchmarks.measurement.result_files import HELD, Bar, Row

    product = [
        Row("gemm f32", "1x1x1", "irc", 1, "f32", 1.0),
        Row("gemm f32", "1x1x1", "openvino", 1, "f32", 2.0, ratio=2.0),
    ]
    plain = results(render, "2026-01-01", "A", *rows("lstm", 1.0, 4.0), *product)
    plain = dataclasses.replace(plain, bars=(*plain.bars, Bar("gemm f32", "f32", 1.0, 1.0)))
    held = results(render, "2026-01-02", f"A{HELD}AVX2", *rows("lstm", 1.0, 2.0))
    assert "A, held to" not in render.charts([plain, held])["models.svg"]
    assert "products-a-held-to-avx2" not in render.tables([plain, held])


def test_an_engine_that_is_not_held_has_no_ratio(
    render: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.measurement.result_files import cpu_name

    monkeypatch.setenv("IRC_ISA", "avx2")
    assert [r.ratio for r in rows("lstm", 1.0, 4.0, 2.0)] == [None, None, 2.0]
    assert cpu_name().endswith(", held to AVX2")
