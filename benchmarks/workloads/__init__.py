"""The models, products and graphs that benchmarks measure."""
