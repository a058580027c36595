"""Attention fusion."""
