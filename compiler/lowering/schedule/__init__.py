"""Decisions of lowering: partition, fusion, layouts, buffers."""
