"""Matchers that several passes share."""
