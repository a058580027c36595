"""Register tiles of matrix products as functions in assembly."""
