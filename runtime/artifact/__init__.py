"""Artefacts (.irc): reading and writing."""
