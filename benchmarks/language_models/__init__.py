"""Language models for benchmarks, and the peers that run them."""
