"""The command line: one module per verb. Exit codes are the command's contract."""

FAILED = 5
INTERRUPTED = 130
