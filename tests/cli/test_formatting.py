"""Times, byte counts and tables as the command line prints them."""

from __future__ import annotations

import pytest
from irc_compiler.cli.formatting import (
    format_bytes,
    format_microseconds,
    format_table,
    nearest_name,
    sizes_note,
)
from irc_compiler.cli.main import main


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00 us"),
        (1.25, "1.25 us"),
        (99.94, "99.9 us"),
        (999.4, "999 us"),
        (999.6, "1.00 ms"),
        (143795.7, "144 ms"),
        (2.5e6, "2.5 s"),
    ],
)
def test_format_microseconds_has_three_digits(value: float, text: str) -> None:
    assert format_microseconds(value) == text


def test_format_bytes_has_a_unit() -> None:
    assert [format_bytes(n) for n in (80, 1536, 75 << 20)] == ["80 bytes", "1.5 KiB", "75 MiB"]


def test_format_table_fits_by_leaving_columns_out() -> None:
    header, row = ["engine", "threads", "median", "ratio"], ["irc", "1", "1.20 us", "1.00"]
    wide = format_table(header, [row])
    assert wide == ["engine  threads   median  ratio", "irc           1  1.20 us   1.00"]
    narrow = format_table(header, [row], optional=(1,), columns=24)
    assert narrow == ["engine   median  ratio", "irc     1.20 us   1.00"]
    assert format_table(header, [row], columns=12)[0] == "engine  t..."


def test_format_table_shortens_a_column_and_keeps_the_figures() -> None:
    header, row = ["tensor", "largest"], ["a" * 40, "1.0e-07"]
    assert format_table(header, [row], shortened=0, columns=30)[1] == f"{'a' * 18}...  1.0e-07"
    assert format_table(header, [row], shortened=0)[1] == f"{'a' * 40}  1.0e-07"


def test_nearest_name() -> None:
    assert nearest_name("--seconds", ["--json", "--runs"]) is None
    assert nearest_name("--rnus", ["--json", "--runs"]) == "--runs"
    assert nearest_name("inspct", ["inspect", "bench"]) == "inspect"
    assert nearest_name("zzz", ["inspect", "bench"]) is None


def test_sizes_note_says_how_to_choose_others() -> None:
    assert sizes_note([]) == []
    assert "--shape" in sizes_note(["N=1"])[0] and "N=1" in sizes_note(["N=1"])[0]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--version", "-V"):
        assert main([flag]) == 0
        assert capsys.readouterr().out.startswith("irc 0.")


def test_unknown_names_are_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspct"]) == 2
    assert "did you mean 'inspect'?" in capsys.readouterr().err
    assert main(["bench", "m.onnx", "--secnds", "1"]) == 2
    assert "did you mean --seconds?" in capsys.readouterr().err
