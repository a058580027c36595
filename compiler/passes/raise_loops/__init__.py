"""Loops raised to single operations."""
