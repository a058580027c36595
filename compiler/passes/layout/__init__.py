"""Layout: transposes cancelled or folded into products."""
