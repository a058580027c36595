"""Object detection: prior boxes, proposals, suppression of overlapping boxes, regions of interest."""
