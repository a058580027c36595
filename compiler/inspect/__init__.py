"""What a model consists of: FLOPs, summary, intermediate tensors."""
