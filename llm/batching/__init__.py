"""Continuous batching: requests join and leave one batch between steps."""
