"""Importers of the com.microsoft domain."""
