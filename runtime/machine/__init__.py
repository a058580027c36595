"""The machine: CPUs, memory, roofline."""
