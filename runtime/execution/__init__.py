"""Execution: sessions, contexts, bound calls, variables."""
