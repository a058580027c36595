"""Data movement: reshape, slice, gather, scatter, concat, pad, sort."""
