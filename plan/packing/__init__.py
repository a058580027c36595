"""Packed layouts of constant operands."""
