"""Exit codes of the command (README.md lists them)."""

FAILED = 5
INTERRUPTED = 130
