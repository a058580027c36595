"""Matrix products: tiling (sizes), packing, constants (copies), micro (register tiles), loops."""
