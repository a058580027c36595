"""RegionLowering of each operation to kernel specs."""
