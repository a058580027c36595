"""Products of int8 activations and compressed weights on tiles of AMX."""
