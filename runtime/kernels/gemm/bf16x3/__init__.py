"""Products of f32 rows and compressed weights on tiles of AMX, in bf16."""
