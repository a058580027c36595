"""Decompositions of operations that have no kernel of their own."""
