"""Building regions: buffers, steps, scalar programs."""
