"""Elementwise, reduction and product operations."""
