"""Plan verification: a plan that passes reads and writes inside its buffers."""
