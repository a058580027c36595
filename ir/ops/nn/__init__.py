"""Operations of neural networks: convolution, pooling, normalization, attention."""
