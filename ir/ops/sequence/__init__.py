"""Decoding of sequences: CTC and beam search."""
