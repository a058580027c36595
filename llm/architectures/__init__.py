"""Decoder architectures: a table of features and the builder of their graph."""
