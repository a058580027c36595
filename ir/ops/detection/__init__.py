"""Object detection: prior boxes, proposals, overlap suppression, regions of interest."""
