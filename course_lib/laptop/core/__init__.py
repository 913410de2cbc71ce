"""What stands where Triton's compiled core would: these files are copied beside Triton's own."""
