"""If, loops, sequences and optionals."""
