"""Lowering of gathers, scatters, rankings, running sums and decoders."""
