"""The same in Triton."""
