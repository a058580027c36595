"""Image operations: colour conversion, patches, deformable and binary convolution."""
