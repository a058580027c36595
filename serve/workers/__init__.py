"""Processes that share the ports of a server: their supervisor, and their shared metrics."""
