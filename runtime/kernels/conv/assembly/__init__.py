"""Register tiles and transforms of convolutions as functions in assembly."""
