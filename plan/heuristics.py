"""Thresholds of the heuristics that choose schedules of matrix products and convolutions.

One frozen value per machine, part of its `Target`: lowering and kernels read it there, and a Target
with other thresholds has another key, so plans and cached code never mix. Thresholds of GEMM, of
AMX, of direct convolutions and of bands of rows decide time only: every result keeps its bits.
Those of Winograd's transform decide which convolutions it computes, within the errors of
docs/numerics.md.

`runtime/machine/heuristics_file.py` reads the file that a user names; docs/heuristics.md lists the
thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields
from typing import Any, Final, cast

from ..ir.errors import VerificationError
from ..ir.lazy_dataclass import dataclass

_MAX_LISTED: Final = 80


def _threshold(default: float, least: float, most: float, meaning: str, record: str = "") -> Any:
    """A field: its default, its range, what it decides, and the record in docs/dev/tuning."""
    of = {"range": (least, most), "meaning": meaning, "record": record}
    return field(default=default, metadata=of)


@dataclass(frozen=True)
class Heuristics:
    """The thresholds by name. VerificationError for one outside its range or of another type."""

    gemm_min_chains: int = _threshold(
        4, 1, 32, "accumulators that a register tile has at least: a tile of fewer rows takes more "
        "panels of B side by side", "gemm-register-tile",
    )  # fmt: skip
    gemm_max_tile_rows: int = _threshold(
        16, 1, 32, "rows of a register tile, where the registers allow more", "gemm-register-tile"
    )
    gemm_max_two_panel_dequant_rows: int = _threshold(
        64, 0, 4096, "rows of A up to which tiles read two panels of expanded weights at once",
        "gemm-two-panels",
    )  # fmt: skip
    gemm_unrolled_multiply_adds: int = _threshold(
        24, 1, 256, "multiply-adds in the body of the loop along K, which hide the loop's own "
        "instructions", "gemm-register-tile",
    )  # fmt: skip
    gemm_panel_l2_divisor: int = _threshold(
        8, 1, 64, "K is one block where a panel of B takes at most this part of L2", "gemm-k-blocks"
    )
    gemm_k_block_l2_divisor: int = _threshold(
        12, 1, 64, "a panel of a block of K takes this part of L2", "gemm-k-blocks"
    )
    gemm_a_block_l2_divisor: int = _threshold(
        3, 1, 64, "a block of A takes this part of L2, and so do its partial sums", "gemm-k-blocks"
    )
    gemm_max_summed_tiles: int = _threshold(
        16, 1, 256, "tiles of rows in a block of A whose sums wait between blocks of K",
        "gemm-k-blocks",
    )  # fmt: skip
    gemm_prefetch_distance_bytes: int = _threshold(
        2048, 0, 65536, "bytes of B between what a tile reads and what it fetches ahead",
        "gemm-panel-prefetch",
    )  # fmt: skip
    gemm_epilogue_max_instructions: int = _threshold(
        8, 0, 32, "instructions of an epilogue that is written out for each register of a tile; a "
        "longer one is a loop over the tile's sums",
    )  # fmt: skip
    gemm_bytes_per_multiply_add: int = _threshold(
        5, 1, 1024, "bytes of B from beyond L2 that take the time of one vector of multiply-adds, "
        "where threads share a product", "gemm-thread-grid",
    )  # fmt: skip
    amx_speedup: int = _threshold(
        8, 1, 64, "how many times faster AMX multiplies than vector registers, where threads share "
        "a product", "gemm-thread-grid",
    )  # fmt: skip
    amx_max_block_tiles: int = _threshold(
        8, 1, 64, "tiles of rows in a block of A", "amx-block-rows"
    )
    amx_max_block_rows: int = _threshold(288, 48, 4096, "rows of a block of A", "amx-block-rows")
    amx_max_short_k_steps: int = _threshold(
        4, 0, 64, "steps of K up to which what the epilogue reads and writes limits a block's rows",
        "amx-block-rows",
    )  # fmt: skip
    amx_max_epilogue_bytes: int = _threshold(
        65536, 0, 1 << 26, "bytes that the epilogue of such a block reads and writes",
        "amx-block-rows",
    )  # fmt: skip
    amx_prefetch_rows: int = _threshold(
        2, 0, 64, "rows of A that are fetched ahead while rows are packed", "amx-panel-order"
    )
    conv_weights_l2_eighths: int = _threshold(
        5, 1, 64, "eighths of L2 that panels of weights take which serve all tiles in turn",
        "conv-vector-weights",
    )  # fmt: skip
    conv_copy_l2_divisor: int = _threshold(
        4, 1, 64, "copied rows of the data take this part of L2", "conv-vector-weights"
    )
    conv_max_copied_rows: int = _threshold(
        8, 2, 64, "output rows whose data are copied at once", "conv-vector-weights"
    )
    conv_max_specialized_columns: int = _threshold(
        64, 0, 128, "columns of an output whose tiles are compiled for the taps that they meet",
        "conv-vector-weights",
    )  # fmt: skip
    conv_unroll: int = _threshold(
        4, 1, 8, "steps along the channels in the body of the innermost loop"
    )
    conv_depthwise_max_tile_columns: int = _threshold(
        14, 1, 32, "columns of a depthwise tile, where the registers allow more"
    )
    conv_depthwise_max_unrolled_taps: int = _threshold(
        8, 1, 16, "taps of a row of a depthwise filter that are written out; more are a loop"
    )
    conv_amx_max_flat_columns: int = _threshold(
        128, 16, 256, "pixels of several rows that AMX computes as one row", "conv-amx-weights"
    )
    conv_amx_max_prefetched_lines: int = _threshold(
        16, 1, 64, "cache lines of the next panel of weights that one step fetches",
        "conv-amx-weights",
    )  # fmt: skip
    conv_amx_max_cells: int = _threshold(
        256, 1, 1 << 20, "cells of a pixel that AMX multiplies without slices of channels",
        "conv-channel-slices",
    )  # fmt: skip
    conv_amx_slice_cells: int = _threshold(
        192, 1, 1 << 20, "cells of a slice of channels, where there are more", "conv-channel-slices"
    )
    conv_amx_panels_per_copy: int = _threshold(
        4, 1, 64, "panels of weights that one im2col buffer serves", "conv-amx-im2col"
    )
    row_band_min_l2_quarters: int = _threshold(
        5, 1, 1 << 20, "quarters of L2 from which on what is computed between two convolutions is "
        "computed in bands of rows", "row-bands",
    )  # fmt: skip
    row_band_l2_quarters: int = _threshold(
        3, 1, 64, "quarters of L2 that a band takes of what is computed between the layers of a "
        "chain", "row-bands",
    )  # fmt: skip
    row_band_min_saving: float = _threshold(
        1.2, 0.0, 1000.0, "how many times the time of what bands compute and read twice they must "
        "save", "row-bands",
    )  # fmt: skip
    winograd_min_channels: int = _threshold(
        16, 16, 1 << 20, "channels, in and out, of a convolution by Winograd's transform",
        "winograd-choice",
    )  # fmt: skip
    winograd_min_side: int = _threshold(
        8, 8, 1 << 20, "rows and columns of its output", "winograd-choice"
    )
    winograd_min_f4_side: int = _threshold(
        28, 28, 1 << 20, "rows and columns of an output that F(4 x 4) computes, not F(2 x 2)",
        "winograd-choice",
    )  # fmt: skip
    winograd_output_cost: int = _threshold(
        300, 0, 1 << 16, "instructions that transform one tile of sums back, per vector",
        "winograd-choice",
    )  # fmt: skip
    winograd_input_cost: int = _threshold(
        220, 0, 1 << 16, "instructions that transform one tile of data, per vector",
        "winograd-choice",
    )  # fmt: skip
    winograd_far_load_cost: int = _threshold(
        8, 0, 1 << 16, "multiply-adds in the time of reading a vector of weights from beyond L2",
        "winograd-choice",
    )  # fmt: skip
    winograd_min_speedup: float = _threshold(
        1.2, 0.0, 1000.0, "how many times cheaper than a direct convolution of bytes or bf16 the "
        "transform must be", "winograd-choice",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for threshold in fields(self):
            _check(threshold, getattr(self, threshold.name))

    def overrides(self) -> dict[str, int | float]:
        """The thresholds that differ from their defaults."""
        values = ((f, getattr(self, f.name)) for f in fields(self))
        return {f.name: value for f, value in values if value != f.default}

    @staticmethod
    def from_dict(data: object) -> Heuristics:
        """Defaults, but for the entries of `data`. VerificationError for an unknown name, and for a
        value outside its range."""
        if not isinstance(data, Mapping):
            raise _heuristics_error("table", type(data).__name__, "a table of thresholds by name")
        given = cast("Mapping[object, Any]", data)
        for name in given:
            if name not in THRESHOLDS:
                import difflib

                shown = str(name)[:_MAX_LISTED]
                near = difflib.get_close_matches(shown, THRESHOLDS, 1, cutoff=0.0)
                raise _heuristics_error(shown, "an unknown threshold", f"such as {near[0]}")
        return Heuristics(**cast("dict[str, Any]", dict(given)))


def _check(threshold: Field[Any], value: object) -> None:
    least, most = threshold.metadata["range"]
    kinds = (int,) if isinstance(threshold.default, int) else (int, float)
    # type() and not isinstance(), which accepts True; a NaN fails the comparison.
    if type(value) not in kinds or not least <= cast("float", value) <= most:
        word = "an integer" if kinds == (int,) else "a number"
        expected = f"{word} from {least} to {most}"
        raise _heuristics_error(threshold.name, repr(value)[:_MAX_LISTED], expected)


def _heuristics_error(name: str, got: str, expected: str) -> VerificationError:
    return VerificationError(
        "a threshold of the heuristics is wrong",
        where=name,
        got=got,
        expected=expected,
        fix="see docs/heuristics.md",
    )


DEFAULT_HEURISTICS: Final = Heuristics()
# Every threshold, by name.
THRESHOLDS: Final[dict[str, Field[Any]]] = {f.name: f for f in fields(Heuristics)}
