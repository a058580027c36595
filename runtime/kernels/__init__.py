"""Kernels: generators of LLVM text, by family; `kernel_table.py` lists them."""
