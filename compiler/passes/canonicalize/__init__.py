"""Canonicalization: identities, CSE, constant folding, static shapes."""
