"""Building blocks that kernel generators share."""
