"""The rewrite engine: patches, rules, traces."""
