"""Readers of the files and folders that language models come in."""
