"""Benchmarks of threads on cores: unequal cores here, and more cores than this machine has."""
