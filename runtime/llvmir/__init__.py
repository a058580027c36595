"""A builder of LLVM IR text."""
