"""Kernel specs: one frozen dataclass per kernel family."""
