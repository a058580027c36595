"""Control flow, sequences, optionals and variables."""
