"""The native driver: step tables, control flow, thread pool."""
