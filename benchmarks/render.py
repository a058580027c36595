"""Renders the tables of docs/performance.md, docs/compile-time.md and two pages of docs/dev/, and
the charts of docs/, from result files.

    python -m benchmarks.render            # write the pages and the SVG files
    python -m benchmarks.render --check    # exit code 1 if one of them differs
    python -m benchmarks.render --print benchmarks/results/FILE.json    # all rows of a file

A page keeps its prose; a table is between `<!-- table: NAME -->` and `<!-- end -->`. Result
files of one processor are one machine, for which the newest file that has a row counts.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from .chart import chart
from .measurement.machine_limits import ENOUGH_RATIO, LIMIT_COLUMNS
from .measurement.result_files import FOLDER, HELD, Results, Row, all_results, read_results

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "performance.md"
COMPILE_PAGE = DOCS / "compile-time.md"
HELD_PAGE = DOCS / "dev" / "held-to-avx2.md"
LIMITS_PAGE = DOCS / "dev" / "machine-limits.md"
# Suites of whole models.
_MODELS = ("models", "neighbours")
_TABLE = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

# Models in the order of the table, by their names in benchmarks/workloads/zoo.py.
TITLES = {
    "mlp-small": "MLP 32-64-64-1",
    "mlp-digits": "MLP 784-512-256-10, batch 64",
    "mlp-wide": "MLP 1024-4096-4096-1000, batch 16",
    "bert-base": "BERT-base, sequence 128",
    "minilm": "MiniLM-like, sequence 32",
    "minilm-dynamic": "MiniLM-like, dynamic sizes",
    "gpt2": "GPT-2, sequence 64",
    "gpt2-cache": "GPT-2 with cache as inputs and outputs",
    "vit-tiny": "ViT-tiny",
    "resnet-18": "ResNet-18",
    "resnet-50": "ResNet-50",
    "mobilenet-v2": "MobileNetV2",
    "lstm": "two-layer bidirectional LSTM",
    "resnet-18-int8": "ResNet-18, QDQ int8",
}


def machines(files: Iterable[Results]) -> dict[str, list[Results]]:
    """Files by processor; files, and the files of a processor, newest first."""
    found: dict[str, list[Results]] = {}
    for file in sorted(files, key=lambda f: f.date, reverse=True):
        found.setdefault(file.machine.cpu, []).append(file)
    return found


def select_files(files: Iterable[Results], suites: Callable[[str], bool]) -> list[Results]:
    """The files that hold a row of the suites."""
    return [file for file in files if any(suites(row.suite) for row in file.rows)]


def times_compiles(suite: str) -> bool:
    """Whether rows of a suite are compile times, which have a page of their own."""
    return suite.startswith("compile ")


def times_runs(suite: str) -> bool:
    return not times_compiles(suite)


def newest_rows(files: Sequence[Results], suites: Callable[[str], bool]) -> list[Row]:
    """Rows of the suites. All rows of one piece of work come from one file, the newest that gives
    times for it, else the newest."""
    by_work: dict[tuple[object, ...], list[Row]] = {}
    for file in files:
        mine: dict[tuple[object, ...], list[Row]] = {}
        for row in file.rows:
            if suites(row.suite):
                work = row.suite, row.name, row.threads, row.precision
                mine.setdefault(work, []).append(row)
        for work, rows in mine.items():
            old = by_work.get(work)
            if old is None or (_has_times(rows) and not _has_times(old)):
                by_work[work] = rows
    return [row for rows in by_work.values() for row in rows]


def _has_times(rows: Iterable[Row]) -> bool:
    return any(row.median is not None for row in rows)


def best_ratio(rows: Iterable[Row]) -> float | None:
    """The ratio of the fastest reference engine of one piece of work. An engine with its default
    settings may compute in another precision, and does not count."""
    counted = (row for row in rows if not row.engine.endswith(" defaults"))
    return min((row.ratio for row in counted if row.ratio is not None), default=None)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def milliseconds(row: Row | None) -> str:
    if row is None or row.median is None:
        return ""
    value = row.median * 1e3
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def machine_line(files: Sequence[Results]) -> str:
    """The machine, the engines' versions and the dates of its results."""
    machine, packages = files[0].machine, files[0].packages
    engines = ", ".join(f"{n} {packages[n]}" for n in ("onnxruntime", "openvino") if n in packages)
    dates = sorted({file.date for file in files})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{machine.cores} cores; Python {packages['python']}, {engines}; {when}.\n"


def models_table(files: Sequence[Results]) -> str:
    """A row per model: times with one thread, ratios with one and two; f32 (or int8), and bf16."""
    rows = newest_rows(files, lambda suite: suite == "models")
    lines: list[list[str]] = []
    for name in sorted({r.name for r in rows}, key=list(TITLES).index):
        cells = [TITLES[name]]
        for precision in ("f32", "bf16"):
            kinds = (precision, "int8") if precision == "f32" else (precision,)
            mine = [r for r in rows if r.name == name and r.precision in kinds]
            one = {r.engine: r for r in mine if r.threads == 1}
            engines = ("irc", "onnxruntime", "openvino") if precision == "f32" else ("irc",)
            cells += [milliseconds(one.get(engine)) for engine in engines]
            for threads in (1, 2):
                ratio = best_ratio(r for r in mine if r.threads == threads)
                cells.append("" if ratio is None else f"{ratio:.2f}")
        lines.append(cells)
    head = ["model", "irc ms", "onnxruntime ms", "OpenVINO ms", "ratio", "2 threads", "bf16 ms"]
    return table([*head, "ratio", "2 threads"], lines) + "\n" + "\n".join(_verdicts(files, rows))


def _verdicts(files: Sequence[Results], rows: Sequence[Row]) -> list[str]:
    """A sentence per precision: geometric mean and least of the ratios, with their bars."""
    bars = {(b.suite, b.precision): b for f in reversed(files) for b in f.bars}
    found: list[str] = []
    for precision in ("f32", "bf16", "int8"):
        mine = [r for r in rows if r.precision == precision and r.ratio is not None]
        ratios = {w: best_ratio(g) or 0.0 for w, g in _by_work(mine)}
        bar = bars.get(("models", precision))
        if ratios and bar:
            mean, least = geometric_mean(list(ratios.values())), min(ratios.values())
            met = "met" if mean >= bar.mean and least >= bar.least else "not met"
            found.append(
                f"{precision}: geometric mean {mean:.2f} (bar {bar.mean}), least {least:.2f} "
                f"(bar {bar.least}): {met}.  "
            )
    return [*found, ""]


def _by_work(rows: Iterable[Row]) -> list[tuple[tuple[str, str, int], list[Row]]]:
    def work(row: Row) -> tuple[str, str, int]:
        return row.suite, row.name, row.threads

    return [(k, list(g)) for k, g in itertools.groupby(sorted(rows, key=work), work)]


def products_table(files: Sequence[Results]) -> str:
    """A row per group of benchmarks.gemm: geometric mean and least ratio, the largest shares."""
    rows = newest_rows(files, lambda suite: suite.startswith("gemm "))
    bars = {b.suite: b for f in reversed(files) for b in f.bars}
    lines: list[list[str]] = []
    for suite in dict.fromkeys(r.suite for r in rows):
        bar = bars[suite]
        cells = [suite.removeprefix("gemm "), f"{bar.mean:.2f}, {bar.least:.2f}"]
        for threads in (1, 2):
            mine = [r for r in rows if r.suite == suite and r.threads == threads]
            ratios = [best_ratio(g) or 0.0 for _, g in _by_work(mine)]
            shares = [r.measures["peak_share"] for r in mine if "peak_share" in r.measures]
            cells.append(f"{geometric_mean(ratios):.2f}, {min(ratios):.2f}" if ratios else "")
            cells.append(f"{min(shares):.0%} to {max(shares):.0%}" if shares else "")
        lines.append(cells)
    head = ["products", "bar", "ratio, least", "share of peak"]
    return table([*head, "2 threads: ratio, least", "share of peak"], lines)


def compile_table(files: Sequence[Results]) -> str:
    """A row per model: seconds of a cold and of a warm compile and of the peers, ratios to OpenVINO
    and seconds of all CPUs."""
    rows = newest_rows(files, times_compiles)
    lines: list[list[str]] = []
    ratios: dict[str, list[float]] = {"cold": [], "warm": []}
    for name in sorted({r.name for r in rows}, key=list(TITLES).index):
        found = {(r.suite.split()[1], r.engine): r for r in rows if r.name == name}
        shown = [found[key] for key in (("cold", "irc"), ("warm", "irc"))]
        shown += [found["cold", engine] for engine in ("onnxruntime", "openvino")]
        cells = [TITLES[name], *(f"{r.minimum or 0.0:.2f}" for r in shown)]
        for kind, each in ratios.items():
            each.append(found[kind, "openvino"].ratio or 0.0)
            cells.append(f"{each[-1]:.2f}")
        cells += [f"{shown[i].measures['cpu_seconds']:.2f}" for i in (0, 3)]
        lines.append(cells)
    means = [f"{geometric_mean(each):.2f}" for each in ratios.values()]
    lines.append(["geometric mean", "", "", "", "", *means, "", ""])
    head = ["model", "cold s", "warm s", "onnxruntime s", "OpenVINO s", "ratio cold", "ratio warm"]
    return machine_line(files) + "\n" + table([*head, "cold CPU s", "OpenVINO CPU s"], lines)


def losses_table(found: dict[str, list[Results]]) -> str:
    """Every piece of work for which a reference engine is more than 1 % faster than irc. Compile
    times have a page of their own."""
    lines: list[list[str]] = []
    for cpu, files in found.items():
        runs = newest_rows(files, times_runs)
        for (suite, name, threads), rows in _by_work(runs):
            for precision in dict.fromkeys(r.precision for r in rows):
                ratio = best_ratio(r for r in rows if r.precision == precision)
                if ratio is not None and ratio < 0.99:
                    what = TITLES.get(name, name)
                    lines.append([cpu, f"{suite}: {what}", precision, str(threads), f"{ratio:.2f}"])
    return table(["machine", "work", "precision", "threads", "ratio"], lines)


def limits_table(files: Sequence[Results]) -> str:
    """Every model whose ratio is below ENOUGH_RATIO, with the shares of its time that the limits of
    the machine account for."""
    rows = newest_rows(files, lambda suite: suite in _MODELS)
    lines: list[tuple[float, list[str]]] = []
    for (_, name, threads), group in _by_work(rows):
        for precision in dict.fromkeys(r.precision for r in group):
            mine = [r for r in group if r.precision == precision]
            ratio, own = best_ratio(mine), next((r for r in mine if r.engine == "irc"), None)
            if ratio is None or ratio >= ENOUGH_RATIO or own is None or not _has_limits(own):
                continue
            shares = [f"{own.measures[n]:.2f}" for n in LIMIT_COLUMNS.values()]
            cells = [TITLES.get(name, name), precision, str(threads), f"{ratio:.2f}", *shares]
            lines.append((ratio, cells))
    head = ["model", "precision", "threads", "ratio", *LIMIT_COLUMNS]
    return machine_line(files) + "\n" + table(head, [cells for _, cells in sorted(lines)])


def _has_limits(row: Row) -> bool:
    return row.suite in _MODELS and set(LIMIT_COLUMNS.values()) <= set(row.measures)


def slug(cpu: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", cpu.lower()).strip("-")


def tables(files: Iterable[Results]) -> dict[str, str]:
    """Every table that a page may hold, by name. A machine has those of what was measured on it."""
    files = list(files)
    runs_of = machines(select_files(files, times_runs))
    made = {"losses": losses_table(runs_of)}
    for cpu, of in machines(select_files(files, times_compiles)).items():
        made[f"compile-{slug(cpu)}"] = compile_table(of)
    for cpu, of in runs_of.items():
        made[f"models-{slug(cpu)}"] = machine_line(of) + "\n" + models_table(of)
        if any(_has_limits(row) for file in of for row in file.rows):
            made[f"limits-{slug(cpu)}"] = limits_table(of)
        if sizes := select_files(of, lambda suite: suite.startswith("gemm ")):
            made[f"products-{slug(cpu)}"] = products_table(sizes)
    return made


def render_page(page: str, files: Iterable[Results]) -> str:
    """The page with every table rendered anew. Raises KeyError for an unknown table."""
    made = tables(files)
    return _TABLE.sub(lambda m: f"{m[1]}\n{made[m[2]].rstrip()}\n\n{m[3]}", page)


def charts(files: Iterable[Results]) -> dict[str, str]:
    """The SVG files: models and products of the machine whose results are the newest, of those that
    are not held to an instruction set."""
    plain = [f for f in files if HELD not in f.machine.cpu]
    found = machines(select_files(plain, times_runs)).values()
    models = next(of for of in found if any(r.suite == "models" for f in of for r in f.rows))
    rows = newest_rows(models, lambda suite: suite == "models")
    rows = [r for r in rows if r.precision in ("f32", "int8")]
    order = list(TITLES)
    bars = {(n, t): best_ratio(g) or 0.0 for (_, n, t), g in _by_work(rows)}
    sizes = next(of for of in found if any(r.suite == "gemm f32" for f in of for r in f.rows))
    products = newest_rows(sizes, lambda suite: suite.startswith("gemm "))
    suites = list(dict.fromkeys(r.suite for r in products))
    by_group = {
        (f"{s.removeprefix('gemm ')} {n}", t): best_ratio(g) or 0.0
        for (s, n, t), g in sorted(_by_work(products), key=lambda e: suites.index(e[0][0]))
    }
    return {
        "models.svg": chart(
            dict(sorted(bars.items(), key=lambda e: order.index(e[0][0]))),
            title=models[0].machine.cpu,
        ),
        "products.svg": chart(by_group, title=sizes[0].machine.cpu),
    }


def print_rows(results: Results) -> str:
    """Every row of a file as a table, for reading."""
    lines = [
        [
            row.suite, row.name, row.engine, str(row.threads), row.precision,
            milliseconds(row), "" if row.ratio is None else f"{row.ratio:.2f}",
            ", ".join(f"{k} {v:g}" for k, v in row.measures.items()),
        ]
        for row in results.rows
    ]  # fmt: skip
    head = ["suite", "work", "engine", "threads", "precision", "median ms", "ratio", "other"]
    return table(head, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.render", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file differs")
    parser.add_argument("--print", type=Path, metavar="FILE", help="print a result file's rows")
    options = parser.parse_args(arguments)
    if options.print:
        print(print_rows(read_results(options.print)), end="")
        return 0
    files = all_results(FOLDER)
    pages = (PAGE, COMPILE_PAGE, HELD_PAGE, LIMITS_PAGE)
    made = {page: render_page(page.read_text(encoding="utf-8"), files) for page in pages}
    made |= {DOCS / name: text for name, text in charts(files).items()}
    differ = [p for p, text in made.items() if not p.exists() or p.read_text("utf-8") != text]
    for path in differ:
        print(f"{'differs' if options.check else 'written'}: {path.relative_to(DOCS.parent)}")
        if not options.check:
            path.write_text(made[path], encoding="utf-8")
    return 1 if differ and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
