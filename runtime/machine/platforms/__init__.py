"""What differs by operating system: one module each for Linux, macOS and Windows."""
