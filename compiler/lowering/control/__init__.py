"""RegionLowering of control flow and variables."""
