"""Code generation by LLVM, loading and caching of machine code."""
