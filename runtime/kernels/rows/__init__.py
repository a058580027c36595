"""Row kernels: softmax, normalization, reductions."""
