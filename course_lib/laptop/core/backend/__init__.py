"""The only backend of a Triton without a compiler; copied as ``triton/backends/interpreter``."""
