"""JSON forms of graphs and of dataclasses."""
