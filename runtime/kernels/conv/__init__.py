"""Convolutions: schedule (the algorithm as a value), tile_partition (how rows are cut), addressing,
register_tile (tiles), and a generator per algorithm."""
