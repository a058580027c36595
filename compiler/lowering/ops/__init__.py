"""Lowering of each operation to kernel specs."""
