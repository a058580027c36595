"""The loops around the micro-kernel: blocks, workers' shares and tiles of rows."""
