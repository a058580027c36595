"""Scalar programs: the elementwise expressions that a kernel evaluates per element."""
