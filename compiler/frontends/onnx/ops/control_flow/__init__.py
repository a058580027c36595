"""Importers of control flow and sequences."""
