"""How benchmarks take times and where they write figures."""
